"""Puts a world under lading: its clock, its ids, its threads, and all that reaches a disk or a bucket.

Real code runs on top; nothing in it knows. Installed once a process; `running` says which world it is.
"""

from __future__ import annotations

import builtins
import concurrent.futures
import fcntl
import gc
import importlib
import io
import logging
import os
import pickle
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

import lading.snapshots.runs
import lading.snapshots.stores.postgres.store
import lading.storage.bucket
import lading.storage.place
from lading import clock, ids
from lading.config.yaml import construct
from lading.model import Place
from lading.snapshots.stores.postgres.connections import Connections
from lading.storage.bucket import ObjectStorage
from lading.storage.folder import FolderStorage
from simulation import disk
from simulation.kernel import Process, World, current_task
from simulation.objects import Bucket, Obstore, Prefix
from simulation.postgres import Server, connect

_world: World | None = None
_bucket: Bucket | None = None
_postgres: Server | None = None
_here = threading.get_ident()


class Inline:
    """A pool whose work is done when it is asked for, in the order in which it came."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, work: Callable[..., Any], *items: Iterable[Any], **_: Any) -> Iterator[Any]:
        return iter([work(*one) for one in zip(*items, strict=False)])

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            done.set_result(work(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, *_: Any, **__: Any) -> None: ...


class Thread:
    """Of the process that starts it: killed with it, frozen with it."""

    def __init__(
        self,
        target: Callable[..., None],
        args: tuple[Any, ...] = (),
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        self._target, self._args, self._name = target, args, name
        self._done = False

    def start(self) -> None:
        task = current_task()
        if task is None or _world is None:
            self._done = True
            return
        _world.spawn(task.process, f"{task.name}'", self._run)

    def join(self) -> None:
        if _world is not None and not self._done:
            _world.wait(lambda: self._done)

    def _run(self) -> None:
        self._target(*self._args)
        self._done = True


class Event:
    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        return _world.wait(self.is_set, timeout) if _world is not None else self._set


class Lock:
    """Between the tasks of one process."""

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = current_task() or _here
        if self._owner is not None and self._owner is not me and _world is not None:
            if not blocking:
                return False
            while self._owner is not None:
                _world.wait(lambda: self._owner is None)
        self._owner, self._depth = me, self._depth + 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Local:
    """`threading.local`, by task."""

    def __getattribute__(self, name: str) -> Any:
        task = current_task()
        owner: dict[Any, Any] = task.__dict__ if task is not None else _outside
        mine = owner.setdefault(("local", id(self)), {})
        if name == "__dict__":
            return mine
        try:
            return mine[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value


_outside: dict[Any, Any] = {}


class Threading:
    """The module `threading`, as modules of lading see it in a simulation."""

    Thread, Event, Lock, RLock, local = Thread, Event, Lock, Lock, Local

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class ParquetFile(pq.ParquetFile):  # type: ignore[misc]
    """Opening a part is an effect."""

    def __init__(self, source: Any, *args: Any, **kwargs: Any) -> None:
        if disk.DISK is not None and (mine := disk.DISK.mine(source)) is not None:
            disk.DISK.world.effect("part", mine.removeprefix(disk.DISK.root))
        super().__init__(source, *args, **kwargs)


def before_write(look: Callable[[str, bytes], None]) -> None:
    """`look` sees what is about to be written to the bucket, if there is one."""
    if _bucket is not None:
        _bucket.before_write = look


def _connect(scheme: str, bucket: str, prefix: str, options: dict[str, str]) -> tuple[Any, Any]:
    assert _bucket is not None
    return Obstore(), Prefix(_bucket, prefix)


_storages: dict[Any, Any] = {}


def _connected(url: str, options: tuple[tuple[str, str], ...]) -> Any:
    """As `storage.place`, once a process of the world."""
    task = current_task()
    known = task.process.local if task is not None else _storages
    if (url, options) not in known:
        known[url, options] = ObjectStorage(url, dict(options)) if "://" in url else FolderStorage(url)
    return known[url, options]


def _connections(url: str) -> Connections:
    """As `connections_to`, once a process of the world."""
    task = current_task()
    known = task.process.local if task is not None else _storages
    if url not in known:
        known[url] = Connections(url)
    return known[url]  # type: ignore[no-any-return]


def _psycopg_connect(**_: Any) -> Any:
    assert _postgres is not None
    return connect(_postgres)


def _sqlite(database: Any, *args: Any, **kwargs: Any) -> sqlite3.Connection:
    if disk.DISK is not None and isinstance(database, str) and disk.DISK.root in database:
        disk.DISK.world.effect("sqlite", database.partition(disk.DISK.root)[2].partition("?")[0])
    return _sqlite_connect(database, *args, **kwargs)


_sqlite_connect = sqlite3.connect
_MODULES = (
    "snapshots.runs",
    "storage.folder",
    "snapshots.stores.by_url",
    "storage.memory",
    "snapshots.stores.postgres.connections",
    "read.view",
    "api",
    "serve.get",
    "serve.open.limit",
    "serve.open.shard",
)


def install() -> None:
    """Once, before the first world."""
    logging.disable(logging.WARNING)  # of leases and checkpoints that a fault kept from being written
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for name, call in disk.CALLS.items():
        setattr(os, name, call)
    builtins.open = disk.opened  # type: ignore[assignment]
    io.open = disk.opened  # type: ignore[assignment]
    fcntl.flock = disk.flocked
    sqlite3.connect = _sqlite  # type: ignore[assignment]
    pq.ParquetFile = ParquetFile
    concurrent.futures.ThreadPoolExecutor = Inline  # type: ignore[assignment, misc]
    lading.storage.bucket._connect = _connect
    lading.storage.place._connected = _connected  # type: ignore[assignment]
    psycopg.connect = _psycopg_connect
    lading.snapshots.stores.postgres.store.connections_to = _connections
    clock.now = lambda: _world.time() if _world is not None else datetime.now(UTC)
    clock.wall_ns = lambda: _world.now if _world is not None else 0
    clock.monotonic = lambda: _world.now / 1e9 if _world is not None else 0.0
    clock.sleep = lambda seconds: _world.sleep(seconds) if _world is not None else None
    ids.random_bytes = lambda count: _world.random_bytes(count) if _world is not None else os.urandom(count)
    lading.snapshots.runs.construct = _constructed
    for module in ("snapshot", "follow", "check"):
        importlib.import_module(f"lading.iceberg.{module}").location_of = location_of  # type: ignore[attr-defined]
    _replace_threads()
    gc.freeze()  # what is loaded by now lives as long as the process


def location_of(place: Place) -> str:
    """As Iceberg's metadata names it: the same in every process, or a seed would be another history there."""
    if "://" in place.url or disk.DISK is None:
        return place.url
    return f"file://{place.url.removeprefix(disk.DISK.root)}"


_parsed: dict[str, bytes] = {}  # text -> the pickled values


def _constructed(text: str) -> Any:
    """As `construct`. The same records are parsed again and again: a twelfth of a history's time."""
    if text not in _parsed:
        if len(_parsed) > 5_000:
            _parsed.clear()
        _parsed[text] = pickle.dumps(construct(text))
    return pickle.loads(_parsed[text])


def _replace_threads() -> None:
    for name in _MODULES:
        importlib.import_module(f"lading.{name}").threading = Threading()  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):
        if name.startswith("lading.") and hasattr(module, "ThreadPoolExecutor"):
            module.ThreadPoolExecutor = Inline  # type: ignore[attr-defined]


@contextmanager
def running(
    world: World, *, root: Any = None, bucket: Bucket | None = None, postgres: Server | None = None
) -> Iterator[None]:
    """`world` is what lading sees meanwhile."""
    global _world, _bucket, _postgres
    _world, _bucket, _postgres = world, bucket, postgres
    _storages.clear()
    _outside.clear()
    if root is not None:
        made = disk.Disk(world, root)
        world.power_cut = made.power_cut
        disk.use(made)
    try:
        yield
    finally:
        for process in {id(one.process): one.process for one in world.tasks}.values():
            _end(world, process)
        disk.use(None)
        _world = _bucket = _postgres = None


def _end(world: World, process: Process) -> None:
    """Greenlets that are left would run on when they are collected."""
    with suppress(BaseException):
        world.kill(process)
