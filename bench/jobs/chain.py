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
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from bench import projects
from bench.bars import at_most
from bench.case import Case, Job, Kit
from bench.changes import Changes, RawFiles, by_hand, full_builds
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
        return self.sourced(number, pyarrow.csv.read_csv(self.path(number)))


def measure(kit: Kit) -> Iterator[Case]:
    files, rows = kit.pick(1_000, 100, 10), kit.pick(5_000, 500, 50)
    projects.start_session(kit.work)
    for layout, (key, order, percent) in CUTS.items():
        kit.tell(f"{layout}: files")
        raw = Files(kit.work / "raw", files, rows)
        raw.write_all()
        config = _project(kit.work / "chain", raw, layout, key, order)
        full = full_builds(kit, config, layout)
        bar = at_most(percent, f"≤ {percent:g} % of the chain's Spark work", 100, " %")
        delta = kit.work / "delta-chain"
        with by_hand(delta, raw, partial(_fill, raw, key), partial(_follow, raw, key)) as share:
            changes = Changes(raw, config, full, layout, bar, "full refresh", "deltalake MERGE", share)
            for count in kit.sizes([1, 10, 100], [1, 10], [1]):
                yield changes.case(kit, count)
        shutil.rmtree(config.project)
        shutil.rmtree(raw.folder)


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


def _fill(raw: Files, key: str, folder: Path) -> None:
    from deltalake import write_deltalake

    voyages = raw.read_several(range(raw.files))
    tonnage = _tonnage(voyages, key)
    for name, rows in (("voyages", voyages), ("tonnage", tonnage), ("summary", _summary(tonnage, key))):
        write_deltalake(folder / name, rows, mode="overwrite")


def _follow(raw: Files, key: str, folder: Path, numbers: list[int]) -> None:
    from deltalake import write_deltalake

    rows = raw.read_several(numbers)
    predicate = f"source IN ({', '.join(map(str, numbers))})"
    old = _select(folder / "voyages", f"select {key} from t where {predicate}")
    keys = pc.unique(pa.concat_arrays([*rows[key].chunks, *old[key].chunks])).to_pylist()
    write_deltalake(folder / "voyages", rows, mode="overwrite", predicate=predicate)
    mine = f"select * from t where {key} in ({', '.join(map(repr, keys))})"
    _merge(folder / "tonnage", _tonnage(_select(folder / "voyages", mine), key), [key, "ship"], key, keys)
    _merge(folder / "summary", _summary(_select(folder / "tonnage", mine), key), [key], key, keys)


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
