"""A shard file that isn't the published one is noticed before it answers, wherever it lies."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.handmade import ServedTable, shard_bytes

import lading
from lading.errors import ShardError
from lading.serve.open import file as shard_file
from lading.snapshots.manifest import ShardMeta


@pytest.fixture
def table(tmp_path: Path) -> ServedTable:
    table = ServedTable(tmp_path / "ships", num_dbs=2)
    table.publish(dict.fromkeys(range(200), b"right"))
    return table


@pytest.fixture
def target(table: ServedTable) -> Path:
    """The file that holds key 0."""
    with lading.open(table.root) as reader:
        [shard] = [one for one in reader.shards() if one.db_id == reader.route(0)]
    return table.file(shard)


def wrong_value(path: Path, table: ServedTable) -> None:
    data = path.read_bytes()
    assert b"right" in data
    path.write_bytes(data.replace(b"right", b"wrong"))


def truncated(path: Path, table: ServedTable) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def longer(path: Path, table: ServedTable) -> None:
    with open(path, "ab") as file:
        file.write(b"\0" * 4096)


def swapped(path: Path, table: ServedTable) -> None:
    """With the other shard, which is just as long."""
    with lading.open(table.root) as reader:
        one, other = (table.file(shard) for shard in reader.shards())
    assert one.stat().st_size == other.stat().st_size
    beside = path.with_name("beside")
    one.rename(beside)
    other.rename(one)
    beside.rename(other)


def missing(path: Path, table: ServedTable) -> None:
    path.unlink()


def linked_out(path: Path, table: ServedTable) -> None:
    """The right bytes, but outside of the table."""
    outside = table.root.parent / "outside.db"
    path.rename(outside)
    path.symlink_to(outside)


def no_database(path: Path, table: ServedTable) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


DAMAGES = [wrong_value, truncated, longer, swapped, missing, linked_out, no_database]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_wrong_file_never_answers(table: ServedTable, target: Path, damage: Callable[..., None]) -> None:
    damage(target, table)
    with lading.open(table.root) as reader:
        for _ in range(2):
            with pytest.raises(ShardError) as caught:
                reader.get(0)
            assert caught.value.hint
        with pytest.raises(ShardError):
            reader.multi_get([0])
        assert reader.health(deep=True)["status"] == "failing"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_was_proven_and_then_changed_is_noticed_by_the_next_reader(
    table: ServedTable, target: Path, damage: Callable[..., None]
) -> None:
    old = target.stat()
    os.utime(target, ns=(old.st_atime_ns, old.st_mtime_ns - 10_000_000_000))
    with lading.open(table.root) as reader:
        assert reader.get(0) == b"right"
    times = target.stat()
    damage(target, table)
    if target.exists():  # whoever did it may have put the time back
        os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
    with lading.open(table.root) as reader, pytest.raises(ShardError):
        reader.get(0)


@pytest.mark.parametrize("damage", [truncated, longer, missing])
def test_health_sees_a_missing_or_short_file_without_reading_any(
    table: ServedTable, target: Path, damage: Callable[..., None]
) -> None:
    with lading.open(table.root) as reader:
        assert reader.health()["status"] == "ok"
        damage(target, table)
        found = reader.health()
    assert found["status"] == "failing"
    assert len(found["problems"]) == 1 and str(target) in found["problems"][0]


def test_a_file_is_hashed_once_a_process(
    table: ServedTable, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = []
    digest = shard_file.hashlib.file_digest
    monkeypatch.setattr(shard_file.hashlib, "file_digest", lambda *a: hashed.append(a) or digest(*a))
    monkeypatch.setattr(shard_file, "_RACY_NS", 0)
    for _ in range(3):
        with lading.open(table.root) as reader:
            assert reader.get(0) == b"right"
    assert len(hashed) == 1


def test_a_file_that_is_replaced_between_two_connections_is_noticed(table: ServedTable, target: Path) -> None:
    with lading.open(table.root) as reader:
        assert reader.get(0) == b"right"
        shard = next(one for one in reader._view.keys.opened() if one.location == str(target.resolve()))
        beside = target.with_name("new")
        shutil.copy(target, beside)
        os.replace(beside, target)
        assert reader.get(0) == b"right"  # from the file that is open
        with pytest.raises(ShardError, match="it was replaced"):
            shard.cursor()
        assert reader.get(0) == b"right"


def test_a_shard_that_is_no_plain_table_is_refused(target: Path) -> None:
    """A manifest may be a stranger's, checksum included: no view of theirs is ever run."""
    target.unlink()
    with closing(sqlite3.connect(target)) as connection, connection:
        connection.execute("CREATE VIEW kv AS SELECT x'0000000000000000' AS k, 'evil' AS v")
    data = target.read_bytes()
    identity = shard_file.proven(target, len(data), hashlib.sha256(data).hexdigest())
    with pytest.raises(ShardError, match="not a plain table"):
        shard_file.connect(target, identity)


@pytest.mark.parametrize("url", ["../x", "/etc", "a/../../x", "shards//x", "a/./b", "", "s3://b/x", "a\0b"])
def test_a_place_outside_of_the_table_is_never_opened(table: ServedTable, url: str) -> None:
    with lading.open(table.root) as reader:
        places = reader._view.keys.places
        wanted = reader.shards()[0]
        shard = ShardMeta(
            db_id=0, db_url=url or None, attempt=0, row_count=1, min_key=None, max_key=None,
            checkpoint_id=wanted.checkpoint_id, db_bytes=wanted.db_bytes,
        )  # fmt: skip
        with pytest.raises(ShardError):
            places.open(shard)
        with pytest.raises(ShardError):
            places.look(shard)


@pytest.mark.parametrize("checksum", [None, "", "abc", "Z" * 64])
def test_a_shard_without_a_checksum_is_not_trusted(table: ServedTable, checksum: str | None) -> None:
    with lading.open(table.root) as reader:
        wanted = reader.shards()[0]
        shard = ShardMeta(
            db_id=0, db_url=wanted.db_url, attempt=0, row_count=1, min_key=None, max_key=None,
            checkpoint_id=checksum, db_bytes=wanted.db_bytes,
        )  # fmt: skip
        with pytest.raises(ShardError, match="no SHA-256"):
            reader._view.keys.places.open(shard)


def test_equal_rows_are_equal_files() -> None:
    rows = {bytes([n]): b"x" for n in range(50)}
    assert shard_bytes(rows) == shard_bytes(dict(reversed(rows.items())))


def test_a_file_that_breaks_while_it_is_open_is_an_error_and_the_shard_goes_on(
    table: ServedTable, target: Path, engine: str
) -> None:
    """A cursor that failed is closed, not lent again."""
    with lading.open(table.root) as reader:
        assert reader.get(0) == b"right"
        shard = next(one for one in reader._view.keys.opened() if one.location == str(target.resolve()))
        [cursor] = shard.idle
        assert type(cursor).__module__ == engine
        cursor.connection.close()
        for ask in (lambda: reader.get(0), lambda: reader.multi_get([0])):
            shard.idle[:] = [cursor]
            with pytest.raises(ShardError, match="can't be read"):
                ask()
            assert shard.idle == []
        assert reader.get(0) == b"right"
