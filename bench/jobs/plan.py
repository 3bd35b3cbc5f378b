"""plan: open a table from nothing and name the files that a query has to read.

Opened cold means fresh objects in a process that has its imports done; the page cache is warm; the same
for everyone. lading has 1,000 commits behind its checkpoint: the last forty are read one by one, the others
by column from the overlay that lading writes every 64 commits. deltalake gets a fresh checkpoint, pyiceberg
few and large manifests, DuckLake one snapshot: the best state each can be in.
DuckLake's figure has one tiny file read in it (bench/peers/ducklake.py says why).

Floors: the same bounds as a SQLite table with an index, and as an Arrow file, mapped and masked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bench import fixtures
from bench.bars import Clause, at_most, better_than
from bench.case import Case, Job, Kit, label
from bench.harness import Contender, Turn, simply, timed
from bench.peers import delta, ducklake, iceberg
from lading.collection import Collection

PEERS_UP_TO = 100_000
QUERIES = {
    "key = X and status = 404": f"key = {fixtures.KEY} and status = 404",
    "status = 404": "status = 404",
}


def measure(kit: Kit) -> Iterator[Case]:
    for size in kit.sizes([1_000, 10_000, 100_000, 1_000_000], [1_000, 10_000], [1_000]):
        for query in QUERIES:
            yield _case(kit, size, query)


def _case(kit: Kit, size: int, query: str) -> Case:
    name, where = f"{label(size)}, {query}", QUERIES[query]
    kit.tell(f"{name}: fixtures")
    folder = fixtures.collection(kit.data, size, fixtures.BEHIND)
    floors = _floors(kit.data, size)
    _refuse_wrong_answers(folder, floors, query, where)
    contenders = [simply("lading", "lading", lambda: lading(folder, where))]
    if size <= PEERS_UP_TO and kit.with_peers:
        contenders += _peers(kit.data, size, where)
    contenders += [
        simply("SQLite index", "floor", lambda: sqlite_index(floors, query)),
        simply("Arrow mask", "floor", lambda: arrow_mask(floors, query)),
    ]
    return Case(name, size, "s", "lower", kit.contest(contenders, what=name), _bar(size), panel=query)


def _bar(size: int) -> list[Clause]:
    if size > 100_000:
        return [at_most(20, "≤ 20 ms", 1e3, " ms")]
    own = at_most(5, "≤ 5 ms", 1e3, " ms")
    if size < 100_000:
        return [own]
    return [own, better_than("deltalake", 40), better_than("pyiceberg", 1_000), better_than("DuckLake", 25)]


def lading(folder: Path, where: str) -> int:
    with Collection(folder) as opened:
        return opened.scan(where).files_scanned


def _peers(data: Path, size: int, where: str) -> list[Contender]:
    """Each makes its own table, so that one that can't doesn't take part and the others do."""

    @contextmanager
    def deltalake() -> Iterator[Turn]:
        folder = delta.table(data, size)
        yield timed(lambda: delta.plan(folder, where))

    @contextmanager
    def pyiceberg() -> Iterator[Turn]:
        folder = iceberg.table(data, size)
        yield timed(lambda: iceberg.plan(folder, where))

    @contextmanager
    def duck_lake() -> Iterator[Turn]:
        folder = ducklake.table(data, size)
        with closing(ducklake.connect()) as connection:
            yield timed(lambda: ducklake.plan(connection, folder, where))

    return [
        Contender("deltalake", "peer", deltalake),
        Contender("pyiceberg", "peer", pyiceberg, budget=60),
        Contender("DuckLake", "peer", duck_lake),
    ]


def _floors(data: Path, size: int) -> Path:
    return fixtures.kept(data, f"plan-floors-{size}", f"{size} 1", lambda at: _fill_floors(at, size))


def _fill_floors(at: Path, size: int) -> None:
    rows = [(one.path, *one.zones["key"], *one.zones["status"]) for one in fixtures.made_up(0, size)]
    with closing(sqlite3.connect(at / "members.db")) as connection, connection:
        connection.execute("CREATE TABLE members(path, key_min, key_max, status_min, status_max)")
        connection.executemany("INSERT INTO members VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute("CREATE INDEX by_key ON members(key_min, key_max)")
        connection.execute("CREATE INDEX by_status ON members(status_max, status_min)")
    names = ("path", "key_min", "key_max", "status_min", "status_max")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    with pa.OSFile(str(at / "members.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def sqlite_index(floors: Path, query: str) -> int:
    uri = f"file:{floors}/members.db?mode=ro&immutable=1"
    by_key = "SELECT path, key_max, status_min, status_max FROM members WHERE key_min <= ? "
    by_key += "ORDER BY key_min DESC LIMIT 1"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        if query == "status = 404":
            sql = "SELECT path FROM members WHERE status_max >= 404 AND status_min <= 404"
            return len(connection.execute(sql).fetchall())
        rows = connection.execute(by_key, (fixtures.KEY,)).fetchall()
        return sum(high >= fixtures.KEY and low <= 404 <= top for _, high, low, top in rows)


def arrow_mask(floors: Path, query: str) -> int:
    with pa.memory_map(str(floors / "members.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()
        keep = pc.and_(pc.less_equal(table["status_min"], 404), pc.greater_equal(table["status_max"], 404))
        if query != "status = 404":
            at_or_before = pc.less_equal(table["key_min"], fixtures.KEY)
            at_or_after = pc.greater_equal(table["key_max"], fixtures.KEY)
            keep = pc.and_(keep, pc.and_(at_or_before, at_or_after))
        return len(table["path"].filter(keep).to_pylist())


def _refuse_wrong_answers(folder: Path, floors: Path, query: str, where: str) -> None:
    """A quick wrong answer is no answer."""
    found = {lading(folder, where), sqlite_index(floors, query), arrow_mask(floors, query)}
    assert len(found) == 1 and found != {0}, f"{query} names {found} files"


JOB = Job("plan", "Open a table and plan a query", __doc__ or "", measure, budget=1_500)
