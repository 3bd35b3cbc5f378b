"""chain: three tables over 1,000 source files, of which some change: voyages are read from the files, tonnage
by port and ship is made of the voyages, and a summary of the tonnage.

The figure is a share, as in `change`: Spark's work for the run that follows the change through all three, by
Spark's work for building all three in full; the wall time of the runs is shown beside it. A file holds the
voyages of one port on ten days. Once the tables are cut by port, with the rows of a port spread over all
buckets of the voyages; once by bucket, a file in each. The full refresh is what everybody else has to do; it
counts as 1. delta-rs can be told by hand: the rows of the file are overwritten, those of its port (or its
days) are read, aggregated, and merged into the second table, and so on into the third; its share is the time
that takes by the time that writing its three tables in full takes, files parsed in both.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from bench import projects
from bench.bars import Clause, at_most
from bench.case import Case, Job, Kit
from bench.harness import Contender, Measured, Turn
from bench.jobs.change import Full, RawFiles, full_builds, run_measured
from lading.config.file import load
from lading.config.project import Config

DAYS = 10  # of a file, and of a bucket
SHIPS = 50
PORTS = 250

_VOYAGES = """\
  voyages:
    root: {root}
    path: "*.csv"
    format: csv
    order_by: {order}
    bucket_size: {size}
"""
_TONNAGE = """\
  tonnage:
    from: {{voyages: {{by: {by}}}}}
    sql: >
      select {key}, ship, sum(tonnes) as tonnes, count(*) as voyages, max(departed) as last
      from voyages group by {key}, ship
{order}\
  summary:
    from: {{tonnage: {{by: {by}}}}}
    sql: select {key}, sum(tonnes) as tonnes, count(*) as ships, max(last) as last from tonnage group by {key}
"""
# How the tables are cut: by what they are grouped, what the voyages are ordered by, and the bar in per cent.
CUTS = {"by port": ("port", "departed", 5.0), "by bucket": ("day", "day", 2.0)}


class Files(RawFiles):
    """Voyages of one port on ten days each; departures are spread over all buckets of `departed`."""

    def write(self, number: int) -> None:
        self.folder.mkdir(exist_ok=True)
        draw, rows = self.draw, self.rows
        table = pa.table(
            {
                "port": pa.array([f"port-{number % PORTS:03d}"] * rows),
                "day": number * DAYS + draw.integers(0, DAYS, rows),
                "departed": draw.integers(0, self.files * rows, rows),
                "ship": pa.array(np.char.add("ship-", draw.integers(0, SHIPS, rows).astype(str))),
                "tonnes": draw.integers(1, 100_000, rows),
            }
        )
        pyarrow.csv.write_csv(table, self.path(number))

    def read(self, number: int) -> pa.Table:
        table = pyarrow.csv.read_csv(self.path(number))
        return table.append_column("source", pa.array(np.full(len(table), number, np.int64)))


def measure(kit: Kit) -> Iterator[Case]:
    files, rows = kit.pick(1_000, 100, 10), kit.pick(5_000, 500, 50)
    projects.start_session(kit.work)
    for layout, (key, order, bar) in CUTS.items():
        kit.tell(f"{layout}: files")
        raw = Files(kit.work / "raw", files, rows, spread=True)
        for number in range(files):
            raw.write(number)
        config = _project(kit.work / "chain", raw, layout, key, order)
        full = full_builds(kit, config, layout)
        rebuild = Measured("peer", tuple(one.tasks / full.tasks for one in full.each))
        with _by_hand(kit, raw, key) as delta:
            for count in kit.sizes([1, 10, 100], [1, 10], [1]):
                yield _case(kit, _Chain(raw, config, full, layout, bar), rebuild, delta, count)
        shutil.rmtree(config.project)
        shutil.rmtree(raw.folder)


@dataclass(frozen=True, slots=True)
class _Chain:
    raw: Files
    config: Config
    full: Full
    layout: str
    bar: float  # per cent


def _case(kit: Kit, chain: _Chain, rebuild: Measured, delta: Any, count: int) -> Case:
    walls: list[float] = []
    tasks: list[float] = []
    full = chain.full

    def lading() -> float:
        chain.raw.change(count)
        cost = run_measured(chain.config)
        walls.append(cost.wall)
        tasks.append(cost.tasks)
        return cost.tasks / full.tasks

    name = f"{count} of {chain.raw.files:,} files, {chain.layout}"
    contenders = [
        Contender("lading", "lading", _ready(lading)),
        Contender("deltalake MERGE", "peer", _ready(partial(delta, count)), budget=30),
    ]
    measured = kit.contest(contenders, what=name)
    measured = {**measured, "full refresh": rebuild} if kit.with_peers else measured
    clauses: list[Clause] = [at_most(1, "≤ the full refresh", unit="x")]
    if count == 1:
        clauses = [at_most(chain.bar, f"≤ {chain.bar:g} % of the chain's Spark work", 100, " %")]
    extra = {
        "Spark work, s": statistics.median(tasks[1:] or [0.0]),  # without the warm-up
        "full refresh's Spark work, s": full.tasks,
        "run, s": statistics.median(walls[1:] or [0.0]),
        "full refresh, s": full.wall,
    }
    return Case(
        name, count, "of a full refresh", "lower", measured, clauses, chain.layout, extra if walls else {}
    )


def _project(folder: Path, raw: Files, layout: str, key: str, order: str) -> Config:
    folder.mkdir(parents=True, exist_ok=True)
    by_bucket = layout == "by bucket"
    size = DAYS if by_bucket else -(-raw.files * raw.rows // 64)
    ordered = f"    order_by: day\n    bucket_size: {DAYS}\n" if by_bucket else ""
    text = f"spark:\n  master: local[{projects.CORES}]\ntables:\n"
    text += _VOYAGES.format(root=raw.folder, order=order, size=size)
    text += _TONNAGE.format(by="bucket" if by_bucket else key, key=key, order=ordered)
    (folder / "lading.yaml").write_text(text)
    return load(folder)


def _ready(turn: Turn) -> Any:
    @contextmanager
    def ready() -> Iterator[Turn]:
        yield turn

    return ready


@contextmanager
def _by_hand(kit: Kit, raw: Files, key: str) -> Iterator[Any]:
    """A function that brings three Delta tables up to date with so many files: the share that it took of
    writing them in full. They are made when it is first called, so that one that can't be fails as a peer."""
    folder = kit.work / "delta-chain"
    full: list[float] = []

    def fill() -> None:
        from deltalake import write_deltalake

        begun = time.perf_counter()
        voyages = pa.concat_tables([raw.read(number) for number in range(raw.files)])
        tonnage = _tonnage(voyages, key)
        for name, rows in (("voyages", voyages), ("tonnage", tonnage), ("summary", _summary(tonnage, key))):
            write_deltalake(folder / name, rows, mode="overwrite")
        full.append(time.perf_counter() - begun)

    def follow(count: int) -> float:
        from deltalake import write_deltalake

        if not full:
            for _ in range(3):
                fill()
        numbers = raw.change(count)
        begun = time.perf_counter()
        rows = pa.concat_tables([raw.read(number) for number in numbers])
        predicate = f"source IN ({', '.join(map(str, numbers))})"
        old = _select(folder / "voyages", f"select {key} from t where {predicate}")
        keys = pc.unique(pa.concat_arrays([*rows[key].chunks, *old[key].chunks])).to_pylist()
        write_deltalake(folder / "voyages", rows, mode="overwrite", predicate=predicate)
        mine = f"select * from t where {key} in ({', '.join(map(repr, keys))})"
        voyages = _select(folder / "voyages", mine)
        tonnage = _tonnage(voyages, key)
        _merge(folder / "tonnage", tonnage, [key, "ship"], key, keys)
        again = _select(folder / "tonnage", mine)
        _merge(folder / "summary", _summary(again, key), [key], key, keys)
        return (time.perf_counter() - begun) / statistics.median(full)

    yield follow
    shutil.rmtree(folder, ignore_errors=True)


def _select(folder: Path, query: str) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    found = pa.table(QueryBuilder().register("t", DeltaTable(folder)).execute(query).read_all())
    plain = [pa.string() if pa.types.is_string_view(kind) else kind for kind in found.schema.types]
    return found.cast(pa.schema(list(zip(found.schema.names, plain, strict=True))))


def _merge(folder: Path, rows: pa.Table, on: list[str], key: str, keys: list[Any]) -> None:
    from deltalake import DeltaTable

    known = ", ".join(repr(one) for one in keys)
    merge = DeltaTable(folder).merge(
        rows,
        predicate=" and ".join(f"t.{name} = s.{name}" for name in on),
        source_alias="s",
        target_alias="t",
    )
    merge.when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_delete(
        f"t.{key} in ({known})"
    ).execute()


def _tonnage(voyages: pa.Table, key: str) -> pa.Table:
    found = voyages.group_by([key, "ship"]).aggregate(
        [("tonnes", "sum"), ("tonnes", "count"), ("departed", "max")]
    )
    return found.rename_columns([key, "ship", "tonnes", "voyages", "last"])


def _summary(tonnage: pa.Table, key: str) -> pa.Table:
    found = tonnage.group_by([key]).aggregate([("tonnes", "sum"), ("ship", "count"), ("last", "max")])
    return found.rename_columns([key, "tonnes", "ships", "last"])


JOB = Job("chain", "Tables made of tables follow their files", __doc__ or "", measure, budget=2_400)
