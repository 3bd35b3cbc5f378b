"""Whatever lies in a store, opening it is ManifestParseError or the table, in bounded time and memory."""

from __future__ import annotations

import random
import sqlite3
import tracemalloc
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.places import Place

import lading
from lading.errors import LadingError, ManifestParseError
from lading.log.table import Table
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot
from lading.snapshots.stores import files
from lading.snapshots.stores.postgres import store as postgres
from lading.state import sqlite as snapshot_file

NOW = datetime(2026, 4, 20, tzinfo=UTC)


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """A manifest that opens."""
    state = Table.create(tmp_path / "voyages", "voyages").state
    shards = [
        ShardMeta(db_id=n, db_url=f"s/{n}", attempt=0, row_count=1, min_key=1, max_key=2, db_bytes=9)
        for n in (0, 1)
    ]
    meta = BuildMeta(run_id="r1", created_at=NOW, num_dbs=2)
    return build_snapshot(meta, shards, lambda con: state.settled().write_root(con, state.meta))


def tampered(payload: bytes, script: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(payload)
        connection.executescript(script)
        return connection.serialize()


SCRIPTS = {
    "wrong version": "UPDATE build_meta SET format_version = 4",
    "no build": "DELETE FROM build_meta",
    "two builds": "INSERT INTO build_meta SELECT * FROM build_meta",
    "no shards table": "DROP TABLE shards",
    "shard out of range": "UPDATE shards SET db_id = 7 WHERE db_id = 1",
    "too many shards": "UPDATE build_meta SET num_dbs = 1",
    "huge blob": "UPDATE build_meta SET custom = zeroblob(20000000)",
    "view as shards": "DROP TABLE shards; CREATE VIEW shards AS SELECT 1 AS db_id",
    "view as pages": "DROP TABLE pages; CREATE VIEW pages AS SELECT 1 AS number",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON build_meta BEGIN DELETE FROM shards; END",
    "view beside": "CREATE VIEW harmless AS SELECT * FROM shards",
    "endless view": (
        "DROP TABLE build_meta; CREATE VIEW build_meta AS WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS run_id FROM n"
    ),
    "no state": "DROP TABLE lading",
}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_planted_manifest_is_refused_through_every_store(
    place: Place, whole: bytes, tmp_path: Path, name: str
) -> None:
    store = place.open()
    store.publish(whole, "whole", sequence=1)
    with lading.open(tmp_path / "voyages", store=store, fallbacks=0) as reader:
        assert reader.rows == 0
    store.publish(tampered(whole, SCRIPTS[name]), "planted", sequence=2)
    with pytest.raises(ManifestParseError) as caught:
        lading.open(tmp_path / "voyages", store=store, fallbacks=0)
    assert caught.value.hint


def test_what_a_stranger_adds_beside_is_kept_and_ignored(place: Place, whole: bytes, tmp_path: Path) -> None:
    planted = tampered(whole, "CREATE TABLE extra(x)")
    store = place.open()
    store.publish(planted, "planted", sequence=1)
    with lading.open(tmp_path / "voyages", store=store, fallbacks=0) as reader:
        assert reader.rows == 0
    assert store.load_manifest(store.list_manifests()[0].ref) == planted


def test_a_huge_manifest_costs_no_memory(place: Place, whole: bytes, tmp_path: Path, monkeypatch) -> None:
    """It is refused by its length, before it is fetched."""
    for module in (files, postgres, snapshot_file):
        monkeypatch.setattr(module, "SNAPSHOT_LIMIT", 1 << 20)
    store = place.open()
    huge = tampered(whole, "CREATE TABLE x AS SELECT zeroblob(12000000) AS y")
    store.publish(huge, "huge", sequence=1)
    if place.kind != "memory":  # which holds it in any case
        tracemalloc.start()
        with pytest.raises(ManifestParseError, match="more than"):
            lading.open(tmp_path / "voyages", store=store, fallbacks=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 << 20


def test_cut_off_and_flipped_bytes_are_an_error_of_ours_or_harmless(
    place: Place, whole: bytes, tmp_path: Path
) -> None:
    random.seed(7)
    broken = [whole[:16], whole[:100], whole[: len(whole) // 2], whole[1:], b"", b"{}"]
    for _ in range(8):
        flipped = bytearray(whole)
        for _ in range(20):
            flipped[random.randrange(16, len(flipped))] ^= 1 << random.randrange(8)
        broken.append(bytes(flipped))
    store = place.open()
    refused = 0
    for n, payload in enumerate(broken, start=1):
        published = store.publish(payload, f"r{n}", sequence=n)
        assert store.load_manifest(published.ref) == payload
        try:
            with lading.open(tmp_path / "voyages", store=store, fallbacks=0) as reader:
                reader.info()
        except LadingError:
            refused += 1
    assert refused >= 6
