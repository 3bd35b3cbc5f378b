"""The three tables of one lading table in PostgreSQL, and every statement on them.

Names come from a config and a table's name, so they are composed as identifiers, never formatted.
`builds` has a row a published run with the manifest as bytes, `shards` a row a shard, and the pointer
is append-only: its newest row by `updated_at` is what readers see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

import msgspec

from lading.config.stores import PostgresNames
from lading.errors import ConfigError, ManifestParseError
from lading.format.pointer import CONTENT_TYPE, POINTER_FORMAT
from lading.format.snapshot import ParsedSnapshot, ShardMeta, parse_snapshot
from lading.model import SnapshotRef

if TYPE_CHECKING:
    from typing import LiteralString

    from psycopg import Connection
    from psycopg.sql import Composed

_NAME_LIMIT = 63  # bytes; PostgreSQL cuts longer names off, and two tables could become one

_BUILDS = """CREATE TABLE IF NOT EXISTS {builds} (
  run_id text PRIMARY KEY, created_at timestamptz NOT NULL, sequence bigint NOT NULL,
  num_dbs bigint, format_version bigint, key_col text, key_encoding text, sharding json, custom json,
  manifest_content_type text NOT NULL, payload bytea NOT NULL)"""
_SHARDS = """CREATE TABLE IF NOT EXISTS {shards} (
  run_id text NOT NULL REFERENCES {builds} ON DELETE CASCADE, db_id bigint NOT NULL, db_url text,
  attempt bigint NOT NULL, row_count bigint NOT NULL, min_key json, max_key json, checkpoint_id text,
  writer_info json NOT NULL, db_bytes bigint NOT NULL, PRIMARY KEY (run_id, db_id))"""
_POINTER = """CREATE TABLE IF NOT EXISTS {pointer} (
  updated_at timestamptz NOT NULL, run_id text NOT NULL, manifest_ref text NOT NULL,
  manifest_content_type text NOT NULL, format_version bigint NOT NULL, sequence bigint NOT NULL,
  held boolean NOT NULL, swap_id text NOT NULL)"""
_POINTER_INDEX = "CREATE UNIQUE INDEX ON {pointer} (updated_at DESC)"
_BUILDS_INDEX = "CREATE UNIQUE INDEX ON {builds} (created_at DESC)"

_POINTER_ROW = "manifest_ref, run_id, updated_at, sequence, held, swap_id"


@dataclass(frozen=True, slots=True)
class Tables:
    """What the three tables are called."""

    builds: str
    shards: str
    pointer: str

    def sql(self, text: LiteralString) -> Composed:
        """`text` with the names put in as identifiers; to be run with parameters, if only an empty tuple,
        since a percent sign in a name is written twice for their sake."""
        from psycopg import sql

        names = {name: getattr(self, name) for name in ("builds", "shards", "pointer")}
        quoted = {name: sql.Identifier(text).as_string().replace("%", "%%") for name, text in names.items()}
        return sql.SQL(text).format(**{name: sql.SQL(text) for name, text in quoted.items()})


def tables_of(names: PostgresNames, table: str) -> Tables:
    """The names for the lading table `table`, settled."""
    found = [
        text.replace("{prefix}", names.prefix).replace("{table}", table)
        for text in (names.builds, names.shards, names.pointer)
    ]
    for name in found:
        if not name or "\0" in name or len(name.encode("utf-8", "replace")) > _NAME_LIMIT:
            raise ConfigError(
                f"{name!r} can't be the name of a PostgreSQL table: at most {_NAME_LIMIT} bytes",
                hint="choose a shorter postgres.prefix, or name builds, shards and pointer one by one",
            )
    if len(set(found)) < len(found):
        raise ConfigError("two of the PostgreSQL tables have one name", hint="see postgres: in lading.yaml")
    return Tables(*found)


def create_tables(connection: Connection[Any], tables: Tables) -> None:
    """Make what isn't there yet. To be called under the lock: PostgreSQL doesn't do that for two at once."""
    found = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL",
        [_quoted(name) for name in (tables.builds, tables.shards, tables.pointer)],
    ).fetchone()
    builds, shards, pointer = found or (False, False, False)
    missing: list[LiteralString] = []
    missing += [] if builds else [_BUILDS, _BUILDS_INDEX]
    missing += [] if shards else [_SHARDS]
    missing += [] if pointer else [_POINTER, _POINTER_INDEX]
    for statement in missing:
        connection.execute(tables.sql(statement), ())


def insert_build(
    connection: Connection[Any], tables: Tables, payload: bytes, to: SnapshotRef, sequence: int
) -> None:
    """One row for the build and one a shard. The payload is opaque: what can't be told from it is null."""
    parsed = _told(payload)
    meta = parsed.meta if parsed else None
    columns = (
        (meta.num_dbs, meta.format_version, meta.key_col, meta.key_encoding) if meta else (None,) * 4
    ) + ((_json(meta.sharding), _json(meta.custom)) if meta else (None, None))
    connection.execute(
        tables.sql(
            "INSERT INTO {builds} (run_id, created_at, sequence, num_dbs, format_version, key_col,"
            " key_encoding, sharding, custom, manifest_content_type, payload)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b)"
        ),
        (to.run_id, to.published_at, sequence, *columns, CONTENT_TYPE, payload),
    )
    if parsed and parsed.shards:
        insert = tables.sql(
            "INSERT INTO {shards} (run_id, db_id, db_url, attempt, row_count, min_key, max_key,"
            " checkpoint_id, writer_info, db_bytes) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(insert, _shard_rows(to.run_id, parsed.shards))


def delete_build(connection: Connection[Any], tables: Tables, run_id: str) -> None:
    """A build with its shards; pointer rows are never deleted."""
    connection.execute(tables.sql("DELETE FROM {builds} WHERE run_id = %s"), (run_id,))


def same_build(connection: Connection[Any], tables: Tables, run_id: str, payload: bytes) -> bool | None:
    """Whether the run was published with this very payload; None when it wasn't published."""
    query = tables.sql("SELECT payload = %b FROM {builds} WHERE run_id = %s")
    row = connection.execute(query, (payload, run_id)).fetchone()
    return bool(row[0]) if row else None


def newest_build(connection: Connection[Any], tables: Tables) -> Any:
    row = connection.execute(tables.sql("SELECT max(created_at) FROM {builds}"), ()).fetchone()
    return row[0] if row else None


def load_payload(
    connection: Connection[Any], tables: Tables, run_id: str, limit: int
) -> tuple[int, bytes | None] | None:
    """Size and bytes, these only up to `limit`; None when the run has no build."""
    query = tables.sql(
        "SELECT octet_length(payload), CASE WHEN octet_length(payload) <= %s THEN payload END"
        " FROM {builds} WHERE run_id = %s"
    )
    with connection.cursor(binary=True) as cursor:
        row = cursor.execute(query, (limit, run_id)).fetchone()
    return (int(row[0]), bytes(row[1]) if row[1] is not None else None) if row else None


def list_builds(connection: Connection[Any], tables: Tables, limit: int | None) -> list[SnapshotRef]:
    query = tables.sql("SELECT run_id, created_at FROM {builds} ORDER BY created_at DESC LIMIT %s")
    rows = connection.execute(query, (limit,)).fetchall()
    return [SnapshotRef(run_id, run_id, at.astimezone(UTC)) for run_id, at in rows]


def insert_pointer(connection: Connection[Any], tables: Tables, to: SnapshotRef) -> None:
    connection.execute(
        tables.sql(
            "INSERT INTO {pointer} (updated_at, run_id, manifest_ref, manifest_content_type,"
            " format_version, sequence, held, swap_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        ),
        (
            to.published_at,
            to.run_id,
            to.ref,
            CONTENT_TYPE,
            POINTER_FORMAT,
            to.sequence,
            to.held,
            to.swap_id,
        ),
    )


def newest_pointer(connection: Connection[Any], tables: Tables) -> SnapshotRef | None:
    query = tables.sql(f"SELECT {_POINTER_ROW} FROM {{pointer}} ORDER BY updated_at DESC LIMIT 1")
    return _pointer(connection.execute(query, ()).fetchone())


def pointer_move(connection: Connection[Any], tables: Tables, swap_id: str) -> SnapshotRef | None:
    """The row that one move of the pointer left, if it was committed."""
    query = tables.sql(f"SELECT {_POINTER_ROW} FROM {{pointer}} WHERE swap_id = %s")
    return _pointer(connection.execute(query, (swap_id,)).fetchone())


def _pointer(row: tuple[Any, ...] | None) -> SnapshotRef | None:
    if row is None:
        return None
    ref, run_id, at, sequence, held, swap_id = row
    return SnapshotRef(ref, run_id, at.astimezone(UTC), sequence, held, swap_id)


def _told(payload: bytes) -> ParsedSnapshot | None:
    """What the payload says of itself, None when it can't be parsed or holds what no column can."""
    try:
        parsed = parse_snapshot(payload)
    except ManifestParseError:
        return None
    texts = [
        parsed.meta.key_col,
        *(text for one in parsed.shards for text in (one.db_url, one.checkpoint_id)),
    ]
    return None if any(text and "\0" in text for text in texts) else parsed


def _shard_rows(run_id: str, shards: Sequence[ShardMeta]) -> list[tuple[Any, ...]]:
    return [
        (
            run_id,
            one.db_id,
            one.db_url,
            one.attempt,
            one.row_count,
            _json(one.min_key) if one.min_key is not None else None,
            _json(one.max_key) if one.max_key is not None else None,
            one.checkpoint_id,
            _json(one.writer_info),
            one.db_bytes,
        )
        for one in shards
    ]


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _quoted(name: str) -> str:
    from psycopg import sql

    return sql.Identifier(name).as_string()
