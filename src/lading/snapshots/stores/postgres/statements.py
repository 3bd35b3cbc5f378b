"""Every statement on the three tables of one lading table in PostgreSQL.

Names come from a config and a table's name, so they are composed as identifiers, never formatted.
`builds` has a row a published run with the manifest as bytes, `shards` a row a shard, and the pointer
is append-only: its newest row by `updated_at` is what readers see. Rows that shardyfusion inserted have none
of our columns: no bytes, so that the manifest is made of the rows, and no swap_id.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from lading.errors import ManifestParseError
from lading.model import SnapshotRef
from lading.snapshots.manifest import ParsedSnapshot, ShardMeta, parse_snapshot
from lading.snapshots.pointer import CONTENT_TYPE, POINTER_FORMAT
from lading.snapshots.stores.postgres.tables import Tables

if TYPE_CHECKING:
    from typing import LiteralString

    from psycopg import Connection

_BUILD = (
    "run_id, created_at, num_dbs, s3_prefix, key_col, db_path_template, shard_prefix, key_encoding, sharding,"
    " custom, sequence, format_version, manifest_content_type, payload"
)
_SHARD = "run_id, db_id, db_url, attempt, row_count, min_key, max_key, checkpoint_id, writer_info, db_bytes"
_INTEGER = 1 << 31  # what doesn't fit into a column is told by the payload alone

# Tables that shardyfusion made lack our columns until lading first writes to them, and a reader may not add
# any. A name that the table doesn't have is then found in `missing`, which the inner query can see as well.
_POINTER = """SELECT found.ref, found.at, found.holds, found.swap,
  coalesce(found.told, (SELECT sequence FROM {builds} WHERE run_id = found.ref), 0)
  FROM (SELECT NULL::bigint AS sequence, false AS held, '' AS swap_id) AS missing,
  LATERAL (SELECT manifest_ref AS ref, updated_at AS at, held AS holds, swap_id AS swap, sequence AS told
    FROM {pointer}"""
_NEWEST: LiteralString = f"{_POINTER} ORDER BY updated_at DESC LIMIT 1) AS found"
_MOVE: LiteralString = f"{_POINTER} WHERE swap_id = %s) AS found"
_PAYLOAD: LiteralString = """SELECT found.* FROM (SELECT NULL::bytea AS payload) AS missing,
  LATERAL (SELECT octet_length(payload), CASE WHEN octet_length(payload) <= %s THEN payload END
    FROM {builds} WHERE run_id = %s) AS found"""
_SAME: LiteralString = "SELECT payload = %b FROM {builds} WHERE run_id = %s"


def insert_build(
    connection: Connection[Any], tables: Tables, payload: bytes, to: SnapshotRef, sequence: int
) -> None:
    """One row for the build and one a shard. The payload is opaque: what can't be told from it is empty."""
    parsed = _told(payload)
    meta = parsed.meta if parsed else None
    told: tuple[Any, ...] = (0, "", "", "", "", "", "{}", "{}")
    if meta is not None:
        told = (
            meta.num_dbs, meta.s3_prefix, meta.key_col, meta.db_path_template, meta.shard_prefix,
            meta.key_encoding, _json(meta.sharding), _json(meta.custom),
        )  # fmt: skip
    version = meta.format_version if meta is not None else None
    connection.execute(
        tables.sql(
            f"INSERT INTO {{builds}} ({_BUILD})"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b)"
        ),
        (to.run_id, to.published_at, *told, sequence, version, CONTENT_TYPE, payload),
    )
    if parsed and parsed.shards:
        insert = tables.sql(
            f"INSERT INTO {{shards}} ({_SHARD}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(insert, _shard_rows(to.run_id, parsed.shards))


def delete_build(connection: Connection[Any], tables: Tables, run_id: str) -> None:
    """A build with its shards; pointer rows are never deleted."""
    connection.execute(tables.sql("DELETE FROM {shards} WHERE run_id = %s"), (run_id,))
    connection.execute(tables.sql("DELETE FROM {builds} WHERE run_id = %s"), (run_id,))


def clock(connection: Connection[Any]) -> datetime:
    """The server's: rows that others insert are dated by it."""
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    at: datetime = row[0]
    return at


def same_build(connection: Connection[Any], tables: Tables, run_id: str, payload: bytes) -> bool | None:
    """Whether the run was published with this very payload; None when it wasn't published."""
    query = tables.sql(_SAME)
    row = connection.execute(query, (payload, run_id)).fetchone()
    return bool(row[0]) if row else None


def newest_build(connection: Connection[Any], tables: Tables) -> Any:
    row = connection.execute(tables.sql("SELECT max(created_at) FROM {builds}"), ()).fetchone()
    return row[0] if row else None


def has_build(connection: Connection[Any], tables: Tables, run_id: str) -> bool:
    query = tables.sql("SELECT 1 FROM {builds} WHERE run_id = %s")
    return connection.execute(query, (run_id,)).fetchone() is not None


def load_payload(
    connection: Connection[Any], tables: Tables, run_id: str, limit: int
) -> tuple[int, bytes | None] | None:
    """Size and bytes, these only up to `limit`; None when the run has no build. A build that shardyfusion
    published is made of its rows."""
    with connection.cursor(binary=True) as cursor:
        row = cursor.execute(tables.sql(_PAYLOAD), (limit, run_id)).fetchone()
    if row is None:
        return None
    if row[0] is None:
        payload = _of_rows(connection, tables, run_id)
        return len(payload), payload if len(payload) <= limit else None
    return int(row[0]), bytes(row[1]) if row[1] is not None else None


def _of_rows(connection: Connection[Any], tables: Tables, run_id: str) -> bytes:
    build = connection.execute(
        tables.sql(
            "SELECT run_id, created_at, num_dbs, s3_prefix, key_col, sharding::text, db_path_template,"
            " shard_prefix, key_encoding, coalesce(custom::text, '{{}}'),"
            " sharding::jsonb ->> 'routing_values' FROM {builds} WHERE run_id = %s"
        ),
        (run_id,),
    ).fetchone()
    assert build is not None
    shards = connection.execute(
        tables.sql(
            "SELECT db_id, db_url, attempt, row_count, min_key::text, max_key::text, checkpoint_id,"
            " coalesce(writer_info::text, '{{}}') FROM {shards} WHERE run_id = %s ORDER BY db_id"
        ),
        (run_id,),
    ).fetchall()
    run_id, at, *told, routing_values = build
    version = 2 if routing_values is None else 3
    return foreign_snapshot((run_id, at.astimezone(UTC).isoformat(), *told), shards, version=version)


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
    return _pointer(connection.execute(tables.sql(_NEWEST), ()).fetchone())


def pointer_move(connection: Connection[Any], tables: Tables, swap_id: str) -> SnapshotRef | None:
    """The row that one move of the pointer left, if it was committed."""
    return _pointer(connection.execute(tables.sql(_MOVE), (swap_id,)).fetchone())


def _pointer(row: tuple[Any, ...] | None) -> SnapshotRef | None:
    """A reference is a run: the column `run_id` says the same once more. A row that somebody else inserted
    has the sequence of the build that it names, doesn't hold, and has no swap_id."""
    if row is None:
        return None
    ref, at, held, swap_id, sequence = row
    return SnapshotRef(ref, ref, at.astimezone(UTC), sequence, held, swap_id)


def _told(payload: bytes) -> ParsedSnapshot | None:
    """What the payload says of itself, None when it can't be parsed or holds what no column can."""
    try:
        parsed = parse_snapshot(payload)
    except ManifestParseError:
        return None
    meta = parsed.meta
    texts = [meta.key_col, meta.s3_prefix, meta.db_path_template, meta.shard_prefix]
    texts += [text or "" for one in parsed.shards for text in (one.db_url, one.checkpoint_id)]
    structures = (meta.custom, meta.sharding, [(one.min_key, one.max_key) for one in parsed.shards])
    numbers = [meta.num_dbs, *(n for one in parsed.shards for n in (one.db_id, one.attempt, one.row_count))]
    fits = (
        not any("\0" in text for text in texts)
        and not any("\\u0000" in _json(one) for one in structures)
        and all(number < _INTEGER for number in numbers)
    )
    return parsed if fits else None


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


BUILD_COLUMNS = (
    "run_id", "created_at", "num_dbs", "s3_prefix", "key_col", "sharding", "db_path_template",
    "shard_prefix", "key_encoding", "custom",
)  # fmt: skip
SHARD_COLUMNS = (
    "db_id", "db_url", "attempt", "row_count", "min_key", "max_key", "checkpoint_id", "writer_info",
)  # fmt: skip


def foreign_snapshot(build: Sequence[Any], shards: Sequence[Sequence[Any]], *, version: int) -> bytes:
    """The manifest that rows of these columns describe; structures as JSON text, the time as ISO-8601."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for name, columns, rows in (
            ("build_meta", (*BUILD_COLUMNS, "format_version"), [(*build, version)]),
            ("shards", SHARD_COLUMNS, shards),
        ):
            listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
            connection.execute(f"CREATE TABLE {name} ({listed})")
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return connection.serialize()
