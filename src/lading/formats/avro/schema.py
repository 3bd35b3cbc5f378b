"""An Avro schema as Arrow types: what its columns are called, and how their values are stored."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

Convert = Callable[[Any], Any]

_TYPES = 10_000  # records, enums and the like, each as often as it is used
_WIDE = Context(prec=80)
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
# By the type that is stored and the name of what it means. A name that isn't here means nothing.
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """One type of a schema."""

    declared: pa.DataType  # what the schema says
    stored: Any  # for the decoder: an Avro type without meanings, whose texts are bytes
    held: pa.DataType  # takes what the decoder gives, whether or not it fits `declared`
    convert: Convert | None = None  # of a value that the decoder gives and Arrow doesn't take


@dataclass(frozen=True, slots=True)
class Field:
    """A column."""

    name: str
    key: str  # its name for the decoder
    shape: Shape

    @property
    def declared(self) -> pa.DataType:
        return self.shape.declared

    @property
    def stored(self) -> Any:
        return self.shape.stored

    def array(self, values: list[Any]) -> pa.Array:
        convert = self.shape.convert
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        return as_text(pa.array(values, self.shape.held), self.shape.declared)


def fields_of(text: bytes) -> list[Field]:
    """The columns of a schema; ValueError says why it has none."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ValueError(f"its schema is not JSON: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record" or not schema.get("fields"):
        raise ValueError("its schema is not a record with fields")
    return _Schema().columns(schema)


@dataclass(slots=True)
class _Schema:
    """Types that have a name may be used again by it."""

    named: dict[str, tuple[Any, str]] = field(default_factory=dict)  # and the namespace each was found in
    open: list[str] = field(default_factory=list)  # records that are being looked at
    made: int = 0

    def columns(self, schema: dict[str, Any]) -> list[Field]:
        full = self._name(schema, "")
        self.open.append(full)
        found = []
        for place, one in enumerate(_fields(schema)):
            try:
                shape = self.shape(one["type"], full.rpartition(".")[0])
            except ValueError as error:
                raise ValueError(f"column {one['name']!r} {error}") from error
            found.append(Field(one["name"], f"c{place}", shape))
        return found

    def shape(self, schema: Any, space: str) -> Shape:
        if isinstance(schema, list):
            return self._union(schema, space)
        if isinstance(schema, str):
            return self._simple(schema, {}, space)
        if not isinstance(schema, dict) or "type" not in schema:
            raise ValueError("has a type that is no Avro type")
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.shape(kind, space)
        if kind == "record":
            return self._record(schema, space)
        if kind == "array":
            inner = self.shape(schema.get("items"), space)
            convert = None if inner.convert is None else _each(inner.convert)
            stored = {"type": "array", "items": inner.stored}
            return Shape(pa.list_(inner.declared), stored, pa.list_(inner.held), convert)
        if kind == "map":
            return self._map(self.shape(schema.get("values"), space))
        if kind == "enum":
            name = self._name(schema, space)
            stored = {"type": "enum", "name": self._fresh(), "symbols": schema.get("symbols")}
            if not isinstance(stored["symbols"], list):
                raise ValueError(f"is an enum {name!r} without symbols")
            return Shape(pa.string(), stored, pa.string())
        return self._simple(kind, schema, space)

    def _simple(self, kind: Any, schema: Mapping[str, Any], space: str) -> Shape:
        logical = schema.get("logicalType")
        if kind == "fixed":
            self._name(schema, space)
            return self._fixed(schema, logical)
        if kind == "bytes" and logical == "decimal":
            return _decimal(schema, "bytes") or Shape(pa.binary(), "bytes", pa.binary())
        if kind == "string":
            return Shape(pa.string(), "bytes", pa.binary())
        if kind in _PLAIN:
            made = _LOGICAL.get((kind, str(logical)), _PLAIN[kind])
            return Shape(made, kind, made)
        if kind == "null":
            return Shape(pa.null(), "null", pa.null())
        for name in (f"{space}.{kind}", str(kind)):
            if name in self.open:
                raise ValueError(f"is of type {kind!r}, which contains itself")
            if name in self.named:
                return self.shape(*self.named[name])
        raise ValueError(f"is of type {kind!r}, which the schema doesn't explain")

    def _union(self, schema: list[Any], space: str) -> Shape:
        kinds = [kind for kind in schema if kind != "null"]
        if not kinds:
            return Shape(pa.null(), schema, pa.null())
        if len(kinds) > 1:
            shown = " or ".join(json.dumps(kind)[:40] for kind in kinds)
            raise ValueError(f"may hold values of several types ({shown})")
        inner = self.shape(kinds[0], space)
        stored = ["null" if kind == "null" else inner.stored for kind in schema]
        return Shape(inner.declared, stored, inner.held, inner.convert)

    def _record(self, schema: dict[str, Any], space: str) -> Shape:
        full = self._name(schema, space)
        self.open.append(full)
        found = {one["name"]: self.shape(one["type"], full.rpartition(".")[0]) for one in _fields(schema)}
        self.open.pop()
        if not found:
            raise ValueError(f"is a record {full!r} without fields")
        if len(found) < len(schema["fields"]):
            raise ValueError(f"is a record {full!r} with two fields of one name")
        stored = {
            "type": "record",
            "name": self._fresh(),
            "fields": [{"name": f"c{at}", "type": shape.stored} for at, shape in enumerate(found.values())],
        }
        return Shape(
            pa.struct([(name, shape.declared) for name, shape in found.items()]),
            stored,
            pa.struct([(name, shape.held) for name, shape in found.items()]),
            _struct([(name, f"c{at}", shape.convert) for at, (name, shape) in enumerate(found.items())]),
        )

    def _map(self, inner: Shape) -> Shape:
        return Shape(
            pa.map_(pa.string(), inner.declared),
            {"type": "map", "values": inner.stored},
            pa.map_(pa.binary(), inner.held),
            _pairs(inner.convert),
        )

    def _fixed(self, schema: Mapping[str, Any], logical: Any) -> Shape:
        size = schema.get("size")
        if not isinstance(size, int) or size < 1:
            raise ValueError("is fixed without a size")
        stored = {"type": "fixed", "name": self._fresh(), "size": size}
        if logical == "decimal" and (made := _decimal(schema, stored)):
            return made
        if logical == "uuid" and size == 16:
            return Shape(pa.string(), stored, pa.string(), lambda value: str(uuid.UUID(bytes=value)))
        if logical == "duration" and size == 12:
            return Shape(pa.month_day_nano_interval(), stored, pa.binary())
        return Shape(pa.binary(), stored, pa.binary())

    def _name(self, schema: Mapping[str, Any], space: str) -> str:
        """The full name of a type that has one, under which it is found again."""
        name = str(schema.get("name", ""))
        full = name if "." in name else f"{schema.get('namespace', space)}.{name}".lstrip(".")
        self.named.setdefault(full, (schema, space))
        return full

    def _fresh(self) -> str:
        self.made += 1
        if self.made > _TYPES:
            raise ValueError(f"leads to more than {_TYPES:,} types")
        return f"t{self.made}"


def _fields(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = schema.get("fields")
    if not isinstance(found, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and "type" in one for one in found
    ):
        raise ValueError("its schema has a record whose fields have no names or types")
    return found


def _decimal(schema: Mapping[str, Any], stored: Any) -> Shape | None:
    """None if it doesn't say what it has to: then bytes are bytes."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision > 0:
        return None
    declared = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(76, min(scale, 76))

    def convert(value: bytes) -> Decimal:
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _WIDE)

    return Shape(declared, stored, pa.decimal256(76, min(scale, 76)), convert)


def _each(convert: Convert) -> Convert:
    return lambda values: [None if value is None else convert(value) for value in values]


def _pairs(convert: Convert | None) -> Convert:
    def pairs(value: dict[str, Any]) -> list[tuple[bytes, Any]]:
        keys = [key.encode("utf-8", "surrogateescape") for key in value]
        values = value.values() if convert is None else _each(convert)(value.values())
        return list(zip(keys, values, strict=True))

    return pairs


def _struct(fields: list[tuple[str, str, Convert | None]]) -> Convert:
    def fill(value: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value[key] if convert is None or value[key] is None else convert(value[key])
            for name, key, convert in fields
        }

    return fill


def as_text(values: pa.Array, declared: pa.DataType) -> pa.Array:
    """Bytes that are declared to be text, as text that nobody has looked at yet."""
    return values.view(_texts(values.type, declared))


def _texts(held: pa.DataType, declared: pa.DataType) -> pa.DataType:
    if pa.types.is_string(declared):
        return pa.string()
    if pa.types.is_list(held):
        return pa.list_(_texts(held.value_type, declared.value_type))
    if pa.types.is_map(held):
        return pa.map_(pa.string(), _texts(held.item_type, declared.item_type))
    if pa.types.is_struct(held):
        return pa.struct(
            [(one.name, _texts(one.type, declared.field(at).type)) for at, one in enumerate(held)]
        )
    return held
