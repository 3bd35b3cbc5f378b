"""The Postgres store: its tables, its names, what happens when the server goes away."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from support.servers import PostgresServer

from lading.config.stores import PostgresNames
from lading.errors import ConfigError, ManifestStoreError, PublishManifestError
from lading.snapshots.stores.postgres import connections as postgres_connections
from lading.snapshots.stores.postgres.connections import Connections, connections_to
from lading.snapshots.stores.postgres.store import PostgresStore

NOW = datetime(2026, 4, 20, 15, 23, 1, 123456, tzinfo=UTC)


@pytest.fixture
def store(postgres_server: PostgresServer) -> PostgresStore:
    return PostgresStore(postgres_server.url, "voyages", PostgresNames(prefix=f"t{uuid.uuid4().hex[:8]}"))


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


def rows(database: psycopg.Connection[Any], table: str) -> list[tuple[Any, ...]]:
    return database.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))).fetchall()


def test_a_run_published_again_adds_a_pointer_row_and_nothing_else(
    store: PostgresStore, database: psycopg.Connection[Any]
) -> None:
    first = store.publish(b"one", "r1", sequence=1, now=NOW)
    store.publish(b"two", "r2", sequence=2, now=NOW + timedelta(hours=1))
    store.set_current("r1", hold=False)
    again = store.publish(b"one", "r1", sequence=2, now=NOW + timedelta(hours=2))
    assert again.ref == first.ref == "r1" and again.outcome == "current"
    assert len(rows(database, store.tables.builds)) == 2
    assert len(rows(database, store.tables.pointer)) == 4


def test_other_content_under_a_run_that_was_published_is_refused(store: PostgresStore) -> None:
    current = store.publish(b"one", "r1", sequence=1).current
    with pytest.raises(PublishManifestError, match="with different content") as caught:
        store.publish(b"two", "r1", sequence=2)
    assert "new run" in caught.value.hint
    assert store.load_current() == current and store.load_manifest("r1") == b"one"


def test_a_reader_of_a_new_store_creates_nothing(
    store: PostgresStore, database: psycopg.Connection[Any]
) -> None:
    assert store.load_current() is None and store.list_manifests() == []
    with pytest.raises(ManifestStoreError):
        store.load_manifest("r1")
    query = "SELECT count(*) FROM pg_tables WHERE tablename = ANY(%s)"
    names = [store.tables.builds, store.tables.shards, store.tables.pointer]
    assert database.execute(query, (names,)).fetchone() == (0,)


HOSTILE = [
    'x"; drop table y; --',
    "a%sb",
    "{table}",
    "'; select 1",
    "Übung mit Leerzeichen",
    "a.b",
    "SELECT",
    "%%(x)s",
]


@pytest.mark.parametrize("table", HOSTILE)
def test_a_hostile_table_name_is_only_ever_a_name(
    postgres_server: PostgresServer, database: psycopg.Connection[Any], table: str
) -> None:
    database.execute("CREATE TABLE IF NOT EXISTS y (n int)")
    prefix = f"h{uuid.uuid4().hex[:8]}"
    store = PostgresStore(postgres_server.url, table, PostgresNames(prefix=prefix))
    first = store.publish(b"one", "r1", sequence=1)
    store.publish(b"two", 'r"; drop table y; --', sequence=2)
    assert [listed.run_id for listed in store.list_manifests()] == ['r"; drop table y; --', "r1"]
    store.set_current(first.ref)
    assert store.load_manifest("r1") == b"one"
    found = database.execute(
        "SELECT tablename FROM pg_tables WHERE tablename LIKE %s", (f"{prefix}%",)
    ).fetchall()
    assert sorted(name for (name,) in found) == sorted(
        f"{prefix}_{table}_{what}" for what in ("builds", "pointer", "shards")
    )
    assert database.execute("SELECT to_regclass('y') IS NOT NULL").fetchone() == (True,)


@pytest.mark.parametrize("table", ["x" * 60, "ü" * 30, "a\0b"])
def test_a_name_that_the_server_would_cut_off_is_refused(postgres_server: PostgresServer, table: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PostgresStore(postgres_server.url, table)
    assert "prefix" in caught.value.hint


def test_times_increase_whatever_the_clock_and_the_zone_say(store: PostgresStore) -> None:
    east = datetime(2026, 4, 20, 20, 23, 1, 123456, tzinfo=datetime.now().astimezone().tzinfo)
    moves = [store.publish(b"1", "r1", sequence=1, now=east).current]
    moves += [store.set_current("r1", hold=False, now=NOW - timedelta(days=9)) for _ in range(3)]
    times = [move.published_at for move in moves]
    assert times == sorted(set(times)) and times[0] == east
    assert all(time.tzinfo is UTC for time in times)


def test_a_server_that_ended_every_connection_is_reached_again(
    store: PostgresStore, database: psycopg.Connection[Any]
) -> None:
    store.publish(b"1", "r1", sequence=1)
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lading'"
    )
    assert store.publish(b"2", "r2", sequence=2).outcome == "current"
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lading'"
    )
    current = store.load_current()
    assert current is not None and current.run_id == "r2"


def test_a_writer_that_slept_in_its_transaction_tries_again(postgres_server: PostgresServer) -> None:
    """As in a laptop that was closed: the server ended the session, so nothing was done."""
    tries: list[int] = []

    def work(connection: psycopg.Connection[Any]) -> Any:
        tries.append(1)
        if len(tries) == 1:
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'")
            time.sleep(0.3)
        return connection.execute("SELECT 1").fetchone()

    assert connections_to(postgres_server.url).transaction(work) == (1,)
    assert len(tries) == 2


@pytest.mark.parametrize("where", ["in the transaction", "between two tries"])
def test_who_sleeps_while_it_tries_again_has_lost_no_patience(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Found by the simulation (pointing 835275246812, 1094696853429): a serialization failure, then a sleep
    that outlasted the patience which had begun with it."""
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.1)
    tries: list[int] = []

    def work(connection: psycopg.Connection[Any]) -> Any:
        tries.append(1)
        if len(tries) == 2 and where == "in the transaction":
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'")
            time.sleep(0.5)
        if len(tries) == 2 and where == "between two tries":
            time.sleep(0.5)
        if len(tries) < 3:
            connection.execute("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
        return connection.execute("SELECT 1").fetchone()

    assert connections_to(postgres_server.url).transaction(work) == (1,)
    assert len(tries) == 3


def test_a_wait_for_a_lock_uses_up_no_patience(
    postgres_server: PostgresServer, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation (pointing 95915649995): between two serialization failures somebody else's
    publish held the lock for half a minute."""
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.2)
    monkeypatch.setattr(postgres_connections, "_TRIES", 1)
    tries: list[int] = []

    def work(connection: psycopg.Connection[Any]) -> Any:
        tries.append(1)
        if len(tries) == 2:
            database.execute("SELECT pg_advisory_lock(7)")
            threading.Timer(0.5, database.execute, ["SELECT pg_advisory_unlock(7)"]).start()
            connection.execute("SELECT pg_advisory_xact_lock(7)")
        if len(tries) < 3:
            connection.execute("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
        return connection.execute("SELECT 1").fetchone()

    assert connections_to(postgres_server.url).transaction(work) == (1,)
    assert len(tries) == 3


def test_a_server_that_fails_after_a_long_wait_has_all_the_patience(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there until it failed: patience begins then."""
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.2)
    monkeypatch.setattr(postgres_connections, "_TRIES", 1)
    tries: list[int] = []

    def work(connection: psycopg.Connection[Any]) -> Any:
        tries.append(1)
        if len(tries) == 1:
            connection.execute("SELECT pg_sleep(0.5)")
        if len(tries) < 3:
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return connection.execute("SELECT 1").fetchone()

    assert connections_to(postgres_server.url).transaction(work) == (1,)
    assert len(tries) == 3


def test_a_transaction_that_the_server_wants_again_is_not_a_refused_pointer(
    store: PostgresStore, database: psycopg.Connection[Any]
) -> None:
    store.publish(b"1", "r1", sequence=1)
    name = store.tables.pointer
    database.execute(f"CREATE SEQUENCE {name}_tries")
    database.execute(
        f"CREATE FUNCTION {name}_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF nextval('{name}_tries') = 1 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;"
        " RETURN NEW; END $$"
    )
    database.execute(
        f"CREATE TRIGGER once BEFORE INSERT ON {name} FOR EACH ROW EXECUTE FUNCTION {name}_once()"
    )
    assert store.publish(b"2", "r2", sequence=2).outcome == "current"


def test_connections_are_kept_and_shared_by_the_tables_of_a_run(postgres_server: PostgresServer) -> None:
    stores = [PostgresStore(postgres_server.url, f"t{n}") for n in range(5)]
    assert len({id(connections_to(postgres_server.url)) for _ in stores}) == 1
    pids = {
        connections_to(postgres_server.url).transaction(lambda connection: connection.info.backend_pid)
        for _ in range(5)
    }
    assert len(pids) == 1


def test_more_threads_than_connections_wait_for_their_turn(store: PostgresStore) -> None:
    store.publish(b"1", "r1", sequence=1)
    seen: list[bytes] = []
    threads = [threading.Thread(target=lambda: seen.append(store.load_manifest("r1"))) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [b"1"] * 30


def test_a_writer_that_stops_in_the_middle_does_not_block_for_ever(
    store: PostgresStore, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock goes with the connection: whoever holds it is cut off by the server itself."""
    seen: list[tuple[Any, ...] | None] = []

    def look(connection: psycopg.Connection[Any], tables: Any) -> None:
        for setting in ("idle_in_transaction_session_timeout", "lock_timeout"):
            seen.append(connection.execute(f"SHOW {setting}").fetchone())

    monkeypatch.setattr("lading.snapshots.stores.postgres.tables.create_tables", look)
    with pytest.raises(PublishManifestError):
        store.publish(b"1", "r1", sequence=1)
    assert seen == [("30s",), ("1min",)]


def test_a_wrong_place_fails_at_once_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore("postgresql://someone:sentinel@127.0.0.1:9/nowhere", "voyages")
    with pytest.raises(ManifestStoreError, match=r"postgresql://127\.0\.0\.1:9/nowhere") as caught:
        store.load_current()
    assert "sentinel" not in str(caught.value) and caught.value.hint
    with pytest.raises(PublishManifestError):
        store.publish(b"1", "r1", sequence=1)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:sentinel@part@host/db",
        "postgresql://user:sent/inel@host/db",
        "postgresql://user:sent#inel@host/db",
        "postgresql://user:%zzsentinel@host/db",
        "postgresql://user:sentinel@host:port/db",
        "postgresql://host/db?sentinel=1",
        "postgresql://[sentinel/db",
    ],
)
def test_a_url_that_can_not_be_understood_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Connections(url)
    assert "sent" not in str(caught.value) and caught.value.__cause__ is None


def test_a_password_is_never_part_of_a_reason() -> None:
    connections = Connections("postgresql://u:p%40ss-sentinel@h/d?sslpassword=other-sentinel")
    reason = connections.reason(RuntimeError('no host "p@ss-sentinel" p%40ss-sentinel other-sentinel'))
    assert "sentinel" not in reason
    assert connections.url == "postgresql://h/d"
    assert postgres_connections.shown("postgresql:///d?host=/tmp&password=x") == "postgresql:///d"


def test_restarts_in_the_middle_of_publishes_lose_nothing_acknowledged(
    postgres_server: PostgresServer,
) -> None:
    prefix = f"t{uuid.uuid4().hex[:8]}"
    store = PostgresStore(postgres_server.url, "voyages", PostgresNames(prefix=prefix))
    store.publish(b"0", "r0", sequence=0)
    acknowledged: list[int] = [0]
    failures: list[BaseException] = []
    done = threading.Event()

    def publish() -> None:
        sequence = 0
        try:
            while not done.is_set():
                sequence += 1
                assert store.publish(b"%d" % sequence, f"r{sequence}", sequence=sequence).outcome == "current"
                acknowledged.append(sequence)
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=publish)
    writer.start()
    for mode in ("fast", "immediate", "fast"):
        before = len(acknowledged)
        postgres_server.restart(mode)
        while len(acknowledged) < before + 20 and not failures:
            done.wait(0.01)
    done.set()
    writer.join()
    assert failures == []
    fresh = PostgresStore(postgres_server.url, "voyages", PostgresNames(prefix=prefix))
    assert [listed.run_id for listed in fresh.list_manifests()] == [f"r{n}" for n in reversed(acknowledged)]
    current = fresh.load_current()
    assert current is not None and current.sequence == acknowledged[-1]
    assert all(fresh.load_manifest(f"r{n}") == b"%d" % n for n in acknowledged)
    with psycopg.connect(postgres_server.url) as connection:
        history = connection.execute(
            sql.SQL("SELECT sequence FROM {} ORDER BY updated_at").format(
                sql.Identifier(store.tables.pointer)
            )
        ).fetchall()
    assert [sequence for (sequence,) in history] == acknowledged
