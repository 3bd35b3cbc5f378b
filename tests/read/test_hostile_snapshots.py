"""A snapshot may come from a stranger: what readers use of it is refused by name, in bounded time, and
nothing of the stranger's is ever run."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.world import World

import lading
from lading.errors import LadingError, ManifestParseError, PartError
from lading.state.tables import row_crc, vector_crc


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Path]:
    world = World(tmp_path_factory.mktemp("hostile") / "project")
    world.run(parts=2)
    current = world.store.load_current()
    assert current is not None
    return world, world.root / current.ref


@pytest.fixture
def hostile(published: tuple[World, Path]) -> Any:
    """Lets a test change the published manifest by SQL, and puts it back."""
    world, path = published
    whole = path.read_bytes()

    def change(work: Callable[[sqlite3.Connection], object]) -> Path:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.deserialize(whole)
            work(connection)
            connection.execute("VACUUM")
            path.write_bytes(connection.serialize())
        return world.root

    yield change
    path.write_bytes(whole)


def read_all(root: Path) -> None:
    with lading.open(root) as reader:
        reader.sources()
        reader.scan().to_table()
        reader.scan(where="id > 1").to_table()
        reader.lookup(2)
        reader.info()


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


@pytest.mark.parametrize("table", ["lading", "members", "zones", "vectors", "sources"])
def test_a_view_in_place_of_a_table_is_refused_before_it_is_run(hostile: Any, table: str) -> None:
    def plant(connection: sqlite3.Connection) -> None:
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"CREATE VIEW {table} AS {ENDLESS}")

    root = hostile(plant)
    began = time.monotonic()
    with pytest.raises(ManifestParseError, match="not a plain table"):
        read_all(root)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("table", ["members", "vectors", "sources"])
def test_an_absent_table_and_a_computed_column_are_refused(hostile: Any, table: str) -> None:
    with pytest.raises(ManifestParseError, match="there is no table"):
        read_all(hostile(lambda con: con.execute(f"DROP TABLE {table}")))

    def compute(connection: sqlite3.Connection) -> None:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN evil AS (1) VIRTUAL")

    with pytest.raises(ManifestParseError, match="not a plain table"):
        read_all(hostile(compute))


def test_planted_triggers_are_refused_and_strange_tables_do_nothing(hostile: Any) -> None:
    read_all(hostile(lambda connection: connection.execute("CREATE TABLE evil(x)")))

    def plant(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE evil(x)")
        connection.execute(
            "CREATE TRIGGER t AFTER INSERT ON members BEGIN INSERT INTO evil VALUES (randomblob(1e9)); END"
        )

    with pytest.raises(ManifestParseError, match="trigger"):
        read_all(hostile(plant))


def test_a_huge_blob_is_an_error_and_costs_little(hostile: Any) -> None:
    def plant(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE vectors SET vector = zeroblob(64000000) WHERE name = 'rows'")

    began = time.monotonic()
    with pytest.raises(ManifestParseError):
        read_all(hostile(plant))
    assert time.monotonic() - began < 10


def reseal(connection: sqlite3.Connection, **fields: object) -> None:
    """Change a member and make its checksum right again: malice, not damage."""
    rows = connection.execute("SELECT * FROM members WHERE id = 0").fetchall()
    names = [one[1] for one in connection.execute("PRAGMA table_info(members)")]
    row = dict(zip(names, rows[0], strict=True)) | fields
    content = tuple(row[name] for name in names[:-1])
    marks = ", ".join("?" * len(names))
    connection.execute("DELETE FROM members WHERE id = 0")
    connection.execute(f"INSERT INTO members VALUES ({marks})", (*content, row_crc(content)))


@pytest.mark.parametrize(
    "path", ["../../../outside.parquet", "bucket=000000/../../../../outside.parquet", "../t2/part.parquet"]
)
def test_a_member_that_leads_out_of_the_root_is_refused(hostile: Any, path: str) -> None:
    root = hostile(lambda con: reseal(con, path=path))
    with pytest.raises(PartError, match="points outside"):
        read_all(root)


@pytest.mark.parametrize(
    "fields",
    [{"path": 5}, {"path": b"x"}, {"rows": "many"}, {"bucket": 1.5}, {"minus": b"odd"}, {"minus": "text"}],
    ids=str,
)
def test_values_of_another_type_are_refused_although_the_checksum_is_right(hostile: Any, fields: Any) -> None:
    root = hostile(lambda con: reseal(con, **fields))
    with pytest.raises(ManifestParseError):
        read_all(root)


VECTORS = {
    "shorter": lambda vector: vector[:-8],
    "odd": lambda vector: vector[:-1],
    "empty": lambda vector: b"",
    "huge numbers": lambda vector: np.full(len(vector) // 8, 2**62, "<i8").tobytes(),
    "negative": lambda vector: np.full(len(vector) // 8, -5, "<i8").tobytes(),
    "noise": lambda vector: bytes(random.Random(1).randbytes(len(vector))),
}


@pytest.mark.parametrize("how", VECTORS)
@pytest.mark.parametrize("name", ["rows", "live_rows", "source_lists", "keys", "paths", "sources", "columns"])
@pytest.mark.parametrize("block", [0, -1])
def test_forged_vectors_are_refused_or_harmless(hostile: Any, name: str, block: int, how: str) -> None:
    def forge(connection: sqlite3.Connection) -> None:
        which = (name, block)
        for (vector,) in connection.execute("SELECT vector FROM vectors WHERE name = ? AND block = ?", which):
            forged = VECTORS[how](vector)
            connection.execute(
                "UPDATE vectors SET vector = ?, crc = ? WHERE name = ? AND block = ?",
                (forged, vector_crc(*which, forged), *which),
            )

    root = hostile(forge)
    try:
        read_all(root)  # numbers that nothing asks for do no harm
    except LadingError as error:
        assert error.hint


def test_a_flipped_bit_is_never_a_wrong_answer(published: tuple[World, Path]) -> None:
    """Whatever bit flips: an error of ours, or the rows as they are."""
    world, path = published
    whole = path.read_bytes()
    with lading.open(world.root) as reader:
        rows = reader.scan().to_table()
        sources = reader.sources()
    chance = random.Random(int(os.environ.get("LADING_SEED", "0")))
    refused = 0
    try:
        for _ in range(300):
            at = chance.randrange(len(whole))
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
            try:
                with lading.open(world.root) as reader:
                    assert reader.scan().to_table().equals(rows)
                    assert reader.sources() == sources
            except LadingError as error:
                assert isinstance(error, (ManifestParseError, PartError)), error
                refused += 1
    finally:
        path.write_bytes(whole)
    assert refused > 20
