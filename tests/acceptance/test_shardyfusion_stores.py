"""What shardyfusion promises of stores, on S3 over HTTP and on PostgreSQL."""

from __future__ import annotations

import inspect
import os
import sqlite3
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from support.places import Place, new_place
from support.servers import PostgresServer, Proxy, S3Server

import lading
from lading.config.file import load as load_config
from lading.config.stores import PostgresNames
from lading.errors import (
    ManifestParseError,
    ManifestStoreError,
    PublishCurrentError,
    PublishManifestError,
)
from lading.log.table import Table
from lading.model import SnapshotRef
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot, parse_snapshot
from lading.snapshots.pointer import parse_pointer
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.files import BucketStore
from lading.snapshots.stores.postgres.store import PostgresStore
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage import bucket as objects
from lading.storage.bucket import ObjectStorage

NOW = datetime(2026, 4, 20, 15, 23, 1, 123456, tzinfo=UTC)


def snapshot(run_id: str = "r1", *, shards: tuple[int, ...] = (0, 3)) -> bytes:
    meta = BuildMeta(run_id=run_id, created_at=NOW, num_dbs=4, key_col="id", custom={"rows": 5})
    return build_snapshot(meta, [shard(db_id, run_id) for db_id in shards])


def shard(db_id: int, run_id: str) -> ShardMeta:
    return ShardMeta(
        db_id=db_id,
        db_url=f"shards/run_id={run_id}/db={db_id:05d}/attempt=00",
        attempt=0,
        row_count=5,
        min_key=1,
        max_key="z",
        checkpoint_id="ab",
        db_bytes=8192,
    )


def tampered(payload: bytes, *statements: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(payload)
        connection.executescript(";".join(statements))
        return connection.serialize()


def current(store: ManifestStore) -> SnapshotRef:
    ref = store.load_current()
    assert ref is not None
    return ref


@pytest.fixture(params=["postgres", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place(request.param, request, tmp_path)


@pytest.fixture
def store(place: Place) -> ManifestStore:
    return place.open()


@pytest.fixture
def s3_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place("s3", request, tmp_path)


@pytest.fixture
def postgres_store(request: pytest.FixtureRequest, tmp_path: Path) -> PostgresStore:
    store = new_place("postgres", request, tmp_path).open()
    assert isinstance(store, PostgresStore)
    return store


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


def select(
    database: psycopg.Connection[Any], what: str, table: str, order: str = "1"
) -> list[tuple[Any, ...]]:
    query = f"SELECT {what} FROM {{}} ORDER BY {order}"
    return database.execute(sql.SQL(query).format(sql.Identifier(table))).fetchall()


def fetched(s3_server: S3Server, url: str) -> Any:
    """The object at `url`, as somebody else's client gets it."""
    import boto3

    options = s3_server.options()
    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint"],
        region_name=options["region"],
        aws_access_key_id=options["access_key_id"],
        aws_secret_access_key=options["secret_access_key"],
    )
    bucket, _, name = url.removeprefix("s3://").partition("/")
    return client.get_object(Bucket=bucket, Key=name)


@contextmanager
def requests_of(s3_server: S3Server) -> Iterator[tuple[Proxy, list[str]]]:
    """A way to the server on which every request is noted: method and path."""
    seen: list[str] = []

    def note(data: bytes) -> None:
        line, _, _ = data.partition(b" HTTP/1.1\r\n")
        if line.split(b" ")[0] in (b"GET", b"PUT", b"HEAD", b"POST", b"DELETE"):
            seen.append(line.decode())

    proxy = Proxy(s3_server.port)
    proxy.cut = note  # type: ignore[assignment]
    try:
        yield proxy, seen
    finally:
        proxy.close()


@pytest.mark.acceptance("M13")
def test_the_reference_is_the_url_on_s3_and_the_run_on_postgres(
    s3_place: Place, postgres_store: PostgresStore, s3_server: S3Server
) -> None:
    on_s3 = s3_place.open()
    published = on_s3.publish(snapshot(), "r1", sequence=1, now=NOW)
    root = f"{s3_place.url}/{s3_place.table}"
    assert published.ref == f"{root}/manifests/2026-04-20T15:23:01.123456Z_run_id=r1/manifest"
    storage = ObjectStorage(root, s3_server.options())
    assert parse_pointer(storage.get("_CURRENT")).ref == published.ref == current(on_s3).ref
    assert fetched(s3_server, published.ref)["Body"].read() == snapshot()
    assert postgres_store.publish(snapshot(), "r1", sequence=1).ref == "r1" == current(postgres_store).ref


@pytest.mark.acceptance("M5")
def test_the_object_has_the_content_type_of_a_manifest(s3_place: Place, s3_server: S3Server) -> None:
    ref = s3_place.open().publish(snapshot(), "r1", sequence=1).ref
    assert fetched(s3_server, ref)["ContentType"] == "application/x-sqlite3"


@pytest.mark.acceptance("S27")
def test_the_pointer_on_s3_is_json_whoever_moves_it(s3_place: Place, s3_server: S3Server) -> None:
    store = s3_place.open()
    first = store.publish(snapshot("r1"), "r1", sequence=1)
    pointer = f"{s3_place.url}/{s3_place.table}/_CURRENT"
    assert fetched(s3_server, pointer)["ContentType"] == "application/json"
    second = store.publish(snapshot("r2"), "r2", sequence=2)
    assert fetched(s3_server, pointer)["ContentType"] == "application/json"
    store.set_current(first.ref, hold=False)
    assert store.delete_manifest(second.ref)
    assert fetched(s3_server, pointer)["ContentType"] == "application/json"


@pytest.mark.acceptance("S1", "M22")
def test_every_store_publishes_loads_lists_and_sets(store: ManifestStore) -> None:
    first = store.publish(snapshot("r1"), "r1", sequence=1)
    second = store.publish(snapshot("r2"), "r2", sequence=2)
    assert current(store).ref == second.ref
    assert parse_snapshot(store.load_manifest(first.ref), check=True).meta.run_id == "r1"
    assert [listed.run_id for listed in store.list_manifests()] == ["r2", "r1"]
    store.set_current(first.ref)
    assert parse_snapshot(store.load_manifest(current(store).ref)).meta.run_id == "r1"


@pytest.mark.acceptance("S2")
def test_no_request_names_a_data_file(s3_place: Place, s3_server: S3Server) -> None:
    root = f"{s3_place.url}/{s3_place.table}"
    storage = ObjectStorage(root, s3_server.options())
    data = ["bucket=000000/part-a.parquet", "shards/db=00000/shard.db"]
    for name in data:
        storage.put_new(name, b"rows")
    with requests_of(s3_server) as (proxy, seen):
        store = BucketStore(root, s3_server.options(proxy.endpoint))
        first = store.publish(b"one", "r1", sequence=1)
        store.publish(b"two", "r2", sequence=2)
        store.list_manifests()
        store.set_current(first.ref)
        store.load_manifest(current(store).ref)
    assert len(seen) >= 10
    assert not [line for line in seen if "bucket=" in line or "shards" in line or line.startswith("DELETE")]
    assert [storage.get(name) for name in data] == [b"rows", b"rows"]


_listeners: list[list[str]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _listeners and event in ("open", "os.remove", "os.rename", "os.listdir", "os.scandir", "os.mkdir"):
        for listener in _listeners:
            listener.extend(str(path) for path in arguments[:1] if isinstance(path, (str, os.PathLike)))


sys.addaudithook(_audit)  # can't be taken away again, so it only listens while a test does


@pytest.mark.acceptance("S2")
def test_a_store_on_postgres_touches_no_file_of_the_table(
    postgres_store: PostgresStore, tmp_path: Path
) -> None:
    seen: list[str] = []
    _listeners.append(seen)
    try:
        (tmp_path / "seen").write_bytes(b"")
        first = postgres_store.publish(snapshot("r1"), "r1", sequence=1)
        postgres_store.publish(snapshot("r2"), "r2", sequence=2)
        postgres_store.list_manifests()
        postgres_store.set_current(first.ref)
        postgres_store.load_manifest(current(postgres_store).ref)
    finally:
        _listeners.remove(seen)
    assert str(tmp_path / "seen") in seen
    assert not [path for path in seen if "shard" in path or "bucket=" in path or path.endswith(".parquet")]


@pytest.mark.acceptance("S4", "M14", "M20")
def test_publishing_to_s3_is_two_puts_and_reading_two_gets(s3_place: Place, s3_server: S3Server) -> None:
    root = f"{s3_place.url}/{s3_place.table}"
    path = root.removeprefix("s3://")
    with requests_of(s3_server) as (proxy, seen):
        store = BucketStore(root, s3_server.options(proxy.endpoint))
        store.publish(b"zero", "r0", sequence=0)
        seen.clear()
        published = store.publish(b"one", "r1", sequence=1)
        puts = [line for line in seen if line.startswith("PUT")]
        assert not inspect.isawaitable(published)
        seen.clear()
        assert store.load_manifest(current(store).ref) == b"one"
    assert len(puts) == 2
    assert puts[0].startswith(f"PUT /{path}/manifests/") and puts[1] == f"PUT /{path}/_CURRENT"
    assert [line.split(" ")[0] for line in seen] == ["GET", "GET"]
    assert seen[0] == f"GET /{path}/_CURRENT" and "manifest" in seen[1] and "list-type" not in seen[1]


@pytest.mark.acceptance("S4")
def test_the_s3_store_goes_through_obstore(s3_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    calls: list[str] = []
    for name in ("put", "get", "list"):
        real = getattr(obstore, name)
        monkeypatch.setattr(
            obstore, name, lambda *a, _real=real, _name=name, **k: (calls.append(_name), _real(*a, **k))[1]
        )
    store = s3_place.open()
    store.publish(b"one", "r1", sequence=1)
    assert calls.count("put") == 2 and {"get", "list"} <= set(calls)


@pytest.mark.acceptance("S7")
def test_a_writer_gets_its_store_from_the_config_and_a_reader_is_handed_one(
    place: Place, tmp_path: Path
) -> None:
    lines = [
        f"store: {place.url}",
        "tables: {voyages: {path: '*.csv', format: csv}}",
        "postgres: {prefix: abc}",
    ]
    lines += ["s3:", *(f"  {name}: {value}" for name, value in place.s3.items())] if place.s3 else []
    (tmp_path / "lading.yaml").write_text("\n".join(lines))
    written = store_of(load_config(tmp_path), "voyages")
    assert type(written) is type(place.open())
    if isinstance(written, PostgresStore):
        assert written.tables.builds == "abc_voyages_builds"
    state = Table.create(tmp_path / "voyages", "voyages").state
    meta = BuildMeta(run_id="r1", created_at=NOW)
    payload = build_snapshot(meta, (), lambda con: state.settled().write_root(con, state.meta))
    handed = place.open()
    handed.publish(payload, "r1", sequence=1)
    with lading.open(tmp_path / "voyages", store=handed) as reader:
        assert reader.snapshot == handed.load_current() and reader.info()["table"] == "voyages"


@pytest.mark.acceptance("S13", "S16")
def test_the_three_tables_are_created_on_demand_with_their_index(
    postgres_server: PostgresServer, database: psycopg.Connection[Any]
) -> None:
    own = uuid.uuid4().hex[:8]
    store = PostgresStore(postgres_server.url, "voyages", PostgresNames(prefix=own))
    store.publish(snapshot(), "r1", sequence=1)
    for what in ("builds", "shards", "pointer"):
        found = database.execute(
            "SELECT to_regclass(%s) IS NOT NULL", (f'"{own}_voyages_{what}"',)
        ).fetchone()
        assert found == (True,)
    indexes = database.execute(
        "SELECT indexdef FROM pg_indexes WHERE tablename = %s", (f"{own}_voyages_pointer",)
    ).fetchall()
    assert [text for (text,) in indexes if text.endswith("(updated_at DESC)")]


@pytest.mark.acceptance("S13")
def test_the_names_of_the_seed_are_possible(
    postgres_server: PostgresServer, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    (tmp_path / "lading.yaml").write_text(
        f"store: {postgres_server.url}\n"
        "postgres:\n"
        "  builds: shardyfusion_manifests_builds\n"
        "  shards: shardyfusion_manifests_shards\n"
        "  pointer: shardyfusion_pointer\n"
        "tables: {voyages: {path: '*.csv', format: csv}}\n"
    )
    store = store_of(load_config(tmp_path), "voyages")
    store.publish(snapshot(), "r1", sequence=1)
    assert select(database, "run_id", "shardyfusion_manifests_builds") == [("r1",)]
    assert select(database, "db_id", "shardyfusion_manifests_shards") == [(0,), (3,)]
    assert select(database, "manifest_ref", "shardyfusion_pointer") == [("r1",)]


@pytest.mark.acceptance("S14")
def test_a_publish_adds_one_build_and_a_row_a_shard(
    postgres_store: PostgresStore, database: psycopg.Connection[Any]
) -> None:
    postgres_store.publish(snapshot("r1", shards=(0, 3)), "r1", sequence=1)
    postgres_store.publish(snapshot("r2", shards=(1,)), "r2", sequence=2)
    assert select(database, "run_id, num_dbs, sequence", postgres_store.tables.builds) == [
        ("r1", 4, 1),
        ("r2", 4, 2),
    ]
    rows = select(
        database, "run_id, db_id, row_count, db_bytes, max_key", postgres_store.tables.shards, "1, 2"
    )
    assert rows == [("r1", 0, 5, 8192, "z"), ("r1", 3, 5, 8192, "z"), ("r2", 1, 5, 8192, "z")]


@pytest.mark.acceptance("S15")
def test_every_move_appends_one_pointer_row_and_the_newest_is_current(
    postgres_store: PostgresStore, database: psycopg.Connection[Any]
) -> None:
    table = ""
    history: list[list[tuple[Any, ...]]] = []
    moves = [
        lambda: postgres_store.publish(snapshot("r1"), "r1", sequence=1),
        lambda: postgres_store.publish(snapshot("r2"), "r2", sequence=2),
        lambda: postgres_store.set_current("r1", hold=False),
        lambda: postgres_store.publish(snapshot("r3"), "r3", sequence=3),
    ]
    for move in moves:
        move()
        table = postgres_store.tables.pointer
        history.append(select(database, "*", table, "updated_at"))
        assert current(postgres_store).run_id == history[-1][-1][1]
    assert [len(rows) for rows in history] == [1, 2, 3, 4]
    assert all(after[: len(before)] == before for before, after in pairwise(history))
    assert [row[1] for row in history[-1]] == ["r1", "r2", "r1", "r3"]


@pytest.mark.acceptance("S18")
def test_two_publishers_at_once_lose_nothing_and_sql_shows_the_history(
    postgres_store: PostgresStore, database: psycopg.Connection[Any], postgres_server: PostgresServer
) -> None:
    prefix = postgres_store.tables.builds.removesuffix("_voyages_builds")
    failures: list[BaseException] = []
    moved: list[SnapshotRef] = []

    def publish(first: int) -> None:
        try:
            store = PostgresStore(postgres_server.url, "voyages", PostgresNames(prefix=prefix))
            for n in range(first, 40, 2):
                done = store.publish(snapshot(f"r{n:02d}"), f"r{n:02d}", sequence=n)
                if done.outcome == "current":
                    moved.append(done.current)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=publish, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    builds = select(database, "run_id", postgres_store.tables.builds)
    assert [run for (run,) in builds] == [f"r{n:02d}" for n in range(40)]
    assert len(select(database, "db_id", postgres_store.tables.shards)) == 80
    history = select(database, "run_id, sequence", postgres_store.tables.pointer, "updated_at")
    assert [run for run, _ in history] == [m.run_id for m in sorted(moved, key=lambda m: m.published_at)]
    assert [n for _, n in history] == sorted(n for _, n in history)
    assert current(postgres_store).run_id == "r39"


@pytest.mark.acceptance("S20")
def test_publishing_to_one_store_leaves_every_other_untouched(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    stores = {
        kind: new_place(kind, request, tmp_path).open() for kind in ("local", "memory", "postgres", "s3")
    }
    for n, (kind, store) in enumerate(stores.items()):
        store.publish(snapshot(kind), kind, sequence=n)
    assert {kind: [listed.run_id for listed in store.list_manifests()] for kind, store in stores.items()} == {
        kind: [kind] for kind in stores
    }
    assert {kind: current(store).run_id for kind, store in stores.items()} == {kind: kind for kind in stores}


@pytest.mark.acceptance("S21")
def test_a_store_keeps_an_unknown_format_and_only_parsing_refuses_it(
    store: ManifestStore, tmp_path: Path
) -> None:
    future = tampered(snapshot(), "UPDATE build_meta SET format_version = 9")
    published = store.publish(future, "r1", sequence=1)
    assert store.load_manifest(published.ref) == future
    with pytest.raises(ManifestParseError, match="format_version"):
        parse_snapshot(store.load_manifest(published.ref))
    with pytest.raises(ManifestParseError, match="format_version"):
        lading.open(tmp_path, store=store)


def refuse(database: psycopg.Connection[Any], table: str) -> None:
    """From now on the server refuses rows for `table`, as a full disk would."""
    database.execute(
        "CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger AS $$ BEGIN"
        " RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$ LANGUAGE plpgsql"
    )
    trigger = "CREATE TRIGGER full_disk BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION full_disk()"
    database.execute(sql.SQL(trigger).format(sql.Identifier(table)))


@pytest.mark.acceptance("S22")
@pytest.mark.parametrize("table", ["builds", "shards"])
def test_a_write_that_postgres_refuses_changes_nothing(
    postgres_store: PostgresStore, database: psycopg.Connection[Any], table: str
) -> None:
    postgres_store.publish(snapshot("old"), "old", sequence=1)
    name = getattr(postgres_store.tables, table)
    refuse(database, name)
    with pytest.raises(PublishManifestError, match="could not extend file") as caught:
        postgres_store.publish(snapshot("new"), "new", sequence=2)
    assert caught.value.hint
    assert current(postgres_store).run_id == "old"
    assert [listed.run_id for listed in postgres_store.list_manifests()] == ["old"]
    database.execute(sql.SQL("DROP TRIGGER full_disk ON {}").format(sql.Identifier(name)))
    postgres_store.publish(snapshot("next"), "next", sequence=3)
    assert current(postgres_store).run_id == "next"


@pytest.mark.acceptance("S23")
def test_a_pointer_row_that_postgres_refuses_leaves_the_build_and_the_old_snapshot(
    postgres_store: PostgresStore, database: psycopg.Connection[Any]
) -> None:
    postgres_store.publish(snapshot("old"), "old", sequence=1)
    name = postgres_store.tables.pointer
    refuse(database, name)
    with pytest.raises(PublishCurrentError, match="could not extend file") as caught:
        postgres_store.publish(snapshot("new"), "new", sequence=2)
    assert "lading run" in caught.value.hint
    assert current(postgres_store).run_id == "old"
    assert [listed.run_id for listed in postgres_store.list_manifests()] == ["new", "old"]
    assert postgres_store.load_manifest("new") == snapshot("new")
    with pytest.raises(PublishCurrentError):
        postgres_store.set_current("new")
    database.execute(sql.SQL("DROP TRIGGER full_disk ON {}").format(sql.Identifier(name)))
    postgres_store.publish(snapshot("next"), "next", sequence=3)
    assert current(postgres_store).run_id == "next"
    assert [listed.run_id for listed in postgres_store.list_manifests()] == ["next", "new", "old"]


@pytest.mark.acceptance("S22", "S23")
@pytest.mark.parametrize("phase", ["manifests/", "_CURRENT"])
def test_a_write_that_s3_never_gets_leaves_the_old_snapshot(
    s3_place: Place, s3_server: S3Server, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "RETRY", {**objects.RETRY, "max_retries": 1})
    direct = s3_place.open()
    direct.publish(snapshot("old"), "old", sequence=1)
    proxy = Proxy(s3_server.port)
    marker = f"{s3_place.table}/{phase}".encode()
    proxy.cut = lambda data: "before" if data.startswith(b"PUT") and marker in data else None
    store = BucketStore(f"{s3_place.url}/{s3_place.table}", s3_server.options(proxy.endpoint))
    error = PublishCurrentError if phase == "_CURRENT" else PublishManifestError
    with pytest.raises(error) as caught:
        store.publish(snapshot("new"), "new", sequence=2)
    proxy.close()
    assert caught.value.hint
    assert current(direct).run_id == "old"
    durable = [listed.run_id for listed in direct.list_manifests()]
    assert durable == (["new", "old"] if phase == "_CURRENT" else ["old"])
    direct.publish(snapshot("next"), "next", sequence=3)
    assert current(direct).run_id == "next"


@pytest.mark.acceptance("S24")
def test_a_failed_read_and_a_malformed_payload_are_told_apart_on_s3(
    s3_place: Place, s3_server: S3Server, tmp_path: Path
) -> None:
    store = s3_place.open()
    published = store.publish(snapshot(), "r1", sequence=1)
    root = f"{s3_place.url}/{s3_place.table}"
    storage = ObjectStorage(root, s3_server.options())
    name = published.ref.removeprefix(f"{root}/")
    storage.delete(name)
    with pytest.raises(ManifestStoreError):
        store.load_manifest(current(store).ref)
    storage.put_new(name, b"not a manifest")
    with pytest.raises(ManifestParseError):
        lading.open(tmp_path, store=store)
    storage.swap("_CURRENT", b'{"manifest_ref": 3}', storage.head("_CURRENT").etag)
    with pytest.raises(ManifestParseError):
        store.load_current()


@pytest.mark.acceptance("S24")
def test_a_failed_read_and_a_malformed_payload_are_told_apart_on_postgres(
    postgres_store: PostgresStore, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    postgres_store.publish(snapshot(), "r1", sequence=1)
    builds, pointer = (
        sql.Identifier(name) for name in (postgres_store.tables.builds, postgres_store.tables.pointer)
    )
    database.execute(sql.SQL("UPDATE {} SET payload = 'not a manifest'").format(builds))
    with pytest.raises(ManifestParseError):
        lading.open(tmp_path, store=postgres_store)
    database.execute(sql.SQL("DELETE FROM {}").format(builds))
    with pytest.raises(ManifestStoreError):
        postgres_store.load_manifest("r1")
    database.execute(sql.SQL("ALTER TABLE {} RENAME COLUMN manifest_ref TO other").format(pointer))
    with pytest.raises(ManifestStoreError):
        postgres_store.load_current()
