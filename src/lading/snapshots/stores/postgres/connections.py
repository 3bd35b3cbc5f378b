"""Connections to one PostgreSQL: kept for the next caller, made anew when the server went away.

One pool a process and URL, without threads of its own: all tables of a run share it. A password may
be part of the URL, so what is shown of a URL is host and database, and what libpq says of a failure
is shown without anything that the URL holds as a secret.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from lading import clock
from lading.config.stores import POSTGRES_SCHEMES, scheme_of, url_problem
from lading.errors import ConfigError, MissingExtra
from lading.secrets import bare, hide

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection

T = TypeVar("T")

PATIENCE = 15.0  # seconds that a server which was there is waited for: a restart
_TRIES = 6  # at least: whoever sleeps between two of them hasn't been patient
_LIMIT = 8  # connections at once
_SECRETS = ("password", "sslpassword", "passfile", "oauth_client_secret")
_SETTINGS: dict[str, Any] = {
    "application_name": "lading",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# Slept in a transaction, serialisation, deadlock, too many connections, shutdown, crash, starting, idle.
_PASSING = frozenset({"25P03", "40001", "40P01", "53300", "57P01", "57P02", "57P03", "57P05"})

_pools: dict[tuple[int, str], Connections] = {}
_pools_lock = threading.Lock()


def connections_to(url: str) -> Connections:
    """The process's connections to the database at `url`."""
    with _pools_lock:
        key = (os.getpid(), url)  # a connection must not be shared with a forked process
        if key not in _pools:
            _pools[key] = Connections(url)
            atexit.register(_pools[key].close)
        return _pools[key]


class Connections:
    """A pool. `transaction` is the only way in."""

    def __init__(self, url: str) -> None:
        self._parameters, self._secrets = _parse(url)
        self.url = shown(url)
        self._idle: list[Connection[Any]] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_LIMIT)
        self._was_there = False

    def transaction(self, work: Callable[[Connection[Any]], T]) -> T:
        """What `work` returns, committed. It is done again if the connection breaks, so it has to
        recognise what an attempt whose answer got lost has done."""
        import psycopg

        waited, pause, tries = 0.0, 0.02, 0
        while True:
            tries, began = tries + 1, clock.monotonic()
            try:
                with self._connection() as connection, connection.transaction():
                    done = work(connection)
                return done
            except psycopg.Error as error:
                if not (is_passing(error) and self._was_there):
                    raise
                self.close()  # one broken connection: the others are likely to be, too
                took = clock.monotonic() - began if tries > 1 else 0.0  # the server was there until it failed
                waited += _waited(error, took, pause)
                if waited > PATIENCE and tries >= _TRIES:
                    raise
            clock.sleep(pause)
            pause = min(2 * pause, 1.0)

    def reason(self, error: Exception) -> str:
        """What the server or libpq says in one line, without secrets."""
        text = " ".join(str(error).split()) or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return hide(text)[:500]

    def close(self) -> None:
        """Close the idle connections; later calls make new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        with self._slots:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._connect()
            try:
                yield connection
            except BaseException:
                connection.close()  # broken, or in an unknown state
                raise
            with self._lock:
                self._idle.append(connection)

    def _connect(self) -> Connection[Any]:
        import psycopg

        # No prepared statements: a pooler in between may send each transaction elsewhere.
        connection = psycopg.connect(**self._parameters, autocommit=True, prepare_threshold=None)
        # Every statement sees what was committed before it, also what was so while a lock was waited for.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        self._was_there = True
        return connection


def _waited(error: psycopg.Error, took: float, pause: float) -> float:
    """How much patience a failed try uses up. A server that answered was not away, however long the try took:
    it may have waited for a lock, or slept."""
    return pause if error.sqlstate else took + pause


def is_passing(error: psycopg.Error) -> bool:
    """Whether the same transaction may well succeed when it is tried again."""
    import psycopg

    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return error.sqlstate in _PASSING or error.sqlstate[:2] == "08"


def shown(url: str) -> str:
    """Host and database: safe to print."""
    return "postgresql" + bare(url).removeprefix(scheme_of(url))


def _parse(url: str) -> tuple[dict[str, Any], list[str]]:
    """libpq's parameters, and the values among them that must never be shown."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise MissingExtra("postgresql:// needs psycopg", hint="pip install 'lading[postgres]'") from error
    problem = url_problem(url) if scheme_of(url) in POSTGRES_SCHEMES else "is not a postgresql:// URL"
    if problem:
        raise ConfigError(f"the store's URL {problem}", hint="correct it")
    try:
        given = conninfo_to_dict(url)
    except ProgrammingError:  # its text may hold what libpq took a piece of the password for
        raise ConfigError(
            f"{shown(url)} has parameters that libpq doesn't understand",
            hint="write postgresql://user:password@host:5432/database, special characters as %XX",
        ) from None
    secrets = [str(given[name]) for name in _SECRETS if given.get(name)]
    raw = (urlsplit(url).password or "", unquote(urlsplit(url).password or ""))
    return {**_SETTINGS, **given}, sorted({*secrets, *raw} - {""}, key=len, reverse=True)
