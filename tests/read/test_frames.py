"""Other libraries get the rows that a scan gives: pruned, without what a `minus` takes away, lazily."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from lading.parts import rows as part
from lading.read import frames
from lading.read.scan import Scan, scan

SCHEMA = pa.schema([("id", pa.int64()), ("ship", pa.string()), ("_source", pa.int64())])


@pytest.fixture
def table(make_table: Callable[..., Any]) -> Any:
    parts = [
        pa.table(
            {
                "id": range(start, start + 100),
                "ship": [f"s{n % 7}" for n in range(100)],
                "_source": [n % 3 for n in range(100)],
            },
            schema=SCHEMA,
        )
        for start in (0, 100, 200)
    ]
    return make_table(SCHEMA, parts, order_by="id", minus=[(), (1, 2), ()])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that are opened."""
    seen: list[str] = []
    plain = part.read_part

    def noted(root: str, member: Any, wanted: Any) -> Any:
        seen.append(member.path)
        return plain(root, member, wanted)

    monkeypatch.setattr("lading.read.scan.read_part", noted)
    return seen


def expected(found: Scan) -> list[dict[str, Any]]:
    rows = found.again().to_table().to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    return rows


def test_arrow_is_a_stream_that_reads_as_it_is_consumed(table: Any, opened: list[str]) -> None:
    found = scan(table)
    stream = frames.to_arrow(found)
    assert opened == []
    first = stream.read_next_batch()
    assert len(opened) == 1
    rows = first.to_pylist() + stream.read_all().to_pylist()
    assert rows == expected(found) and len(rows) == 234


def test_pandas_has_them_all(table: Any) -> None:
    found = scan(table, where="id >= 150")
    assert frames.to_pandas(found).to_dict("records") == expected(found)


def test_polars_reads_what_the_query_needs_when_it_is_collected(table: Any, opened: list[str]) -> None:
    found = scan(table)
    lazy = frames.to_polars(found)
    assert isinstance(lazy, pl.LazyFrame) and opened == []
    assert lazy.collect().to_dicts() == expected(found)
    assert lazy.select(pl.len()).collect().item() == 234
    assert lazy.filter(pl.col("id") == 101).collect().to_dicts() == []  # taken away
    assert lazy.filter(pl.col("ship") == "s3").select("id").collect().to_dicts() == [
        {"id": row["id"]} for row in expected(found) if row["ship"] == "s3"
    ]
    opened.clear()
    assert lazy.head(5).collect().to_dicts() == expected(found)[:5]
    assert lazy.sort("id").tail(1).collect().to_dicts() == expected(found)[-1:]


def test_polars_asks_for_its_columns_only(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str] | None] = []
    plain = Scan.again

    def noted(self: Scan, columns: Any = None) -> Scan:
        asked.append(columns)
        return plain(self, columns)

    monkeypatch.setattr(Scan, "again", noted)
    assert frames.to_polars(scan(table)).select("ship").unique().collect().height == 7
    assert asked == [["ship"]]


def test_duckdb_reads_whenever_it_evaluates(table: Any, opened: list[str]) -> None:
    found = scan(table)
    relation = frames.to_duckdb(found, None)
    assert opened == []
    assert relation.aggregate("count(*), sum(id)").fetchall() == [
        (234, sum(row["id"] for row in expected(found)))
    ]
    assert (
        relation.filter("ship = 's3'").order("id").limit(2).fetchall()
        == [(row["id"], row["ship"], row["_source"]) for row in expected(found) if row["ship"] == "s3"][:2]
    )
    assert sorted(relation.fetchall()) == sorted(tuple(row.values()) for row in expected(found))


def test_duckdb_joins_with_what_the_caller_has(table: Any) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE flags AS SELECT 's3' AS ship, 'DE' AS flag")
    relation = frames.to_duckdb(scan(table, columns=["id", "ship"]), connection)
    assert relation.columns == ["id", "ship"]
    relation.create_view("rows")
    sql = "SELECT count(*) FROM rows a JOIN rows b USING (id) JOIN flags ON a.ship = flags.ship"
    assert connection.execute(sql).fetchall() == [
        (sum(row["ship"] == "s3" for row in expected(scan(table))),)
    ]


@pytest.mark.parametrize("how", [frames.to_arrow, frames.to_pandas, frames.to_polars, frames.to_duckdb])
def test_files_that_can_not_match_are_not_opened(table: Any, opened: list[str], how: Any) -> None:
    made = how(scan(table, where="id between 210 and 219", columns=["id"]))
    rows = {
        pa.RecordBatchReader: lambda: made.read_all().num_rows,
        pl.LazyFrame: lambda: made.collect().height,
        duckdb.DuckDBPyRelation: lambda: len(made.fetchall()),
    }.get(type(made), lambda: len(made))()
    assert rows == 10
    assert set(opened) == {table.members[2].path}


@pytest.mark.parametrize("package", ["polars", "duckdb", "pandas"])
def test_a_library_that_is_missing_is_named(package: str) -> None:
    code = f"""
import sys
from lading.errors import MissingExtra
from lading.read import frames
sys.modules[{package!r}] = None
try:
    frames.to_{package}(None)
except MissingExtra as error:
    print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"pip install {package}\n", done.stderr
