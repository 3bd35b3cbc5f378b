"""The PostgreSQL that simulations talk to answers as the real one does: the same statements, in the same
order, from several sessions, with their transactions, savepoints, locks and isolation levels.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import psycopg
import pytest
from psycopg import IsolationLevel

from lading.config.stores import PostgresNames
from lading.model import SnapshotRef
from lading.snapshots.stores.postgres import statements
from lading.snapshots.stores.postgres.tables import Tables, create_tables, tables_of
from simulation.kernel import START, Faults, World
from simulation.postgres import Server, connect

if TYPE_CHECKING:
    from support.servers import PostgresServer

HISTORIES = 60 if os.environ.get("LADING_SOAK") else 12
LEVELS = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ)
SHARD = "INSERT INTO {shards} (run_id, db_id, row_count) VALUES (%s, %s, %s)"
Do = Callable[[Any], Any]


class GivenUp(Exception):
    """Rolls a transaction back."""


class Client:
    """A connection, and the transactions that it is in."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.within: list[Any] = []

    def begin(self, level: IsolationLevel) -> Any:
        if not self.within:
            self.connection.isolation_level = level
        transaction = self.connection.transaction()
        transaction.__enter__()
        self.within.append(transaction)
        return None

    def leave(self, good: bool) -> Any:
        error = None if good else GivenUp()
        self.within.pop().__exit__(type(error) if error else None, error, None)
        return None


def _answer(ask: Callable[[], Any]) -> Any:
    """What was answered; of an error its code."""
    try:
        return ask()
    except psycopg.Error as error:
        return f"SQLSTATE {error.sqlstate}"


class Both:
    """The same on the real server and on the one in memory."""

    def __init__(self, server: PostgresServer, in_memory: Server, clients: int) -> None:
        real = [psycopg.connect(server.url, autocommit=True, prepare_threshold=None) for _ in range(clients)]
        for one in real:
            one.execute("SET lock_timeout = '40ms'")
        self.pairs = [(Client(one), Client(connect(in_memory))) for one in real]
        self.failed = [False] * clients
        self.told: list[str] = []

    def ask(self, number: int, what: str, do: Callable[[Client], Any]) -> Any:
        real, simulated = (_answer(lambda one=one: do(one)) for one in self.pairs[number])  # type: ignore[misc]
        self.told.append(f"{number}: {what} -> {real}")
        assert simulated == real, "\n".join([*self.told, f"in memory: {simulated}"])
        if isinstance(real, str) and real.startswith("SQLSTATE"):
            self.failed[number] = bool(self.pairs[number][0].within)
        return real

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for real, _ in self.pairs:
            real.connection.close()


def _some_statement(chance: random.Random, tables: Tables, times: Any) -> tuple[str, Do]:
    run = f"run{chance.randrange(3)}"
    at = START + timedelta(seconds=next(times))
    sequence = chance.choice((None, 1, 2))
    swap = f"swap{chance.randrange(3)}"
    to = SnapshotRef(run, run, at, sequence, chance.random() < 0.5, swap)  # type: ignore[arg-type]
    payload = f"payload of {run}".encode()
    one: dict[str, Do] = {
        f"build {run}": lambda c: statements.insert_build(c, tables, payload, to, 7),
        f"shard of {run}": lambda c: c.execute(tables.sql(SHARD), (run, 1, 2)) and None,
        f"point {run} {swap}": lambda c: statements.insert_pointer(c, tables, to),
        f"delete {run}": lambda c: statements.delete_build(c, tables, run),
        f"same {run}": lambda c: statements.same_build(c, tables, run, payload),
        f"other {run}": lambda c: statements.same_build(c, tables, run, b"other"),
        f"has {run}": lambda c: statements.has_build(c, tables, run),
        f"payload {run}": lambda c: statements.load_payload(c, tables, run, 1_000),
        f"large {run}": lambda c: statements.load_payload(c, tables, run, 3),
        "newest build": lambda c: statements.newest_build(c, tables),
        "builds": lambda c: statements.list_builds(c, tables, chance_limit),
        "newest pointer": lambda c: statements.newest_pointer(c, tables),
        f"move {swap}": lambda c: statements.pointer_move(c, tables, swap),
        "lock": lambda c: c.execute("SELECT pg_advisory_xact_lock(%s)", (hash(tables),)) and None,
        "tables": lambda c: create_tables(c, tables),
    }
    chance_limit = chance.choice((None, 1, 2))
    weights = [3, 2, 3, 2, *[1] * (len(one) - 6), 2, 0.3]
    what = chance.choices(list(one), weights)[0]
    return what, one[what]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_it_answers_as_the_real_server_does(postgres_server: PostgresServer, seed: int) -> None:
    chance = random.Random(seed)
    times = itertools.count(1)
    tables = tables_of(PostgresNames(), f"memory{seed}")
    with Both(postgres_server, Server(World(seed, Faults())), 3) as both:
        if chance.random() < 0.8:
            both.ask(0, "tables", lambda one: create_tables(one.connection, tables))
        levels = LEVELS if both.told else LEVELS[:1]
        for _ in range(120):
            number = chance.randrange(3)
            within = both.pairs[number][0].within
            kind = chance.random()
            if not within and kind < 0.5:
                level = chance.choice(levels)
                both.ask(number, f"begin {level.name}", lambda one, level=level: one.begin(level))
                both.failed[number] = False
            elif within and kind < 0.1 and not both.failed[number]:
                both.ask(number, "savepoint", lambda one: one.begin(LEVELS[0]))
            elif within and kind < 0.4:
                good = chance.random() < 0.7 and (not both.failed[number] or len(within) == 1)
                both.ask(number, "leave" if good else "give up", lambda one, good=good: one.leave(good))
                both.failed[number] = False
            else:
                what, do = _some_statement(chance, tables, times)
                both.ask(number, what, lambda one, do=do: do(one.connection))


def test_a_session_that_sleeps_in_its_transaction_is_ended(postgres_server: PostgresServer) -> None:
    world = World(0, Faults())
    with Both(postgres_server, Server(world), 2) as both:
        limit = "SET LOCAL idle_in_transaction_session_timeout = '50ms'"
        lock = ("SELECT pg_advisory_xact_lock(%s)", (77,))
        both.ask(0, "begin", lambda one: one.begin(LEVELS[0]))
        both.ask(0, "limit", lambda one: one.connection.execute(limit) and None)
        both.ask(0, "lock", lambda one: one.connection.execute(*lock) and None)
        both.pairs[1][0].connection.execute("SET lock_timeout = '5s'")
        world.sleep(0.2)
        both.ask(1, "lock", lambda one: one.connection.execute(*lock) and None)  # nobody holds it any more
        assert both.ask(0, "ask", lambda one: one.connection.execute("SELECT 1") and None) == "SQLSTATE 25P03"
        assert (
            both.ask(0, "ask again", lambda one: one.connection.execute("SELECT 1") and None)
            == "SQLSTATE None"
        )
        both.ask(0, "give up", lambda one: one.leave(good=False))
        assert [one.connection.closed for one in both.pairs[0]] == [True, True]
