"""The network between a publisher and its store ends at the worst moments: before, between and after
each write, with the answer lost or the request never arriving, for a moment or for good."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from support.servers import PostgresServer, Proxy, S3Server

from lading.config.stores import PostgresNames
from lading.errors import (
    LadingError,
    ManifestStoreError,
    PublishCurrentError,
    PublishManifestError,
    StoreUnreachable,
)
from lading.snapshots.stores.files import BucketStore
from lading.snapshots.stores.postgres import connections as postgres_connections
from lading.snapshots.stores.postgres.store import PostgresStore
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage import bucket as objects


class Cut:
    """Ends the connection at the first request that holds `marker`; for good, also all after it."""

    def __init__(self, marker: bytes, side: str, *, for_good: bool = False) -> None:
        self.marker, self.side, self.for_good = marker, side, for_good
        self.hits = 0

    def __call__(self, data: bytes) -> str | None:
        if self.hits and self.for_good:
            return "before"
        if self.marker in data and not self.hits:
            self.hits += 1
            return self.side
        return None


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[Proxy]:
    proxy = Proxy(s3_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def postgres_proxy(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.3)
    proxy = Proxy(postgres_server.socket)
    yield proxy
    proxy.close()


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    return f"{s3_server.bucket('cuts')}/{uuid.uuid4().hex}"


S3_WRITES = [b"GET /cuts?", b"PUT /cuts/%s/manifests", b"GET /cuts/%s/_CURRENT", b"PUT /cuts/%s/_CURRENT"]


def marker_of(write: bytes, bucket: str) -> bytes:
    return write.replace(b"%s", bucket.rpartition("/")[2].encode())


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("write", S3_WRITES)
def test_a_cut_on_the_way_to_s3_is_made_up_for(
    s3_server: S3Server, s3_proxy: Proxy, bucket: str, write: bytes, side: str
) -> None:
    direct = BucketStore(bucket, s3_server.options())
    direct.publish(b"old", "old", sequence=1)
    store = BucketStore(bucket, s3_server.options(s3_proxy.endpoint))
    s3_proxy.cut = cut = Cut(marker_of(write, bucket), side)
    published = store.publish(b"new", "new", sequence=2)
    assert cut.hits == 1 and published.outcome == "current"
    assert direct.load_current() == published.current
    assert [listed.run_id for listed in direct.list_manifests()] == ["new", "old"]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("write", S3_WRITES)
def test_s3_that_is_gone_for_good_leaves_readers_a_whole_snapshot_and_the_next_publish_heals(
    s3_server: S3Server,
    s3_proxy: Proxy,
    bucket: str,
    write: bytes,
    side: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "RETRY", {**objects.RETRY, "max_retries": 1})
    direct = BucketStore(bucket, s3_server.options())
    old = direct.publish(b"old", "old", sequence=1)
    store = BucketStore(bucket, s3_server.options(s3_proxy.endpoint))
    s3_proxy.cut = Cut(marker_of(write, bucket), side, for_good=True)
    second_phase = b"_CURRENT" in write
    with pytest.raises(PublishCurrentError if second_phase else PublishManifestError) as caught:
        store.publish(b"new", "new", sequence=2)
    assert caught.value.hint
    seen = direct.load_current()
    if write == S3_WRITES[3] and side == "after":  # it was done, and nobody could be told
        assert seen is not None and direct.load_manifest(seen.ref) == b"new"
    else:
        assert seen == old.current and direct.load_manifest(old.ref) == b"old"
    if second_phase:
        assert direct.list_manifests()[0].run_id == "new"
    with pytest.raises(ManifestStoreError):
        store.load_current()
    assert direct.publish(b"next", "next", sequence=3).outcome == "current"


COMMIT = b"COMMIT\0"  # not "READ COMMITTED"
POSTGRES_STEPS = [
    b"idle_in_transaction_session_timeout",
    b"pg_advisory_xact_lock",
    b"to_regclass",
    b'_builds" (run_id',
    b'_pointer" ORDER BY',
    b'INSERT INTO "%s_t_pointer"',
    COMMIT,
]


@pytest.fixture
def prefix() -> str:
    return f"c{uuid.uuid4().hex[:8]}"


def state(server: PostgresServer, store: PostgresStore) -> list[list[tuple[Any, ...]]]:
    with psycopg.connect(server.url) as connection:
        return [
            connection.execute(
                sql.SQL("SELECT * FROM {} ORDER BY 1, 2").format(sql.Identifier(name))
            ).fetchall()
            for name in (store.tables.builds, store.tables.shards, store.tables.pointer)
        ]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", POSTGRES_STEPS)
def test_a_cut_inside_the_transaction_is_made_up_for(
    postgres_server: PostgresServer, postgres_proxy: Proxy, prefix: str, step: bytes, side: str
) -> None:
    names = PostgresNames(prefix=prefix)
    direct = PostgresStore(postgres_server.url, "t", names)
    direct.publish(b"old", "old", sequence=1)
    store = PostgresStore(postgres_server.url_through(postgres_proxy), "t", names)
    store.load_current()
    postgres_proxy.cut = cut = Cut(step.replace(b"%s", prefix.encode()), side)
    published = store.publish(b"new", "new", sequence=2)
    assert cut.hits == 1 and published.outcome == "current"
    assert direct.load_current() == published.current
    builds, _, pointer = state(postgres_server, direct)
    assert (len(builds), len(pointer)) == (2, 2)


@pytest.mark.acceptance("S17")
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", POSTGRES_STEPS)
def test_a_connection_broken_before_the_commit_leaves_all_three_tables_as_they_were(
    postgres_server: PostgresServer, postgres_proxy: Proxy, prefix: str, step: bytes, side: str
) -> None:
    names = PostgresNames(prefix=prefix)
    direct = PostgresStore(postgres_server.url, "t", names)
    old = direct.publish(b"old", "old", sequence=1)
    before = state(postgres_server, direct)
    store = PostgresStore(postgres_server.url_through(postgres_proxy), "t", names)
    store.load_current()
    postgres_proxy.cut = Cut(step.replace(b"%s", prefix.encode()), side, for_good=True)
    expected = PublishCurrentError if step == COMMIT else PublishManifestError
    with pytest.raises(expected) as caught:
        store.publish(b"new", "new", sequence=2)
    assert caught.value.hint and "sentinel" not in str(caught.value)
    if step == COMMIT and side == "after":  # it was done, and nobody could be told
        current = direct.load_current()
        assert current is not None and direct.load_manifest(current.ref) == b"new"
    else:
        assert state(postgres_server, direct) == before
        assert direct.load_current() == old.current
    assert direct.publish(b"next", "next", sequence=3).outcome == "current"


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_rollback_whose_answer_got_lost_is_done_once(
    postgres_server: PostgresServer, postgres_proxy: Proxy, prefix: str, side: str
) -> None:
    names = PostgresNames(prefix=prefix)
    direct = PostgresStore(postgres_server.url, "t", names)
    direct.publish(b"old", "old", sequence=1)
    store = PostgresStore(postgres_server.url_through(postgres_proxy), "t", names)
    store.load_current()
    postgres_proxy.cut = Cut(COMMIT, side)
    assert direct.load_current() != (back := store.set_current("old"))
    assert direct.load_current() == back
    assert len(state(postgres_server, direct)[2]) == 2


_PUBLISHER = """
import json, os, signal, sys
from lading.snapshots.stores.by_url import store_for
from lading.config.stores import PostgresNames
from lading.snapshots import publish
from lading.snapshots.stores.postgres import statements as postgres_sql
from lading.snapshots.stores.postgres import statements
from lading.storage.bucket import ObjectStorage

url, options, prefix, moment = json.loads(sys.argv[1])
kill = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
def then_kill(call):
    def both(*arguments, **named):
        call(*arguments, **named)
        kill()
    return both
if moment == "before":
    ObjectStorage.put_new = statements.insert_build = kill
elif moment == "between":
    ObjectStorage.put_new = then_kill(ObjectStorage.put_new)
    statements.insert_build = then_kill(statements.insert_build)
else:
    ObjectStorage.swap = then_kill(ObjectStorage.swap)
    statements.insert_pointer = then_kill(statements.insert_pointer)
store_for(url, "t", s3=options, postgres=PostgresNames(prefix=prefix)).publish(b"new", "new", sequence=2)
"""


@pytest.mark.acceptance("M18")
@pytest.mark.parametrize("moment", ["before", "between", "after"])
@pytest.mark.parametrize("kind", ["s3", "postgres"])
def test_a_publisher_that_is_killed_leaves_old_or_new(
    s3_server: S3Server, postgres_server: PostgresServer, bucket: str, prefix: str, kind: str, moment: str
) -> None:
    url = bucket if kind == "s3" else postgres_server.url
    store: ManifestStore
    if kind == "s3":
        store = BucketStore(f"{bucket}/t", s3_server.options())
    else:
        store = PostgresStore(url, "t", PostgresNames(prefix=prefix))
    old = store.publish(b"old", "old", sequence=1)
    argument = json.dumps([url, s3_server.options() if kind == "s3" else {}, prefix, moment])
    killed = subprocess.run([sys.executable, "-c", _PUBLISHER, argument], check=False, timeout=60)
    assert killed.returncode == -9
    if kind == "s3" and moment == "after":
        current = store.load_current()
        assert current is not None and store.load_manifest(current.ref) == b"new"
    else:  # Postgres: killed inside the transaction, which is as if it had never been
        assert store.load_current() == old.current
    assert store.publish(b"next", "next", sequence=3).outcome == "current"


def test_a_silent_publisher_in_a_transaction_does_not_hold_up_readers(
    postgres_server: PostgresServer, prefix: str
) -> None:
    names = PostgresNames(prefix=prefix)
    store = PostgresStore(postgres_server.url, "t", names)
    old = store.publish(b"old", "old", sequence=1)
    with psycopg.connect(postgres_server.url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (store._lock_key,))
        # whoever waited for the lock would wait for good: it is given back further down
        assert store.load_current() == old.current and store.load_manifest(old.ref) == b"old"


def test_every_failure_is_an_error_of_ours(s3_server: S3Server, bucket: str) -> None:
    """Nothing listens: no exception of a library's own gets out."""
    gone = Proxy(s3_server.port)
    gone.close()
    store = BucketStore(bucket, s3_server.options(gone.endpoint))
    for call in (store.load_current, store.list_manifests):
        with pytest.raises(LadingError) as caught:
            call()
            assert type(caught.value) is StoreUnreachable
