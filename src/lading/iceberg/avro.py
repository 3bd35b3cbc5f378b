"""Avro files whose records can be copied as bytes: each is a block of its own, and the header says where.

A manifest of 8,192 entries of which one changed is then written without encoding, or even looking at, the
others. The marker between blocks is the same in all files, so that a block fits into any of them. Readers
see an ordinary Avro file; the index in its header is ours alone, and what a former file has is believed only
if its checksum is the one that its name notes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xxhash

_MAGIC = b"Obj\x01"
_SYNC = xxhash.xxh3_128_digest(b"lading/iceberg")
_INDEX = "lading.index"
_ENTRY = np.dtype([("key", "<u8"), ("length", "<u4")])


def long(value: int) -> bytes:
    """Zigzag, then seven bits at a time."""
    value = value << 1 if value >= 0 else ((-value) << 1) - 1
    if value < 0x80:
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT = [bytes([value]) for value in range(0x80)]
NONE, SOME = long(0), long(1)  # which branch of an optional field


def text(value: str) -> bytes:
    return blob(value.encode())


def blob(value: bytes) -> bytes:
    return long(len(value)) + value


def items(several: Sequence[bytes]) -> bytes:
    """An array, or a map: what its items are is theirs."""
    return long(len(several)) + b"".join(several) + b"\0" if several else b"\0"


def checksum(data: bytes) -> int:
    return int(xxhash.xxh3_64_intdigest(data))


def block(record: bytes) -> bytes:
    return b"\x02" + long(len(record)) + record + _SYNC


def keys_of(names: Iterable[str]) -> np.ndarray:
    """What records are found by."""
    hashed = xxhash.xxh3_64_intdigest
    return np.array([hashed(name.encode("utf-8", "surrogateescape")) for name in names], np.uint64)


class Blocks:
    """The blocks of a file in order, by what they are found by."""

    def __init__(self, index: np.ndarray, data: memoryview) -> None:
        self.data = data
        self._keys = index["key"]
        self._ends = np.cumsum(index["length"].astype(np.int64))
        self._starts = self._ends - index["length"]

    def all(self) -> list[memoryview]:
        spans = zip(self._starts.tolist(), self._ends.tolist(), strict=True)
        return [self.data[start:end] for start, end in spans]

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the blocks of these keys begin and end; -1 for a key that isn't here."""
        order = np.argsort(self._keys)
        at = order[np.minimum(np.searchsorted(self._keys, keys, sorter=order), len(order) - 1)]
        here = self._keys[at] == keys
        return np.where(here, self._starts[at], -1), np.where(here, self._ends[at], -1)


def container(
    schema: Mapping[str, Any],
    notes: Mapping[str, str],
    keys: np.ndarray,
    lengths: Sequence[int] | np.ndarray,
    pieces: Iterable[bytes | memoryview],
) -> bytes:
    """A whole file; `keys` and `lengths` are those of its blocks, `pieces` their bytes, in whatever cut."""
    index = np.zeros(len(keys), _ENTRY)
    index["key"], index["length"] = keys, lengths
    meta = {
        "avro.schema": json.dumps(schema).encode(),
        "avro.codec": b"null",
        **{name: value.encode() for name, value in notes.items()},
        _INDEX: base64.b64encode(index.tobytes()),  # some readers take every value for text
    }
    header = items([text(name) + blob(value) for name, value in meta.items()])
    return b"".join((_MAGIC, header, _SYNC, *pieces))


def read_blocks(data: bytes) -> Blocks | None:
    """The blocks of a file that `container` made; None for any other."""
    if not data.startswith(_MAGIC):
        return None
    at, index = len(_MAGIC), None
    try:
        count, at = _long(data, at)
        for _ in range(count):
            name, at = _blob(data, at)
            value, at = _blob(data, at)
            if name == _INDEX.encode():
                index = np.frombuffer(base64.b64decode(value), _ENTRY)
        at += 1 + len(_SYNC)
    except (IndexError, ValueError):
        return None
    if index is None or at + int(index["length"].sum()) != len(data):
        return None
    return Blocks(index, memoryview(data)[at:])


def first_text(block: bytes | memoryview, before: int = 0) -> str:
    """The text that the record in a block begins with, behind so many bytes."""
    data = bytes(block)
    _, at = _long(data, 1)  # behind the count: how long the record is
    value, _ = _blob(data, at + before)
    return value.decode()


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _blob(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _long(data, at)
    if length < 0 or at + length > len(data):
        raise IndexError(at)
    return data[at : at + length], at + length
