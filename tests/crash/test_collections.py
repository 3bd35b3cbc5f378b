"""SIGKILL inside merge, compact, checkpoint, add and rebuild, at every write, sync and rename: before it
or after it, never in between; and what is committed afterwards stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lading
from lading.config.file import load as load_config
from lading.log.table import Table
from lading.model import Commit
from lading.parts.footer import Origin
from lading.parts.write import PartWriter
from lading.upkeep.merge import merge_table

ZYGOTE = Path(__file__).parents[1] / "support" / "zygote.py"


def write(path: Path, keys: list[int]) -> Path:
    pq.write_table(pa.table({"k": keys}), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three members, a checkpoint, and some history behind it; one more file that is no member."""
    place = tmp_path / "c"
    place.mkdir()
    files = [write(place / f"f{n}.parquet", [n * 10, n * 10 + 5]) for n in range(4)]
    collection = lading.Collection(place)
    collection.add(files[0], key="k")
    collection.compact()
    collection.add(*files[1:3])
    collection.tier("f2.parquet", 1)
    return place


def killed_everywhere(operation: str, folder: Path) -> list[Path]:
    """The folders that are left, one for each place that the operation was killed in."""
    command = [sys.executable, str(ZYGOTE), operation, str(folder)]
    lines = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=True
    ).stdout.splitlines()
    assert lines[-1] == "done", lines
    assert len(lines) > 1, "nothing was killed"
    return [Path(f"{folder}-{number}") for number in range(1, len(lines))]


def listing(folder: Path) -> tuple[list[str], list[int]]:
    found = lading.Collection(folder)
    rows = found.scan().to_table()["k"].to_pylist()
    assert found.check() == (len(found), [])
    return [member.path for member in found.members()], sorted(rows)


@pytest.mark.acceptance("T19", "T20")
@pytest.mark.parametrize("operation", ["merge", "compact", "checkpoint", "add", "rebuild"])
def test_killed_anywhere_there_is_all_of_it_or_nothing_and_later_commits_survive(folder, operation):
    before = (["f0.parquet", "f1.parquet", "f2.parquet"], [0, 5, 10, 15, 20, 25])
    after = {
        "merge": (["new.parquet", "f2.parquet"], before[1]),
        "add": ([*before[0], "f3.parquet"], [*before[1], 30, 35]),
    }.get(operation, before)
    if operation == "rebuild":
        damaged = bytearray((folder / "manifest.log").read_bytes())
        damaged[10] ^= 1  # the header: checkpoint and walk are what is left
        (folder / "manifest.log").write_bytes(damaged)
        before = after = (["f0.parquet"], [0, 5])
    seen = []
    for left in killed_everywhere(operation, folder):
        if operation == "rebuild":
            lading.Collection.rebuild(left)
        found = listing(left)
        assert found in (before, after)
        seen.append(found)
        collection = lading.Collection(left)
        collection.add(write(left / "later.parquet", [100]))
        collection.tier("later.parquet", 7)
        paths, rows = listing(left)
        assert paths == [*found[0], "later.parquet"] and rows == [*found[1], 100]
        collection.compact()
        assert listing(left) == (paths, rows)
    assert seen[0] == before
    if before != after:
        assert after in seen, "a kill behind the commit must find it done"


SCHEMA = pa.schema([("id", pa.int64()), ("_source", pa.int64())])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A table with two buckets of three parts each, some rows taken out by a `minus`; made without Spark."""
    place = tmp_path / "p"
    place.mkdir()
    (place / "lading.yaml").write_text(
        "tables:\n  events:\n    path: '*.csv'\n    format: csv\n    order_by: id\n"
    )
    table = Table.create(place / "warehouse" / "events", "events")
    for number in range(3):
        for bucket in range(2):
            origin = Origin(table.table_id, f"run-{number}", f"c{number}", "id")
            part = PartWriter(str(table.folder), bucket, SCHEMA, origin)
            keys = [bucket * 100 + number, bucket * 100 + number + 10]
            part.write(pa.table({"id": keys, "_source": [number, 9]}, schema=SCHEMA))
            first = {"schema": SCHEMA.serialize().to_pybytes(), "order_by": "id"}
            table.commit(Commit("c", f"run-{number}", "2024-01-01", "recipe", add=(part.close(),), **first))
    [hidden] = [m for m in table.state.candidates(None) if m.key_min == 1]
    table.commit(Commit("m", "run-9", "2024-01-01", "recipe", minus=((hidden.path, (9,)),)))
    return place


@pytest.mark.acceptance("T20")
def test_merging_a_table_killed_anywhere_keeps_every_row_once_and_is_completed_by_the_next(project):
    def rows(folder: Path) -> list[int]:
        return sorted(lading.Collection(folder / "warehouse" / "events").scan().to_table()["id"].to_pylist())

    before = rows(project)
    assert before == [0, 1, 2, 10, 12, 100, 101, 102, 110, 111, 112]
    for left in killed_everywhere("table", project):
        assert rows(left) == before
        merge_table(load_config(left), "events")
        assert rows(left) == before
        state = Table.open(left / "warehouse" / "events").state
        assert state.count() == 2 and not any(member.minus for member in state.candidates(None))
        with lading.open(left / "warehouse" / "events") as reader:
            assert (reader.rows, reader.info()["parts"]) == (len(before), 2)
