"""Checks in a run: what they stop, what they let through, and where their results are found."""

from __future__ import annotations

import json

import pytest
import yaml
from support.checked import Checked

import lading
from lading.checks.table import check_table
from lading.cli.main import invoke
from lading.errors import BadRows, ConfigError, GateFailed
from lading.log.table import Table
from lading.model import Check


def no_spark() -> object:
    raise AssertionError("Spark is not needed for this")


def test_a_row_that_fails_is_named_with_file_line_column_check_and_text(spark, tmp_path):
    ships = Checked(tmp_path / "p", "checks:\n  - {range: {column: tonnes, min: 0}, name: weighs something}")
    ships.put("a.csv", "1,1,oslo")
    ships.put("b.csv", "", "2,1,oslo", '3,-4.50,"bergen"', "4,-5,oslo")
    report = ships.run()
    error = report.error
    assert isinstance(error, BadRows) and error.file == "b.csv"
    assert error.message == (
        "b.csv:4: fails the check 'weighs something' in column 'tonnes': '3,-4.50,\"bergen\"' (1 more row)"
    )
    assert "lading.yaml:7" in error.hint
    [result] = report.tables[0].checks
    assert (result.name, result.passed, result.failed) == ("weighs something", False, 2)
    [record] = ships.table.glob("runs/*/run.yaml")
    assert yaml.safe_load(record.read_text())["checks"][0]["failed"] == 2
    assert Table.open(ships.table).state.sequence == 0, "nothing was committed"
    assert not list(ships.table.glob("bucket=*/*"))
    entry = json.loads((ships.folder / "manifest" / "ships.json").read_text())["files"]["b.csv"]
    assert entry["status"] == "failed" and "weighs something" in entry["error"]


def test_thresholds_hold_file_by_file(spark, tmp_path):
    """Two of four rows of b.csv fail, one of a hundred of a.csv."""
    ships = Checked(tmp_path / "p", "checks:\n  - {not_null: port, threshold: 1%}")
    ships.put("a.csv", *(f"{n},1,oslo" for n in range(99)), "99,1,")
    ships.good()
    assert sum(ships.rows().values()) == 100, "what is tolerated stays"
    ships.put("b.csv", "1,1,", "2,1,x", "3,1,x", "4,1,")
    assert "b.csv:2: fails the check 'not_null port'" in str(ships.run().error)
    ships.configure("checks:\n  - {not_null: port, threshold: 1}")
    assert "b.csv:2" in str(ships.run().error)
    ships.configure("checks:\n  - {not_null: port, threshold: 2}")
    [table] = ships.good().tables
    [result] = table.checks
    assert (result.passed, result.failed, result.on_rows) == (True, 3, True), (
        "both files: the rule is another one"
    )
    assert sum(ships.rows().values()) == 104


def test_a_check_behind_a_transform_sees_what_the_transform_gives(spark, tmp_path):
    ships = Checked(tmp_path / "p", "transform: t.py:f\nchecks:\n  - sql: heavy")
    (ships.folder / "t.py").write_text(
        "def f(df, context):\n    return df.withColumn('heavy', df.tonnes > 5)\n"
    )
    ships.put("a.csv", "1,9,oslo", "2,1,oslo")
    message = str(ships.run().error)
    assert (
        'a.csv: fails the check \'sql heavy\': \'{"id": 2, "tonnes": 1.0, "port": "oslo", "heavy": false}\''
        in message
    )


def test_a_table_check_that_fails_keeps_the_snapshot_from_readers_and_says_so(spark, tmp_path, capsys):
    ships = Checked(
        tmp_path / "p", "checks:\n  - max_rows: 2\n  - {min_rows: 5, severity: warn}\n  - unique: id"
    )
    ships.put("a.csv", "1,1,oslo")
    [first] = ships.good().tables
    assert [(one.name, one.passed, one.severity) for one in first.checks] == [
        ("max_rows", True, "error"),
        ("min_rows", False, "warn"),
        ("unique id", True, "error"),
    ]
    ships.put("b.csv", "1,2,bergen", "2,2,bergen")
    report = ships.run()
    assert isinstance(report.error, GateFailed) and report.error.exit_code == 1
    assert "the table has 3 rows; it may have at most 2" in report.error.message
    assert "id: 1 of 3 rows repeat a key" in report.error.message
    assert not report.tables[0].published and report.tables[0].sequence == 2, "committed, not published"
    assert sum(ships.rows().values()) == 1
    for _ in range(2):  # a run with nothing to read says so again, and publishes nothing
        again = ships.run()
        assert isinstance(again.error, GateFailed) and not again.spark_started
        assert {one.name for one in again.tables[0].checks if not one.passed} == {
            "max_rows",
            "min_rows",
            "unique id",
        }

    assert invoke(["-C", str(ships.folder), "status", "--json"]) == 0
    [status] = json.loads(capsys.readouterr().out)["tables"]
    failed = [one["name"] for one in status["checks"] if not one["passed"]]
    assert failed == ["max_rows", "min_rows", "unique id"]
    newest = max(ships.table.glob("runs/*/run.yaml"), key=lambda path: path.parent.name)
    record = yaml.safe_load(newest.read_text())
    assert record["status"] == "failed" and [one["name"] for one in record["checks"]] == [
        "max_rows",
        "min_rows",
        "unique id",
    ]

    ships.put("b.csv", "3,2,bergen")
    ships.good()
    assert sum(ships.rows().values()) == 2


@pytest.mark.parametrize("rows", [None, [], ["1,1,"]], ids=["no files", "no rows", "all set aside"])
def test_a_table_that_never_had_a_row_is_asked_too(spark, tmp_path, rows):
    table = "on_bad: quarantine\nchecks:\n  - min_rows: 1\n  - unique: id\n  - not_null: port"
    ships = Checked(tmp_path / "p", table)
    if rows is not None:
        ships.put("a.csv", *rows)
    for _ in range(2):
        report = ships.run()
        assert isinstance(report.error, GateFailed)
        assert "the table has 0 rows; it must have at least 1" in report.error.message
        on_table = {one.name: one.passed for one in report.tables[0].checks if not one.on_rows}
        assert on_table == {"min_rows": False, "unique id": True}
    assert not (ships.table / "_CURRENT").exists()
    ships.put("b.csv", "2,1,oslo")
    assert ships.good().tables[0].published


def test_results_are_in_the_runs_json(spark, tmp_path, capsys):
    ships = Checked(
        tmp_path / "p", "checks:\n  - {not_null: port, severity: warn}\n  - columns: [id, tonnes]"
    )
    ships.put("a.csv", "1,1,", "2,1,oslo")
    assert invoke(["-C", str(ships.folder), "run", "--json"]) == 0
    [table] = json.loads(capsys.readouterr().out)["tables"]
    assert table["checks"] == [
        {
            "name": "not_null port",
            "passed": False,
            "severity": "warn",
            "failed": 1,
            "message": "1 of 2 rows read fail",
            "sample": ['a.csv: {"id": 1, "tonnes": 1.0, "port": null}'],
            "on": "rows",
        },
        {
            "name": "columns",
            "passed": True,
            "severity": "error",
            "failed": 0,
            "message": "",
            "sample": [],
            "on": "table",
        },
    ]


def test_a_check_that_was_tightened_is_asked_of_every_row(spark, tmp_path):
    ships = Checked(tmp_path / "p")
    ships.put("a.csv", "1,-1,oslo")
    ships.put("b.csv", "2,1,oslo")
    ships.good()
    ships.configure("checks:\n  - range: {column: tonnes, min: 0}")
    report = ships.run()
    assert "a.csv:2: fails the check 'range tonnes'" in str(report.error)
    ships.configure("checks:\n  - range: {column: tonnes, min: -1}")
    verdicts = ships.good().tables[0].verdicts
    assert (verdicts["failed"], verdicts["reread"]) == (1, 1), "everything is read"
    ships.configure("checks:\n  - range: {column: tonnes, min: -5}")
    report = ships.good()
    assert report.tables[0].verdicts["unchanged"] == 2 and not report.spark_started, "it only lets more in"


def test_a_range_on_text_that_only_looks_loosened_is_asked_of_every_row(spark, tmp_path):
    rule = "on_bad: quarantine\nchecks:\n  - range: {{column: port, min: '{}'}}"
    ships = Checked(tmp_path / "p", rule.format(10))
    ships.put("a.csv", "1,1,20", "2,1,95")
    ships.good()
    assert sorted(port for _, _, port, _ in ships.rows()) == ["20", "95"]
    ships.configure(rule.format(9))  # as text "9" comes behind "20"
    assert ships.good().tables[0].verdicts["reread"] == 1
    assert sorted(port for _, _, port, _ in ships.rows()) == ["95"], "as a rebuild has it"


def test_a_float_is_compared_as_a_float_by_every_door(spark, tmp_path, monkeypatch):
    rules = (
        "checks:\n  - range: {column: tonnes, min: 0.1, max: 0.1}\n  - values: {column: tonnes, in: [0.1]}\n"
    )
    ships = Checked(tmp_path / "p", rules + "gate:\n  sql: [tonnes <= 0.1, 'tonnes in (0.1, 0.2)']")
    schema = ships.folder / "schema" / "ships.yaml"
    schema.write_text(schema.read_text().replace("double", "float"))
    ships.put("a.csv", "1,0.1,oslo")
    assert ships.good().tables[0].published
    with lading.open(ships.table) as reader:
        for where in ("tonnes = 0.1", "tonnes >= 0.1 and tonnes <= 0.1", "tonnes in (0.1)"):
            assert reader.scan(where=where).to_table().num_rows == 1, where
        assert reader.scan(where="tonnes > 0.1 or tonnes < 0.1").to_table().num_rows == 0
    # A table too large to be read here has the same answer.
    monkeypatch.setattr("lading.checks.measure._HERE", 0)
    ships.put("b.csv", "2,0.1,oslo")
    assert ships.good().tables[0].published
    ships.configure("gate:\n  sql: tonnes < 0.1")
    ships.put("c.csv", "3,0.1,oslo")
    assert "`tonnes < 0.1` is false for at least one row (tonnes=0.1" in str(ships.run().error)


@pytest.fixture(scope="module")
def table(tmp_path_factory, spark) -> Table:
    ships = Checked(tmp_path_factory.mktemp("whole") / "p")
    ships.put("a.csv", "1,1,oslo", "1,2,oslo", "1,2,bergen", ",3,", ",3,")
    ships.good()
    return Table.open(ships.table)


@pytest.mark.parametrize(
    ("fields", "passed", "failed", "said"),
    [
        ({"kind": "min_rows", "number": 5}, True, 0, ""),
        ({"kind": "min_rows", "number": 6}, False, 1, "the table has 5 rows; it must have at least 6"),
        ({"kind": "max_rows", "number": 4}, False, 1, "the table has 5 rows; it may have at most 4"),
        ({"kind": "columns", "columns": ("id", "port")}, True, 0, ""),
        (
            {"kind": "columns", "columns": ("id", "imo"), "strict": True},
            False,
            1,
            "columns: imo missing; tonnes, port unexpected",
        ),
        ({"kind": "unique", "columns": ("id",)}, False, 2, "id: 2 of 5 rows repeat a key"),
        ({"kind": "unique", "columns": ("id", "port")}, False, 1, "id, port: 1 of 5 rows repeat a key"),
        ({"kind": "unique", "columns": ("id", "tonnes", "port")}, True, 0, ""),
    ],
)
def test_checks_on_the_whole_table_need_no_spark(table, fields, passed, failed, said):
    [result] = check_table([Check(name="n", key="k", line=1, **fields)], table.state, no_spark)
    assert (result.passed, result.failed, result.message) == (passed, failed, said)


def test_large_tables_are_asked_for_repeated_keys_by_spark(spark, table, monkeypatch):
    monkeypatch.setattr("lading.checks.measure._HERE", 0)
    check = Check("unique", "n", "k", 1, columns=("id", "port"))
    [result] = check_table([check], table.state, lambda: spark)
    assert (result.passed, result.failed, result.sample) == (False, 1, ("id=1, port=oslo",))


def test_a_key_of_a_column_that_is_not_there_is_a_config_error(table):
    with pytest.raises(ConfigError, match=r"lading.yaml:1: k: ships has no column 'imo'"):
        check_table([Check("unique", "n", "k", 1, columns=("imo",))], table.state, no_spark, table="ships")
