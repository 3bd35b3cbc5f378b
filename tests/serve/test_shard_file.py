"""A shard as a file, and which of several attempts counts."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lading.errors import ShardCoverageError
from lading.serve.build.on_spark import select_winners
from lading.serve.shard_file import DDL, ShardWriter, engine_errors
from lading.snapshots.manifest import ShardMeta, WriterInfo

pytestmark = pytest.mark.usefixtures("engine")


def rows_of(path: Path) -> list[tuple[bytes, bytes]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as con:
        assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert [sql for (sql,) in con.execute("SELECT sql FROM sqlite_master")] == [DDL]
        return con.execute("SELECT k, v FROM kv").fetchall()


@pytest.mark.parametrize("count", [1, 99, 100, 101, 1234])
def test_rows_come_back_in_key_order_and_the_checksum_is_the_files(tmp_path: Path, count: int) -> None:
    path = tmp_path / "shard.db"
    keys = [number.to_bytes(8, "big") for number in range(count)]
    writer = ShardWriter(path)
    half = count // 2
    writer.add(keys[:half], [key[::-1] for key in keys[:half]])
    writer.add(keys[half:], [key[::-1] for key in keys[half:]])
    written = writer.finish()
    assert rows_of(path) == [(key, key[::-1]) for key in keys]
    assert (written.rows, written.first, written.last) == (count, keys[0], keys[-1])
    assert written.size == path.stat().st_size
    assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [file.name for file in tmp_path.iterdir()] == ["shard.db"]


def test_the_same_rows_are_the_same_file(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        writer = ShardWriter(tmp_path / name)
        writer.add([b"a", b"b"], [b"1", b"2"])
        digests.append(writer.finish().sha256)
    assert digests[0] == digests[1]


def test_a_key_that_comes_twice_is_never_written(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path / "shard.db")
    with pytest.raises(engine_errors(), match="UNIQUE"):
        writer.add([b"a", b"a"], [b"1", b"2"])
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def attempt(db_id: int, attempt: int, task: int | None, url: str | None) -> ShardMeta:
    return ShardMeta(
        db_id=db_id, db_url=url, attempt=attempt, row_count=0, min_key=None, max_key=None, db_bytes=0,
        writer_info=WriterInfo(task_attempt_id=task),
    )  # fmt: skip


def test_the_winner_is_the_least_attempt_then_task_then_place() -> None:
    in_order = [
        attempt(0, 0, 3, "b"),
        attempt(0, 0, 4, "a"),
        attempt(0, 0, None, None),
        attempt(0, 0, None, "a"),
        attempt(0, 1, 0, "a"),
    ]
    for several in itertools.combinations(in_order, 2):
        for given in (several, several[::-1]):
            assert select_winners(given, {0}) == (several[0],)


def test_a_shard_without_a_winner_is_an_error_that_names_it() -> None:
    with pytest.raises(ShardCoverageError, match="shards 1, 3 of 4"):
        select_winners([attempt(0, 0, 1, "a"), attempt(2, 0, 2, "b")], range(4))
    with pytest.raises(ShardCoverageError, match="built without being asked for: shard 7"):
        select_winners([attempt(0, 0, 1, "a"), attempt(7, 0, 2, "b")], [0])
