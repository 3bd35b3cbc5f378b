"""Tables made of tables on real Spark: SQL and Python, checks, serving, and what is compared by verify."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import lading
from lading.config.file import load as load_config
from lading.ingest.derived import changed, count
from lading.parts import pick
from lading.run import RunReport, run
from lading.upkeep.verify import verify
from lading.upkeep.verify_deep import verify_deep
from lading.upkeep.verify_slots import same_rows
from lading.watch import Watch

CONFIG = """\
warehouse: warehouse
spark: {in_process_below: 1GB}
tables:
  voyages: {root: data, path: "v*.csv", format: csv, order_by: day, bucket_size: 10d}
"""
TRANSFORM = """\
from pyspark.sql import functions as F


def by_port(voyages, context):
    assert context.table == "tonnage"
    return voyages.groupBy("port").agg(F.sum("tonnes").alias("tonnes"), F.max("day").alias("day"))


def uncut(voyages):
    def count(frames):
        import pandas as pd

        total = 0
        for frame in frames:
            total += len(frame)
            yield pd.DataFrame({"port": frame["port"], "seen": [total] * len(frame)})
    return voyages.coalesce(1).mapInPandas(count, "port string, seen bigint")


def draws(voyages):
    return voyages.select("port", F.rand().alias("luck"))
"""
SUM = "select port, sum(tonnes) as tonnes, max(day) as day, count(*) as n from voyages group by port"


class Shop:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "data").mkdir()
        (folder / "made.py").write_text(TRANSFORM)
        self.tick = 0
        self.put("v1.csv", [("hh", 1, 0.1), ("ro", 11, 20), ("si", 21, 5.5), (None, 3, 2)])
        self.put("v2.csv", [("hh", 2, 0.2), ("sa", 12, 7), ("hh", 13, 0.3)])

    def put(self, key: str, rows: list[tuple[Any, ...]]) -> None:
        self.tick += 1
        path = self.folder / "data" / key
        lines = [f"{port or ''},2024-03-{day:02d},{tonnes}" for port, day, tonnes in rows]
        path.write_text("port,day,tonnes\n" + "\n".join(lines) + "\n")
        os.utime(path, (1_600_000_000 + self.tick,) * 2)

    def configure(self, table: str) -> None:
        (self.folder / "lading.yaml").write_text(CONFIG + table)

    def run(self, **options: Any) -> RunReport:
        return run(load_config(self.folder), allow_vanish=True, **options)

    def rows(self, name: str = "tonnage") -> list[dict[str, Any]]:
        with lading.open(self.folder / "warehouse" / name) as reader:
            rows = reader.to_arrow().read_all().drop_columns(["_source"]).to_pylist()
        return sorted(rows, key=lambda row: str(row.get("port")))


@pytest.fixture
def shop(tmp_path: Path, spark: object) -> Shop:
    return Shop(tmp_path)


def tonnage(of: str, more: str = "", by: str = "port") -> str:
    return f"  tonnage:\n    from: {{voyages: {{by: {by}}}}}\n    {of}\n{more}"


def test_a_query_is_evaluated_for_the_slots_that_changed(shop):
    shop.configure(tonnage(f"sql: {SUM}"))
    assert shop.run().error is None
    assert [(row["port"], row["n"]) for row in shop.rows()] == [
        (None, 1), ("hh", 3), ("ro", 1), ("sa", 1), ("si", 1)
    ]  # fmt: skip
    shop.put("v2.csv", [("hh", 2, 0.2), ("sa", 12, 8), ("hh", 13, 0.3)])
    [_, table] = shop.run().tables
    assert (table.verdicts["changed"], table.rows_added, table.rows_removed) == (1, 1, 1)
    assert shop.rows()[3]["tonnes"] == 8


@pytest.mark.parametrize(
    "sql",
    [
        "select port, tonnes from (select port, day, tonnes from voyages)",
        "select * except (day) from voyages",
        "select port, tonnes from voyages where true or day is null",
        "with some as (select port, day, tonnes, count(*) as n from voyages group by all) "
        "select port, tonnes from some",
    ],
)
def test_a_query_may_name_columns_of_which_nothing_comes(shop, sql):
    shop.configure(tonnage(f"sql: {sql}"))
    assert shop.run().error is None
    shop.put("v2.csv", [("hh", 2, 0.2), ("sa", 12, 8), ("hh", 13, 0.3)])
    assert shop.run().error is None
    assert sorted((row["port"] or "", row["tonnes"]) for row in shop.rows()) == [
        ("", 2), ("hh", 0.1), ("hh", 0.2), ("hh", 0.3), ("ro", 20), ("sa", 8), ("si", 5.5)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sql",
    [
        "select * from codes",
        "select * from codes where c0 is not null",
        "select c0, c1 from codes order by c0",
        "select c1, c0 from codes",
    ],
)
def test_a_column_may_have_any_name(shop, sql):
    """Spark drops a step that renames nothing, so tasks give columns names that no input has."""
    (shop.folder / "data" / "codes.csv").write_text("c0,c1\nx,1\ny,2\n")
    shop.configure(
        "  codes: {root: data, path: codes.csv, format: csv}\n"
        f"  tonnage:\n    from: {{codes: {{by: c0}}}}\n    sql: {sql}\n"
    )
    assert shop.run().error is None
    assert sorted((row["c0"], row["c1"]) for row in shop.rows()) == [("x", 1), ("y", 2)]


@pytest.mark.parametrize("large", [0, 1 << 40])
def test_which_slots_changed_is_found_by_tasks_and_the_driver_reads_no_row(shop, monkeypatch, large):
    monkeypatch.setattr(count, "HERE", 0)
    monkeypatch.setattr(changed, "LARGE", large)  # 0: the `by` columns first
    shop.configure(tonnage(f"sql: {SUM}"))
    text = (shop.folder / "lading.yaml").read_text()
    (shop.folder / "lading.yaml").write_text(text.replace("in_process_below: 1GB", "in_process_below: 0"))
    assert shop.run().error is None

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the driver opened a part of an input")

    monkeypatch.setattr(pick, "open_parquet", refuse)
    shop.put("v2.csv", [("hh", 2, 0.2), ("sa", 12, 8), ("hh", 13, 0.3)])
    [_, table] = shop.run().tables
    assert table.error is None and table.verdicts["changed"] == (1 if large else 2)  # hh is as it was
    assert shop.rows()[3]["tonnes"] == 8


def test_a_transform_is_called_with_its_inputs_by_name(shop):
    shop.configure(tonnage("transform: made.py:by_port", "    order_by: day\n    bucket_size: 5d\n"))
    assert shop.run().error is None
    assert [(row["port"], row["tonnes"]) for row in shop.rows()][2:] == [
        ("ro", 20.0),
        ("sa", 7.0),
        ("si", 5.5),
    ]
    shop.put("v1.csv", [("hh", 1, 0.1), ("si", 21, 5.5)])
    assert shop.run().error is None
    assert [row["port"] for row in shop.rows()] == ["hh", "sa", "si"]


def test_by_bucket_the_order_column_says_which_slot_a_row_is_in(shop):
    shop.configure(tonnage("sql: select day, sum(tonnes) t from voyages group by day", by="bucket"))
    assert shop.run().error is None
    shop.put("v1.csv", [("hh", 1, 5), ("ro", 11, 20), ("si", 21, 5.5), (None, 3, 2)])
    [_, table] = shop.run().tables
    assert (table.error, table.verdicts["changed"]) == (None, 1)


def test_sql_checks_set_rows_aside_and_keys_are_served(shop):
    more = (
        "    on_bad: quarantine\n    checks: [{sql: \"tonnes < 10 and port is not null\"}]\n"
        "    serve: {key: port, value: [tonnes], shards: 2}\n"
    )  # fmt: skip
    shop.configure(tonnage(f"sql: {SUM}", more))
    report = shop.run()
    assert report.error is None and report.tables[1].rows_rejected == 2
    with lading.open(shop.folder / "warehouse" / "tonnage") as reader:
        assert reader.get("sa", decode=True) == {"tonnes": 7.0} and reader.get("ro") is None


@pytest.mark.parametrize(
    ("of", "why"),
    [
        ("sql: select port from voyages limit 3", "lading.yaml:7: tables.tonnage.sql: it has a limit"),
        ("sql: select sum(tonnes) t from voyages", "the result has no column port"),
        ("sql: select prt from voyages", "tables.tonnage.sql"),
        ("sql: select port, rand() r from voyages", "it uses rand"),
        ("sql: select port, port from voyages", "two columns are named 'port'"),
        (
            "sql: select port, null as n from voyages",
            "tables.tonnage.sql: column 'n' has the Spark type void",
        ),
        ("transform: made.py:draws", "uses rand"),
        ("transform: made.py:nothing", "has no function 'nothing'"),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_refused_before_anything_is_written(shop, of, why):
    shop.configure(tonnage(of))
    error = shop.run().tables[1].error
    assert error is not None and why in error.message and error.hint
    assert not (shop.folder / "warehouse" / "tonnage" / "_CURRENT").exists()


@pytest.mark.parametrize(
    ("sql", "helps"),
    [
        ("select port from voyages order by port limit 3", True),
        ("select port, first(day) d from voyages group by 1", False),
    ],
)
def test_one_slot_is_offered_only_where_it_helps(shop, sql, helps):
    shop.configure(tonnage(f"sql: {sql}"))
    error = shop.run().tables[1].error
    assert error is not None and ("set slots: 1" in error.hint) == helps
    shop.configure(tonnage(f"sql: {sql}", "    slots: 1\n"))
    assert (shop.run().tables[1].error is None) == helps


@pytest.mark.parametrize(
    ("sql", "settled"),
    [
        ("select port from voyages limit 3", False),
        ("select port from voyages sort by port limit 3", False),
        ("select port from (select port, day from voyages distribute by port sort by day) limit 3", False),
        ("with t as (select port from voyages) select port from t limit 3", False),
        ("select port from voyages order by port limit 3", True),
        ("with t as (select port, day from voyages order by port, day) select port from t limit 3", True),
        ("from voyages |> order by port, day |> select port |> limit 3", True),
        ("select port from voyages where exists (select 1 from voyages limit 1)", True),
        ("select max(port) as port from voyages limit 1", True),
    ],
)
def test_a_limit_on_rows_in_no_order_is_refused_of_a_whole_table_too(shop, sql, settled):
    shop.configure(tonnage(f"sql: {sql}", "    slots: 1\n"))
    error = shop.run().tables[1].error
    if settled:
        assert error is None
    else:
        assert error is not None and "a limit on rows in no order" in error.message
        assert "order them" in error.hint


def test_what_would_help_a_limit_is_told_at_once(shop):
    shop.configure(tonnage("sql: select port from voyages limit 3"))
    error = shop.run().tables[1].error
    assert error is not None and "order the rows before the limit, and evaluate it as a whole" in error.hint


def test_one_slot_evaluates_whatever_can_be_evaluated(shop):
    shop.configure(tonnage("sql: select sum(n) as n from (select count(*) n from voyages)", "    slots: 1\n"))
    assert shop.run().error is None
    assert shop.rows() == [{"n": 7}]


def test_verify_compares_slots_with_the_whole_query(shop, spark):
    shop.configure(tonnage(f"sql: {SUM}"))
    shop.run()

    def deep() -> list[str]:
        found, seen = verify(load_config(shop.folder), "tonnage", watch=Watch())
        verify_deep(seen, found, lambda: spark)
        assert found.checked["slots evaluated again"] >= 5
        return [one.message for one in found.findings if one.level == "error"]

    assert deep() == []
    shop.configure(tonnage("transform: made.py:uncut"))
    shop.run()
    shop.put("v2.csv", [("hh", 2, 0.2), ("sa", 12, 8), ("hh", 13, 0.3), ("du", 1, 1)])
    shop.run()
    assert any("the whole query gives others" in one for one in deep())


def test_floats_are_the_same_if_they_differ_by_the_order_of_additions_only():
    one, other = 0.1 + (0.2 + 0.3), (0.1 + 0.2) + 0.3
    assert one != other and same_rows([("a", one)], [("a", other)])
    assert not same_rows([("a", 1.0)], [("a", 1.0 + 1e-6)])
    assert not same_rows([("a", 1)], [("a", 2)]) and not same_rows([("a", 1)], [])
    assert same_rows([("a", float("nan")), ("b", None)], [("b", None), ("a", float("nan"))])
