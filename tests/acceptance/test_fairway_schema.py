"""What Fairway's documents promise of schemas: one file a table, and no work that isn't due."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
import yaml

from lading.cli.main import invoke
from lading.sources.schema import keyed_hash

CONFIG = """\
tables:
  sales: {root: data/sales, path: "*.csv", format: csv}
  customers: {root: data/customers, path: "*.csv", format: csv}
"""


def put(path: Path, text: str, at: int = 1_700_000_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put(tmp_path / "lading.yaml", CONFIG)
    put(tmp_path / "data/sales/a.csv", "id,price\n1,2.5\n")
    put(tmp_path / "data/customers/c.csv", "id,name\n1,Ada\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def states(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return {one["table"]: one["state"] for one in json.loads(capsys.readouterr().out)["tables"]}


def schema(project: Path, table: str) -> dict:
    return yaml.safe_load((project / "schema" / f"{table}.yaml").read_text())


@pytest.mark.acceptance("F2")
def test_discovery_writes_one_schema_file_a_table(project: Path) -> None:
    assert invoke(["discover-schema"]) == 0
    assert sorted(path.name for path in (project / "schema").iterdir()) == ["customers.yaml", "sales.yaml"]
    assert [(c["name"], c["type"]) for c in schema(project, "sales")["columns"]] == [
        ("id", "bigint"),
        ("price", "double"),
    ]


@pytest.mark.acceptance("F15")
def test_the_manifest_names_the_discovered_schema(project: Path) -> None:
    invoke(["discover-schema"])
    section = json.loads((project / "manifest" / "sales.json").read_text())["schema"]
    assert section["output_path"] == "schema/sales.yaml"
    assert section["generated_at"] == schema(project, "sales")["generated_at"]
    assert section["combined_hash"] == schema(project, "sales")["combined_hash"]


@pytest.mark.acceptance("F25")
def test_a_second_discovery_with_nothing_changed_writes_nothing(project: Path, capsys) -> None:
    assert invoke(["discover-schema", "--json"]) == 0
    assert states(capsys) == {"sales": "generated", "customers": "generated"}
    files = [*(project / "schema").iterdir(), *(project / "manifest").iterdir()]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) for path in files}
    assert invoke(["discover-schema", "--json"]) == 0
    assert invoke(["discover-schema", "--full-scan"]) == 0
    assert states_after(before) == before


def states_after(before: dict) -> dict:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) for path in before}


@pytest.mark.acceptance("F26")
def test_a_changed_file_makes_its_own_tables_schema_stale_and_no_other(project: Path, capsys) -> None:
    invoke(["discover-schema"])
    before = schema(project, "sales")
    put(project / "data/sales/a.csv", "id,price\n1,2.5\n2,x\n", at=1_700_000_100)
    capsys.readouterr()
    assert invoke(["discover-schema", "--check", "--json"]) == 2
    assert states(capsys) == {"sales": "stale", "customers": "fresh"}
    assert schema(project, "sales") == before, "--check writes nothing"
    assert invoke(["discover-schema", "--json"]) == 0
    assert states(capsys) == {"sales": "generated", "customers": "fresh"}
    after = schema(project, "sales")
    assert after["combined_hash"] != before["combined_hash"]
    assert after["columns"][1]["because"] == "string because of line 3 of a.csv: 'x'"
    assert invoke(["discover-schema", "--check"]) == 0


def fairways_hash(project: Path, table: str) -> str:
    """As Fairway works it out: the first 16 digits over every file's fast hash, sorted."""
    combined = hashlib.sha256()
    files = [path.stat() for path in (project / "data" / table).rglob("*.csv")]
    for one in sorted(f"mtime:{stat.st_mtime}_size:{stat.st_size}" for stat in files):
        combined.update(one.encode())
    return combined.hexdigest()[:16]


@pytest.mark.acceptance("F27")
def test_fairways_own_test_of_staleness_agrees(project: Path, capsys) -> None:
    put(project / "data/sales/b.csv", "id,price\n7,1.5\n", at=1_700_000_001)
    invoke(["discover-schema"])
    for table in ("sales", "customers"):
        section = json.loads((project / "manifest" / f"{table}.json").read_text())["schema"]
        assert section["combined_hash"] == fairways_hash(project, table)
    before = fairways_hash(project, "sales")
    put(project / "data/sales/a.csv", "id,price\n1,2.5\n2,3.5\n", at=1_700_000_100)
    assert fairways_hash(project, "sales") != before
    capsys.readouterr()
    assert invoke(["discover-schema", "--check", "--json"]) == 2
    assert states(capsys) == {"sales": "stale", "customers": "fresh"}


def test_a_schema_that_lading_0_1_inferred_is_no_staler_than_its_files(project: Path, capsys) -> None:
    invoke(["discover-schema"])
    files = sorted((project / "data/sales").rglob("*.csv"))
    stats = {path.relative_to(project / "data/sales").as_posix(): path.stat() for path in files}
    old = keyed_hash({key: f"mtime:{one.st_mtime}_size:{one.st_size}" for key, one in stats.items()})
    path = project / "schema" / "sales.yaml"
    path.write_text(path.read_text().replace(schema(project, "sales")["combined_hash"], old))
    assert schema(project, "sales")["combined_hash"] == old
    assert invoke(["discover-schema", "--check"]) == 0
    put(project / "data/sales/a.csv", "id,price\n1,2.5\n2,3.5\n", at=1_700_000_100)
    assert invoke(["discover-schema", "--check"]) == 2


def test_a_file_that_a_run_will_read_is_no_reason_for_a_note(project: Path, capsys) -> None:
    invoke(["discover-schema"])
    put(project / "data/sales/b.csv", "id,price\n3,1.5\n")
    capsys.readouterr()
    invoke(["plan", "--json"])
    assert all(one["notes"] == [] for one in json.loads(capsys.readouterr().out)["tables"])


def test_every_table_says_why_it_has_no_schema(project: Path, capsys) -> None:
    put(project / "data/sales/a.csv", "id,id\n1,2\n")
    put(project / "data/customers/c.csv", "id,\n1,2\n")
    assert invoke(["discover-schema", "--json"]) == 1
    found = {one["table"]: one["error"] for one in json.loads(capsys.readouterr().out)["tables"]}
    assert "two columns named 'id'" in found["sales"]["message"]
    assert "column 2 of the header has no name" in found["customers"]["message"]
    assert found["sales"]["hint"] and found["customers"]["hint"]


def test_a_file_that_loads_as_one_column_is_worth_a_note(project: Path, capsys) -> None:
    put(project / "data/sales/a.csv", "id;price\n1;2,5\n")
    put(project / "data/customers/c.csv", "name\nAda\n")
    assert invoke(["discover-schema"]) == 0
    told = capsys.readouterr().err
    assert "the only column is called 'id;price'" in told and 'delimiter: ";"' in told
    assert "customers" not in told


def test_types_that_a_person_changed_stay_theirs(project: Path, capsys) -> None:
    invoke(["discover-schema"])
    path = project / "schema" / "sales.yaml"
    path.write_text(path.read_text().replace("type: double", "type: decimal(9,2)"))
    put(project / "data/sales/b.csv", "id,price,note\n3,1.5,x\n")
    assert invoke(["discover-schema", "sales"]) == 0
    assert [(c["name"], c["type"]) for c in schema(project, "sales")["columns"]] == [
        ("id", "bigint"),
        ("price", "decimal(9,2)"),
        ("note", "string"),
    ]
    assert "note: string is new" in capsys.readouterr().out


def test_a_missing_manifest_of_a_table_still_asks_for_a_reset(project: Path, spark) -> None:
    assert invoke(["run"]) == 0
    (project / "manifest" / "sales.json").unlink()
    put(project / "data/sales/b.csv", "id,price\n3,1.5\n")
    assert invoke(["discover-schema"]) == 0
    assert not (project / "manifest" / "sales.json").exists()


def test_one_table_that_can_not_be_inferred_does_not_stop_the_others(project: Path, capsys) -> None:
    put(project / "data/sales/a.csv", "id,id\n1,2\n")
    assert invoke(["discover-schema", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in found["tables"]] == ["failed", "generated"]
    assert "two columns named 'id'" in found["error"]["message"]
    assert found["tables"][0]["error"] == found["error"] and found["tables"][1]["error"] is None


def test_every_table_that_can_not_be_inferred_says_why(tmp_path: Path, capsys) -> None:
    put(tmp_path / "a.csv", "id,id\n1,2\n")
    put(tmp_path / "b.csv", "id,,x\n1,2,3\n")
    put(
        tmp_path / "lading.yaml",
        "tables: {a: {path: a.csv, format: csv}, b: {path: b.csv, format: csv}, e: {path: e, format: csv}}\n",
    )
    assert invoke(["-C", str(tmp_path), "discover-schema", "--json"]) == 1
    reasons = [one["error"]["message"] for one in json.loads(capsys.readouterr().out)["tables"]]
    for said, wanted in zip(reasons, ("two columns named", "has no name", "it has no files"), strict=True):
        assert wanted in said
    assert invoke(["-C", str(tmp_path), "discover-schema"]) == 1
    told = capsys.readouterr().err
    assert all(f"error: {table}: " in told for table in "abe"), "however short a name is"
