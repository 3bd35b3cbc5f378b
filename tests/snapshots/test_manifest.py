"""Snapshot manifests: what is built is read back, and what is hostile is refused and nothing else."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.instructions import instructions

from lading.errors import LadingError, ManifestParseError, ManifestStoreError, NotFound
from lading.snapshots.manifest import (
    BuildMeta,
    Sharding,
    ShardMeta,
    WriterInfo,
    build_snapshot,
    load_build_meta,
    load_shard,
    parse_snapshot,
)
from lading.state import sqlite as snapshot_file
from lading.state.sqlite import MAGIC, open_snapshot, open_snapshot_file, require_plain_tables

_AT = datetime(2026, 4, 20, 15, 23, 1, 5, tzinfo=UTC)
_META = BuildMeta(run_id="r1", created_at=_AT, num_dbs=4, key_col="id", custom={"sequence": 3})
_CEL = Sharding(
    strategy="cel",
    hash_algorithm="xxh3_64",
    routing_values=("de", "fr"),
    cel_expr="country",
    cel_columns={"country": "string"},
)


def shard(db_id: int, **changes: Any) -> ShardMeta:
    fields: dict[str, Any] = {
        "db_id": db_id,
        "db_url": f"shards/run_id=r1/db={db_id:05d}/attempt=00",
        "attempt": 0,
        "row_count": 10,
        "min_key": 1,
        "max_key": "z",
        "checkpoint_id": "ff" * 32,
        "writer_info": WriterInfo(stage_id=1, task_attempt_id=2, duration_ms=30),
        "db_bytes": 4096,
    }
    return ShardMeta(**fields | changes)


def tampered(*statements: str, base: bytes | None = None) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(base or build_snapshot(_META, [shard(0), shard(2)]))
    connection.executescript(";".join(statements))
    data = connection.serialize()
    connection.close()
    return data


def test_what_is_built_is_read_back() -> None:
    parsed = parse_snapshot(
        build_snapshot(_META, [shard(2), shard(0, min_key=None, max_key=None)]), check=True
    )
    assert parsed.meta == _META
    assert parsed.shards == (shard(0, min_key=None, max_key=None), shard(2))


def test_the_tables_have_the_columns_that_foreign_readers_ask_for() -> None:
    connection = open_snapshot(build_snapshot(_META, [shard(0)]))
    columns = {
        table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for table in ("build_meta", "shards")
    }
    (sharding,) = connection.execute("SELECT sharding FROM build_meta").fetchone()
    connection.close()
    assert ", ".join(columns["build_meta"]) == (
        "run_id, created_at, num_dbs, s3_prefix, key_col, sharding, db_path_template, shard_prefix,"
        " format_version, key_encoding, custom"
    )
    assert ", ".join(columns["shards"]) == (
        "db_id, db_url, attempt, row_count, min_key, max_key, checkpoint_id, writer_info, db_bytes"
    )
    assert set(json.loads(sharding)) == {
        "strategy", "hash_algorithm", "routing_values", "cel_expr", "cel_columns"
    }  # fmt: skip


def test_the_same_state_gives_the_same_bytes() -> None:
    assert build_snapshot(_META, [shard(0)]) == build_snapshot(_META, [shard(0)])


def test_ladings_own_tables_travel_beside_and_strangers_need_not_know_them() -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE members (path TEXT, zone BLOB)")
        connection.execute("INSERT INTO members VALUES ('a', zeroblob(20000000))")

    payload = build_snapshot(_META, fill=fill, page_size=16384)
    assert parse_snapshot(payload, check=True).shards == ()
    connection = open_snapshot(payload)
    require_plain_tables(connection, ["members"])
    # The limit on fields is for build_meta and shards; lading's own vectors may be larger.
    assert connection.execute("SELECT length(zone), zone FROM members").fetchone()[0] == 20_000_000
    assert connection.execute("PRAGMA page_size").fetchone() == (16384,)
    connection.close()


def test_what_readers_would_refuse_is_never_built() -> None:
    for meta, shards in (
        (_META, [shard(4)]),
        (_META, [shard(1), shard(1)]),
        (_META, [shard(0, row_count=-1)]),
        (BuildMeta(run_id="", created_at=_AT), []),
        (BuildMeta(run_id="r", created_at=_AT, num_dbs=0), []),
        (BuildMeta(run_id="r", created_at=_AT, sharding=Sharding(hash_algorithm="md5")), []),  # type: ignore[arg-type]
        (_META, [shard(-1)]),
        (_META, [shard(0, db_url="")]),
        (_META, [shard(0, min_key=1.5)]),
        (_META, [shard(0, writer_info=WriterInfo(attempt=-1))]),
        (_META, [shard(0, checkpoint_id="x" * (snapshot_file.FIELD_LIMIT + 1))]),
        (_META, [shard(0, row_count=2**63)]),
        (_META, [shard(number) for number in range(5)]),
    ):
        with pytest.raises(ManifestParseError):
            build_snapshot(meta, shards)


def test_a_manifest_that_is_too_large_to_be_read_is_never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "SNAPSHOT_LIMIT", 1 << 16)
    build_snapshot(_META)
    with pytest.raises(ManifestParseError, match="bytes, more than"):
        build_snapshot(_META, fill=lambda con: con.execute("CREATE TABLE t AS SELECT zeroblob(70000)"))  # type: ignore[arg-type,return-value]


def test_what_was_deleted_while_building_takes_no_room() -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE gone AS SELECT zeroblob(1000000) AS a")
        connection.execute("DROP TABLE gone")

    assert len(build_snapshot(_META, [shard(0)], fill)) == len(build_snapshot(_META, [shard(0)]))


def test_what_fails_while_it_is_filled_leaves_the_next_one_untouched() -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (a)")
        raise ValueError("no more")

    sound = build_snapshot(_META, [shard(0)])
    with pytest.raises(ValueError, match="no more"):
        build_snapshot(_META, [shard(0)], fill)
    assert build_snapshot(_META, [shard(0)]) == sound


def test_manifests_with_other_tables_have_nothing_in_common() -> None:
    """One connection builds one after the other, and knows statements by where their tables begin."""

    def tables(*names: str) -> Callable[[sqlite3.Connection], None]:
        def make(connection: sqlite3.Connection) -> None:
            for name in names:
                connection.execute(f"CREATE TABLE {name} (name)")

        return make

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO a VALUES ('a')")
        connection.execute("INSERT INTO b VALUES ('b')")

    first, second = tables("a", "b"), tables("b", "a")
    made_by_fill = [lambda con, make=make: (make(con), fill(con)) for make in (first, second)]
    ways: list[tuple[Any, Any]] = [
        (fill, first), (fill, second), (made_by_fill[0], None), (made_by_fill[1], None), (fill, first),
    ]  # fmt: skip
    for way, made in ways * 2:
        connection = open_snapshot(build_snapshot(_META, [shard(0)], way, tables=made), check=True)
        for name in ("a", "b"):
            assert connection.execute(f"SELECT name FROM {name}").fetchall() == [(name,)]
        connection.close()


def test_a_file_is_opened_in_place_and_can_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a ?#% b"
    path.write_bytes(build_snapshot(_META, [shard(0)]))
    connection = open_snapshot_file(path, check=True)
    assert load_build_meta(connection) == _META
    assert load_shard(connection, 0) == shard(0)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM shards")
    settings = [
        connection.execute(f"PRAGMA {p}").fetchone()[0] for p in ("trusted_schema", "cell_size_check")
    ]
    connection.close()
    assert settings == [0, 1]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_bytes_are_opened_read_only() -> None:
    connection = open_snapshot(build_snapshot(_META))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM build_meta")
    connection.close()


def test_an_absent_file_is_a_store_error_and_a_foreign_one_a_parse_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestStoreError):
        open_snapshot_file(tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ManifestParseError, match="SQLite"):
        open_snapshot_file(tmp_path / "text")
    assert [p.name for p in tmp_path.iterdir()] == ["text"]


def test_one_shard_is_found_without_the_others() -> None:
    connection = open_snapshot(tampered("UPDATE shards SET row_count = 'many' WHERE db_id = 2"))
    assert load_shard(connection, 0) == shard(0)
    assert load_shard(connection, 1) is None
    with pytest.raises(ManifestParseError):
        load_shard(connection, 2)
    for db_id in (-1, 4):
        with pytest.raises(NotFound, match="no shard"):
            load_shard(connection, db_id)
    connection.close()


_CEL_SHARDING = '{"strategy":"cel","hash_algorithm":"xxh3_64","cel_expr":"c","cel_columns":{"c":"int"}%s}'


def sharding(text: str, version: int = 2) -> str:
    return f"UPDATE build_meta SET sharding = '{text}', format_version = {version}"


@pytest.mark.parametrize(
    "statement",
    [
        sharding(_CEL_SHARDING % ""),
        sharding(_CEL_SHARDING % ',"routing_values":[1,2]', 3),
        sharding('{"hash_algorithm":"xxh3_64"}', 1),
        "CREATE TABLE theirs (x); CREATE INDEX one ON theirs (x)",
        "UPDATE shards SET db_url = NULL, checkpoint_id = NULL, writer_info = '{}'",
    ],
)
def test_what_foreign_writers_may_write_parses(statement: str) -> None:
    assert parse_snapshot(tampered(statement), check=True).meta.run_id == "r1"


_REFUSED = {
    "version 0": "UPDATE build_meta SET format_version = 0",
    "version 4": "UPDATE build_meta SET format_version = 4",
    "version text": "UPDATE build_meta SET format_version = 'two'",
    "version null": "CREATE TABLE b AS SELECT * FROM build_meta; DROP TABLE build_meta;"
    " ALTER TABLE b RENAME TO build_meta; UPDATE build_meta SET format_version = NULL",
    "no build_meta": "DROP TABLE build_meta",
    "no shards": "DROP TABLE shards",
    "no row": "DELETE FROM build_meta",
    "two rows": "INSERT INTO build_meta SELECT * FROM build_meta",
    "missing column": "ALTER TABLE build_meta DROP COLUMN key_col",
    "missing shard column": "ALTER TABLE shards DROP COLUMN row_count",
    "empty run": "UPDATE build_meta SET run_id = ''",
    "no time": "UPDATE build_meta SET created_at = 'soon'",
    "no shards declared": "UPDATE build_meta SET num_dbs = 0",
    "too few declared": "UPDATE build_meta SET num_dbs = 1",
    "out of range": "UPDATE build_meta SET num_dbs = 2",
    "absurd number": "UPDATE build_meta SET num_dbs = 9000000000000000000",
    "negative shard": "UPDATE shards SET db_id = -1 WHERE db_id = 0",
    "duplicate": "CREATE TABLE s AS SELECT * FROM shards; DROP TABLE shards;"
    " ALTER TABLE s RENAME TO shards; UPDATE shards SET db_id = 2",
    "bytes for text": "UPDATE build_meta SET key_col = x'ff'",
    "bad utf8": "UPDATE build_meta SET key_col = CAST(x'ff' AS TEXT)",
    "encoding": "UPDATE build_meta SET key_encoding = 'u128'",
    "custom list": "UPDATE build_meta SET custom = '[]'",
    "custom deep": "UPDATE build_meta SET custom = replace(hex(zeroblob(50000)), '00', '[')",
    "custom huge": "UPDATE build_meta SET custom = '{\"a\":\"' || hex(zeroblob(9000000)) || '\"}'",
    "sharding cut": sharding('{"strategy":'),
    "sharding nested deeply": sharding('{"routing_values":' + "[" * 5000 + "]" * 5000 + "}"),
    "sharding nested as deeply as Python goes": sharding('{"x":' + "[" * 900 + "]" * 900 + "}"),
    "sharding key": sharding('{"hash_algorithm":"xxh3_64","more":1}'),
    "strategy": sharding('{"strategy":"range","hash_algorithm":"xxh3_64"}'),
    "no algorithm": sharding('{"strategy":"hash"}', 1),
    "null algorithm": sharding('{"strategy":"hash","hash_algorithm":null}'),
    "other algorithm": sharding('{"strategy":"hash","hash_algorithm":"md5"}', 3),
    "values in 2": sharding(_CEL_SHARDING % ',"routing_values":["a"]', 2),
    "values in 1": sharding(_CEL_SHARDING % ',"routing_values":["a"]', 1),
    "values twice": sharding(_CEL_SHARDING % ',"routing_values":["a","a"]', 3),
    "values mixed": sharding(_CEL_SHARDING % ',"routing_values":["a",1]', 3),
    "values bool": sharding(_CEL_SHARDING % ',"routing_values":[true]', 3),
    "cel without expr": sharding('{"strategy":"cel","hash_algorithm":"xxh3_64"}'),
    "hash with expr": sharding('{"strategy":"hash","hash_algorithm":"xxh3_64","cel_expr":"x"}'),
    "template reaches out": "UPDATE build_meta SET db_path_template = '{db_id.__class__}'",
    "template width": "UPDATE build_meta SET db_path_template = '{db_id:0999999999d}'",
    "template cut": "UPDATE build_meta SET db_path_template = '{db_id'",
    "template up": "UPDATE build_meta SET db_path_template = '../{db_id}'",
    "prefix absolute": "UPDATE build_meta SET shard_prefix = '/etc'",
    "attempt": "UPDATE shards SET attempt = -1",
    "rows": "UPDATE shards SET row_count = 1.5",
    "key": "UPDATE shards SET min_key = '[1]'",
    "key text": "UPDATE shards SET min_key = 'abc'",
    "key number": "UPDATE shards SET max_key = x'31'",
    "writer": 'UPDATE shards SET writer_info = \'{"attempt": "x"}\'',
    "url": "UPDATE shards SET db_url = ''",
    "view": "ALTER TABLE shards RENAME TO s; CREATE VIEW shards AS SELECT * FROM s",
    "case view": "ALTER TABLE build_meta RENAME TO b; CREATE VIEW Build_Meta AS SELECT * FROM b",
    "virtual": "DROP TABLE shards; CREATE VIRTUAL TABLE shards USING fts5(db_id, db_url)",
    "endless view": "DROP TABLE shards; CREATE VIEW shards AS WITH RECURSIVE c(db_id) AS"
    " (SELECT 1 UNION ALL SELECT db_id + 1 FROM c) SELECT * FROM c",
    "computed": "CREATE TABLE b AS SELECT * FROM build_meta; DROP TABLE build_meta;"
    " CREATE TABLE build_meta (run_id, created_at, num_dbs, s3_prefix, key_col AS ('id'), sharding,"
    " db_path_template, shard_prefix, format_version, key_encoding, custom);"
    " INSERT INTO build_meta SELECT run_id, created_at, num_dbs, s3_prefix, sharding,"
    " db_path_template, shard_prefix, format_version, key_encoding, custom FROM b",
    "lying virtual": "CREATE TABLE s AS SELECT * FROM shards; DROP TABLE shards;"
    " CREATE VIRTUAL TABLE shards USING fts5(db_id, db_url, attempt, row_count, min_key, max_key,"
    " checkpoint_id, writer_info, db_bytes); PRAGMA writable_schema = 1;"
    " UPDATE sqlite_master SET rootpage = 3 WHERE name = 'shards'",
    "lying schema": "ALTER TABLE shards RENAME TO s; CREATE VIEW shards AS SELECT * FROM s;"
    " PRAGMA writable_schema = 1;"
    " UPDATE sqlite_master SET type = 'table', rootpage = 3 WHERE name = 'shards'",
}


@pytest.mark.parametrize("statement", [pytest.param(sql, id=name) for name, sql in _REFUSED.items()])
def test_a_manifest_that_is_wrong_anywhere_is_refused_after_little_work(statement: str) -> None:
    payload = tampered(statement)
    with instructions() as counted, pytest.raises(ManifestParseError) as caught:
        parse_snapshot(payload)
    assert caught.value.hint
    assert 0 < counted.done < 1_000


@pytest.mark.parametrize(
    "name", ["view", "case view", "virtual", "endless view", "computed", "lying virtual", "lying schema"]
)
def test_what_is_no_plain_table_is_refused_before_it_is_read(name: str) -> None:
    with pytest.raises(ManifestParseError, match=r"not a plain table|malformed database schema"):
        open_snapshot(tampered(_REFUSED[name]))


@pytest.mark.parametrize(
    "planted",
    [
        "CREATE TRIGGER t AFTER INSERT ON shards BEGIN DELETE FROM build_meta; END",
        "CREATE TRIGGER build_meta INSERT ON shards BEGIN DELETE FROM shards; END",
        "CREATE VIEW harmless AS SELECT 1",
    ],
)
def test_a_planted_trigger_or_view_is_refused_whatever_it_is_called(planted: str, tmp_path: Path) -> None:
    payload = tampered(planted)
    with pytest.raises(ManifestParseError, match="not a plain table"):
        open_snapshot(payload)
    (tmp_path / "manifest").write_bytes(payload)
    with pytest.raises(ManifestParseError, match="not a plain table"):
        open_snapshot_file(tmp_path / "manifest")


def test_strange_tables_and_indexes_are_left_alone() -> None:
    payload = tampered("CREATE TABLE strange(x)", "CREATE INDEX one ON strange(x)")
    assert parse_snapshot(payload, check=True).shards == (shard(0), shard(2))


def test_other_bytes_are_refused_before_sqlite_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("SQLite was asked")

    monkeypatch.setattr(snapshot_file.sqlite3, "connect", never)
    for payload in (b"", b"SQLite", b"SQLite format 4\0" + bytes(4096), b"PAR1" * 100, MAGIC[1:]):
        with pytest.raises(ManifestParseError, match="start like a SQLite file"):
            parse_snapshot(payload)


def test_a_manifest_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = build_snapshot(_META)
    monkeypatch.setattr(snapshot_file, "SNAPSHOT_LIMIT", len(payload) - 1)
    with pytest.raises(ManifestParseError, match="bytes"):
        parse_snapshot(payload)


def only_parse_errors(read: Callable[[], object]) -> None:
    try:
        read()
    except LadingError as error:
        assert type(error) is ManifestParseError and error.hint


_SOUND = build_snapshot(_META, [shard(i) for i in range(4)])


@pytest.mark.parametrize("check", [False, True])
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_flipped_bytes_never_do_more_than_fail_to_parse(check: bool, data: st.DataObject) -> None:
    payload = bytearray(_SOUND)
    places = st.integers(0, len(payload) - 1) | st.integers(16, 200)
    for place in data.draw(st.lists(places, min_size=1, max_size=8)):
        payload[place] = data.draw(st.integers(0, 255))
    only_parse_errors(lambda: parse_snapshot(bytes(payload), check=check))


def test_every_truncation_is_refused() -> None:
    for size in (0, 15, 16, 100, 511, 512, *range(1024, len(_SOUND), 1024), len(_SOUND) - 4096):
        with pytest.raises(ManifestParseError):
            parse_snapshot(_SOUND[:size], check=True)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(_SOUND)), st.binary(max_size=300))
def test_a_cut_file_with_noise_behind_only_fails_to_parse(
    tmp_path_factory: Any, cut: int, tail: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"hostile-{os.getpid()}"
    path.write_bytes(_SOUND[:cut] + tail)

    def read() -> None:
        with closing(open_snapshot_file(path)) as connection:
            load_build_meta(connection)

    only_parse_errors(read)


def test_categorical_cel_is_written_as_format_3() -> None:
    meta = BuildMeta(run_id="r", created_at=_AT, num_dbs=2, sharding=_CEL, format_version=3)
    parsed = parse_snapshot(build_snapshot(meta))
    assert parsed.meta.format_version == 3 and parsed.meta.sharding == _CEL
