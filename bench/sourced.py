"""A table that has read many small files: the files are real, its rows are only told of.

Planning and recording never look at rows, so the log is told in one commit that all files were read. The
source manifest is then written by a run, which finds it behind the log and rolls it forward. No Spark.

Only the first member has a part. It is published alone before the others are told of: what was shown to
Iceberg readers once is known to be as it should be, so no later publish opens a footer, and the made-up
members are shown to them as real ones are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from bench import projects
from bench.fixtures import AT, code_of, kept
from lading.config.file import load
from lading.config.project import Config
from lading.ingest.look import look
from lading.ingest.release import release
from lading.ingest.tasks.task import table_schema
from lading.log.table import Table
from lading.model import Column, Commit, FoundFile, Member, Source, Zone
from lading.parts.field_ids import numbered
from lading.run import RunReport
from lading.sources.fingerprint import source_id
from lading.watch import Watch

FOLDERS = 1_000
MANY = 1_000_000
OLD = 1_500_000_000  # seconds
EMPTY = "empty-manifest.json"  # the source manifest as it was before anything was read
_CONTENT = b"a\n1\n"
_SHA256 = hashlib.sha256(_CONTENT).hexdigest()
_TABLE = ('path: "**/*.csv"', "format: csv", "order_by: a", "bucket_size: 1000000000")


def project(data: Path, size: int, members: int = 0) -> Config:
    """`size` files in up to 1,000 folders, all of them read, and `members` members that hold their rows."""
    made_by = code_of(".") + f"{size} {members} 6"
    folder = kept(data, f"sourced-{size}-{members}", made_by, lambda at: _fill(at, size, members))
    config = load(folder)
    projects.run_once(config)  # files that were made elsewhere are compared by content, once
    table = Table.open(config.place(projects.TABLE))
    if table.checkpoint_sequence < table.state.sequence:  # what that run noted of them
        table.checkpoint()
    table.close()
    return config


def shared(data: Path, size: int) -> Config:
    """For jobs that ask no question about members: of a million files there is one project, with as many
    members, since it takes minutes to make."""
    return project(data, size, members=size if size >= MANY else 0)


def nothing_to_do(report: RunReport) -> None:
    if report.error is not None:
        raise report.error
    verdicts = {name for name, count in report.tables[0].verdicts.items() if count}
    assert not report.spark_started and verdicts == {"unchanged"}, verdicts


def _fill(at: Path, size: int, members: int) -> None:
    config = projects.make(at, {"a": "bigint"}, _TABLE)
    (at / "data").mkdir()
    table = Table.create(config.place(projects.TABLE), projects.TABLE)
    projects.run_once(config)  # writes the empty source manifest
    (at / EMPTY).write_bytes(config.source_manifest(projects.TABLE).read_bytes())
    _make_files(at / "data", size)
    seen = look(config, projects.TABLE, watch=Watch())
    sources = _sources(seen.found)
    recipe = seen.recipe or ""
    if members:
        _publish_one(config, table, recipe, sources[0])
    add = tuple(_member(number, sources[number]) for number in range(min(members, 1), members))
    table.commit(Commit("c", "r", AT, recipe, add=add, sources=sources))
    table.checkpoint()
    table.close()
    projects.run_once(config)  # rolls the source manifest forward


def _publish_one(config: Config, table: Table, recipe: str, source: Source) -> None:
    schema = numbered(table_schema([Column("a", "bigint")]))
    first = _member(0, source)
    path = Path(str(config.place(projects.TABLE))) / first.path
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table([[1], [source.id]], schema=schema), path)
    told = schema.serialize().to_pybytes()
    first = msgspec.structs.replace(first, bytes=path.stat().st_size)
    table.commit(Commit("b", "r", AT, recipe, add=(first,), sources=(source,), schema=told, order_by="a"))
    released = release(
        config, config.tables[projects.TABLE], table, "first", session=_no_spark, watch=Watch(), kept=set()
    )
    assert released.note is None and released.published is not None


def _no_spark() -> NoReturn:
    raise AssertionError("there is no transform and no gate")


def _make_files(root: Path, size: int) -> None:
    for folder in range(min(FOLDERS, size)):
        below = root / f"{folder:04d}"
        below.mkdir()
        for number in range(folder, size, FOLDERS):
            path = below / f"data-{number:07d}.csv"
            path.write_bytes(_CONTENT)
            os.utime(path, (OLD + number, OLD + number))  # no two alike, as in real life


def _sources(found: Sequence[FoundFile]) -> tuple[Source, ...]:
    return tuple(
        Source(source_id(f.key), f.key, f.hash, _SHA256, f.size, f.mtime_ns, 1, False, AT) for f in found
    )


def _member(number: int, source: Source) -> Member:
    return Member(
        path=f"bucket=000000/part-{number:08d}.parquet", rows=1, bytes=1_000, bucket=0,
        tick_min=1, tick_max=1, key_min=1, key_max=1, created_at=AT,
        zones={"a": Zone(1, 1, 0)}, sources=((source.id, 1),),
    )  # fmt: skip
