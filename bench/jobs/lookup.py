"""lookup: the rows of one key, of 10 million rows in 100 sorted Parquet files; everything is warm.

All read the same files. Keys are drawn at random. Whoever can keep something open between two lookups
does: lading its collection, deltalake a dataset, pyiceberg a table, duckdb its metadata cache. The floor
knows the right file and has its footer at hand: it reads the row group and filters it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.bars import at_most_floor
from bench.case import Case, Job, Kit, label
from bench.fixtures import code_of, kept, version_of
from bench.harness import Contender, Role, Turn, timed
from lading.collection import Collection

Lookup = Callable[[int], int]  # from a key to the number of its rows
Way = Callable[[Path], AbstractContextManager[Lookup]]


def measure(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size) for size in kit.sizes([10_000_000], [1_000_000], [10_000]))


def _case(kit: Kit, size: int) -> Case:
    files = kit.pick(100, 10, 4)
    name = f"{label(size)} rows, {files} files"
    kit.tell(f"{name}: fixtures")
    folder = _files(kit.data, size, files)
    draw = random.Random(1)
    keys = [draw.randrange(size) * 2 for _ in range(1_000)]

    def contender(name: str, role: Role, way: Way) -> Contender:
        return Contender(name, role, lambda: _turns(way, folder, keys))

    contenders = [
        contender("lading", "lading", _lading),
        contender("deltalake", "peer", _deltalake),
        contender("pyiceberg", "peer", _pyiceberg),
        contender("duckdb glob", "peer", _duckdb),
        contender("polars glob", "peer", _polars),
        contender("the right file", "floor", _right_file),
    ]
    return Case(name, size, "s", "lower", kit.contest(contenders, what=name), [at_most_floor(1.3)])


@contextmanager
def _turns(way: Way, folder: Path, keys: list[int]) -> Iterator[Turn]:
    with way(folder) as look:
        assert look(keys[0]) == 1 and look(keys[0] + 1) == 0, "it finds what is there, and nothing else"
        following = cycle(keys)
        yield timed(lambda: look(next(following)), at_least=0.3)


def _files(data: Path, size: int, files: int) -> Path:
    made_by = f"{size} {files} 1 {version_of('pyarrow')}"
    return kept(data, f"lookup-{size}", made_by, lambda at: _fill(at, size, files))


def _fill(at: Path, size: int, files: int) -> None:
    """Even keys only, so that odd ones are absent; row groups as lading's own parts have them."""
    draw = np.random.default_rng(1)
    each = size // files
    for number in range(files):
        keys = np.arange(number * each, (number + 1) * each, dtype=np.int64) * 2
        table = pa.table(
            {
                "key": keys,
                "status": draw.choice(np.array([200, 304, 404], np.int32), each),
                "ms": draw.random(each),
                "name": pa.array(np.char.add("name-", (keys % 99_991).astype("U6"))),
            }
        )
        path = at / f"part-{number:05d}.parquet"
        pq.write_table(table, path, compression="zstd", row_group_size=131_072)


@contextmanager
def _lading(folder: Path) -> Iterator[Lookup]:
    def fill(at: Path) -> None:
        with Collection(at) as made:
            made.add(*sorted(folder.glob("*.parquet")), key="key")

    made_by = code_of("model.py", "state", "log", "storage", "collection.py") + str(folder)
    home = kept(folder.parent, f"{folder.name[:-13]}-collection", made_by, fill)
    with Collection(home) as opened:
        yield lambda key: len(opened.lookup(key).rows)


@contextmanager
def _right_file(folder: Path) -> Iterator[Lookup]:
    paths = sorted(folder.glob("*.parquet"))
    footers = [pq.read_metadata(path) for path in paths]
    each = footers[0].num_rows * 2
    groups = [_groups(footer) for footer in footers]

    def look(key: int) -> int:
        at = key // each
        with pq.ParquetFile(paths[at], metadata=footers[at]) as file:
            wanted = [number for number, (low, high) in enumerate(groups[at]) if low <= key <= high]
            table = file.read_row_groups(wanted)
        return len(table.filter(pc.equal(table["key"], key)).to_pylist())

    yield look


def _groups(footer: pq.FileMetaData) -> list[tuple[int, int]]:
    found = [footer.row_group(number).column(0).statistics for number in range(footer.num_row_groups)]
    return [(one.min, one.max) for one in found]


@contextmanager
def _deltalake(folder: Path) -> Iterator[Lookup]:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable, convert_to_deltalake

    if not DeltaTable.is_deltatable(str(folder)):
        convert_to_deltalake(folder)
    dataset = DeltaTable(folder).to_pyarrow_dataset()
    yield lambda key: len(dataset.to_table(filter=ds.field("key") == key).to_pylist())


@contextmanager
def _pyiceberg(folder: Path) -> Iterator[Lookup]:
    from pyiceberg.catalog.sql import SqlCatalog

    home = folder / "iceberg"
    home.mkdir(exist_ok=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{home}/catalog.db", warehouse=home.absolute().as_uri())
    catalog.create_namespace_if_not_exists("d")
    files = sorted(folder.glob("*.parquet"))
    if not catalog.table_exists("d.t"):
        made = catalog.create_table("d.t", pq.read_schema(files[0]))
        made.add_files([path.absolute().as_uri() for path in files])
    table = catalog.load_table("d.t")
    yield lambda key: len(table.scan(row_filter=f"key == {key}").to_arrow().to_pylist())
    catalog.close()


@contextmanager
def _duckdb(folder: Path) -> Iterator[Lookup]:
    import duckdb

    with closing(duckdb.connect()) as connection:
        connection.execute("SET enable_object_cache = true")
        sql = f"SELECT * FROM read_parquet('{folder}/*.parquet') WHERE key = ?"
        yield lambda key: len(connection.execute(sql, [key]).fetchall())


@contextmanager
def _polars(folder: Path) -> Iterator[Lookup]:
    import polars as pl

    frame = pl.scan_parquet(f"{folder}/*.parquet")
    yield lambda key: len(frame.filter(pl.col("key") == key).collect().rows())


JOB = Job("lookup", "The rows of one key, warm", __doc__ or "", measure, budget=900)
