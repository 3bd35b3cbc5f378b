"""Manifests and the pointer in PostgreSQL: for writers that want SQL over the history, or have no bucket.

A publish is one transaction under an advisory lock: build, shards and pointer row appear together. If the
server refuses the pointer row alone, the rest is kept and stays invisible, as on every other store; if the
connection breaks, nothing is. A reference is the run_id, so a run has one manifest: publishing it again adds
a pointer row, publishing other content under its name is refused. A transaction whose answer got lost is
tried again under the lock, which the lost one has either released by committing or by failing; the swap_id
of its pointer row tells which. Who has a transaction of their own hands its connection in.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import xxhash

from lading.config.stores import PostgresNames
from lading.errors import (
    ManifestGone,
    ManifestParseError,
    PublishCurrentError,
    PublishManifestError,
    StoreUnreachable,
)
from lading.layout.table import is_run_id
from lading.model import SnapshotRef
from lading.snapshots.pointer import new_swap_id
from lading.snapshots.publish import check_run_id, outcome_of, refuse_moved, same_pointer, successor
from lading.snapshots.stores.postgres import statements
from lading.snapshots.stores.postgres import tables as layout
from lading.snapshots.stores.postgres.connections import connections_to, is_passing
from lading.snapshots.stores.protocol import Published, later
from lading.state.sqlite import HINT, SNAPSHOT_LIMIT

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

_HINT = "check that the server is up and that the URL's user may use the tables, then run again"


class PostgresStore:
    """The store of the lading table `table` in the database at `url`."""

    def __init__(self, url: str, table: str, names: PostgresNames | None = None) -> None:
        self._connections = connections_to(url)
        self.tables = layout.tables_of(names or PostgresNames(), table)
        self.url = self._connections.url
        self._lock_key = xxhash.xxh3_64_intdigest(f"lading:{self.tables.pointer}".encode()) - (1 << 63)

    def publish(
        self,
        payload: bytes,
        run_id: str,
        *,
        sequence: int,
        expected: SnapshotRef | None = None,
        now: datetime | None = None,
        connection: Connection[Any] | None = None,
    ) -> Published:
        """`connection` is one of the caller's own, in a transaction: the publish is part of that, nothing is
        visible before the caller commits, and until then other publishers of the table wait."""
        check_run_id(run_id)
        swap_id = new_swap_id()

        def work(connection: Connection[Any]) -> Published | str:
            mine = statements.pointer_move(connection, self.tables, swap_id)
            if mine is not None:  # committed by an attempt whose answer got lost
                return Published(run_id, "current", mine)
            at = self._put(connection, payload, run_id, sequence, now)
            current = statements.newest_pointer(connection, self.tables)
            raced = expected is not None and not same_pointer(current, expected)
            outcome = outcome_of(current, sequence, raced)
            if current is not None and outcome != "current":
                return Published(run_id, outcome, current)
            new = successor(current, SnapshotRef(run_id, run_id, at, sequence, swap_id=swap_id))
            refused = self._refused(connection, new)
            return refused if refused is not None else Published(run_id, "current", new)

        what = f"run {run_id} could not be published"
        done = self._write(work, what, PublishManifestError, connection)
        if isinstance(done, str):
            raise PublishCurrentError(
                f"the pointer could not be moved to run {run_id}: {self.url}: {done}",
                hint="the snapshot is kept, readers see the one before; fix the cause, then: lading run",
            )
        return done

    def put_manifest(
        self, payload: bytes, run_id: str, now: datetime | None, *, sequence: int = 0
    ) -> tuple[str, datetime]:
        """Keep a manifest without moving the pointer."""
        check_run_id(run_id)
        at = self._write(
            lambda connection: self._put(connection, payload, run_id, sequence, now),
            f"the manifest of run {run_id} could not be written",
            PublishManifestError,
        )
        return run_id, at

    def load_current(self) -> SnapshotRef | None:
        return self._read(lambda connection: statements.newest_pointer(connection, self.tables), None)

    def load_manifest(self, ref: str) -> bytes:
        found = None
        if is_run_id(ref):
            found = self._read(
                lambda connection: statements.load_payload(connection, self.tables, ref, SNAPSHOT_LIMIT), None
            )
        if found is None:
            raise self._absent(ref)
        size, payload = found
        if payload is None:
            raise ManifestParseError(
                f"the manifest of run {ref} has {size} bytes, more than {SNAPSHOT_LIMIT}", hint=HINT
            )
        return payload

    def manifest_path(self, ref: str) -> None:
        return None

    def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        return self._read(lambda connection: statements.list_builds(connection, self.tables, limit), [])

    def set_current(
        self,
        ref: str,
        *,
        hold: bool = True,
        sequence: int = 0,
        expected: SnapshotRef | None = None,
        now: datetime | None = None,
    ) -> SnapshotRef:
        swap_id = new_swap_id()

        def work(connection: Connection[Any]) -> SnapshotRef:
            mine = statements.pointer_move(connection, self.tables, swap_id)
            if mine is not None:
                return mine
            if not is_run_id(ref) or not statements.has_build(connection, self.tables, ref):
                raise self._absent(ref)
            current = statements.newest_pointer(connection, self.tables)
            refuse_moved(current, expected)
            at = later(
                now or statements.clock(connection), current.published_at if current is not None else None
            )
            to = SnapshotRef(ref, ref, at, sequence, held=hold, swap_id=swap_id)
            statements.insert_pointer(connection, self.tables, to)
            return to

        return self._write(work, f"the pointer could not be moved to {ref!r}", PublishCurrentError)

    def delete_manifest(self, ref: str) -> bool:
        """The build and its shards; the pointer's history stays."""

        def work(connection: Connection[Any]) -> bool:
            current = statements.newest_pointer(connection, self.tables)
            if current is not None and current.ref == ref:
                return False
            statements.delete_build(connection, self.tables, ref)
            return True

        what = f"the manifest of run {ref} could not be deleted"
        return self._write(
            work, what, PublishManifestError, unsure="it may be gone already; run lading clean again"
        )

    def _refused(self, connection: Connection[Any], to: SnapshotRef) -> str | None:
        """Why the pointer row is refused, None if it isn't; either way the transaction goes on."""
        import psycopg

        try:
            with connection.transaction():  # within the other one: a savepoint
                statements.insert_pointer(connection, self.tables, to)
        except psycopg.Error as error:
            if connection.closed or is_passing(error):  # not refused: all of it is tried again
                raise
            return self._connections.reason(error)
        return None

    def _put(
        self,
        connection: Connection[Any],
        payload: bytes,
        run_id: str,
        sequence: int,
        now: datetime | None,
    ) -> datetime:
        """The build's rows, unless they are there; when it was kept."""
        same = statements.same_build(connection, self.tables, run_id, payload)
        if same is False:
            raise PublishManifestError(
                f"run {run_id} was already published to {self.url} with different content",
                hint="a run's manifest never changes: publish under a new run, lading run makes one",
            )
        now = now or statements.clock(connection)
        if same:
            return later(now, None)
        at = later(now, statements.newest_build(connection, self.tables))
        statements.insert_build(connection, self.tables, payload, SnapshotRef(run_id, run_id, at), sequence)
        return at

    def _write(
        self,
        work: Callable[[Connection[Any]], T],
        what: str,
        failure: type[PublishManifestError] | type[PublishCurrentError],
        given: Connection[Any] | None = None,
        *,
        unsure: str = "readers see either the old or the new snapshot; lading run brings it up to date",
    ) -> T:
        """`work` in one transaction under the table's lock; the three tables are made on demand. `given` is
        a connection of the caller's, who commits. `unsure` is the hint if it may have been committed."""
        import psycopg

        decided = False

        def locked(connection: Connection[Any]) -> T:
            nonlocal decided
            if given is None:
                # A writer that vanished in the middle can't keep others waiting for longer than this.
                connection.execute("SET LOCAL idle_in_transaction_session_timeout = '30s'")
                connection.execute("SET LOCAL lock_timeout = '60s'")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock_key,))
            layout.create_tables(connection, self.tables)
            done = work(connection)
            decided = True  # what fails from here on is the commit, and it may have been done
            return done

        try:
            if given is not None:
                return _within(given, locked)
            return self._connections.transaction(locked)
        except psycopg.Error as error:
            reason = self._connections.reason(error)
        if decided and given is None:
            raise PublishCurrentError(
                f"{what}, or the reply was lost: {self.url}: {reason}",
                hint=unsure,
            )
        raise failure(f"{what}: {self.url}: {reason}", hint=f"readers see what they saw before; {_HINT}")

    def _read(self, work: Callable[[Connection[Any]], T], absent: T) -> T:
        """`absent` when the tables aren't there: nothing was ever published, and a reader creates nothing."""
        import psycopg

        try:
            return self._connections.transaction(work)
        except psycopg.errors.UndefinedTable:
            return absent
        except psycopg.Error as error:
            reason = self._connections.reason(error)
        raise StoreUnreachable(f"{self.url} can't be read: {reason}", hint=_HINT)

    def _absent(self, ref: str) -> ManifestGone:
        return ManifestGone(
            f"there is no manifest {ref!r} in {self.url}", hint="pick one of the listed snapshots"
        )


def _within(connection: Connection[Any], work: Callable[[Connection[Any]], T]) -> T:
    """`work` as a part of the transaction that `connection` is in, undone alone if it fails."""
    from psycopg.pq import TransactionStatus

    if connection.info.transaction_status == TransactionStatus.IDLE:
        if connection.autocommit:
            raise PublishManifestError(
                "the connection is in no transaction, and commits every statement by itself",
                hint="publish within `with connection.transaction():`, or leave the connection out",
            )
        connection.execute("SELECT 1")  # begins the caller's transaction, so that the next is a savepoint
    with connection.transaction():
        return work(connection)
