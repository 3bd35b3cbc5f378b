"""A type that was inferred stays one that inference would give; a type that a person wrote is theirs. And
what a rebuild from nothing would give is what the table holds. On real Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.tables import Tables

from lading.config.file import load as load_config
from lading.errors import BadRows, SourceError
from lading.ingest.quarantine import list_aside
from lading.ingest.tasks.judge import Judge

# A table's first file, and a second with a value that makes its column another type: the column, that type.
LATE = {
    "zip": ("csv", "id,v\n1,12345\n", "id,v\n2,00501\n", "string"),
    "county": ("tsv", "id\tv\n1\t12345\n", "id\tv\n2\t08001\n", "string"),
    "digits": ("csv", "id,v\n1,1.5\n", "id,v\n2,9007199254740993\n", "string"),
    "plus": ("csv", "id,v\n1,49\n", "id,v\n2,+47\n", "string"),
    "special": ("csv", "id,v\n1,1.5\n", "id,v\n2,NaN\n", "string"),
    "zoned": ("csv", "id,v\n1,2024-01-31T10:00:00Z\n", "id,v\n2,2024-01-31\n", "string"),
    "minutes": ("csv", "id,v\n1,2024-01-31\n", "id,v\n2,2021-01-15 17:22\n", "timestamp_ntz"),
    "json_digits": ("json", '{"id":1,"v":1.5}\n', '{"id":2,"v":9007199254740993}\n', "string"),
    "json_date": (
        "json", '{"id":1,"v":"2024-01-31"}\n', '{"id":2,"v":"2024-01-31 10:00"}\n', "timestamp_ntz",
    ),
    "json_deep": (
        "json", '{"id":1,"v":{"w":[1.5]}}\n', '{"id":2,"v":{"w":[9007199254740993]}}\n',
        "struct<w:array<string>>",
    ),
}  # fmt: skip


def _tables(folder: Path, **settings: str) -> Tables:
    return Tables(folder, **{name: {"format": case[0]} | settings for name, case in LATE.items()})


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory, spark) -> Tables:
    """Every table of `LATE` after its first file, with the second beside it."""
    project = _tables(tmp_path_factory.mktemp("strict"))
    for name, (_, first, _, _) in LATE.items():
        project.put(name, "a.txt", first)
    project.succeed()
    for name, (_, _, second, _) in LATE.items():
        project.put(name, "b.txt", second, at=1)
    return project


def test_under_strict_such_a_value_is_a_bad_row_with_file_line_column_and_hint(strict: Tables) -> None:
    reports = strict.run()
    for name, case in LATE.items():
        error = reports[name].error
        assert isinstance(error, BadRows), name
        line = 1 if case[0] == "json" else 2
        assert f"b.txt:{line}: " in error.message and "in column 'v'" in error.message, error.message
        assert f"lading discover-schema {name}" in error.hint
        assert [row["id"] for row in strict.rows(name)] == [1], "nothing was committed"


def test_under_evolve_it_becomes_what_a_rebuild_from_nothing_gives(spark, tmp_path: Path) -> None:
    project = _tables(tmp_path / "p", drift="evolve")
    for name, (_, first, _, _) in LATE.items():
        project.put(name, "a.txt", first)
    project.succeed()
    for name, (_, _, second, _) in LATE.items():
        project.put(name, "b.txt", second, at=1)
    project.succeed()
    fresh = project.from_nothing(tmp_path / "fresh")
    for name, case in LATE.items():
        assert project.types(name)["v"] == fresh.types(name)["v"] == case[3], name
        assert project.rows(name) == fresh.rows(name), name


def test_a_type_that_a_person_wrote_takes_what_can_be_read_as_it(spark, tmp_path: Path) -> None:
    project = Tables(tmp_path / "p", zip={"format": "csv"}, changed={"format": "csv"})
    for name in ("zip", "changed"):
        project.put(name, "a.txt", "id,v\n1,12345\n")
    project.succeed()
    mine = project.schema("zip")
    del mine["columns"][1]["because"]
    project.schema_file("zip").write_text(json.dumps(mine))
    text = project.schema_file("changed").read_text()
    project.schema_file("changed").write_text(text.replace("name: v\n  type: bigint", "name: v\n  type: int"))
    for name in ("zip", "changed"):
        project.put(name, "b.txt", "id,v\n2,00501\n", at=1)
    project.succeed()
    for name in ("zip", "changed"):
        assert [row["v"] for row in project.rows(name)] == [12345, 501]
    assert project.lading("discover-schema", "--full-scan") == 0
    assert project.types("zip")["v"] == "bigint" and project.types("changed")["v"] == "int"
    assert project.lading("verify", "--deep") == 0


def test_what_was_set_aside_comes_in_once_the_schema_may_evolve(spark, tmp_path: Path) -> None:
    project = Tables(tmp_path / "p", t={"format": "csv", "on_bad": "quarantine"})
    project.put("t", "a.csv", "id,v\n1,5\n")
    project.succeed()
    project.put("t", "b.csv", "id,v\n2,00501\n", at=1)
    project.put("t", "c.csv", "id,v,w\n3,7,x\n", at=2)
    project.succeed()
    assert [row["id"] for row in project.rows("t")] == [1]
    assert [one.file for one in list_aside(load_config(project.folder), "t")] == ["b.csv", "c.csv"]
    project.configure(drift="evolve")
    project.succeed()
    fresh = project.from_nothing(tmp_path / "fresh")
    assert project.rows("t") == fresh.rows("t")
    assert [(row["id"], row["v"], row["w"]) for row in project.rows("t")] == [
        (1, "5", None), (2, "00501", None), (3, "7", "x"),
    ]  # fmt: skip
    # A column that somebody takes out of the schema file is in the files all the same.
    text = project.schema_file("t").read_text()
    project.schema_file("t").write_text(text[: text.index("- name: w")])
    project.succeed()
    assert project.rows("t") == fresh.rows("t")
    assert project.lading("verify", "--deep") == 0


def test_a_column_without_a_value_takes_the_type_of_its_first_ones_under_evolve(
    spark, tmp_path: Path
) -> None:
    project = Tables(tmp_path / "p", csv={"format": "csv"}, json={"format": "json"})
    project.configure(drift="evolve")
    project.put("csv", "a", "id,v\n1,\n")
    project.put("json", "a", '{"id":1,"v":null}\n')
    project.succeed()
    assert project.types("csv")["v"] == project.types("json")["v"] == "string"
    project.put("csv", "b", "id,v\n2,5\n", at=1)
    project.put("json", "b", '{"id":2,"v":5}\n', at=1)
    project.succeed()
    for name in ("csv", "json"):
        assert [row["v"] for row in project.rows(name)] == [None, 5]
        assert project.schema(name)["looked_at"] == "2 files, 2 rows", (
            "the evidence has grown with the schema"
        )


def _notes(project: Tables, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    project.lading("plan", "--json")
    return json.loads(capsys.readouterr().out)["tables"][0]["notes"]


def test_files_that_a_run_could_read_leave_the_schema_fresh(spark, tmp_path: Path, capsys) -> None:
    project = Tables(tmp_path / "p", t={"format": "csv", "on_bad": "quarantine"})
    project.put("t", "a.csv", "id,v\n1,5\n")
    project.succeed()
    project.put("t", "b.csv", "id,v\n2,6\n", at=1)
    assert _notes(project, capsys) == [], "the run will see to it"
    assert project.lading("discover-schema", "--check") == 2, "no look covers the new file yet"
    assert project.succeed()["t"].notes == ()
    assert project.lading("discover-schema", "--check") == 0
    assert project.schema("t")["looked_at"] == "2 files, 2 rows"
    manifest = json.loads((project.folder / "manifest" / "t.json").read_text())
    assert manifest["schema"]["combined_hash"] == project.schema("t")["combined_hash"]
    (project.folder / "data" / "t" / "a.csv").unlink()
    project.succeed()
    assert project.lading("discover-schema", "--check") == 0
    project.put("t", "b.csv", "id,v\n2,6\n", at=9)  # touched
    project.succeed()
    assert project.lading("discover-schema", "--check") == 0
    project.put("t", "c.csv", "id,v\n3,007\n", at=2)
    project.succeed()
    assert "schema/t.yaml is stale" in _notes(project, capsys)[0], "this one needs a person"
    assert "schema/t.yaml is stale" in project.succeed()["t"].notes[0]


def test_a_plan_foresees_what_names_and_heads_already_say(spark, tmp_path: Path, capsys) -> None:
    project = Tables(tmp_path / "p", t={"format": "csv", "columns_from_name": r"(?P<day>.+)\.csv"})
    project.put("t", "2024-01-31.csv", "id\n1\n")
    project.put("t", "x.txt", "id\n2\n")
    assert "the name of x.txt does not match" in _notes(project, capsys)[0], "before there is a schema, too"
    (project.folder / "data/t/x.txt").unlink()
    project.succeed()
    project.put("t", "2024-02-01.csv", "id,new\n1,2\n", at=1)
    assert "a run would refuse: 2024-02-01.csv: column 'new' is new" in _notes(project, capsys)[0]
    project.put("t", "2024-02-01.csv", "id\n2\n", at=2)
    project.put("t", "x.txt", "id\n2\n", at=1)
    assert "the name of x.txt does not match" in _notes(project, capsys)[0]
    (project.folder / "data/t/x.txt").unlink()
    assert _notes(project, capsys) == []
    text = project.schema_file("t").read_text()
    project.schema_file("t").write_text(text.replace("name: day\n  type: string", "name: day\n  type: date"))
    project.put("t", "soon.csv", "id\n3\n", at=1)
    assert "'soon' in its name is not date" in _notes(project, capsys)[0]
    error = project.run()["t"].error
    assert isinstance(error, SourceError) and error.file == "soon.csv"
    project.configure(on_bad="quarantine")
    project.succeed()
    assert [str(row["day"]) for row in project.rows("t")] == ["2024-01-31", "2024-02-01"]
    assert [one.file for one in list_aside(load_config(project.folder), "t")] == ["soon.csv"]


def test_verify_deep_counts_records_by_itself(spark, tmp_path: Path, monkeypatch, capsys) -> None:
    project = Tables(tmp_path / "p", t={"format": "tsv"}, years={"format": "csv"})
    config = project.folder / "lading.yaml"
    config.write_text("spark: {in_process_below: 1MB}\n" + config.read_text())
    project.put("t", "a.tsv", "a\tb\nfoo\t1\n\t\nbar\t3\n")
    # Beyond what Python calls a year, on either side.
    project.put("years", "a.csv", "d,t\n0001-01-01,9999-12-31T23:30:00-05:00\n")
    project.schema_file("years").parent.mkdir()
    project.schema_file("years").write_text("columns: [{name: d, type: date}, {name: t, type: timestamp}]\n")
    with monkeypatch.context() as patch:
        real = Judge.passed  # a task that loses rows
        patch.setattr(Judge, "passed", lambda self, batch, *rest: real(self, batch, *rest).slice(0, 2))
        project.succeed()
    assert project.lading("verify", "--deep") == 1
    told = capsys.readouterr().out
    assert "a.tsv has 3 records, the table has 2 rows of it" in told
    assert "years: intact" in told
    project.succeed(full=True)
    assert project.lading("verify", "--deep") == 0
