"""Sixteen threads ask while snapshots are published, taken over, cleaned away and evicted: every answer is
right for the snapshot it claims."""

from __future__ import annotations

import itertools
import random
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from support.handmade import ServedTable
from support.servers import S3Server

import lading
from lading.snapshots.stores.files import BucketStore

KEYS = 60


class Storm:
    """Values tell the key and the snapshot they are of, so that any answer can be judged by itself."""

    def __init__(self, table: ServedTable, reader: lading.Reader) -> None:
        self.table = table
        self.reader = reader
        self.wrong: list[str] = []
        self.answers = 0
        self.ended = threading.Event()

    def values(self, sequence: int) -> dict[int, bytes]:
        """Every third key changes with every snapshot, so that some shards stay and some don't."""
        return {key: b"%d of %d" % (key, sequence - (sequence + key // 8) % 3) for key in range(KEYS)}

    def publish(self) -> None:
        self.table.publish(self.values(self.table.sequence + 1))

    def ask(self, seed: int) -> None:
        chance = random.Random(seed)
        try:
            while not self.ended.is_set():
                if seed == 0:
                    self.reader.refresh()
                elif seed % 2:
                    self._one(chance.randrange(KEYS))
                else:
                    self._many(chance.sample(range(KEYS), 12))
        except BaseException as error:
            self.wrong.append(repr(error))
            raise

    def _one(self, key: int) -> None:
        before = self.reader.snapshot.sequence
        value = self.reader.get(key)
        after = self.reader.snapshot.sequence
        self.answers += 1
        if not any(value == self.values(number)[key] for number in range(before, after + 1)):
            self.wrong.append(f"{key}: {value!r} between {before} and {after}")

    def _many(self, keys: list[int]) -> None:
        before = self.reader.snapshot.sequence
        found = self.reader.multi_get(keys)
        after = self.reader.snapshot.sequence
        self.answers += 1
        expected = [{key: self.values(number)[key] for key in keys} for number in range(before, after + 1)]
        if found not in expected:
            self.wrong.append(f"{found} between {before} and {after}")

    def rage(self, seconds: float, clean: Callable[[], None]) -> None:
        """At least five snapshots, and as many more as the time allows."""
        threads = [threading.Thread(target=self.ask, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        begin, patience = time.monotonic(), sys.getswitchinterval()
        sys.setswitchinterval(1e-4)  # the one thread that publishes has fifteen others against it
        try:
            for done in itertools.count():
                if self.wrong or (done >= 5 and time.monotonic() - begin > seconds):
                    break
                self.publish()
                self.reader.refresh()
                clean()
        finally:
            sys.setswitchinterval(patience)
            self.ended.set()
            for thread in threads:
                thread.join()
        assert self.wrong == []
        assert self.reader.snapshot.sequence == self.table.sequence
        assert self.answers > 100


@pytest.mark.filterwarnings("error")
def test_local_shards_in_a_storm(tmp_path: Path) -> None:
    table = ServedTable(tmp_path / "ships", num_dbs=6)
    table.publish({key: b"%d of %d" % (key, 1 - (1 + key // 8) % 3) for key in range(KEYS)})

    def clean() -> None:
        """Without any mercy for readers that are behind: what the current snapshot doesn't name goes."""
        current = table.store.load_current()
        assert current is not None
        for one in table.store.list_manifests():
            if one.ref != current.ref:
                shutil.rmtree((table.root / one.ref).parent)
        named = {str(shard.db_url) for _, shard in table.shards.values()}
        for file in (table.root / "shards").glob("*/*/*/shard.db"):
            if str(file.parent.relative_to(table.root)) not in named:
                file.unlink()

    with lading.open(table.root) as reader:
        Storm(table, reader).rage(6, clean)
        shards = reader._view.keys.opened()
    assert all(shard.idle == [] and shard.retired for shard in shards)


def test_fetched_shards_in_a_storm(tmp_path: Path, s3_server: S3Server) -> None:
    """The cache holds two of six shards, so that asking for one means evicting another."""
    url = f"{s3_server.bucket(f'storm-{uuid.uuid4().hex[:12]}')}/w/ships"
    store = BucketStore(url, s3_server.options())
    table = ServedTable(tmp_path / "ships", num_dbs=6, store=store, storage=store.storage)
    table.publish({key: b"%d of %d" % (key, 1 - (1 + key // 8) % 3) for key in range(KEYS)})
    size = max(shard.db_bytes for _, shard in table.shards.values())
    cache = tmp_path / "cache"

    def clean() -> None:
        named = {f"{shard.db_url}/shard.db" for _, shard in table.shards.values()}
        for one in list(store.storage.list("shards")):
            if f"{store.url}/{one.name}" not in named:
                store.storage.delete(one.name)

    with lading.open(table.root, store, cache=cache, cache_bytes=2 * size) as reader:
        Storm(table, reader).rage(6, clean)
    assert not list(cache.glob(".*.tmp"))
