"""Rows set aside from other formats than plain CSV, on real Spark: the record, the line, the text."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lading.formats.records import records
from lading.model import Check, Field, FoundFile, Layout
from lading.spark.quarantine import file_by_file, first_failing, set_aside


def aside(shop: Any, job: Any, sources: dict[int, Path]) -> list[dict[str, Any]]:
    files = {number: FoundFile(path.name, str(path), 1, 1, False) for number, path in sources.items()}
    members = set_aside(shop.spark, job, files, partial(records, layout=job.layout))
    assert all(member.path.startswith("quarantine/part-") for member in members)
    tables = [pq.read_table(shop.folder / "warehouse" / "t" / member.path) for member in members]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row["_source"], row["record"]))


def original(shop: Any, source: int) -> Path:
    [link] = shop.folder.rglob(f"staged/g1/**/s{source}.*")
    return link.resolve()


def places(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["_source"], row["record"], row["line"], row["column"], row["text"]) for row in rows]


def test_json_lines(shop):
    text = '{"id":1}\n\n{"id":"x"}\n{"id":2,"more":1}\n{oops\n{"id":3}\n'
    group = shop.stage({5: text}, ext="json")
    job = shop.job([group], "id bigint", format="json", quarantine=True)
    rows = aside(shop, job, {5: original(shop, 5)})
    assert places(rows) == [
        (5, 2, 3, "id", '{"id":"x"}'),
        (5, 3, 4, "more", '{"id":2,"more":1}'),
        (5, 4, 5, None, "{oops"),
    ]


def test_records_that_span_lines(shop):
    text = 'id,port\n1,"a\nb"\nx,"c\nd"\n3,e\ny,f\n'
    group = shop.stage({5: text}, ["id", "port"])
    job = shop.job([group], "id bigint; port string", quarantine=True, read_options={"multiline": True})
    rows = aside(shop, job, {5: original(shop, 5)})
    assert places(rows) == [(5, 2, 4, "id", 'x,"c\nd"'), (5, 4, 7, "id", "y,f")]


def test_fixed_width(shop):
    layout = Layout((Field("kind", 0, 1, "string"), Field("id", 1, 3, "bigint")), filter=(0, 1, "D"))
    group = shop.stage({5: "H  1\nD  1\nD  x\nD\nD  4\n"}, ext="txt")
    columns = "kind string; id bigint"
    job = shop.job([group], columns, format="fixed_width", layout=layout, quarantine=True)
    rows = aside(shop, job, {5: original(shop, 5)})
    assert places(rows) == [(5, 2, 3, "id", "D  x"), (5, 3, 4, None, "D")]


def test_every_line_of_a_large_file_is_found_however_spark_would_cut_it(shop):
    lines = ["id,port", *(f"{'x' if n % 997 == 0 else n},{'p' * 50}" for n in range(1, 30_000))]
    files = {7: "\n".join(lines) + "\n", 8: "id,port\nz,1\n"}
    group = shop.stage(files, ["id", "port"])
    job = shop.job([group], "id bigint; port string", quarantine=True)
    shop.spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    try:
        rows = aside(shop, job, {7: original(shop, 7), 8: original(shop, 8)})
        assert shop.spark.conf.get("spark.sql.files.maxPartitionBytes") == "100000", "put back"
    finally:
        shop.spark.conf.set("spark.sql.files.maxPartitionBytes", "128m")
    assert [row["line"] for row in rows if row["_source"] == 7] == [n + 1 for n in range(997, 30_000, 997)]
    assert places(rows)[-1] == (8, 1, 2, "id", "z,1")


def test_the_first_row_that_fails_a_check(shop):
    group = shop.stage({5: "id\n1\n7\n2\n9\n", 6: "id\n8\n"}, ["id"])
    check = Check("sql", "small", "k", 1, text="id < 5")
    job = shop.job([group], "id bigint", checks=(check,))
    found = first_failing(shop.spark, job, 5, 0)
    assert found is not None and (found.record, found.row) == (2, '{"id":7}')
    assert first_failing(shop.spark, shop.job([group], "id bigint", checks=(check,)), 6, 0).record == 1


def test_settings_are_put_back_even_if_the_work_fails(shop):
    before = shop.spark.conf.get("spark.sql.files.openCostInBytes")
    with pytest.raises(RuntimeError), file_by_file(shop.spark):
        assert shop.spark.conf.get("spark.sql.files.openCostInBytes") != before
        raise RuntimeError
    assert shop.spark.conf.get("spark.sql.files.openCostInBytes") == before
