"""`serve:` settled against a table: which columns, of which types, in how many shards."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lading.config.serve import SHARD_LIMIT, Serve
from lading.errors import ConfigError
from lading.formats.arrow_types import PLAIN
from lading.layout.table import SOURCE
from lading.model import Column
from lading.serve.keys import ENCODINGS_OF, Encoding, KeySpec, Kind
from lading.serve.routing import KEY_VARIABLE, Router
from lading.serve.routing_arrays import kind_of, routing_columns
from lading.serve.spec_id import shard_count, spec_id
from lading.snapshots.manifest import Sharding

_CEL_FITS = {
    "int": pa.types.is_signed_integer,
    "uint": pa.types.is_unsigned_integer,
    "double": pa.types.is_floating,
    "bool": pa.types.is_boolean,
}


@dataclass(frozen=True, slots=True)
class ServeSpec:
    """All that building a table's shards depends on beside its rows."""

    router: Router
    value: tuple[str, ...]
    encoding: str
    latest: bool  # of rows with one key the greatest is kept; else they are an error
    order_by: str | None
    id: str

    @property
    def key(self) -> KeySpec:
        return self.router.key

    @property
    def num_dbs(self) -> int:
        return self.router.num_dbs

    def columns(self) -> tuple[str, ...]:
        """What has to be read of a part; `_source` last, where it counts."""
        order = [self.order_by] if self.latest and self.order_by else []
        source = [SOURCE] if self.latest else []
        return tuple(dict.fromkeys([*routing_columns(self.router), *self.value, *order, *source]))

    def described(self) -> dict[str, Any]:
        """The snapshot's `custom.serve`."""
        return {
            "spec": self.id,
            "key": list(self.key.columns),
            "kinds": list(self.key.kinds),
            "value": list(self.value),
            "encoding": self.encoding,
            "duplicates": "latest" if self.latest else "error",
        }


def resolve(serve: Serve, schema_bytes: bytes, rows: int, order_by: str | None, *, table: str) -> ServeSpec:
    """The spec of a table with this schema; ConfigError when the two don't fit."""
    schema = pa.ipc.read_schema(pa.py_buffer(schema_bytes))
    refuse_misfits(serve, schema, table)
    count = shard_count(serve, rows)
    if count > SHARD_LIMIT:
        raise _misfit(
            serve, "max_keys_per_shard", f"{rows:,} rows would need {count:,} shards",
            f"at most {SHARD_LIMIT:,} are allowed: raise max_keys_per_shard", table,
        )  # fmt: skip
    kinds = tuple(_kind(schema.field(name).type) for name in serve.key)
    encoding: Encoding = serve.key_encoding or ("raw" if len(kinds) > 1 else ENCODINGS_OF[kinds[0]][0])
    sharding = Sharding(hash_algorithm="xxh3_64")
    if serve.cel is not None:
        sharding = Sharding(
            strategy="cel",
            hash_algorithm="xxh3_64",
            cel_expr=serve.cel.expr,
            cel_columns=serve.cel.columns,
            routing_values=serve.cel.routing_values,
        )
    value = serve.value if serve.value is not None else tuple(n for n in schema.names if n != SOURCE)
    router = Router(KeySpec(serve.key, kinds, encoding), count, sharding)
    if not router.by_hash:
        _ = router.program  # compiled now: what CEL objects to is said before anything is built
    return ServeSpec(
        router=router,
        value=value,
        encoding=serve.encoding,
        latest=serve.duplicates == "latest",
        order_by=order_by,
        id=spec_id(serve, schema_bytes, order_by, rows),
    )


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """Pinned columns as far as `serve:` cares about their types."""
    return pa.schema([(column.name, PLAIN.get(column.type, _OTHER)) for column in columns])


def refuse_misfits(serve: Serve, schema: pa.Schema, table: str) -> None:
    """Columns that are not there or can't be used, named with the line that asks for them."""
    for name in serve.key:
        kind = kind_of(_type(serve, "key", name, schema, table))
        if kind is None:
            raise _misfit(
                serve, "key", f"{name!r} is {schema.field(name).type}, which can't be a key",
                "a key is a whole number, text or bytes: make one in the transform", table,
            )  # fmt: skip
        wanted = ENCODINGS_OF[kind]
        if len(serve.key) == 1 and serve.key_encoding is not None and serve.key_encoding not in wanted:
            raise _misfit(
                serve, "key_encoding", f"{serve.key_encoding} does not fit {name!r}, which is {kind}",
                f"use {' or '.join(wanted)}, or leave it out", table,
            )  # fmt: skip
    for name in serve.value or ():
        dtype = _type(serve, "value", name, schema, table)
        if serve.encoding == "raw" and kind_of(dtype) not in ("str", "bytes"):
            raise _misfit(
                serve, "value", f"{name!r} is {dtype}, and encoding raw stores text or bytes as they are",
                "choose json or msgpack, or another column", table,
            )  # fmt: skip
    _refuse_cel_misfits(serve, schema, table)


def _refuse_cel_misfits(serve: Serve, schema: pa.Schema, table: str) -> None:
    for name, declared in (serve.cel.columns if serve.cel is not None else {}).items():
        if name == KEY_VARIABLE and name not in serve.key and name in schema.names:
            raise _misfit(
                serve, "cel", f"'key' is the table's key {serve.key[0]!r}, but a column has that name too",
                f"write {serve.key[0]} for the key in the expression", table,
            )  # fmt: skip
        column = serve.key[0] if name == KEY_VARIABLE else name
        dtype = _type(serve, "cel", column, schema, table)
        kind = kind_of(dtype)
        fits = _CEL_FITS.get(declared)
        if not (fits(dtype) if fits else kind == {"string": "str", "bytes": "bytes"}[declared]):
            raise _misfit(
                serve, "cel", f"{name!r} is declared as {declared} but is {dtype}",
                f"correct tables.{table}.serve.cel.columns", table,
            )  # fmt: skip


def _type(serve: Serve, at: str, name: str, schema: pa.Schema, table: str) -> pa.DataType:
    if name in schema.names and name != SOURCE:
        return schema.field(name).type
    names = [column for column in schema.names if column != SOURCE]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"its columns are: {', '.join(names)}"
    where = ""
    if at == "cel" and serve.cel is not None and name in serve.cel.expr:
        where = f' (character {serve.cel.expr.index(name) + 1} of "{serve.cel.expr}")'
    raise _misfit(serve, at, f"the table has no column {name!r}{where}", hint, table)


def _misfit(serve: Serve, at: str, text: str, hint: str, table: str) -> ConfigError:
    line = serve.lines.get(at, serve.lines.get("", 0))
    where = f"lading.yaml:{line}: " if line else ""
    return ConfigError(f"{where}tables.{table}.serve.{at}: {text}", hint=hint, table=table)


def _kind(dtype: pa.DataType) -> Kind:
    kind = kind_of(dtype)
    assert kind is not None
    return kind


_OTHER = pa.list_(pa.null())  # neither a key nor anything that routes
