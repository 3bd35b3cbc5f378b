"""A PostgreSQL in memory that answers as psycopg does, to the statements that lading sends.

Sessions, transactions, savepoints, isolation levels, advisory and row locks, unique and foreign keys are as
the real server's: `test_postgres_in_memory.py` plays the same on both. What is committed is one state; a
transaction is the changes that it made, laid over what is committed now, or was when it began to look.

What goes wrong on the way goes wrong here: the connection ends before a statement, after a COMMIT, or without
the server noticing; the server is restarted, wants a transaction to be done again, or is slow.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Self

import psycopg
from psycopg import IsolationLevel, errors

from simulation.kernel import Process, World, current_task

_SECOND = 1_000_000_000
_SLICE = 5.0  # seconds after which whoever waits for a lock looks whether its owner is still there
_KEEPALIVE = 60  # seconds after which a server notices that a client is gone without a word

Row = dict[str, Any]
Change = Callable[[dict[str, "Relation"]], None]


@dataclass(frozen=True)
class Column:
    name: str
    not_null: bool = False
    default: Any = None


@dataclass(frozen=True)
class Relation:
    """Never changed, only replaced: who looks at an older state still has it."""

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    parent: str | None = None  # whose key the first column of ours names; what it names goes with it
    rows: dict[int, Row] = field(default_factory=dict)

    def where(self, **values: Any) -> dict[int, Row]:
        return {n: row for n, row in self.rows.items() if all(row[k] == v for k, v in values.items())}


class Session:
    """What the server knows of one connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.ended: psycopg.Error | None = None  # told to the client when it next asks
        self.changes: list[Change] = []
        self.locks: list[Any] = []  # in the order in which they were taken
        self.saved: list[tuple[int, int]] = []  # how many changes and locks there were at each savepoint
        self.failed = False
        self.open = False  # in a transaction
        self.level = IsolationLevel.READ_COMMITTED
        self.snapshot: dict[str, Relation] | None = None
        self.settings: dict[str, int] = {}  # of this transaction, in milliseconds
        self.idle_since = 0

    def begin(self, level: IsolationLevel | None) -> None:
        self.open, self.failed = True, False
        self.level = level or self.server.level
        self.idle_since = self.server.world.now

    def end(self) -> None:
        self.open = self.failed = False
        self.snapshot = None
        self.changes.clear()
        self.saved.clear()
        self.settings.clear()
        self.server.release(self, 0)

    def save(self) -> None:
        self.saved.append((len(self.changes), len(self.locks)))

    def fail(self) -> None:
        """Undone back to the last savepoint, locks too; nothing else is done until the client goes back."""
        changes, locks = self.saved[-1] if self.saved else (0, 0)
        del self.changes[changes:]
        self.server.release(self, locks)
        self.failed = True

    def back(self) -> None:
        """To the last savepoint."""
        changes, locks = self.saved.pop()
        del self.changes[changes:]
        self.server.release(self, locks)
        self.failed = False

    def view(self) -> dict[str, Relation]:
        base = self.server.state
        if self.level != IsolationLevel.READ_COMMITTED:
            base = self.snapshot = self.snapshot if self.snapshot is not None else base
        if not self.changes:
            return base
        seen = dict(base)
        for change in self.changes:
            change(seen)
        return seen

    def commit(self) -> None:
        if not self.failed and self.changes:
            state = dict(self.server.state)
            for change in self.changes:
                change(state)
            self.server.state = state
        self.end()

    def terminate(self, why: psycopg.Error) -> None:
        self.ended = self.ended or why
        self.end()

    def lapse(self) -> None:
        """The server ends a session that stays idle in its transaction for too long."""
        limit = self.settings.get("idle_in_transaction_session_timeout")
        if self.open and limit and self.server.world.now - self.idle_since > limit * 1_000_000:
            self.terminate(
                errors.IdleInTransactionSessionTimeout(
                    "terminating connection due to idle-in-transaction timeout"
                )
            )


class Server:
    def __init__(self, world: World, level: IsolationLevel = IsolationLevel.READ_COMMITTED) -> None:
        self.world = world
        self.level = level  # default_transaction_isolation
        self.state: dict[str, Relation] = {}
        self.sessions: list[Session] = []
        self.down_until = 0
        self.behind = 0  # nanoseconds that its clock lags by; another machine may have taken over
        self._locks: dict[Any, dict[Session, bool]] = {}  # key -> who holds it, exclusively or not
        self._numbers = itertools.count(1)

    def number(self) -> int:
        return next(self._numbers)

    def clock(self) -> datetime:
        return self.world.time() - timedelta(microseconds=self.behind // 1000)

    def restart(self) -> None:
        """What was committed stays, and nothing else."""
        chance = self.world.chance
        self.world.tell("server", "RESTART")
        for session in self.sessions:
            session.terminate(errors.AdminShutdown("terminating connection due to administrator command"))
        self.sessions.clear()
        self.down_until = self.world.now + int(chance.choice((0, 0.1, 3, 40)) * _SECOND)
        self.behind = chance.choice((0, self.behind, 2 * _SECOND, 3600 * _SECOND))

    def lock(self, session: Session, key: Any, *, shared: bool = False) -> bool:
        """Waits until nobody else holds it; whether that took any time."""
        if self._free(session, key, shared):
            self._take(session, key, shared)
            return False
        limit = session.settings.get("lock_timeout", 0) / 1000
        waited = 0.0
        session.idle_since = 1 << 62  # at work
        while not self._free(session, key, shared):
            if current_task() is None or (limit and waited >= limit):
                raise errors.LockNotAvailable("canceling statement due to lock timeout")
            self.world.wait(lambda: self._free(session, key, shared), _SLICE)
            waited += _SLICE
            if session.ended is not None:
                raise session.ended
        self._take(session, key, shared)
        return True

    def _take(self, session: Session, key: Any, shared: bool) -> None:
        held = self._locks.setdefault(key, {})
        if session not in held:
            session.locks.append(key)
        held[session] = held.get(session, False) or not shared

    def _free(self, session: Session, key: Any, shared: bool) -> bool:
        for other in list(self._locks.get(key, ())):
            other.lapse()
        held = self._locks.get(key, {})
        return not any(one is not session and (exclusive or not shared) for one, exclusive in held.items())

    def release(self, session: Session, since: int) -> None:
        for key in session.locks[since:]:
            del self._locks[key][session]
        del session.locks[since:]


class Transaction:
    """As `psycopg.Connection.transaction()`: within another one it is a savepoint."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Self:
        connection = self._connection
        session = connection.session
        self._outer = not session.open
        if self._outer:
            connection.ask("BEGIN", lambda: session.begin(connection.isolation_level))
        else:
            connection.ask("SAVEPOINT", session.save)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            if self._outer:
                self._connection.ask("COMMIT", self._connection.session.commit)
            else:
                self._connection.ask("RELEASE", self._connection.session.saved.pop)
            return
        session = self._connection.session
        with suppress(psycopg.Error):  # psycopg warns, and lets the first error through
            self._connection.ask("ROLLBACK", session.end if self._outer else session.back)


class Cursor:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, query: Any, values: Sequence[Any] = ()) -> Self:
        return self.executemany(query, [values])

    def executemany(self, query: Any, many: Sequence[Sequence[Any]]) -> Self:
        text = query if isinstance(query, str) else query.as_string(None)
        found: list[tuple[Any, ...]] = []

        def act() -> None:
            for values in many:
                found[:] = self._connection.run(text, values)

        self._connection.ask(text, act)
        self._rows = iter(found)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


class Connection:
    """As psycopg's, in autocommit mode."""

    def __init__(self, server: Server) -> None:
        self.server, self.session = server, Session(server)
        self.isolation_level: IsolationLevel | None = None
        self.closed = False
        server.sessions.append(self.session)
        task = current_task()
        self._process = task.process if task is not None else None
        if task is not None:  # the kernel closes its sockets
            task.process.on_death.append(self._hang_up)

    def transaction(self) -> Transaction:
        return Transaction(self)

    def cursor(self, *, binary: bool = False) -> Cursor:
        return Cursor(self)

    def execute(self, query: Any, values: Sequence[Any] = ()) -> Cursor:
        return Cursor(self).execute(query, values)

    def close(self) -> None:
        if not self.closed and (self._process is None or self._process.alive):
            self._hang_up()

    def _hang_up(self) -> None:
        self.closed = True
        self.session.terminate(psycopg.OperationalError("server closed the connection unexpectedly"))
        with suppress(ValueError):
            self.server.sessions.remove(self.session)

    def ask(self, text: str, act: Callable[[], Any]) -> None:
        """One message to the server, and its answer."""
        world, session = self.server.world, self.session
        if self.closed:
            raise psycopg.OperationalError("the connection is closed")
        world.effect("sql", " ".join(text.split())[:60])
        session.lapse()
        if world.happens("restart"):
            self.server.restart()
        if session.ended is not None:
            self.closed = True
            raise session.ended
        if world.happens("refused"):
            self._lost(text)
        if world.happens("late"):
            self._unnoticed(text, act)
        if session.failed and text != "ROLLBACK" and text != "COMMIT":
            raise errors.InFailedSqlTransaction("current transaction is aborted, commands ignored")
        with self._answering():
            if session.open and text != "ROLLBACK" and world.happens("serial"):
                raise errors.SerializationFailure("could not serialize access due to concurrent update")
            act()
        if world.happens("stall"):  # the disk of the server
            session.idle_since = 1 << 62
            world.sleep(world.chance.choice((1, 40, 90)))
        if world.happens("lost"):
            world.effect("lost", text[:60])
            self._lost(text)
        session.idle_since = world.now

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A statement that fails fails its transaction."""
        session, alone = self.session, not self.session.open
        try:
            yield
        except psycopg.Error:
            self.closed = session.ended is not None
            session.end() if alone else session.fail()
            raise

    def _lost(self, text: str) -> None:
        self.closed = True
        self._hang_up()
        raise psycopg.OperationalError(f"server closed the connection unexpectedly: {text[:30]}")

    def _unnoticed(self, text: str, act: Callable[[], Any]) -> None:
        """The network is gone for the client; the server goes on waiting for it, and the message may still
        arrive."""
        world, session = self.server.world, self.session
        self.closed = True

        def arrive() -> None:
            world.sleep(world.chance.choice((0.01, 0.2, 5, 300)))
            session.lapse()
            if session.ended is None:
                world.tell("network", "delivered", text[:60])
                if text == "COMMIT":
                    act()
            if session.open:
                world.sleep(_KEEPALIVE)
            session.terminate(psycopg.OperationalError("could not receive data from client"))

        world.spawn(Process("network"), "network", arrive)
        raise psycopg.OperationalError("could not receive data from server: Connection timed out")

    # The statements.

    def run(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """One that makes a transaction of its own unless it is in one."""
        alone = not self.session.open
        if alone:
            self.session.begin(self.isolation_level)
        if not text.startswith("SET "):
            self.session.view()  # what a transaction of a stricter level sees from now on
        for shape, statement in _STATEMENTS:
            found = shape.fullmatch(text)
            if found is not None:
                rows = statement(self.session, found, tuple(values))
                break
        else:
            raise AssertionError(f"the PostgreSQL in memory doesn't know this statement: {text}")
        if alone:
            self.session.commit()
        return rows


def connect(server: Server) -> Connection:
    """As `psycopg.connect`."""
    world = server.world
    world.effect("connect")
    if world.happens("refused") or world.now < server.down_until:
        raise psycopg.OperationalError("connection to server failed: Connection refused")
    return Connection(server)


def _relation(session: Session, name: str) -> Relation:
    found = session.view().get(name)
    if found is None:
        raise errors.UndefinedTable(f'relation "{name}" does not exist')
    session.server.lock(session, ("relation", name), shared=True)
    return session.view()[name]


def _change(session: Session, name: str, to: Callable[[Relation], Relation]) -> None:
    def change(state: dict[str, Relation]) -> None:
        if name in state:
            state[name] = to(state[name])

    session.changes.append(change)


def _set(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    number, unit = int(found[2]), found[3]
    session.settings[found[1]] = number * (1000 if unit == "s" else 1)
    return []


def _advisory(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    session.server.lock(session, ("advisory", values[0]))
    return [(None,)]


def _layout(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    seen = session.view()
    return [
        (name, column.name, column.not_null)
        for name, quoted in zip(*values, strict=True)
        for relation in (seen.get(_bare(quoted)),)
        if relation is not None
        for column in relation.columns
    ]


def _create(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    name = _bare(found[1])
    waited = session.server.lock(session, ("name", name))
    if name in session.view() or name in session.server.state:
        if waited:
            raise errors.UniqueViolation("duplicate key value violates unique constraint")
        raise errors.DuplicateTable(f'relation "{name}" already exists')
    session.server.lock(session, ("relation", name))
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    parent = None
    for one in re.split(r",\s*(?![^()]*\))", found[2]):
        if of_all := re.fullmatch(r"PRIMARY KEY \((.+)\)", one):
            key = tuple(of_all[1].split(", "))
            continue
        columns.append(_column(one))
        if "PRIMARY KEY" in one:
            key = (columns[-1].name,)
        if named := re.search(r'REFERENCES ("[^"]+")', one):
            parent = _bare(named[1])

    def change(state: dict[str, Relation]) -> None:
        state[name] = Relation(tuple(columns), key, parent)

    session.changes.append(change)
    return []


def _column(text: str) -> Column:
    name = text.split()[0]
    default = re.search(r"DEFAULT (now\(\)|'[^']*'|\S+)", text)
    not_null = "NOT NULL" in text or "PRIMARY KEY" in text
    return Column(name, not_null, _literal(default[1]) if default else None)


def _literal(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text.strip("'")


def _add_column(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    name, column = _bare(found[1]), _column(found[2])
    _relation(session, name)
    session.server.lock(session, ("relation", name))
    _change(
        session,
        name,
        lambda old: replace(
            old,
            columns=(*old.columns, column),
            rows={number: {**row, column.name: column.default} for number, row in old.rows.items()},
        ),
    )
    return []


def _index(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    return []


def _insert(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    name, server = _bare(found[1]), session.server
    relation = _relation(session, name)
    given = dict(zip(found[2].split(", "), values, strict=True))
    row = {one.name: given.get(one.name, _default(session, one)) for one in relation.columns}
    for one in relation.columns:
        if one.not_null and row[one.name] is None:
            raise errors.NotNullViolation(f'null value in column "{one.name}" of relation "{name}"')
    if relation.key:
        key = tuple(row[one] for one in relation.key)
        server.lock(session, ("row", name, key))
        of_key = dict(zip(relation.key, key, strict=True))
        if _latest(session)[name].where(**of_key):
            raise errors.UniqueViolation("duplicate key value violates unique constraint")
    if relation.parent is not None:
        _require_parent(session, relation.parent, row[relation.columns[0].name])
    number = server.number()
    _change(session, name, lambda old: replace(old, rows={**old.rows, number: row}))
    return []


def _require_parent(session: Session, name: str, value: Any) -> None:
    parent = session.view()[name]
    if not parent.where(**{parent.key[0]: value}):
        raise errors.ForeignKeyViolation("insert or update violates foreign key constraint")
    session.server.lock(session, ("kept", name, (value,)), shared=True)
    if not _latest(session)[name].where(**{parent.key[0]: value}):
        if session.level != IsolationLevel.READ_COMMITTED:
            raise errors.SerializationFailure("could not serialize access due to concurrent delete")
        raise errors.ForeignKeyViolation("insert or update violates foreign key constraint")


def _latest(session: Session) -> dict[str, Relation]:
    """Constraints are checked against what is committed, whatever the transaction sees."""
    state = dict(session.server.state)
    for change in session.changes:
        change(state)
    return state


def _default(session: Session, column: Column) -> Any:
    return session.server.clock() if column.default == "now()" else column.default


def _delete(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    name, server = _bare(found[1]), session.server
    relation = _relation(session, name)
    for number, row in relation.where(**{found[2]: values[0]}).items():
        for kind in ("row", "kept"):
            server.lock(session, (kind, name, tuple(row[one] for one in relation.key)))
        if number not in _latest(session)[name].rows:
            if session.level != IsolationLevel.READ_COMMITTED:
                raise errors.SerializationFailure("could not serialize access due to concurrent delete")
            continue
        _drop(session, name, number)
        for below, other in _latest(session).items():
            if other.parent == name:
                for child in other.where(**{other.columns[0].name: row[relation.key[0]]}):
                    _drop(session, below, child)
    return []


def _drop(session: Session, name: str, number: int) -> None:
    _change(
        session, name, lambda old: replace(old, rows={n: row for n, row in old.rows.items() if n != number})
    )


def _clock(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    return [(session.server.clock(),)]


def _one(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    return [(1,)]


def _same(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    rows = _relation(session, _bare(found[1])).where(run_id=values[1])
    return [(row["payload"] == values[0] if row["payload"] is not None else None,) for row in rows.values()]


def _has(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    return [(1,) for _ in _relation(session, _bare(found[1])).where(run_id=values[0])]


def _newest_build(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    rows = _relation(session, _bare(found[1])).rows.values()
    return [(max((row["created_at"] for row in rows), default=None),)]


def _builds(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    rows = _relation(session, _bare(found[1])).rows.values()
    listed = sorted(rows, key=lambda row: row["created_at"], reverse=True)
    return [(row["run_id"], row["created_at"]) for row in listed[: values[0]]]


def _pointer(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    """The newest row, or the one of a move."""
    builds, rows = _relation(session, _bare(found[1])), _relation(session, _bare(found[2])).rows.values()
    if values:
        rows = [row for row in rows if row["swap_id"] == values[0]]  # type: ignore[assignment]
    else:
        rows = sorted(rows, key=lambda row: row["updated_at"])[-1:]  # type: ignore[assignment]
    return [(*_told(row), _sequence(row, builds)) for row in rows]


def _told(row: Row) -> tuple[Any, ...]:
    return row["manifest_ref"], row["updated_at"], row["held"], row["swap_id"]


def _sequence(row: Row, builds: Relation) -> int:
    if row["sequence"] is not None:
        return int(row["sequence"])
    return next((int(one["sequence"]) for one in builds.where(run_id=row["manifest_ref"]).values()), 0)


def _payload(session: Session, found: re.Match[str], values: Any) -> list[Any]:
    limit, run_id = values
    rows = _relation(session, _bare(found[1])).where(run_id=run_id).values()
    return [(len(row["payload"]), row["payload"] if len(row["payload"]) <= limit else None) for row in rows]


def _bare(quoted: str) -> str:
    return quoted[1:-1].replace('""', '"').replace("%%", "%")


_NAME = '("[^"]+")'
_STATEMENTS: list[tuple[re.Pattern[str], Callable[[Session, re.Match[str], Any], list[Any]]]] = [
    (re.compile(shape, re.DOTALL), statement)
    for shape, statement in (
        (r"SET LOCAL (\w+) = '(\d+)(s|ms)'", _set),
        (r"SELECT pg_advisory_xact_lock\(%s\)", _advisory),
        (r"SELECT t\.name, a\.attname, a\.attnotnull FROM unnest\(.+", _layout),
        (rf"CREATE TABLE {_NAME} \((.+)\)", _create),
        (r"CREATE INDEX .+", _index),
        (rf"ALTER TABLE {_NAME} ADD COLUMN (.+)", _add_column),
        (rf"INSERT INTO {_NAME} \(([^)]+)\) VALUES \((?:%[sb](?:, )?)+\)", _insert),
        (rf"DELETE FROM {_NAME} WHERE (\w+) = %s", _delete),
        (r"SELECT clock_timestamp\(\)", _clock),
        (r"SELECT 1", _one),
        (rf"SELECT payload = %b FROM {_NAME} WHERE run_id = %s", _same),
        (rf"SELECT 1 FROM {_NAME} WHERE run_id = %s", _has),
        (rf"SELECT max\(created_at\) FROM {_NAME}", _newest_build),
        (rf"SELECT run_id, created_at FROM {_NAME} ORDER BY created_at DESC LIMIT %s", _builds),
        (
            rf"SELECT found\.ref, .+ FROM {_NAME} WHERE run_id = found\.ref.+ FROM {_NAME}"
            r" (?:ORDER BY updated_at DESC LIMIT 1|WHERE swap_id = %s)\) AS found",
            _pointer,
        ),
        (rf"SELECT found\.\* .+ FROM {_NAME} WHERE run_id = %s\) AS found", _payload),
    )
]
