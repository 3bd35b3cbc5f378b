"""The table manifest: a table's state by bucket, in the layout that crv.io readers already know.

It is a copy for people and for those readers, never the source of truth. Their reader builds its
record straight from a part object, so a part has exactly six keys; whatever lading has to add sits
under the top-level key `lading`, which they ignore. Paths are relative to the bucket's directory, so
a table can be moved. Nothing here touches a file: see log/table_manifest.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from lading import clock
from lading.errors import ManifestParseError
from lading.layout.table import bucket_key
from lading.state.bounded_json import decode

State = Literal["writing", "ready"]

_HINT = "delete the file: the next run writes it again from the log"


@dataclass(slots=True)
class PartMeta:
    """One Parquet file of a bucket. No field may be added: foreign readers take these six only."""

    path: str  # a file name relative to the bucket's directory
    rows: int
    bytes: int
    tick_min: int
    tick_max: int
    created_at: str  # ISO-8601


@dataclass(slots=True)
class PartitionMeta:
    """One bucket: its parts in the order they were added, and their sums and range."""

    bucket_id: int
    state: State
    tick_min: int
    tick_max: int
    row_count: int
    byte_size: int
    parts: list[PartMeta] = field(default_factory=list)


@dataclass(slots=True)
class TableManifest:
    """What `<table>/manifest.json` says."""

    table: str  # lower_snake
    version: int
    created_at: str  # ISO-8601
    updated_at: str  # ISO-8601
    partitions: dict[str, PartitionMeta]  # by bucket_key()

    def to_json_obj(self) -> dict[str, Any]:
        """Plain values whose keys are in the order of the file."""
        return {
            "table": self.table,
            "version": self.version,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "partitions": {key: _partition_obj(p) for key, p in self.partitions.items()},
        }

    @classmethod
    def from_json_obj(cls, obj: object) -> TableManifest:
        """The manifest that `obj` spells; times and version may be absent, names and figures may not."""
        top = _mapping(obj, "the manifest")
        partitions = _mapping(top.get("partitions") or {}, "partitions")
        return cls(
            table=_text(top, "table", "the manifest"),
            version=_integer(top.get("version", 1), "version"),
            created_at=_text(top, "created_at", "the manifest") if top.get("created_at") else utc_now_iso(),
            updated_at=_text(top, "updated_at", "the manifest") if top.get("updated_at") else utc_now_iso(),
            partitions={key: _partition(p, f"partitions[{key!r}]") for key, p in partitions.items()},
        )


def utc_now_iso() -> str:
    """Now, always with six digits, so that the text sorts as the time does."""
    return clock.now().isoformat(timespec="microseconds")


def new_manifest(table: str, version: int = 1) -> TableManifest:
    """A manifest of no buckets, created now."""
    now = utc_now_iso()
    return TableManifest(table=table, version=version, created_at=now, updated_at=now, partitions={})


def update_with_new_part(
    manifest: TableManifest, bucket_id: int, part: PartMeta, *, key: str | None = None
) -> None:
    """Append `part` to its bucket, which is `ready` afterwards, and move `updated_at`. `key` is the bucket's
    where its directory has another name than `bucket_key` gives it."""
    key = bucket_key(bucket_id) if key is None else key
    bucket = manifest.partitions.get(key)
    if bucket is None:
        bucket = PartitionMeta(bucket_id, "writing", part.tick_min, part.tick_max, 0, 0)
        manifest.partitions[key] = bucket
    bucket.state = "writing"
    bucket.parts.append(part)
    bucket.tick_min = min(bucket.tick_min, part.tick_min)
    bucket.tick_max = max(bucket.tick_max, part.tick_max)
    bucket.row_count += part.rows
    bucket.byte_size += part.bytes
    bucket.state = "ready"
    manifest.updated_at = utc_now_iso()


def encode_manifest(manifest: TableManifest, extra: Mapping[str, Any] | None = None) -> bytes:
    """The bytes of manifest.json: UTF-8, indented by two; `extra` goes last, under `lading`."""
    obj = manifest.to_json_obj()
    if extra is not None:
        obj["lading"] = dict(extra)
    return msgspec.json.format(msgspec.json.encode(obj), indent=2)


def decode_manifest(data: bytes, file: str) -> TableManifest:
    """The manifest in `data`; errors name `file`, which is where the bytes came from."""
    try:
        return TableManifest.from_json_obj(decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ManifestParseError(f"{file} is not JSON: {error}", hint=_HINT, file=file) from error
    except ManifestParseError as error:
        raise ManifestParseError(f"{file}: {error.message}", hint=_HINT, file=file) from error


def _partition_obj(partition: PartitionMeta) -> dict[str, Any]:
    return {
        "bucket_id": partition.bucket_id,
        "state": partition.state,
        "tick_min": partition.tick_min,
        "tick_max": partition.tick_max,
        "row_count": partition.row_count,
        "byte_size": partition.byte_size,
        "parts": [
            {
                "path": part.path,
                "rows": part.rows,
                "bytes": part.bytes,
                "tick_min": part.tick_min,
                "tick_max": part.tick_max,
                "created_at": part.created_at,
            }
            for part in partition.parts
        ],
    }


def _partition(obj: object, where: str) -> PartitionMeta:
    fields = _mapping(obj, where)
    figures = {
        name: _integer(_required(fields, name, where), f"{where}.{name}")
        for name in ("bucket_id", "tick_min", "tick_max", "row_count", "byte_size")
    }
    state = _required(fields, "state", where)
    if state not in ("writing", "ready"):
        raise ManifestParseError(f"{where}.state is {state!r}, not 'writing' or 'ready'", hint=_HINT)
    parts = fields.get("parts") or []
    if not isinstance(parts, list):
        raise ManifestParseError(f"{where}.parts is not a list", hint=_HINT)
    return PartitionMeta(
        state=state,
        parts=[_part(part, f"{where}.parts[{i}]") for i, part in enumerate(parts)],
        **figures,
    )


_PART_KEYS = frozenset(("path", "rows", "bytes", "tick_min", "tick_max", "created_at"))


def _part(obj: object, where: str) -> PartMeta:
    fields = _mapping(obj, where)
    if fields.keys() != _PART_KEYS:
        wrong = ", ".join(sorted(map(repr, fields.keys() ^ _PART_KEYS)))
        raise ManifestParseError(f"{where} has missing or unknown keys: {wrong}", hint=_HINT)
    return PartMeta(
        path=_text(fields, "path", where),
        rows=_integer(fields["rows"], f"{where}.rows"),
        bytes=_integer(fields["bytes"], f"{where}.bytes"),
        tick_min=_integer(fields["tick_min"], f"{where}.tick_min"),
        tick_max=_integer(fields["tick_max"], f"{where}.tick_max"),
        created_at=_text(fields, "created_at", where),
    )


def _mapping(obj: object, where: str) -> Mapping[str, Any]:
    if not isinstance(obj, dict):
        raise ManifestParseError(f"{where} is not an object", hint=_HINT)
    return obj


def _required(fields: Mapping[str, Any], name: str, where: str) -> object:
    if name not in fields:
        raise ManifestParseError(f"{where} has no {name!r}", hint=_HINT)
    return fields[name]


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = _required(fields, name, where)
    if not isinstance(value, str):
        raise ManifestParseError(f"{where}.{name} is not text", hint=_HINT)
    return value


def _integer(value: object, where: str) -> int:
    """`value` as an integer; numeric text counts, a fraction does not."""
    try:
        if isinstance(value, str) or (isinstance(value, (int, float)) and int(value) == value):
            return int(value)
    except (ValueError, OverflowError) as error:
        raise ManifestParseError(f"{where} is {value!r}, not an integer", hint=_HINT) from error
    raise ManifestParseError(f"{where} is {value!r}, not an integer", hint=_HINT)
