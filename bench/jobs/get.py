"""get, multi_get: values by key, of 1 million keys in 8 shards, 100 bytes each; everything is warm.

Keys are drawn at random, all of them there. lading's table was built by a run and is read through
`lading.open`. The floors know the shard of each key beforehand and have it encoded: sqlite3 on the same
files with `immutable=1`, one statement a key for get, batches of `IN` for multi_get. rocksdict and lmdb
are shown and not promised anything against: other engines, one file, no shards. Plain sqlite3 is one
file opened as everybody opens it.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import lading
from bench import served
from bench.bars import at_least_floor
from bench.case import Case, Job, Kit, label
from bench.fixtures import kept
from bench.harness import Contender, Turn
from bench.served import SHARDS, STRIDE, VALUE

BATCH = 1_000  # keys of one multi_get
_DDL = "CREATE TABLE kv(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"
_ONE = "SELECT v FROM kv WHERE k = ?"

Ask = Callable[[Sequence[int]], int]  # keys in, the number of values found out


def measure_get(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size, many=False) for size in _sizes(kit))


def measure_multi_get(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size, many=True) for size in _sizes(kit))


def _sizes(kit: Kit) -> list[int]:
    return kit.sizes([1_000_000], [100_000], [2_000])


def _case(kit: Kit, size: int, *, many: bool) -> Case:
    name = f"{label(size)} keys, {SHARDS} shards"
    kit.tell(f"{name}: fixtures")
    folder = served.table(served.project(kit, size))
    draw = random.Random(2)
    keys = [draw.randrange(size) * STRIDE for _ in range(kit.pick(100_000, 50_000, 2_000))]
    contenders = [
        Contender("lading", "lading", lambda: _turns(lambda: _lading(folder, many), keys, many)),
        Contender("rocksdict", "peer", lambda: _turns(lambda: _rocksdict(kit, size, many), keys, many)),
        Contender("lmdb", "peer", lambda: _turns(lambda: _lmdb(kit, size, many), keys, many)),
        Contender("sqlite3", "peer", lambda: _turns(lambda: _sqlite(kit, size, many), keys, many)),
        Contender("sqlite3, pre-routed", "floor", lambda: _floor(folder, keys, many)),
    ]
    measured = kit.contest(contenders, what=name)
    return Case(name, size, "/s", "higher", measured, [at_least_floor(0.8)])


@contextmanager
def _turns(way: Callable[[], AbstractContextManager[Ask]], keys: list[int], many: bool) -> Iterator[Turn]:
    with way() as ask:
        pieces = _pieces(keys, BATCH)

        def turn() -> float:
            begun = time.perf_counter()
            found = sum(ask(piece) for piece in pieces)
            seconds = time.perf_counter() - begun
            assert found == (len(keys) if not many else sum(len(set(p)) for p in pieces))
            return len(keys) / seconds

        yield turn


def _pieces(keys: list[int], length: int) -> list[list[int]]:
    return [keys[at : at + length] for at in range(0, len(keys), length)]


def stored(key: int) -> bytes:
    return key.to_bytes(8, "big")


@contextmanager
def _lading(folder: Path, many: bool) -> Iterator[Ask]:
    with lading.open(folder) as reader:
        assert reader.get(STRIDE) == f"{STRIDE:0{VALUE}d}".encode() and reader.get(STRIDE + 1) is None
        get, multi_get = reader.get, reader.multi_get
        if many:
            yield lambda keys: sum(value is not None for value in multi_get(keys).values())
        else:
            yield lambda keys: sum(get(key) is not None for key in keys)


@contextmanager
def _floor(folder: Path, keys: list[int], many: bool) -> Iterator[Turn]:
    """Everything that depends on the key alone is done beforehand."""
    with lading.open(folder) as reader:
        files = {one.db_id: folder / str(one.db_url) / "shard.db" for one in reader.shards()}
        routed = [(reader.route(key), stored(key)) for key in keys]
    opened = {n: sqlite3.connect(f"file:{path}?immutable=1", uri=True) for n, path in files.items()}
    cursors = {number: connection.cursor() for number, connection in opened.items()}
    if not many:
        pairs = [(cursors[number], (key,)) for number, key in routed]

        def turn() -> float:
            begun = time.perf_counter()
            for cursor, key in pairs:
                cursor.execute(_ONE, key).fetchone()
            return len(pairs) / (time.perf_counter() - begun)

    else:
        batches = _batches(routed)

        def turn() -> float:
            begun = time.perf_counter()
            for batch in batches:
                found: dict[bytes, bytes] = {}
                for number, sql, parameters in batch:
                    found.update(cursors[number].execute(sql, parameters).fetchall())
            return len(routed) / (time.perf_counter() - begun)

    yield turn
    for connection in opened.values():
        connection.close()


def _batches(routed: list[tuple[int, bytes]]) -> list[list[tuple[int, str, list[bytes]]]]:
    """For each multi_get, one statement a shard."""
    found = []
    for at in range(0, len(routed), BATCH):
        by_shard: dict[int, list[bytes]] = {}
        for number, key in routed[at : at + BATCH]:
            by_shard.setdefault(number, []).append(key)
        found.append([(number, _many(len(keys)), sorted(keys)) for number, keys in by_shard.items()])
    return found


def _many(count: int) -> str:
    return f"SELECT k, v FROM kv WHERE k IN ({', '.join('?' * count)})"


def _filled(kit: Kit, size: int, name: str, fill: Callable[[Path], None]) -> Path:
    return kept(kit.data, f"{name}-{size}", f"{size} 1", fill)


def _all_rows(size: int) -> Iterator[tuple[bytes, bytes]]:
    for keys, texts in served.rows(size):
        yield from zip(map(stored, keys.tolist()), (text.encode() for text in texts.to_pylist()), strict=True)


@contextmanager
def _sqlite(kit: Kit, size: int, many: bool) -> Iterator[Ask]:
    def fill(at: Path) -> None:
        with closing(sqlite3.connect(at / "kv.db")) as made, made:
            made.execute(_DDL)
            made.executemany("INSERT INTO kv VALUES (?, ?)", _all_rows(size))

    with closing(sqlite3.connect(_filled(kit, size, "sqlite", fill) / "kv.db")) as connection:
        if many:
            yield lambda keys: len(connection.execute(_many(len(keys)), [*map(stored, keys)]).fetchall())
        else:
            execute = connection.execute
            yield lambda keys: sum(execute(_ONE, (stored(key),)).fetchone() is not None for key in keys)


@contextmanager
def _lmdb(kit: Kit, size: int, many: bool) -> Iterator[Ask]:
    import lmdb

    def fill(at: Path) -> None:
        with lmdb.open(str(at), map_size=4 << 30) as made, made.begin(write=True) as writing:
            writing.cursor().putmulti(_all_rows(size), append=True)

    folder = _filled(kit, size, "lmdb", fill)
    opening = lmdb.open(str(folder), readonly=True, lock=False, map_size=4 << 30)
    with opening as opened, opened.begin() as reading:
        if many:
            yield lambda keys: len(dict(reading.cursor().getmulti([*map(stored, keys)])))
        else:
            get = reading.get
            yield lambda keys: sum(get(stored(key)) is not None for key in keys)


@contextmanager
def _rocksdict(kit: Kit, size: int, many: bool) -> Iterator[Ask]:
    from rocksdict import AccessType, Options, Rdict, WriteBatch

    def fill(at: Path) -> None:
        made = Rdict(str(at / "db"), Options(raw_mode=True))
        batch = WriteBatch(raw_mode=True)
        for key, value in _all_rows(size):
            batch.put(key, value)
            if batch.len() == 10_000:
                made.write(batch)
                batch = WriteBatch(raw_mode=True)
        made.write(batch)
        made.flush()
        made.compact_range(None, None)
        made.close()

    path = _filled(kit, size, "rocksdict", fill) / "db"
    opened = Rdict(str(path), Options(raw_mode=True), access_type=AccessType.read_only())
    if many:
        yield lambda keys: len(
            {stored(k): v for k, v in zip(keys, opened[[*map(stored, keys)]], strict=True)}
        )
    else:
        yield lambda keys: sum(opened.get(stored(key)) is not None for key in keys)
    opened.close()


GET = Job("get", "One value by key, warm", __doc__ or "", measure_get, budget=900)
MULTI_GET = Job("multi_get", f"{BATCH:,} values by key, warm", __doc__ or "", measure_multi_get, budget=900)
