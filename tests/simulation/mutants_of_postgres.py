"""Deliberate defects of the store in PostgreSQL."""

from __future__ import annotations

from typing import Any

from simulation.mutant import Mutant, Swap


def _done_twice(swap: Swap) -> None:
    from lading.snapshots.stores.postgres import statements

    swap(statements, "pointer_move", lambda connection, tables, swap_id: None)


def _each_a_lock_of_its_own(swap: Swap) -> None:
    from lading.snapshots.stores.postgres.store import PostgresStore

    def init(self: Any, *args: Any) -> None:
        real(self, *args)
        self._lock_key = id(self)

    real = swap(PostgresStore, "__init__", init)


def _level_of_the_server(swap: Swap) -> None:
    import psycopg

    from lading.snapshots.stores.postgres.connections import Connections

    def connect(self: Any) -> Any:
        connection = psycopg.connect(**self._parameters, autocommit=True, prepare_threshold=None)
        self._was_there = True
        return connection

    swap(Connections, "_connect", connect)


def _sleepers_give_up(swap: Swap) -> None:
    import lading.snapshots.stores.postgres.connections as connections

    swap(connections, "_PASSING", connections._PASSING - {"25P03"})


def _without_patience(swap: Swap) -> None:
    import lading.snapshots.stores.postgres.connections as connections

    swap(connections, "_TRIES", 1)
    swap(connections, "PATIENCE", 0.0)


def _patient_by_the_clock(swap: Swap) -> None:
    import lading.snapshots.stores.postgres.connections as connections

    swap(connections, "_TRIES", 1)
    swap(connections, "_waited", lambda error, took, pause: took + pause)


def _any_error_refuses(swap: Swap) -> None:
    import lading.snapshots.stores.postgres.store as store

    swap(store, "is_passing", lambda error: False)


def _dated_by_the_clock(swap: Swap) -> None:
    import lading.snapshots.stores.postgres.store as store

    swap(store, "later", lambda now, than: now)


def _pointed_without_looking(swap: Swap) -> None:
    from lading.snapshots.stores.postgres import statements

    swap(statements, "has_build", lambda connection, tables, run_id: True)


def _deleted_without_looking(swap: Swap) -> None:
    from lading.errors import PublishManifestError
    from lading.snapshots.stores.postgres import statements
    from lading.snapshots.stores.postgres.store import PostgresStore

    def delete(self: Any, ref: str) -> bool:
        current = self.load_current()
        if current is not None and current.ref == ref:
            return False
        return bool(
            self._write(
                lambda connection: statements.delete_build(connection, self.tables, ref) is None,
                "a deletion",
                PublishManifestError,
            )
        )

    swap(PostgresStore, "delete_manifest", delete)


def _mutant(name: str, put: Any, needs: str | None = None) -> Mutant:
    return Mutant(f"{name}, in PostgreSQL", ("pointing",), put, "postgres", needs)


OF_POSTGRES = (
    _mutant("a commit whose answer got lost done twice", _done_twice, "lost"),
    _mutant("a lock that each writer has to itself", _each_a_lock_of_its_own),
    _mutant("whatever isolation level the server has", _level_of_the_server),
    _mutant("a session that slept taken for a failure", _sleepers_give_up, "freeze"),
    _mutant("no patience with a server that is there", _without_patience, "serial"),
    _mutant("patience that time alone uses up", _patient_by_the_clock, "freeze"),
    _mutant("a transaction to be done again taken for a refusal", _any_error_refuses, "serial"),
    _mutant("a move dated by a clock that went back", _dated_by_the_clock, "restart"),
    _mutant("a rollback that doesn't look for its manifest", _pointed_without_looking),
    _mutant("a deletion that looks before it has the lock", _deleted_without_looking),
)
