"""Iceberg's manifests and manifest lists: which parts a snapshot has, and what is known of each.

A manifest describes one page of the state and is named by it, so it is written once and used as long as
the page is. Entries say nothing of when they were written: every file is `existing`, from the same sequence
number on (position deletes count for files up to their own). So the same page always gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from lading.iceberg.avro import (
    NONE,
    SOME,
    Blocks,
    block,
    container,
    first_text,
    items,
    keys_of,
    long,
    read_blocks,
    text,
)
from lading.iceberg.bounds import Statistics
from lading.iceberg.types import schema_of
from lading.model import Member

PATH_ID, POSITION_ID = 2147483546, 2147483545  # that Iceberg keeps for the columns of position deletes
_ALWAYS = 1  # the snapshot and the sequence numbers of every entry
_EXISTING = 1
_DATA, _DELETES = 0, 1
_CONTENT = {_DATA: "data", _DELETES: "deletes"}


def _optional(name: str, kind: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _required(name: str, kind: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number}


def _map(key: int, value: int, kind: str) -> dict[str, Any]:
    """A map whose keys are no text is an array of pairs."""
    fields = [_required("key", "int", key), _required("value", kind, value)]
    record = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "items": record, "logicalType": "map"}


_FILE = {
    "type": "record",
    "name": "r2",
    "fields": [
        _required("content", "int", 134),
        _required("file_path", "string", 100),
        _required("file_format", "string", 101),
        _required("partition", {"type": "record", "name": "r102", "fields": []}, 102),
        _required("record_count", "long", 103),
        _required("file_size_in_bytes", "long", 104),
        _optional("value_counts", _map(119, 120, "long"), 109),
        _optional("null_value_counts", _map(121, 122, "long"), 110),
        _optional("lower_bounds", _map(126, 127, "bytes"), 125),
        _optional("upper_bounds", _map(129, 130, "bytes"), 128),
        _optional("sort_order_id", "int", 140),
    ],
}
_ENTRY = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _required("status", "int", 0),
        _optional("snapshot_id", "long", 1),
        _optional("sequence_number", "long", 3),
        _optional("file_sequence_number", "long", 4),
        _required("data_file", _FILE, 2),
    ],
}
_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required("contains_null", "boolean", 509),
        _optional("contains_nan", "boolean", 518),
        _optional("lower_bound", "bytes", 510),
        _optional("upper_bound", "bytes", 511),
    ],
}
_LISTED = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _required("manifest_path", "string", 500),
        _required("manifest_length", "long", 501),
        _required("partition_spec_id", "int", 502),
        _required("content", "int", 517),
        _required("sequence_number", "long", 515),
        _required("min_sequence_number", "long", 516),
        _required("added_snapshot_id", "long", 503),
        _required("added_files_count", "int", 504),
        _required("existing_files_count", "int", 505),
        _required("deleted_files_count", "int", 506),
        _required("added_rows_count", "long", 512),
        _required("existing_rows_count", "long", 513),
        _required("deleted_rows_count", "long", 514),
        _optional("partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}, 507),
    ],
}


def _writer(record: Mapping[str, Any]) -> Callable[..., bytes]:
    """What makes a record of its fields' values, in the order of its shape above, so that this is said once.
    A value inside of which there are others comes as bytes."""
    encoders = [_encoder(field["type"]) for field in record["fields"]]
    return lambda *values: b"".join(encode(value) for encode, value in zip(encoders, values, strict=True))


def _encoder(kind: Any) -> Callable[[Any], bytes]:
    if isinstance(kind, list):
        inner = _encoder(kind[1])
        return lambda value: NONE if value is None else SOME + inner(value)
    return _PLAIN[kind] if isinstance(kind, str) else bytes


_PLAIN: dict[str, Callable[[Any], bytes]] = {"int": long, "long": long, "string": text}
_file, _entry, _listed = _writer(_FILE), _writer(_ENTRY), _writer(_LISTED)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a manifest: what each is found by, and its record, made only if nobody has it yet."""

    keys: np.ndarray
    rows: int  # of all
    record: Callable[[int], bytes]


class Entries:
    """Records for the files of one table."""

    def __init__(self, schema: pa.Schema, order: int | None) -> None:
        """`schema` is numbered; `order` is the number of the parts' sort order."""
        self._statistics = Statistics(schema)
        self._order = order

    def part(self, path: str, member: Member) -> bytes:
        told = self._statistics.of(member)
        return _record(_DATA, path, member.rows, member.bytes, *told, self._order)

    def deletes(self, path: str, rows: int, size: int, part: str) -> bytes:
        """Of positions in one part: both bounds of their paths say which."""
        bound = items([long(PATH_ID) + text(part)])
        return _record(_DELETES, path, rows, size, None, None, bound, bound, None)


def _record(content: int, path: str, rows: int, size: int, *told: bytes | int | None) -> bytes:
    return _entry(
        _EXISTING, _ALWAYS, _ALWAYS, _ALWAYS, _file(content, path, "PARQUET", b"", rows, size, *told)
    )


@dataclass(slots=True)
class Former:
    """Records that other manifests have already, as blocks."""

    _several: list[Blocks] = field(default_factory=list)

    def add(self, data: bytes) -> None:
        found = read_blocks(data)
        if found is not None and found.data:
            self._several.append(found)

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which of the manifests has each of these, -1 for none, and where it begins and ends there."""
        which, starts, ends = (np.full(len(keys), -1, np.int64) for _ in range(3))
        for number, blocks in enumerate(self._several):
            begin, end = blocks.find(keys)
            here = (begin >= 0) & (which < 0)
            which[here], starts[here], ends[here] = number, begin[here], end[here]
        return which, starts, ends

    def data(self, number: int) -> memoryview:
        return self._several[number].data


def manifest(schema: pa.Schema, files: Files, former: Former, *, deletes: bool = False) -> bytes:
    """A manifest of these files. What stands in `former` is copied, neighbours at once."""
    keys = files.keys
    which, starts, ends = former.find(keys)
    lengths = ends - starts
    follows = (which[1:] == which[:-1]) & (starts[1:] == ends[:-1]) & (which[1:] >= 0)
    firsts = [0, *(np.flatnonzero(~follows) + 1).tolist()] if len(keys) else []
    pieces: list[bytes | memoryview] = []
    for first, last in pairwise([*firsts, len(keys)]):
        if which[first] < 0:
            pieces.append(block(files.record(first)))
            lengths[first] = len(pieces[-1])
        else:
            pieces.append(former.data(which[first])[starts[first] : ends[last - 1]])
    told = schema_of(schema)
    notes = {
        "schema": json.dumps(told),
        "schema-id": str(told["schema-id"]),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": _CONTENT[_DELETES if deletes else _DATA],
    }
    return container(_ENTRY, notes, keys, lengths, pieces)


@dataclass(frozen=True, slots=True)
class Listed:
    """A manifest as a list of them names it, and the bytes of that."""

    path: str
    block: bytes

    @classmethod
    def of(cls, path: str, length: int, files: Files, *, deletes: bool) -> Listed:
        content, always = _DELETES if deletes else _DATA, (_ALWAYS, _ALWAYS, _ALWAYS)
        record = _listed(path, length, 0, content, *always, 0, len(files.keys), 0, 0, files.rows, 0, None)
        return cls(path, block(record))


def manifest_list(listed: Sequence[Listed], snapshot: int, sequence: int) -> bytes:
    notes = {"snapshot-id": str(snapshot), "sequence-number": str(sequence), "format-version": "2"}
    blocks = [one.block for one in listed]
    return container(_LISTED, notes, keys_of(one.path for one in listed), list(map(len, blocks)), blocks)


def read_list(data: bytes) -> list[Listed] | None:
    """What a list of ours names; None for any other."""
    found = read_blocks(data)
    if found is None:
        return None
    return [Listed(first_text(one), bytes(one)) for one in found.all()]


def paths_in(data: bytes) -> list[str] | None:
    """The files that a manifest of ours has; None for any other."""
    found = read_blocks(data)
    if found is None:
        return None
    before = len(_entry(_EXISTING, _ALWAYS, _ALWAYS, _ALWAYS, long(_DELETES)))
    return [first_text(one, before) for one in found.all()]
