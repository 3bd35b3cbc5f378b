"""The three tables of one lading table in PostgreSQL: what they are called, and how they are laid out.

Names, columns, types, defaults and the index are shardyfusion's, so that its own statements work on our
tables and ours on those that it made. What lading keeps beside that is columns with a default, added where
they are missing; what lading 0.1 laid out otherwise is brought up to this when it is next written to.

A column of ours goes into `_OURS` here, and into the statements that write and read it (statements.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lading.config.stores import PostgresNames
from lading.errors import ConfigError

if TYPE_CHECKING:
    from typing import LiteralString

    from psycopg import Connection
    from psycopg.sql import Composed

_NAME_LIMIT = 63  # bytes; PostgreSQL cuts longer names off, and two tables could become one

_BUILDS = """CREATE TABLE {builds} (
  run_id text PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now(), num_dbs integer NOT NULL,
  s3_prefix text NOT NULL, key_col text NOT NULL DEFAULT '_key',
  db_path_template text NOT NULL DEFAULT 'db={{db_id:05d}}', shard_prefix text NOT NULL DEFAULT 'shards',
  key_encoding text NOT NULL DEFAULT 'u64be', sharding jsonb NOT NULL,
  custom jsonb NOT NULL DEFAULT '{{}}')"""
_SHARDS = """CREATE TABLE {shards} (
  run_id text NOT NULL REFERENCES {builds} (run_id) ON DELETE CASCADE, db_id integer NOT NULL, db_url text,
  attempt integer NOT NULL DEFAULT 0, row_count integer NOT NULL DEFAULT 0, checkpoint_id text,
  min_key jsonb, max_key jsonb, writer_info jsonb, PRIMARY KEY (run_id, db_id))"""
_POINTER = """CREATE TABLE {pointer} (
  updated_at timestamptz NOT NULL DEFAULT now(), manifest_ref text NOT NULL)"""
_POINTER_INDEX = "CREATE INDEX IF NOT EXISTS {pointer_index} ON {pointer} (updated_at DESC)"
_BUILDS_INDEX = "CREATE INDEX ON {builds} (created_at DESC)"

# What is ours, by table and column. None of it keeps anybody from inserting a row without it.
_OURS: dict[str, dict[str, LiteralString]] = {
    "builds": {
        "sequence": "ALTER TABLE {builds} ADD COLUMN sequence bigint NOT NULL DEFAULT 0",
        "format_version": "ALTER TABLE {builds} ADD COLUMN format_version bigint",
        "manifest_content_type": "ALTER TABLE {builds} ADD COLUMN manifest_content_type text NOT NULL"
        " DEFAULT 'application/x-sqlite3'",
        "payload": "ALTER TABLE {builds} ADD COLUMN payload bytea",
    },
    "shards": {"db_bytes": "ALTER TABLE {shards} ADD COLUMN db_bytes bigint"},
    "pointer": {
        "run_id": "ALTER TABLE {pointer} ADD COLUMN run_id text",
        "manifest_content_type": "ALTER TABLE {pointer} ADD COLUMN manifest_content_type text NOT NULL"
        " DEFAULT 'application/x-sqlite3'",
        "format_version": "ALTER TABLE {pointer} ADD COLUMN format_version bigint NOT NULL DEFAULT 1",
        "sequence": "ALTER TABLE {pointer} ADD COLUMN sequence bigint",
        "held": "ALTER TABLE {pointer} ADD COLUMN held boolean NOT NULL DEFAULT false",
        "swap_id": "ALTER TABLE {pointer} ADD COLUMN swap_id text NOT NULL DEFAULT ''",
    },
}

# lading 0.1: other columns, most of them without a default, and unique indexes on the times.
_BUILDS_0_1: LiteralString = """ALTER TABLE {builds}
  ADD COLUMN IF NOT EXISTS s3_prefix text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS db_path_template text NOT NULL DEFAULT 'db={{db_id:05d}}',
  ADD COLUMN IF NOT EXISTS shard_prefix text NOT NULL DEFAULT 'shards',
  ALTER COLUMN created_at SET DEFAULT now(), ALTER COLUMN sequence SET DEFAULT 0,
  ALTER COLUMN key_col SET DEFAULT '_key', ALTER COLUMN key_encoding SET DEFAULT 'u64be',
  ALTER COLUMN custom SET DEFAULT '{{}}', ALTER COLUMN payload DROP NOT NULL,
  ALTER COLUMN manifest_content_type SET DEFAULT 'application/x-sqlite3'"""
_SHARDS_0_1: LiteralString = """ALTER TABLE {shards}
  ALTER COLUMN attempt SET DEFAULT 0, ALTER COLUMN row_count SET DEFAULT 0,
  ALTER COLUMN writer_info DROP NOT NULL, ALTER COLUMN db_bytes DROP NOT NULL"""
_POINTER_0_1: LiteralString = """ALTER TABLE {pointer}
  ALTER COLUMN updated_at SET DEFAULT now(), ALTER COLUMN run_id DROP NOT NULL,
  ALTER COLUMN manifest_content_type SET DEFAULT 'application/x-sqlite3',
  ALTER COLUMN format_version SET DEFAULT 1, ALTER COLUMN sequence DROP NOT NULL,
  ALTER COLUMN held SET DEFAULT false, ALTER COLUMN swap_id SET DEFAULT ''"""

_LAYOUT = (
    "SELECT t.name, a.attname, a.attnotnull FROM unnest(%s::text[], %s::text[]) AS t (name, quoted)"
    " JOIN pg_attribute a ON a.attrelid = to_regclass(t.quoted) AND a.attnum > 0 AND NOT a.attisdropped"
)
_UNIQUE = (
    "SELECT i.indexrelid::regclass::text FROM pg_index i WHERE i.indrelid = to_regclass(%s)"
    " AND i.indisunique AND NOT i.indisprimary"
)


@dataclass(frozen=True, slots=True)
class Tables:
    """What the three tables are called."""

    builds: str
    shards: str
    pointer: str

    @property
    def pointer_index(self) -> str | None:
        """What shardyfusion calls it; None if that is too long for a name of its own."""
        name = f"idx_{self.pointer}_updated_at"
        return name if len(name.encode()) <= _NAME_LIMIT else None

    def sql(self, text: LiteralString) -> Composed:
        """`text` with the names put in as identifiers; to be run with parameters, if only an empty tuple,
        since a percent sign in a name is written twice for their sake."""
        from psycopg import sql

        names = {name: getattr(self, name) for name in ("builds", "shards", "pointer")}
        quoted = {name: sql.Identifier(text).as_string().replace("%", "%%") for name, text in names.items()}
        index = sql.Identifier(self.pointer_index or "").as_string().replace("%", "%%")
        return sql.SQL(text).format(
            **{name: sql.SQL(text) for name, text in (*quoted.items(), ("pointer_index", index))}
        )


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
        raise ConfigError(
            "two of the PostgreSQL tables have the same name", hint="see postgres: in lading.yaml"
        )
    return Tables(*found)


def create_tables(connection: Connection[Any], tables: Tables) -> None:
    """Make what isn't there yet, and add what is ours to what somebody else made. To be called under the
    lock: PostgreSQL doesn't do that for two at once."""
    found = _layout(connection, tables)
    statements: list[LiteralString] = []
    if not found["builds"]:
        statements += [_BUILDS, _BUILDS_INDEX]
    elif found["builds"].get("payload"):
        statements += [_BUILDS_0_1, _BUILDS_INDEX]
        _drop_unique(connection, tables.builds)
    if not found["shards"]:
        statements.append(_SHARDS)
    elif found["shards"].get("db_bytes") and found["shards"].get("writer_info"):
        statements.append(_SHARDS_0_1)
    if not found["pointer"]:
        statements += [_POINTER, _index(tables)]
    elif found["pointer"].get("run_id"):
        statements += [_POINTER_0_1, _index(tables)]
        _drop_unique(connection, tables.pointer)
    for what, columns in _OURS.items():
        statements += [add for name, add in columns.items() if name not in found[what]]
    for statement in statements:
        connection.execute(tables.sql(statement), ())


def _layout(connection: Connection[Any], tables: Tables) -> Mapping[str, dict[str, bool]]:
    """By table: its columns, and whether each must not be null; no column when there is no such table."""
    names = ("builds", "shards", "pointer")
    quoted = [_quoted(getattr(tables, name)) for name in names]
    found: dict[str, dict[str, bool]] = {name: {} for name in names}
    for name, column, not_null in connection.execute(_LAYOUT, (list(names), quoted)).fetchall():
        found[name][column] = not_null
    return found


def _index(tables: Tables) -> LiteralString:
    if tables.pointer_index is None:
        return "CREATE INDEX ON {pointer} (updated_at DESC)"
    return _POINTER_INDEX


def _drop_unique(connection: Connection[Any], table: str) -> None:
    """shardyfusion's rows have times of their own: two of them may be equal."""
    from psycopg import sql

    for (name,) in connection.execute(_UNIQUE, (_quoted(table),)).fetchall():
        connection.execute(sql.SQL("DROP INDEX ") + sql.SQL(name))


def _quoted(name: str) -> str:
    from psycopg import sql

    return sql.Identifier(name).as_string()
