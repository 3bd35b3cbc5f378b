"""`columns`, `names` and `types` of lading.yaml, from the files to the table. Without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

import lading
from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.errors import BadRows, ConfigError, LadingError, SchemaDrift
from lading.ingest.quarantine import show_aside
from lading.run import RunReport, plan_tables, run


class Payments:
    """A table of delimited files that is read in this process."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self._clock = 1_600_000_000
        (folder / "data").mkdir()
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        table = {"root": "data", "path": "*.csv", "format": "csv", **settings}
        tree = {"spark": {"in_process_below": "50MB"}, "tables": {"t": table}}
        (self.folder / "lading.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))

    def put(self, name: str, *lines: str) -> None:
        path = self.folder / "data" / name
        path.write_text("".join(f"{line}\n" for line in lines))
        self._clock += 10
        os.utime(path, (self._clock, self._clock))

    def run(self) -> RunReport:
        return run(load_config(self.folder))

    def good(self) -> list[dict[str, Any]]:
        [table] = self.run().tables
        if table.error is not None:
            raise table.error
        return self.rows()

    def error(self) -> LadingError:
        [table] = self.run().tables
        assert table.error is not None
        return table.error

    def rows(self) -> list[dict[str, Any]]:
        with lading.open(self.folder / "warehouse" / "t") as reader:
            rows = reader.scan().to_table().drop_columns(["_source"]).to_pylist()
        return sorted(rows, key=repr)

    def aside(self) -> list[tuple[str, int, str | None]]:
        shown = show_aside(load_config(self.folder), "t")
        return [(row["file"], row["record"], row["column"]) for row in shown]

    def schema(self) -> dict[str, str]:
        tree = yaml.safe_load((self.folder / "schema" / "t.yaml").read_text())
        return {column["name"]: column["type"] for column in tree["columns"]}

    def read(self) -> int:
        """How many files the next run would read."""
        [plan] = plan_tables(load_config(self.folder))
        return len(plan.read)


BIGINTS = {"columns": {"a": "bigint", "b": "bigint"}}


def test_a_misfit_is_set_aside_although_bad_rows_fail_the_run(tmp_path: Path) -> None:
    table = Payments(tmp_path, types="quarantine", **BIGINTS)
    table.put("1.csv", "a,b", "1,1", "#DIV/0!,2", "3,3")
    assert table.good() == [{"a": 1, "b": 1}, {"a": 3, "b": 3}]
    assert table.aside() == [("1.csv", 2, "a")]
    assert table.read() == 0, "what may be set aside is not read again"
    table.put("1.csv", "a,b", "1,1", "2,2", "3,3")
    assert len(table.good()) == 3
    assert table.aside() == []


def test_other_bad_rows_still_fail_the_run(tmp_path: Path) -> None:
    table = Payments(tmp_path, types="quarantine", **BIGINTS)
    table.put("1.csv", "a,b", "x,1", "1", "y,1", "2")
    error = table.error()
    assert isinstance(error, BadRows)
    assert error.message.startswith("1.csv:3: has 1 field, but the header has 2")
    assert error.message.endswith("(1 more bad row)"), "misfits don't count: they stop nothing"
    assert table.read() == 1, "nothing was committed"


def test_only_misfits_of_columns_that_say_so_are_set_aside(tmp_path: Path) -> None:
    columns = {"a": {"type": "bigint", "types": "quarantine"}, "b": "bigint"}
    table = Payments(tmp_path, columns=columns)
    table.put("1.csv", "a,b", "x,1", "2,2")
    assert table.good() == [{"a": 2, "b": 2}]
    table.put("2.csv", "a,b", "x,y")
    error = table.error()
    assert "2.csv:2: 'y' is not a bigint in column 'b'" in error.message
    assert table.rows() == [{"a": 2, "b": 2}]


def test_a_row_that_fails_a_check_fails_the_run_beside_misfits(tmp_path: Path) -> None:
    table = Payments(tmp_path, types="quarantine", checks=[{"range": {"column": "a", "min": 0}}], **BIGINTS)
    table.put("1.csv", "a,b", "x,1", "-1,2")
    assert "fails the check" in table.error().message
    table.put("1.csv", "a,b", "x,1", "1,2")
    assert table.good() == [{"a": 1, "b": 2}]
    assert table.aside() == [("1.csv", 1, "a")]


def test_max_bad_bounds_the_misfits(tmp_path: Path) -> None:
    table = Payments(tmp_path, types="quarantine", max_bad=1, **BIGINTS)
    table.put("1.csv", "a,b", "x,1", "y,1", "1,1")
    assert "more rows or files are bad than max_bad allows (1)" in table.error().message
    table.put("1.csv", "a,b", "x,1", "1,1")
    assert table.good() == [{"a": 1, "b": 1}]


def test_what_was_set_aside_under_other_rules_is_read_again(tmp_path: Path) -> None:
    table = Payments(tmp_path, types="quarantine", on_bad="quarantine", **BIGINTS)
    table.put("1.csv", "a,b", "x,1", "1", "2,2")
    assert table.good() == [{"a": 2, "b": 2}]
    assert len(table.aside()) == 2
    table.configure(types="quarantine", on_bad="fail", **BIGINTS)
    assert "has 1 field" in table.error().message


def test_types_names_and_defaults_of_lading_yaml_are_the_tables(tmp_path: Path) -> None:
    columns = {
        "amount": {"type": "decimal(6,2)", "from": ["AMT"], "decimal": ",", "null": "-"},
        "channel": {"default": "web"},
        "note": {"type": "string"},
    }
    settings = {"names": "fold", "columns": columns, "drift": {"columns": "add"}}
    settings["read_options"] = {"delimiter": ";"}
    table = Payments(tmp_path, **settings)
    table.put("1.csv", "ID;Amount;Channel", "1;1,50;shop", "2;-;")
    table.put("2.csv", "id ;AMT", "3;7")
    rows = table.good()
    assert [(row["id"], str(row["amount"]), row["channel"], row["note"]) for row in rows] == [
        (1, "1.50", "shop", None),
        (2, "None", "web", None),
        (3, "7.00", "web", None),
    ]
    assert table.schema() == {"id": "bigint", "amount": "decimal(6,2)", "channel": "string", "note": "string"}
    assert table.read() == 0
    columns["amount"]["type"] = "double"
    table.configure(**settings)
    assert table.read() == 2, "another type is another recipe"
    assert [row["amount"] for row in table.good()] == [1.5, None, 7.0]


def test_a_type_that_leaves_lading_yaml_is_inferred_again(tmp_path: Path) -> None:
    table = Payments(tmp_path, columns={"a": "string"})
    table.put("1.csv", "a", "1")
    assert table.good() == [{"a": "1"}]
    table.configure()
    table.put("2.csv", "a", "2")
    assert invoke(["-C", str(tmp_path), "discover-schema", "--full-scan"]) == 0
    assert table.schema() == {"a": "bigint"}


def test_files_without_a_header_have_the_columns_of_lading_yaml(tmp_path: Path) -> None:
    table = Payments(
        tmp_path, read_options={"header": False}, columns={"id": {"null": "-"}, "port": "string"}
    )
    table.put("1.csv", "1,7", "-,8")
    assert table.good() == [{"id": 1, "port": "7"}, {"id": None, "port": "8"}]


def test_a_column_that_a_file_lacks_is_refused_with_the_way_out(tmp_path: Path) -> None:
    table = Payments(tmp_path)
    table.put("1.csv", "port,a", "x,1")
    table.good()
    table.put("2.csv", "Port,a", "x,1")
    error = table.error()
    assert isinstance(error, SchemaDrift)
    assert "`names: fold`" in str(error.hint)
    table.configure(names="fold")
    assert table.good() == [{"port": "x", "a": 1}] * 2


def test_a_default_that_is_no_value_is_told_before_anything_is_read(tmp_path: Path) -> None:
    table = Payments(tmp_path, columns={"a": {"default": "x"}})
    table.put("1.csv", "a", "1")
    error = table.error()
    assert isinstance(error, ConfigError)
    assert "the default 'x' of column 'a' is not a bigint" in error.message


def test_names_that_differ_only_in_case_are_refused_in_schema_files(tmp_path: Path) -> None:
    table = Payments(tmp_path)
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "t.yaml").write_text("columns:\n- {name: a, type: int}\n- {name: A, type: int}\n")
    table.put("1.csv", "a", "1")
    with pytest.raises(ConfigError, match=r"t\.yaml:3: the columns 'a' and 'A' differ only in case"):
        raise table.error()


def test_a_misfit_names_the_line_of_the_config_that_says_the_type(tmp_path: Path) -> None:
    payments = Payments(tmp_path, columns={"a": "tinyint"})
    payments.put("a.csv", "a", "128")
    line = 1 + (tmp_path / "lading.yaml").read_text().splitlines().index("      a: tinyint")
    assert payments.error().hint.startswith(f"fix the row, or the type in lading.yaml:{line};")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{"a":' + "[" * 5_000 + "]" * 5_000 + "}",
            "a.json, line 1, is not a JSON object: nested too deeply",
        ),
        ("[1]", "a.json, line 1, is not a JSON object"),
        ('{"a": 1}\n{"": 1, "a": 2}', "a.json:2: a column has no real name, only ''"),
    ],
)
def test_a_run_says_which_line_gives_no_columns(tmp_path: Path, text: str, says: str) -> None:
    payments = Payments(tmp_path, format="json", path="*.json")
    payments.put("a.json", text)
    assert payments.error().message.startswith(says)
