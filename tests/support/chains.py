"""Small chains of tables made of tables, evaluated without Spark, and an oracle that knows nothing of slots.

DuckDB stands in for Spark where the question is which slots change and what becomes of their rows; the
queries mean the same to both, and tests on real Spark say that it is so.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from support.machines import Killed

import lading
from lading.config.file import load as load_config
from lading.ingest.derived import count, evaluate
from lading.parts.buckets import bucket_width
from lading.run import RunReport, run
from lading.spark.ingest import Output

SOURCES = """\
warehouse: warehouse
spark: {in_process_below: 1GB}
tables:
  moves:
    root: data
    path: "m*.csv"
    format: csv
    order_by: day
    bucket_size: 5
    replace: %(replace)s
    iceberg: %(iceberg)s
  ports:
    root: data
    path: "p*.csv"
    format: csv
    iceberg: %(iceberg)s
"""
SCHEMAS = {
    "moves": "columns:\n  - {name: port, type: string}\n  - {name: day, type: bigint}\n"
    "  - {name: tonnes, type: bigint}\n",
    "ports": "columns:\n  - {name: port, type: string}\n  - {name: country, type: string}\n",
}

# Of each: the inputs, and the query over them. All give port (or day) and tonnes, so that one can be made of
# another.
FIRST: dict[str, tuple[str, str]] = {
    "filter": ("{moves: {by: port}}", "select port, tonnes from moves where tonnes > 3"),
    "join": (
        "{moves: {by: port}, ports: {by: port}}",
        "select moves.port, country, tonnes from moves join ports on moves.port = ports.port",
    ),
    "outer join": (
        "{moves: {by: port}, ports: {by: port}}",
        "select ports.port, country, tonnes from ports left join moves on moves.port = ports.port",
    ),
    "aggregate": (
        "{moves: {by: port}}",
        "select port, cast(sum(tonnes) as bigint) as tonnes, count(*) as n from moves group by port",
    ),
    "window": (
        "{moves: {by: port}}",
        "select port, tonnes, cast(row_number() over (partition by port order by day, tonnes) as bigint) "
        "as at from moves",
    ),
    "union": (
        "{moves: {by: port}, ports: {by: port}}",
        "select port, tonnes from moves union all select port, cast(0 as bigint) as tonnes from ports",
    ),
    "with a whole one": (
        "{moves: {by: port}, ports: {}}",
        "select moves.port, ports.country, tonnes from moves left join ports on moves.port = ports.port",
    ),
    "by two": (
        "{moves: {by: [port, day]}}",
        "select port, day, cast(sum(tonnes) as bigint) as tonnes from moves group by port, day",
    ),
}
BUCKET: dict[str, tuple[str, str]] = {
    "by bucket": (
        "{moves: {by: bucket}}",
        "select day, 'x' as port, cast(sum(tonnes) as bigint) as tonnes from moves group by day",
    ),
    "rows by bucket": ("{moves: {by: bucket}}", "select port, day, tonnes from moves where tonnes <> 2"),
}
NEXT: dict[str, tuple[str, str]] = {
    "aggregate": (
        "{%(below)s: {by: port}}",
        "select port, cast(sum(tonnes) as bigint) as tonnes, count(*) as n from %(below)s group by port",
    ),
    "join back": (
        "{%(below)s: {by: port}, moves: {by: port}}",
        "select m.port, m.tonnes + coalesce(b.tonnes, 0) as tonnes from moves m "
        "left join %(below)s b on m.port = b.port",
    ),
    "whole": (
        "{%(below)s: {}}",
        "select count(*) as n, cast(sum(tonnes) as bigint) as tonnes from %(below)s",
    ),
    "filter": ("{%(below)s: {by: port}}", "select port, tonnes from %(below)s where tonnes > 2"),
    "union": (
        "{%(below)s: {by: port}, moves: {by: port}}",
        "select port, tonnes from moves union all select port, tonnes from %(below)s",
    ),
    "window": (
        "{%(below)s: {by: port}}",
        "select port, tonnes, cast(rank() over (partition by port order by coalesce(tonnes, 0)) as bigint) "
        "as at from %(below)s",
    ),
}


_CON = duckdb.connect(config={"threads": 1})


class Chain:
    """A project with two tables of files and two or three made of them."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        (folder / "schema").mkdir()
        for name, text in SCHEMAS.items():
            (folder / "schema" / f"{name}.yaml").write_text(text)
        self.replace = chance.choice(["auto", "minus", "rewrite"])
        self.iceberg = chance.random() < 0.1
        self.slots = chance.choice([1, 3, 8, 64])
        self.tables = _made_up(chance)
        self.tick = 0
        self.write_config()

    def write_config(self) -> None:
        shown = str(self.iceberg).lower()
        text = SOURCES % {"replace": self.replace, "iceberg": shown}
        for name, (inputs, sql) in self.tables.items():
            slots = f"\n    slots: {self.slots}" if "by: port" in inputs or "by: [" in inputs else ""
            text += f"  {name}:\n    from: {inputs}\n    sql: {sql!r}\n    replace: {self.replace}{slots}\n"
            text += f"    iceberg: {shown}\n"
        (self.folder / "lading.yaml").write_text(text)
        self.config = load_config(self.folder)

    def put(self, key: str, rows: list[tuple[Any, ...]]) -> None:
        """Each write has a time of its own, long ago: no file is racy."""
        self.tick += 1
        path = self.data / key
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("port", "day", "tonnes") if key[0] == "m" else ("port", "country"))
            writer.writerows(rows)
        os.utime(path, (1_600_000_000 + self.tick, 1_600_000_000 + self.tick))

    def run(self, **options: Any) -> RunReport:
        return run(self.config, allow_vanish=True, **options)

    def open(self, name: str, **which: Any) -> lading.Reader:
        return lading.open(self.folder / "warehouse" / name, **which)

    def is_held(self, name: str) -> bool:
        """Whether readers see an older snapshot because somebody rolled back to it."""
        pointer = self.folder / "warehouse" / name / "_CURRENT"
        return bool(json.loads(pointer.read_bytes())["held"])

    def is_published(self, name: str) -> bool:
        return (self.folder / "warehouse" / name / "_CURRENT").exists()


class Moment:
    """What readers see while nobody changes anything: each snapshot is read once, however often it is asked
    about."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._read: dict[tuple[str, str | None], tuple[pa.Table, dict[str, Any]]] = {}

    def rows(self, name: str, ref: str | None = None) -> pa.Table:
        """With `_source`."""
        return self._of(name, ref)[0]

    def seen(self, name: str) -> Counter[tuple[Any, ...]]:
        return counted(self.rows(name).drop_columns(["_source"]))

    def evaluated(self, name: str, *, now: bool = False) -> Counter[tuple[Any, ...]]:
        """What the table's query gives over the snapshots of its inputs that it names, or over those of
        `now`."""
        named = {one["name"]: one["ref"] for one in self._of(name, None)[1]["inputs"]}
        inputs = {
            one: self.rows(one, None if now else ref).drop_columns(["_source"]) for one, ref in named.items()
        }
        return counted(over(inputs, self._chain.tables[name][1]))

    def _of(self, name: str, ref: str | None) -> tuple[pa.Table, dict[str, Any]]:
        if (name, ref) not in self._read:
            with self._chain.open(name, ref=ref) as reader:
                self._read[name, ref] = reader.to_arrow().read_all(), reader.info()
        return self._read[name, ref]


def _made_up(chance: random.Random) -> dict[str, tuple[str, str]]:
    first = chance.choice([*FIRST, *BUCKET])
    tables = {"one": (FIRST | BUCKET)[first]}
    below = "one"
    for name in ("two", "three")[: chance.choice([1, 1, 2])]:
        inputs, sql = NEXT[chance.choice(list(NEXT))]
        tables[name] = (inputs % {"below": below}, sql % {"below": below})
        if "port" not in sql:
            break
        below = name
    return tables


def over(inputs: Mapping[str, pa.Table], sql: str) -> pa.Table:
    with _CON.cursor() as own:  # tables may be run side by side
        for name, table in inputs.items():
            own.register(name, table)
        return own.sql(sql).to_arrow_table()


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    names = sorted(table.schema.names)
    columns = [table.column(name).to_pylist() for name in names]
    return Counter(zip(*columns, strict=True)) if names else Counter()


def by_duckdb(
    session: Any,
    job: Any,
    question: Any,
    write: Callable[..., bytes],
    checks: Callable[..., Any],
    tick: Any,
) -> tuple[Output, list[bytes]]:
    """In place of `evaluate.through_spark`."""
    rows = answered(question)
    whole = rows.schema
    width = bucket_width(whole.remove(len(whole) - 1), job.order_by, job.bucket_size, table=job.table)
    out = Output(whole.serialize().to_pybytes(), width, bits=False)
    return out, [write(iter(rows.combine_chunks().to_batches()), out)]


def whole_by_duckdb(session: Any, job: Any, question: Any, sources: Collection[int]) -> pa.Table:
    """In place of `evaluate.whole_rows`."""
    rows = answered(question)
    return rows.filter(pc.is_in(rows["_source"], pa.array(sources, pa.int64())))


def answered(question: Any) -> pa.Table:
    """What the question's query gives, with the `_source` of each row."""
    inputs = {}
    for one in question.given:
        batches = [rows for number in range(one.tasks) for rows in one.read(number, one.schema.names)]
        inputs[one.name] = pa.Table.from_batches(batches, schema=one.schema)
    result = over(inputs, question.sql)
    schema = pa.schema([pa.field(field.name, _plain(field.type)) for field in result.schema])
    result = result.cast(schema)
    whole = schema.append(pa.field("_source", pa.int64()))
    by = next((g.by for g in question.given if g.by and set(g.by) <= set(schema.names)), ())
    batches = []
    for rows in result.combine_chunks().to_batches():
        source = pa.array(question.sources(by, rows), pa.int64())
        batches.append(pa.RecordBatch.from_arrays([*rows.columns, source], names=whole.names))
    return pa.Table.from_batches(batches, whole)


def _plain(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return pa.string()
    return dtype


def without_spark(patch: Any) -> None:
    """Nor with a disk to wait for: what a crash of the machine leaves is asked elsewhere."""
    patch.setattr(evaluate, "through_spark", by_duckdb)
    patch.setattr(count, "HERE", 1 << 60)
    patch.setattr(os, "fsync", lambda _: None)


class Dying:
    """A process that is killed at one of its effects below a folder, before it or behind it. What it would do
    there afterwards, in a `finally` say, is not done: the dead do nothing."""

    EFFECTS = ("fsync", "replace", "rename", "link", "unlink", "rmdir", "mkdir")

    def __init__(self, patch: Any, folder: Path, at: int, *, behind: bool) -> None:
        self._folder, self._at, self._behind = str(folder), at, behind
        self._effects = 0
        for name in self.EFFECTS:
            patch.setattr(os, name, self._watched(getattr(os, name)))

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def effect(where: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(where, int) and not os.fspath(where).startswith(self._folder):
                return real(where, *args, **kwargs)
            self._effects += 1
            if self._effects < self._at or (self._effects == self._at and self._behind):
                real(where, *args, **kwargs)
            if self._effects >= self._at:
                raise Killed(f"effect {self._at}")
            return None

        return effect
