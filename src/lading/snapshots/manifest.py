"""A snapshot manifest: one SQLite database as one object, built whole, parsed as if it were hostile.

`build_meta` and `shards` are laid out as shardyfusion readers expect; lading's own tables sit beside
them and strangers ignore those. A manifest that shardyfusion wrote has those two alone, and doesn't say how
many bytes a shard has. A manifest may come from a bucket that others write to, so nothing in it is
believed: state/sqlite.py opens it with care, every field is checked here, and all that can be wrong with
it is ManifestParseError.
"""

from __future__ import annotations

import re
import sqlite3
import string
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from lading.errors import ManifestParseError, NotFound
from lading.layout.table import SHARD_TEMPLATE, SHARDS
from lading.state.bounded_json import decode
from lading.state.sqlite import HINT, bounded, check_size, open_snapshot
from lading.state.sqlite import open_snapshot_file as open_snapshot_file
from lading.words import count_words

SHARD_LIMIT = 1_000_000
FORMATS = (1, 2, 3)
STATE_TABLES = (  # lading's own, of any version
    "lading", "pages", "summaries", "contents", "members", "zones", "vectors", "sources",
)  # fmt: skip

_KEPT_BYTES = 1 << 20
_T = TypeVar("_T")

Natural = Annotated[int, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class Sharding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a key finds its shard. Another key here would make foreign readers refuse the manifest."""

    strategy: Literal["hash", "cel"] = "hash"
    hash_algorithm: Literal["xxh3_64"]
    routing_values: tuple[int | str, ...] | None = None
    cel_expr: str | None = None
    cel_columns: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if self.strategy == "cel":
            if not self.cel_expr or not self.cel_columns:
                raise ValueError("strategy cel needs cel_expr and cel_columns")
        elif (self.routing_values, self.cel_expr, self.cel_columns) != (None, None, None):
            raise ValueError("routing_values, cel_expr and cel_columns are for strategy cel")
        values = self.routing_values or ()
        if len(set(values)) != len(values) or len({type(value) for value in values}) > 1:
            raise ValueError("routing_values must be distinct and of one type")


HASH = Sharding(hash_algorithm="xxh3_64")


class BuildMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The one row of `build_meta`. `format_version` is what was read; the writer chooses its own."""

    run_id: Name
    created_at: datetime
    num_dbs: Annotated[int, msgspec.Meta(ge=1, le=SHARD_LIMIT)] = 1
    s3_prefix: str = ""
    key_col: str = ""
    sharding: Sharding = HASH
    db_path_template: str = SHARD_TEMPLATE
    shard_prefix: str = SHARDS
    format_version: int = 2
    key_encoding: Literal["u64be", "u32be", "utf8", "raw"] = "u64be"
    custom: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.format_version not in FORMATS:
            raise ValueError(f"format_version is {self.format_version}, not one of 1, 2, 3")
        if self.sharding.routing_values is not None and self.format_version != 3:
            raise ValueError(f"routing_values need format_version 3, not {self.format_version}")
        _check_template(self.db_path_template)
        if _leaves(self.shard_prefix):
            raise ValueError(f"shard_prefix {self.shard_prefix!r} leaves the root")


class WriterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempt of which task wrote a shard."""

    stage_id: int | None = None
    task_attempt_id: int | None = None
    attempt: Natural = 0
    duration_ms: Natural = 0


class ShardMeta(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `shards`: the winning attempt of one shard that has rows."""

    db_id: Natural
    db_url: Name | None
    attempt: Natural
    row_count: Natural
    min_key: int | str | None
    max_key: int | str | None
    checkpoint_id: str | None = None  # SHA-256 of the shard file; another writer's may be any text
    writer_info: WriterInfo = WriterInfo()
    db_bytes: Natural | None = None  # None: another writer's, who doesn't say

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {
            "db_id": self.db_id,
            "keys": self.row_count,
            "min_key": self.min_key,
            "max_key": self.max_key,
            "bytes": self.db_bytes,
            "db_url": self.db_url,
            "attempt": self.attempt,
            "sha256": self.checkpoint_id,
        }


class ParsedSnapshot(msgspec.Struct, frozen=True):
    """What a manifest says of its build and shards, checked. Shards come by id; empty ones are absent."""

    meta: BuildMeta
    shards: tuple[ShardMeta, ...]


_encode = msgspec.json.Encoder(order="sorted").encode
_pack = msgspec.msgpack.Encoder().encode
_unpack_shards = msgspec.msgpack.Decoder(tuple[ShardMeta, ...]).decode


def build_snapshot(
    meta: BuildMeta,
    shards: Sequence[ShardMeta] = (),
    fill: Callable[[sqlite3.Connection], None] | None = None,
    *,
    tables: Callable[[sqlite3.Connection], None] | None = None,
    page_size: int = 4096,
) -> bytes:
    """The manifest as bytes; `fill` adds lading's own content, to tables that `tables` makes once and for all
    or that it makes itself. Never writes what readers would refuse."""
    version = 2 if meta.sharding.routing_values is None else 3
    build_row = _build_row(meta, version)
    _refuse_unreadable(build_row, shards)
    empty = _empty(page_size, tables)
    connection = _kept.taken(empty)
    try:
        connection.deserialize(empty)  # then to serialise it takes one copy, not two
        connection.execute("PRAGMA journal_mode = OFF")  # if anything fails, all of it is thrown away
        connection.execute("BEGIN")
        with bounded(connection):
            connection.execute(_INSERT_BUILD_META, build_row)
            connection.executemany(_INSERT_SHARDS, [_shard_row(shard) for shard in shards])
        if fill is not None:
            fill(connection)
        if connection.in_transaction:
            connection.execute("COMMIT")
        if connection.execute("PRAGMA freelist_count").fetchone() != (0,):
            connection.execute("VACUUM")  # without a free page there is nothing that it would drop
        payload = check_size(connection.serialize())
    except BaseException:
        connection.close()
        raise
    if _schema(payload) == _schema(empty) and len(payload) <= _KEPT_BYTES:
        _kept.put_back(connection, empty)
    else:
        connection.close()
    return payload


def _schema(payload: bytes) -> bytes:
    """SQLite's number for the tables of a database."""
    return payload[40:44]


class _Kept(threading.local):
    """The connection that this thread built its last manifest with: to open one and have it learn the
    statements takes a fifth of the time that a small manifest takes. It serves manifests that begin with the
    same tables and are given no others: statements that it knows go by where tables begin."""

    connection: sqlite3.Connection | None = None
    empty = b""

    def taken(self, empty: bytes) -> sqlite3.Connection:
        connection, self.connection = self.connection, None
        if connection is not None and self.empty is empty:
            return connection
        if connection is not None:
            connection.close()
        return sqlite3.connect(":memory:", isolation_level=None)

    def put_back(self, connection: sqlite3.Connection, empty: bytes) -> None:
        if self.connection is not None:  # one manifest was built in the course of another
            self.connection.close()
        self.connection, self.empty = connection, empty


_kept = _Kept()


@cache
def _empty(page_size: int, tables: Callable[[sqlite3.Connection], None] | None) -> bytes:
    """A manifest without a row in it."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {int(page_size)}")
        connection.execute(_BUILD_META_DDL)
        connection.execute(_SHARDS_DDL)
        if tables is not None:
            tables(connection)
        return connection.serialize()


def parse_snapshot(payload: bytes, *, check: bool = False) -> ParsedSnapshot:
    """What `payload` says, checked. `check` adds SQLite's own quick_check, for bytes from elsewhere."""
    connection = open_snapshot(payload, check=check)
    try:
        return read_snapshot(connection)
    finally:
        connection.close()


def read_snapshot(connection: sqlite3.Connection) -> ParsedSnapshot:
    """Build metadata and every shard, checked against one another."""
    meta = load_build_meta(connection)
    select = _select_shards(connection)
    with bounded(connection):
        (count,) = connection.execute("SELECT count(*) FROM shards").fetchone()
        if count > meta.num_dbs:
            raise ManifestParseError(
                f"{count_words(count, 'shard')}, but num_dbs is {meta.num_dbs}", hint=HINT
            )
        cursor = connection.execute(f"{select} ORDER BY db_id")
        shards = tuple(_shard(row, sized=select is _SELECT_SHARDS) for row in cursor)
    _check_ids(shards, meta.num_dbs)
    return ParsedSnapshot(meta, shards)


def load_build_meta(connection: sqlite3.Connection) -> BuildMeta:
    """The build metadata alone: no shard is read."""
    with bounded(connection):
        rows = connection.execute(_SELECT_BUILD_META).fetchmany(2)
    if len(rows) != 1:
        raise ManifestParseError(f"build_meta has {len(rows) or 'no'} rows, not one", hint=HINT)
    return _meta(rows[0])


def is_foreign(connection: sqlite3.Connection) -> bool:
    """Whether another writer made the manifest: it has shards, and no parts. One of ours that lost its tables
    is not foreign but damaged, and says in `custom` whose it is."""
    with bounded(connection):
        names = {str(row[0]).lower() for row in connection.execute("SELECT name FROM sqlite_master")}
    if not names.isdisjoint(STATE_TABLES):
        return False
    return not {"table_id", "sequence"} <= load_build_meta(connection).custom.keys()


def load_shard(connection: sqlite3.Connection, db_id: int) -> ShardMeta | None:
    """One shard by id, without loading the others; None when it is empty."""
    num_dbs = load_build_meta(connection).num_dbs
    if not 0 <= db_id < num_dbs:
        raise NotFound(f"there is no shard {db_id}", hint=f"shards are numbered 0 to {num_dbs - 1}")
    select = _select_shards(connection)
    with bounded(connection):
        rows = connection.execute(f"{select} WHERE db_id = ?", (db_id,)).fetchmany(2)
    if len(rows) > 1:
        raise ManifestParseError(f"two shards have the db_id {db_id}", hint=HINT)
    return _shard(rows[0], sized=select is _SELECT_SHARDS) if rows else None


def _select_shards(connection: sqlite3.Connection) -> str:
    """What to ask for shards: another writer's manifest has no `db_bytes`."""
    with bounded(connection):
        names = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info('shards')")}
    if "db_bytes" not in names and is_foreign(connection):
        return _SELECT_FOREIGN_SHARDS
    return _SELECT_SHARDS


def _meta(row: tuple[Any, ...]) -> BuildMeta:
    fields: dict[str, Any] = dict(zip(BuildMeta.__struct_fields__, row, strict=True))
    for name, kind in (("sharding", Sharding), ("custom", dict[str, Any])):
        fields[name] = _json(fields[name], kind, f"build_meta.{name}")
    return _convert(fields, BuildMeta, "build_meta")


def _shard(row: tuple[Any, ...], *, sized: bool) -> ShardMeta:
    fields: dict[str, Any] = dict(zip(ShardMeta.__struct_fields__, row, strict=True))
    if sized and fields["db_bytes"] is None:
        raise ManifestParseError("shards.db_bytes is null", hint=HINT)
    for name in ("min_key", "max_key"):
        if fields[name] is not None:
            fields[name] = _json(fields[name], int | str | None, f"shards.{name}")
    fields["writer_info"] = _json(fields["writer_info"], WriterInfo, "shards.writer_info")
    return _convert(fields, ShardMeta, "shards")


def _json(text: object, kind: Any, where: str) -> Any:
    if not isinstance(text, str):
        raise ManifestParseError(f"{where} is not JSON text", hint=HINT)
    try:
        return decode(text, kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ManifestParseError(f"{where}: {error}", hint=HINT) from error


def _convert(fields: Mapping[str, Any], kind: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(fields, kind)
    except (msgspec.MsgspecError, UnicodeError, ValueError, OverflowError) as error:
        raise ManifestParseError(f"{where}: {error}", hint=HINT) from error


def _check_ids(shards: Sequence[ShardMeta], num_dbs: int) -> None:
    ids = [shard.db_id for shard in shards]
    if len(set(ids)) != len(ids):
        raise ManifestParseError("two shards have one db_id", hint=HINT)
    if ids and max(ids) >= num_dbs:
        raise ManifestParseError(
            f"shard {max(ids)} is out of range: {count_words(num_dbs, 'shard')}", hint=HINT
        )


def _refuse_unreadable(build_row: tuple[Any, ...], shards: Sequence[ShardMeta]) -> None:
    """What a reader would check of the rows, before there are any: a struct that was made and not read may
    hold anything. All shards at once, and none of it by Python."""
    meta = _meta(build_row)
    try:
        checked = _unpack_shards(_pack(shards))
    except (msgspec.MsgspecError, UnicodeError, ValueError, OverflowError, RecursionError) as error:
        raise ManifestParseError(f"shards: {error}", hint=HINT) from error
    if any(shard.db_bytes is None for shard in checked):
        raise ManifestParseError("shards: a shard has no db_bytes", hint=HINT)
    _check_ids(checked, meta.num_dbs)


def _build_row(meta: BuildMeta, version: int) -> tuple[Any, ...]:
    """Column values: structures as JSON text with sorted keys, times as ISO-8601 text."""
    return (
        meta.run_id, meta.created_at.isoformat(), meta.num_dbs, meta.s3_prefix, meta.key_col,
        _text(meta.sharding), meta.db_path_template, meta.shard_prefix, version, meta.key_encoding,
        _text(meta.custom),
    )  # fmt: skip


def _shard_row(shard: ShardMeta) -> tuple[Any, ...]:
    low, high = shard.min_key, shard.max_key
    return (
        shard.db_id, shard.db_url, shard.attempt, shard.row_count,
        None if low is None else _key_text(low), None if high is None else _key_text(high),
        shard.checkpoint_id, _text(shard.writer_info), shard.db_bytes,
    )  # fmt: skip


def _key_text(key: int | str) -> str:
    return str(key) if type(key) is int else _text(key)


def _text(value: object) -> str:
    return _encode(value).decode()


@lru_cache(maxsize=16)
def _check_template(template: str) -> None:
    """Only `{db_id}` with a short width: a stranger's format string must reach nothing else."""
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"db_path_template {template!r}: {error}") from error
    for _, field, spec, conversion in pieces:
        plain = re.fullmatch(r"0?[0-9]{0,2}d?", spec or "") and not conversion
        if field is not None and (field != "db_id" or not plain):
            raise ValueError(f"db_path_template {template!r} may only use {{db_id}}")
    if _leaves(template):
        raise ValueError(f"db_path_template {template!r} leaves the root")


def _leaves(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/") or "\\" in path or "\0" in path


_BUILD_META_DDL = """CREATE TABLE build_meta (
  run_id TEXT NOT NULL, created_at TEXT NOT NULL, num_dbs INTEGER NOT NULL, s3_prefix TEXT NOT NULL,
  key_col TEXT NOT NULL, sharding TEXT NOT NULL, db_path_template TEXT NOT NULL,
  shard_prefix TEXT NOT NULL, format_version INTEGER NOT NULL, key_encoding TEXT NOT NULL,
  custom TEXT NOT NULL)"""
_SHARDS_DDL = """CREATE TABLE shards (
  db_id INTEGER PRIMARY KEY, db_url TEXT, attempt INTEGER NOT NULL, row_count INTEGER NOT NULL,
  min_key TEXT, max_key TEXT, checkpoint_id TEXT, writer_info TEXT NOT NULL, db_bytes INTEGER NOT NULL)"""
_INSERT_BUILD_META = f"INSERT INTO build_meta VALUES (?{', ?' * (len(BuildMeta.__struct_fields__) - 1)})"
_INSERT_SHARDS = f"INSERT INTO shards VALUES (?{', ?' * (len(ShardMeta.__struct_fields__) - 1)})"
_SELECT_BUILD_META = f"SELECT {', '.join(BuildMeta.__struct_fields__)} FROM build_meta LIMIT 2"
_SELECT_SHARDS = f"SELECT {', '.join(ShardMeta.__struct_fields__)} FROM shards"
_SELECT_FOREIGN_SHARDS = _SELECT_SHARDS.replace("db_bytes", "NULL")
