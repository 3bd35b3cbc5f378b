"""Shards in a bucket: fetched once into a bounded cache that processes share, or read by ranges."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.handmade import ServedTable
from support.servers import S3Server

import lading
from lading.errors import ConfigError, ShardError
from lading.serve.open import ranges as shard_ranges
from lading.serve.open.cache import ShardCache
from lading.snapshots.manifest import ShardMeta
from lading.snapshots.stores.files import BucketStore
from lading.storage.bucket import ObjectStorage


class Bucket:
    """A served table in a bucket of its own; `requests` counts what is asked of its objects."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        self.server = server
        self.url = f"{server.bucket(f'shards-{uuid.uuid4().hex[:12]}')}/warehouse/ships"
        self.folder = folder
        self.store = BucketStore(self.url, server.options())
        self.table = ServedTable(folder / "ships", num_dbs=4, store=self.store, storage=self.store.storage)
        self.cache = folder / "cache"

    def publish(self, count: int = 200, mark: str = "") -> dict[int, bytes]:
        values = {key: b"%d%s" % (key, mark.encode()) for key in range(count)}
        self.table.publish(values)
        return values

    def open(self, **options: Any) -> lading.Reader:
        store = BucketStore(self.url, self.server.options())
        return lading.open(self.table.root, store, cache=self.cache, **options)

    def cached(self) -> list[Path]:
        return sorted(self.cache.glob("*.db"))


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> Bucket:
    return Bucket(s3_server, tmp_path)


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    seen: list[str] = []
    plain = ObjectStorage.download

    def counted(self: ObjectStorage, name: str, file: Path) -> None:
        seen.append(name)
        plain(self, name, file)

    monkeypatch.setattr(ObjectStorage, "download", counted)
    yield seen


def test_shards_are_fetched_once_and_then_shared(bucket: Bucket, downloads: list[str]) -> None:
    values = bucket.publish()
    for _ in range(3):
        with bucket.open() as reader:
            assert reader.multi_get(values) == values
            assert all(reader.get(key) == value for key, value in values.items())
    assert len(downloads) == len(set(downloads)) == 4
    assert [path.stem for path in bucket.cached()] == [
        hashlib.sha256(path.read_bytes()).hexdigest() for path in bucket.cached()
    ]


def test_nothing_is_fetched_before_it_is_asked(bucket: Bucket, downloads: list[str]) -> None:
    bucket.publish()
    with bucket.open() as reader:
        assert reader.info()["serve"]["keys"] == 200
        assert reader.health()["status"] == "ok"
        assert downloads == []
        reader.get(1)
        assert len(downloads) == 1


def test_sixteen_threads_fetch_a_shard_once(bucket: Bucket, downloads: list[str]) -> None:
    values = bucket.publish()
    wrong: list[int] = []

    def ask() -> None:
        wrong.extend(key for key, value in values.items() if reader.get(key) != value)

    with bucket.open() as reader:
        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == [] and len(downloads) == 4


@pytest.mark.parametrize("how", ["wrong", "short", "missing"])
def test_a_wrong_object_never_answers(bucket: Bucket, how: str) -> None:
    bucket.publish()
    with bucket.open() as reader:
        shard = reader.shards()[reader.route(1)]
        name = f"{str(shard.db_url).removeprefix(f'{bucket.store.url}/')}/shard.db"
        data = bucket.store.storage.get(name)
        bucket.store.storage.delete(name)
        if how != "missing":
            bad = data[:-4096] if how == "short" else data[:-1] + bytes([data[-1] ^ 1])
            bucket.store.storage.put_new(name, bad)
        with pytest.raises(ShardError):
            reader.get(1)
        assert reader.health(deep=True)["status"] == "failing"
        assert not any(path.name.endswith(".tmp") for path in bucket.cache.iterdir())
        assert bucket.cached() == [] or all(path.stem != shard.checkpoint_id for path in bucket.cached())


@pytest.mark.parametrize("how", ["flipped", "short", "empty"])
def test_a_damaged_file_in_the_cache_is_fetched_again(bucket: Bucket, downloads: list[str], how: str) -> None:
    values = bucket.publish()
    with bucket.open() as reader:
        reader.multi_get(values)
    for path in bucket.cached():
        data = path.read_bytes()
        path.write_bytes({"flipped": data[:-1] + b"\xff", "short": data[:100], "empty": b""}[how])
    with bucket.open() as reader:
        assert reader.multi_get(values) == values
    assert len(downloads) == 8


def test_the_cache_is_bounded_and_what_was_used_last_stays(bucket: Bucket, downloads: list[str]) -> None:
    values = bucket.publish()
    with bucket.open() as reader:
        size = max(shard.db_bytes for shard in reader.shards())
    with bucket.open(cache_bytes=2 * size) as reader:
        for key, value in values.items():
            assert reader.get(key) == value
            assert sum(path.stat().st_size for path in bucket.cached()) <= 2 * size
        assert reader.multi_get(values) == values
        assert len(bucket.cached()) <= 2
        assert sum(shard.leased for shard in reader._view.keys.opened()) <= 2 * size
    assert len(downloads) > 4


def test_what_somebody_reads_is_not_removed(tmp_path: Path) -> None:
    """Two caches over one folder stand for two processes: locks are by open file."""
    mine, yours = ShardCache(tmp_path, 10), ShardCache(tmp_path, 10)

    def content(number: int) -> tuple[str, int, Any]:
        data = b"%07d" % number
        return hashlib.sha256(data).hexdigest(), len(data), lambda path: path.write_bytes(data)

    held = mine.lease(*content(1))
    yours.lease(*content(2)).release()
    assert held.path.read_bytes() == b"0000001"
    assert len(list(tmp_path.glob("*.db"))) == 2  # over the limit by what is in use
    held.release()
    yours.lease(*content(3)).release()
    assert [path.read_bytes() for path in tmp_path.glob("*.db")] == [b"0000003"]
    assert len(list(tmp_path.glob("*.used"))) == 1


def test_a_download_that_takes_hours_is_not_taken_for_abandoned(tmp_path: Path) -> None:
    mine, yours = ShardCache(tmp_path), ShardCache(tmp_path)
    data, other = b"slow", b"quick"

    def slowly(path: Path) -> None:
        path.write_bytes(data)
        os.utime(path, (1_000, 1_000))
        yours.lease(hashlib.sha256(other).hexdigest(), 5, lambda path: path.write_bytes(other)).release()

    left = tmp_path / f".{'ab' * 32}.{'0' * 32}.tmp"  # by a process that was killed
    left.write_bytes(b"sl")
    os.utime(left, (1_000, 1_000))
    held = mine.lease(hashlib.sha256(data).hexdigest(), 4, slowly)
    assert held.path.read_bytes() == data and not left.exists()
    held.release()


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = ShardCache(tmp_path, 21)

    def lease(number: int) -> None:
        data = b"%07d" % number
        held = cache.lease(hashlib.sha256(data).hexdigest(), 7, lambda path: path.write_bytes(data))
        held.release()
        os.utime(held.path.with_suffix(".used"), (clock[0], clock[0]))
        clock[0] += 10

    clock = [1_000]
    for number in (1, 2, 3, 1, 4):
        lease(number)
    assert {path.read_bytes() for path in tmp_path.glob("*.db")} == {b"0000001", b"0000003", b"0000004"}


_ELSEWHERE = """
import sys
import lading
from lading.snapshots.stores.files import BucketStore
endpoint, url, root, cache, limit = sys.argv[1:]
keys = {"access_key_id": "a", "secret_access_key": "b"}
options = {"endpoint": endpoint, "region": "us-east-1", "allow_http": "true", **keys}
for _ in range(3):
    with lading.open(root, BucketStore(url, options), cache=cache, cache_bytes=int(limit)) as reader:
        for key in range(200):
            assert reader.get(key) == b"%d" % key, key
print("right")
"""


def test_processes_share_a_cache_that_is_too_small_for_them(bucket: Bucket) -> None:
    bucket.publish()
    with bucket.open() as reader:
        limit = 2 * max(shard.db_bytes for shard in reader.shards())
    arguments = [bucket.server.endpoint, bucket.url, str(bucket.table.root), str(bucket.cache), str(limit)]
    found = [
        subprocess.Popen([sys.executable, "-c", _ELSEWHERE, *arguments], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=120)[0] for process in found] == ["right\n"] * 3
    assert not list(bucket.cache.glob(".*.tmp"))


def test_a_shard_above_the_limit_is_read_where_it_lies(bucket: Bucket, downloads: list[str]) -> None:
    values = bucket.publish(20_000)
    with bucket.open(ranges_above=0) as reader:
        assert reader.get(7) == b"7"
        assert reader.get(20_000) is None
        keys = range(0, 20_500, 7)
        assert reader.multi_get(keys) == {key: values.get(key) for key in keys}
        [one] = {shard.near for shard in reader._view.keys.opened()}
        assert one is False
    assert downloads == [] and not bucket.cache.exists()
    assert shard_ranges._objects == {}


def test_a_lookup_by_ranges_asks_for_little(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.table.num_dbs = 1
    bucket.table.publish(dict.fromkeys(range(30000), b"x" * 100))
    asked: list[int] = []
    plain = ObjectStorage.get_range

    def counted(self: ObjectStorage, name: str, start: int, length: int, **options: Any) -> bytes:
        asked.append(length)
        return plain(self, name, start, length, **options)

    monkeypatch.setattr(ObjectStorage, "get_range", counted)
    with bucket.open(ranges_above=0) as reader:
        assert reader.get(15_000) == b"x" * 100
        assert sum(asked) < reader.shards()[0].db_bytes / 10
        before = len(asked)
        assert reader.get(15_000) == b"x" * 100
        assert len(asked) == before


@pytest.mark.parametrize("same_size", [True, False])
def test_an_object_that_is_replaced_while_it_is_read_by_ranges_is_noticed(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, same_size: bool
) -> None:
    bucket.table.num_dbs = 1
    bucket.table.publish(dict.fromkeys(range(30000), b"x" * 100))
    with bucket.open(ranges_above=0) as reader:
        assert reader.get(1) == b"x" * 100
        name = f"{str(reader.shards()[0].db_url).removeprefix(f'{bucket.store.url}/')}/shard.db"
        data = bucket.store.storage.get(name)
        bucket.store.storage.delete(name)
        bucket.store.storage.put_new(name, data.replace(b"x", b"y") if same_size else data[:-4096])
        with pytest.raises(ShardError):
            reader.get(29_999)
    if not same_size:
        with bucket.open(ranges_above=0) as reader, pytest.raises(ShardError, match="bytes"):
            reader.get(1)


def test_a_table_is_opened_by_its_url(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    values = bucket.publish()
    for name, value in {
        "AWS_ENDPOINT_URL": bucket.server.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_ALLOW_HTTP": "true",
        "LADING_CACHE": str(bucket.cache),
    }.items():
        monkeypatch.setenv(name, value)
    with lading.open(bucket.url) as reader:
        assert reader.multi_get(values) == values
        with pytest.raises(ConfigError, match="not its parts"):
            reader.scan()
    for wrong in ("s3://bucket", "http://x/y", "s3://bucket/"):
        with pytest.raises(ConfigError):
            lading.open(wrong)


def test_a_place_outside_of_the_bucket_is_never_asked(bucket: Bucket) -> None:
    bucket.publish()
    with bucket.open() as reader:
        known = reader.shards()[0]
        for url in ("s3://elsewhere/x", f"{bucket.store.url}/../x", f"{bucket.store.url}x/y", "file:///etc"):
            shard = ShardMeta(
                db_id=0, db_url=url, attempt=0, row_count=1, min_key=None, max_key=None,
                checkpoint_id=known.checkpoint_id, db_bytes=known.db_bytes,
            )  # fmt: skip
            with pytest.raises(ShardError, match="not below"):
                reader._view.keys.places.open(shard)
