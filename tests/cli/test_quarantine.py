"""`lading quarantine`, from the outside."""

from __future__ import annotations

import json
import subprocess
import sys

from support.checked import Checked

from lading.cli.main import invoke


def test_the_life_of_what_is_set_aside(spark, tmp_path, capsys):
    ships = Checked(tmp_path / "p", "on_bad: quarantine\nchecks:\n  - {not_null: port, name: has a port}")
    ships.put("a.csv", "1,1,oslo", "2,1,", "x,1,oslo")
    ships.put("b.csv", "1", header="id")

    def lading(*args: str, code: int = 0) -> dict:
        capsys.readouterr()
        assert invoke(["-C", str(ships.folder), *args, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    def people(*args: str) -> str:
        capsys.readouterr()
        assert invoke(["-C", str(ships.folder), *args]) == 0
        said = capsys.readouterr()
        return said.out + said.err

    assert people("quarantine", "list").strip() == "nothing is set aside"
    said = people("run")
    assert "ships: 2 rows and 1 whole file set aside" in said
    assert "failed: ships: check 'has a port': 1 of 2 rows read fail" in said

    listed = lading("quarantine", "list")["quarantine"]
    assert [(one["file"], one["rows"], one["whole"], one["reason"]) for one in listed] == [
        ("a.csv", 2, False, None),
        ("b.csv", 0, True, "column 'tonnes' is missing; column 'port' is missing"),
    ]
    assert "all" in people("quarantine", "list", "ships")
    rows = lading("quarantine", "show", "ships", "--file", "a.csv")["rows"]
    assert [(row["line"], row["reason"]) for row in rows] == [
        (3, "fails the check 'has a port'"),
        (4, "'x' is not a bigint"),
    ]
    assert "'x' is not a bigint" in people("quarantine", "show", "ships")
    assert len(lading("quarantine", "show", "ships", "--limit", "1")["rows"]) == 1
    error = lading("quarantine", "show", "ships", "--file", "c.csv", code=1)["error"]
    assert error["kind"] == "NotFound" and "a.csv, b.csv" in error["hint"]

    [status] = lading("status")["tables"]
    assert (status["rows_rejected"], status["files_rejected"], status["pending"]) == (2, 1, {})
    assert "set aside: 2 rows, 1 file" in people("status")
    assert lading("plan")["tables"][0]["verdicts"]["quarantined"] == 1

    ships.configure("on_bad: quarantine")
    [table] = lading("quarantine", "replay", "ships")["tables"]
    assert (table["rows"], table["rows_rejected"], table["files_rejected"]) == (2, 1, 1)
    dropped = lading("quarantine", "drop", "ships", "--file", "a.csv")
    assert dropped == {"table": "ships", "dropped": [{"file": "a.csv", "rows": 1}]}
    assert "(dropped)" in people("quarantine", "list")
    assert "dropped 0 rows from 1 file" in people("quarantine", "drop", "ships")
    assert lading("quarantine", "show", "ships")["rows"] == []


def test_a_table_that_was_never_run_or_is_unknown(tmp_path, capsys):
    ships = Checked(tmp_path / "p")
    assert invoke(["-C", str(ships.folder), "quarantine", "show", "ships", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "ships was never run"
    assert invoke(["-C", str(ships.folder), "quarantine", "drop", "boats", "--json"]) == 1
    assert "there is no table 'boats'" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_listing_needs_no_spark(tmp_path):
    ships = Checked(tmp_path / "p", "on_bad: quarantine")
    code = (
        "import sys; from lading.cli.main import invoke; "
        f"code = invoke(['-C', {str(ships.folder)!r}, 'quarantine', 'list']); "
        "sys.exit(code or ('pyspark' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
