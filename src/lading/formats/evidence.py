"""What one source file says of its columns, in a few hundred bytes: the evidence for a table's schema.

Of each column, how many values of each kind it holds (infer/kinds.py) and the first of them. Counts are exact
and don't depend on how the file was cut into blocks, so the evidence of many files adds up to the same in
whatever order they came (infer/settle.py). It is stored in the log with the source: the structs are
`array_like`, a field may be appended with a default, never moved or dropped.
"""

from __future__ import annotations

import zlib

import msgspec

EMPTY = "empty"  # the kind of the text "", in quotes: null in every type but string
SHOWN = 40  # characters of a value
UNCOUNTED = -1  # rows of a file whose head doesn't say how many they are
_LARGE = 512  # bytes from which on a packed form is worth its while
_PACKED = b"\x78"  # how zlib begins, and MessagePack's arrays don't


class Seen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Values of one kind, and the first of them."""

    kind: str  # of infer/kinds.py; of files that have types, the type; of JSON also `struct` and `array`
    count: int
    row: int  # of the first, from 1; 0 where rows aren't looked at
    line: int  # 0 where the format has none
    value: str  # its start
    plain: bool = True  # whether each of them is written as lading writes such a value back (plain.py)


class ColumnEvidence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One column of a file, or one part of a nested one."""

    name: str
    seen: tuple[Seen, ...]  # sorted by kind
    nulls: int = 0
    least: int = 0  # characters of the shortest value, and of the longest
    most: int = 0
    fields: tuple[ColumnEvidence, ...] = ()  # of structs
    items: ColumnEvidence | None = None  # of arrays

    @property
    def values(self) -> int:
        """How many there are, whatever the column's type."""
        return sum(one.count for one in self.seen if one.kind != EMPTY)

    @property
    def plain(self) -> bool:
        """Whether all that was stored of it can go from text to its type and back. A text that is of no other
        type is not plain."""
        return all(one.plain for one in self.seen)


class FileEvidence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    rows: int  # UNCOUNTED where nobody knows
    columns: tuple[ColumnEvidence, ...]  # in the file's order


def encoded(evidence: FileEvidence) -> bytes:
    data = msgspec.msgpack.encode(evidence)
    packed = zlib.compress(data) if len(data) >= _LARGE else data
    return packed if len(packed) < len(data) else data


def decoded(data: bytes) -> FileEvidence:
    return _DECODER.decode(zlib.decompress(data) if data.startswith(_PACKED) else data)


_DECODER = msgspec.msgpack.Decoder(FileEvidence)
