"""Rows as text: valid, complete, and the same on every machine."""

import csv
import io
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from lading.cli.terminal.rows import print_table
from lading.read.text import row_json, write_arrow, write_csv, write_jsonl


@dataclass
class Batches:
    """What the writers need of a scan: a schema, and batches."""

    table: pa.Table

    @property
    def schema(self):
        return self.table.schema

    def __iter__(self):
        return iter(self.table.to_batches(max_chunksize=2))


def jsonl(table: pa.Table) -> list[dict]:
    out = io.BytesIO()
    assert write_jsonl(Batches(table), out) == table.num_rows
    return [json.loads(line, parse_constant=pytest.fail) for line in out.getvalue().splitlines()]


def one(value, type=None):
    (row,) = jsonl(pa.table({"x": pa.array([value], type)}))
    return row["x"]


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (date(2024, 3, 1), None, "2024-03-01"),
        (datetime(2024, 3, 1, 6, 30), pa.timestamp("us"), "2024-03-01T06:30:00"),
        (datetime(2024, 3, 1, 6, 30, 0, 5), pa.timestamp("us"), "2024-03-01T06:30:00.000005"),
        (datetime(2024, 3, 1, 6, 30, tzinfo=UTC), pa.timestamp("us", "UTC"), "2024-03-01T06:30:00Z"),
        (datetime(2024, 3, 1, 6, tzinfo=UTC), pa.timestamp("us", "America/New_York"), "2024-03-01T06:00:00Z"),
        (1_500_000_001, pa.timestamp("ns"), "1970-01-01T00:00:01.500000001"),
        (400_000_000_000_000_000, pa.timestamp("us"), "14645-06-30T15:06:40"),
        (9_000_000, pa.date32(), "26611-03-02"),
        (time(6, 30), pa.time64("us"), "06:30:00.000000"),
        (Decimal("1.50"), None, "1.50"),
        (b"\x00\xff", None, "AP8="),
        (float("nan"), None, "NaN"),
        (float("inf"), None, "Infinity"),
        (float("-inf"), None, "-Infinity"),
    ],
)
def test_what_json_has_no_word_for_is_text(value, type, text):
    assert one(value, type) == text


@pytest.mark.parametrize(
    "value", [None, 0, -(2**63), 2**63 - 1, 1.5, True, "", "é\n\"'", [1, None], {"a": [1]}]
)
def test_what_json_can_say_is_said(value):
    assert one(value) == value


def test_what_is_nested_is_treated_alike():
    assert one({"t": datetime(2024, 3, 1), "f": [float("nan"), 1.0]}) == {
        "t": "2024-03-01T00:00:00",
        "f": ["NaN", 1.0],
    }


def test_every_row_of_every_batch_is_written():
    assert [row["x"] for row in jsonl(pa.table({"x": list(range(7))}))] == list(range(7))


def test_csv_tells_null_from_empty_and_has_a_header_without_rows():
    def text(table: pa.Table) -> str:
        out = io.BytesIO()
        assert write_csv(Batches(table), out) == table.num_rows
        return out.getvalue().decode()

    assert text(pa.table({"a": ["", None, 'x"y'], "b": [1, None, 3]})) == '"a","b"\n"",1\n,\n"x""y",3\n'
    assert text(pa.table({"a": pa.array([], pa.string())})) == '"a"\n'
    nested = pa.table({"l": [[1, 2]], "b": [b"\xff"], "t": [datetime(2024, 3, 1)], "d": [Decimal("1.5")]})
    assert list(csv.reader(io.StringIO(text(nested))))[1] == ["[1,2]", "/w==", "2024-03-01T00:00:00", "1.5"]


def test_arrow_gives_back_the_table():
    table = pa.table({"a": [1, None, 3], "b": ["x", "y", None]})
    out = io.BytesIO()
    assert write_arrow(Batches(table), out) == 3
    assert pa.ipc.open_stream(out.getvalue()).read_all().equals(table)


def test_a_table_shows_values_as_they_are_and_stops_at_its_limit(capsys):
    table = pa.table({"id": [4711, 4712, 4713], "name": ["[red]x", "\x1b[2J", None]})
    assert print_table(Batches(table), 2) == 2
    shown = capsys.readouterr().out
    assert "4711" in shown and "4713" not in shown
    assert "[red]x" in shown
    assert "\x1b[2J" not in shown and "\\x1b[2J" in shown


def test_a_python_row_is_json_too():
    row = {"at": datetime(2024, 3, 1, tzinfo=UTC), "n": float("nan"), "d": Decimal("2.0")}
    assert json.loads(row_json({"row": row})) == {
        "row": {"at": "2024-03-01T00:00:00Z", "n": "NaN", "d": "2.0"}
    }
