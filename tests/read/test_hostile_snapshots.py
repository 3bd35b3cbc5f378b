"""A snapshot may come from a stranger: what readers use of it is refused by name, in bounded time, and
nothing of the stranger's is ever run."""

from __future__ import annotations

import os
import random
import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.instructions import instructions
from support.world import World

import lading
from lading.errors import LadingError, ManifestParseError, PartError
from lading.state.encoded import Encoded
from lading.state.page import Page, encode_page
from lading.state.shelf import read_bytes
from lading.state.tables import vector_crc


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


@pytest.mark.parametrize("table", ["lading", "pages", "summaries", "contents"])
def test_a_view_in_place_of_a_table_is_refused_before_it_is_run(hostile: Any, table: str) -> None:
    def plant(connection: sqlite3.Connection) -> None:
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"CREATE VIEW {table} AS {ENDLESS}")

    root = hostile(plant)
    with instructions() as counted, pytest.raises(ManifestParseError, match="not a plain table"):
        read_all(root)
    assert 0 < counted.done < 1_000


@pytest.mark.parametrize("table", ["pages", "summaries", "contents"])
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
            "CREATE TRIGGER t AFTER INSERT ON pages BEGIN INSERT INTO evil VALUES (randomblob(1e9)); END"
        )

    with pytest.raises(ManifestParseError, match="trigger"):
        read_all(hostile(plant))


def test_a_huge_blob_is_an_error_and_costs_little(hostile: Any) -> None:
    size = 64_000_000

    def plant(connection: sqlite3.Connection) -> None:
        connection.execute(f"UPDATE contents SET content = zeroblob({size})")

    root = hostile(plant)
    tracemalloc.start()
    try:
        with instructions() as counted, pytest.raises(ManifestParseError):
            read_all(root)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * size, "it is held once"
    assert counted.done < 2_000


Sections = dict[str, bytes]


def forge(connection: sqlite3.Connection, kind: str, change: Callable[[Sections], Sections]) -> None:
    """Change what a page holds and make its checksums right again: malice, not damage."""
    [(name, entries)] = connection.execute("SELECT name, entries FROM pages WHERE kind = ?", (kind,))
    [(content,)] = connection.execute("SELECT content FROM contents WHERE name = ?", (name,))
    page = Page(name, kind, entries, read_bytes(content), AssertionError)  # type: ignore[arg-type]
    sections = change({section: page.section(section) for section in page.directory})
    forged = encode_page(kind, entries, sections)  # type: ignore[arg-type]
    connection.execute("UPDATE contents SET content = ? WHERE name = ?", (forged, name))


def reseal(connection: sqlite3.Connection, **fields: object) -> None:
    """Change the first member."""
    names = [
        "serial", "path", "rows", "bytes", "bucket", "tick_min", "tick_max", "key_min", "key_max",
        "created_at", "tier", "minus",
    ]  # fmt: skip

    def edit(sections: Sections) -> Sections:
        page = Page("", "members", 2, read_bytes(encode_page("members", 2, sections)), AssertionError)
        first, *others = Encoded.read(page).all()
        row = dict(zip(names, msgspec.msgpack.decode(first), strict=True)) | fields
        forged = msgspec.msgpack.encode(list(row.values()))
        return sections | Encoded.of([forged, *others]).sections()

    forge(connection, "members", edit)


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


SECTIONS = {
    "members": [
        "rows",
        "live_rows",
        "buckets",
        "keys",
        "source_lists",
        "paths",
        "offsets",
        "entries",
        "zone:id",
    ],
    "sources": ["ids", "offsets", "entries"],
}


@pytest.mark.parametrize("how", VECTORS)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, some in SECTIONS.items() for name in some])
def test_forged_sections_are_refused_or_harmless(hostile: Any, kind: str, name: str, how: str) -> None:
    root = hostile(lambda con: forge(con, kind, lambda old: old | {name: VECTORS[how](old[name])}))
    try:
        read_all(root)  # numbers that nothing asks for do no harm
    except LadingError as error:
        assert error.hint


@pytest.mark.parametrize("kind", SECTIONS)
def test_a_page_that_lacks_a_section_is_refused_or_harmless(hostile: Any, kind: str) -> None:
    for name in SECTIONS[kind]:
        root = hostile(
            lambda con, name=name: forge(
                con, kind, lambda old: {one: data for one, data in old.items() if one != name}
            )
        )
        try:
            read_all(root)
        except LadingError as error:
            assert error.hint and "section" in error.message


@pytest.mark.parametrize("how", VECTORS)
@pytest.mark.parametrize("name", ["keys", "zone:id"])
def test_forged_summaries_are_refused_or_harmless(hostile: Any, name: str, how: str) -> None:
    def change(connection: sqlite3.Connection) -> None:
        [(vector,)] = connection.execute("SELECT vector FROM summaries WHERE name = ?", (name,))
        forged = VECTORS[how](vector)
        connection.execute(
            "UPDATE summaries SET vector = ?, crc = ? WHERE name = ?",
            (forged, vector_crc(name, forged), name),
        )

    root = hostile(change)
    try:
        read_all(root)
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
