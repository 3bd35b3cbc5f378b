"""Iceberg's table metadata, one JSON file a version: composed, sealed, and read back as what was composed.

It is a projection. What an earlier version says of kept snapshots is used again, but only if its seal is
whole: a file that was damaged or written by somebody else counts as if it weren't there.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import xxhash

from lading.iceberg.types import name_mapping, schema_of, sort_order
from lading.parts.field_ids import field_id, gone_names, has_parts_without_numbers, last_id
from lading.snapshots.manifest import BuildMeta

MAIN = "main"
MANIFEST = "lading.manifest"  # in a snapshot's summary: the snapshot manifest that it is the twin of
_SEAL = "lading.seal"
_HINT = "lading.hint"  # the version that the hint named before this one was written
_PROPERTIES = {
    "gc.enabled": "false",  # the parts are lading's: an expiry from outside must not delete them
    "write.format.default": "parquet",
    "write.delete.mode": "merge-on-read",
    "lading.note": "written by lading for readers: what others commit here is gone with its next publish",
}


@dataclass(frozen=True, slots=True)
class Twin:
    """A snapshot of lading's as Iceberg has it."""

    snapshot: Mapping[str, Any]
    schema: Mapping[str, Any]

    @property
    def ref(self) -> str:
        return str(self.snapshot["summary"].get(MANIFEST, ""))

    @property
    def number(self) -> int:
        return int(self.snapshot["snapshot-id"])

    def list_in(self, location: str) -> str:
        """Where its list of manifests lies, seen from the table at `location`."""
        return str(self.snapshot["manifest-list"]).removeprefix(f"{location}/")

    @property
    def at(self) -> int:
        """In milliseconds."""
        return int(self.snapshot["timestamp-ms"])


def twin(ref: str, meta: BuildMeta, schema: pa.Schema, snapshot: int, list_path: str) -> Twin:
    """Of the snapshot manifest `ref`, whose manifest list lies at `list_path`."""
    told = schema_of(schema)
    custom = meta.custom
    summary = {
        "operation": "overwrite",
        "lading.run": meta.run_id,
        "lading.sequence": str(custom.get("sequence", 0)),
        "lading.rows": str(custom.get("rows", 0)),
        "total-data-files": str(custom.get("parts", 0)),
        MANIFEST: ref,
    }
    return Twin(
        {
            "snapshot-id": snapshot,
            "sequence-number": int(custom.get("sequence", 0)),
            "timestamp-ms": int(meta.created_at.timestamp() * 1000),
            "manifest-list": list_path,
            "summary": summary,
            "schema-id": told["schema-id"],
        },
        told,
    )


@dataclass(frozen=True, slots=True)
class Shelf:
    """All that a version of the metadata says."""

    table_id: str
    location: str
    twins: Sequence[Twin]  # the one that readers see included
    current: int  # its snapshot id
    moved_at: int  # when readers began to see it, in milliseconds
    schema: pa.Schema  # of what readers see, numbered
    order_by: str | None
    hint: int = 0  # the version that readers were pointed at until now, 0 for none


def metadata_file(shelf: Shelf) -> bytes:
    twins = sorted(_readable(shelf), key=lambda one: (one.at, one.snapshot["sequence-number"]))
    order = sort_order(shelf.schema, shelf.order_by)
    log = [
        {"snapshot-id": one.number, "timestamp-ms": one.at} for one in twins if one.number != shelf.current
    ]
    now = max([shelf.moved_at, *(one.at for one in twins)])
    log.append({"snapshot-id": shelf.current, "timestamp-ms": now})
    schemas = {one.schema["schema-id"]: one.schema for one in twins}
    shown = schema_of(shelf.schema)
    told: dict[str, Any] = {
        "format-version": 2,
        "table-uuid": _uuid(shelf.table_id),
        "location": shelf.location,
        "last-sequence-number": max(one.snapshot["sequence-number"] for one in twins),
        "last-updated-ms": now,
        "last-column-id": max([last_id(shelf.schema), *(_greatest(one) for one in schemas.values())]),
        "schemas": list(schemas.values()),
        "current-schema-id": shown["schema-id"],
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}, *([order] if order is not None else [])],
        "default-sort-order-id": order["order-id"] if order is not None else 0,
        "properties": _PROPERTIES
        | {_HINT: str(shelf.hint)}
        | {"schema.name-mapping.default": json.dumps(_mapping(shelf.schema, schemas.values()))},
        "current-snapshot-id": shelf.current,
        "snapshots": [one.snapshot for one in twins],
        "snapshot-log": log,
        "metadata-log": [],
        "refs": _refs(twins, shelf.current),
    }
    return _sealed(told)


@lru_cache(maxsize=2)
def twins_in(data: bytes, location: str | None) -> tuple[Sequence[Twin], int] | None:
    """The snapshots that a version has, and which one readers see; None unless it is whole, ours, and speaks
    of `location` (None: of any). A run that has nothing to do asks twice, and one that watches asks again and
    again: the same bytes are taken apart once."""
    try:
        told = json.loads(data)
        if told["properties"][_SEAL] != _seal(told) or location not in (None, told["location"]):
            return None
        schemas = {one["schema-id"]: one for one in told["schemas"]}
        twins = tuple(Twin(one, schemas[one["schema-id"]]) for one in told["snapshots"])
        return twins, int(told["current-snapshot-id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def hint_in(data: bytes) -> int:
    """The version that the hint named before this one was written; 0 if it doesn't say, or isn't whole."""
    try:
        told = json.loads(data)
        return int(told["properties"][_HINT]) if _sealed(told) == data else 0
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def _readable(shelf: Shelf) -> Sequence[Twin]:
    """Parts without numbers are read by one mapping for all snapshots. One that has another number for a name
    than that would read nulls there: it is left out where there may be such parts."""
    if not has_parts_without_numbers(shelf.schema):
        return shelf.twins
    numbers = {field.name: field_id(field) for field in shelf.schema}
    found = []
    for one in sorted(shelf.twins, key=lambda one: (one.number == shelf.current, one.at), reverse=True):
        own = {field["name"]: field["id"] for field in one.schema["fields"]}
        if all(numbers.get(name, number) == number for name, number in own.items()):
            numbers |= own
            found.append(one)
    return found


def _refs(twins: Sequence[Twin], current: int) -> dict[str, Any]:
    tags = {one.snapshot["summary"]["lading.run"]: one.number for one in twins}
    tags.pop(MAIN, None)
    return {
        MAIN: {"snapshot-id": current, "type": "branch"},
        **{name: {"snapshot-id": number, "type": "tag"} for name, number in tags.items()},
    }


def _mapping(schema: pa.Schema, kept: Any) -> list[dict[str, Any]]:
    """Of today's columns, of those that kept snapshots still have, and of those that only parts have."""
    mapping = name_mapping(schema)
    names = {name for one in mapping for name in one["names"]}
    for other in kept:
        for one in other["fields"]:
            if one["name"] not in names:
                names.add(one["name"])
                mapping.append({"field-id": one["id"], "names": [one["name"]], **_inside(one["type"])})
    gone = ((name, number) for name, number in gone_names(schema).items() if name not in names)
    return mapping + [{"field-id": number, "names": [name]} for name, number in gone if number is not None]


def _inside(kind: Any) -> dict[str, Any]:
    """The names inside a nested type."""
    if not isinstance(kind, dict):
        return {}
    if kind["type"] == "struct":
        pairs = [(one["name"], one["id"], one["type"]) for one in kind["fields"]]
    else:
        steps = ("key", "value") if kind["type"] == "map" else ("element",)
        pairs = [(step, kind[f"{step}-id"], kind[step]) for step in steps]
    return {"fields": [{"field-id": number, "names": [name], **_inside(of)} for name, number, of in pairs]}


def _greatest(told: Any) -> int:
    """The greatest number in a schema or a type."""
    if isinstance(told, dict):
        own = [value for name, value in told.items() if name in _NUMBERS]
        return max(0, *map(int, own), *(_greatest(one) for one in told.values()))
    return max([0, *map(_greatest, told)]) if isinstance(told, list) else 0


_NUMBERS = ("id", "key-id", "value-id", "element-id")


def _sealed(told: dict[str, Any]) -> bytes:
    return _text(told | {"properties": told["properties"] | {_SEAL: _seal(told)}}).encode()


def _seal(told: dict[str, Any]) -> str:
    """Over everything else."""
    plain = {name: value for name, value in told["properties"].items() if name != _SEAL}
    return xxhash.xxh3_128_hexdigest(_text(told | {"properties": plain}).encode())


def _text(told: dict[str, Any]) -> str:
    """On one line: with indents Python's encoder takes ten times as long."""
    return json.dumps(told, sort_keys=True)


def _uuid(table_id: str) -> str:
    try:
        return str(uuid.UUID(table_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, table_id))
