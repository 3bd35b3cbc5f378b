"""A page: some thousand entries of a table's state and what is asked of all of them, as immutable bytes.

A page is named by the hash of its content (layout/table.py) and never changes, so that any number of
checkpoints and snapshots share it. It is read in pieces: the directory says where each section lies, and
a section is checked against its CRC when it is read and not before. docs/format/pages.md has the grammar.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import le
from typing import Annotated, Any, get_args

import google_crc32c
import msgspec

from lading.errors import LadingError
from lading.late import np
from lading.layout.table import PageKind, content_name, page_name
from lading.state.sound import UNSOUND, Sound, unsound
from lading.zones.numbers import Numbers, Packed, packed, packed_at
from lading.zones.vector import ZoneVector

PAGE_VERSION = 1
HEAD = 12 << 10  # bytes that are read at once: the directory, and with it sections of a byte an entry

_KINDS: tuple[PageKind, ...] = get_args(PageKind)
_MAGIC = b"LDGP"
_HEADER = struct.Struct("<4sBBxxIII")  # magic, version, kind, entries, bytes of the directory, CRC32C
_ALIGNED = 8

Read = Callable[[Sequence[tuple[int, int]]], list[bytes]]  # (start, length) of some bytes; fewer at the end
Directory = dict[str, tuple[int, int, int]]  # section -> where it begins, how long it is, its CRC32C

_encode = msgspec.msgpack.Encoder().encode
_Size = Annotated[int, msgspec.Meta(ge=0)]
_decode_directory = msgspec.msgpack.Decoder(list[tuple[str, _Size, _Size, int]]).decode
_crc32c = google_crc32c.value


def encode_page(kind: PageKind, entries: int, sections: Mapping[str, bytes]) -> bytes:
    """The page with these sections, in this order: what is asked for most often comes first."""
    directory, at = [], 0
    for name, content in sections.items():
        directory.append((name, at, len(content), _crc32c(content)))
        at += _padded(len(content))
    encoded = _encode(directory)
    head = _HEADER.pack(_MAGIC, PAGE_VERSION, _KINDS.index(kind), entries, len(encoded), 0)
    crc = google_crc32c.extend(_crc32c(head), encoded)
    pieces = [head[:-4], struct.pack("<I", crc), encoded, *sections.values()]
    first = _HEADER.size + len(encoded)
    pads = [0, 0, _padded(first) - first, *(_padded(len(one)) - len(one) for one in sections.values())]
    return b"".join(part for piece, pad in zip(pieces, pads, strict=True) for part in (piece, b"\0" * pad))


def _padded(size: int) -> int:
    return size + -size % _ALIGNED


class Page:
    """A page that is read where it lies. `damaged` makes the error for what isn't as it was written."""

    def __init__(
        self, name: str, kind: PageKind, entries: int, read: Read, damaged: Callable[[str], LadingError]
    ) -> None:
        self.name = name
        self.kind = kind
        self.entries = entries
        self._read = read
        self.damaged = damaged
        self._begun: tuple[bytes, Directory] | None = None

    @property
    def directory(self) -> Directory:
        return (self._begun or self._begin())[1]

    def _begin(self) -> tuple[bytes, Directory]:
        """The first bytes and the directory."""
        head = self._bytes(0, HEAD)
        size, told = self._directory_size(head)
        if size > len(head):
            head = self._bytes(0, size)
        encoded = head[_HEADER.size : size]
        crc = google_crc32c.extend(_crc32c(head[: _HEADER.size - 4] + b"\0\0\0\0"), encoded)
        if len(head) < size or crc != told:
            raise self.damaged("its directory fails its checksum")
        first = _padded(size)
        try:
            found = _decode_directory(encoded)
        except UNSOUND as error:
            raise unsound(self.damaged, "its directory", error) from error
        self._begun = head, {name: (first + offset, length, crc) for name, offset, length, crc in found}
        return self._begun

    def _directory_size(self, head: bytes) -> tuple[int, int]:
        """Where the directory ends, and its checksum; what is no page of this kind is refused."""
        if len(head) < _HEADER.size:
            raise self.damaged("it is cut short")
        magic, version, kind, entries, size, crc = _HEADER.unpack_from(head)
        if magic != _MAGIC or kind >= len(_KINDS) or _KINDS[kind] != self.kind:
            raise self.damaged(f"it doesn't begin as a page of {self.kind} does")
        if version != PAGE_VERSION:
            raise self.damaged(f"its version is {version}, this lading reads {PAGE_VERSION}")
        if entries != self.entries:
            raise self.damaged(f"it has {entries} entries, not {self.entries}")
        return _HEADER.size + int(size), crc

    def has(self, section: str) -> bool:
        return section in self.directory

    def section(self, name: str, *, checked: bool = True) -> bytes:
        """A section; not `checked` where what is read by it is."""
        head, directory = self._begun or self._begin()
        if name not in directory:
            raise self.damaged(f"it has no section {name}")
        offset, length, crc = directory[name]
        found = (
            head[offset : offset + length] if offset + length <= len(head) else self._bytes(offset, length)
        )
        if len(found) != length or (checked and _crc32c(found) != crc):
            raise self.damaged(f"its section {name} fails its checksum")
        return found

    def pieces(self, name: str, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        """Some bytes of a section that has checksums of its own: they aren't checked here."""
        directory = self.directory
        if name not in directory:
            raise self.damaged(f"it has no section {name}")
        offset, size, _ = directory[name]
        if starts and not (min(starts) >= 0 and max(ends) <= size and all(map(le, starts, ends))):
            raise self.damaged(f"its section {name} is shorter than it says")
        return self._pieces([(offset + start, end - start) for start, end in zip(starts, ends, strict=True)])

    def arrays(self, name: str, *counts: int | None) -> list[Numbers]:
        """A section that is several arrays of integers; of those with a count, so many."""
        found = self.packed(name, *counts)
        with self.sound(f"its section {name}"):
            return [np.asarray(one) for one in found]

    def packed(self, name: str, *counts: int | None, checked: bool = True) -> list[Packed]:
        blob = self.section(name, checked=checked)
        found, at = [], 0
        try:
            for count in counts:
                one, at = packed_at(blob, at)
                if count is not None and one.count != count:
                    raise ValueError(f"{one.count} numbers where {count} should be")
                found.append(one)
            if at != len(blob):
                raise ValueError(f"{len(blob) - at} bytes too many")
        except UNSOUND as error:
            raise unsound(self.damaged, f"its section {name}", error) from error
        return found

    def zones(self, name: str, *, as_packed: bool = False) -> ZoneVector:
        """A section that is a zone vector of all entries."""
        blob = self.section(name)
        try:
            found = ZoneVector.from_blob(blob, as_packed=as_packed)
            if len(found) != self.entries:
                raise ValueError(f"{len(found)} entries where {self.entries} should be")
        except UNSOUND as error:
            raise unsound(self.damaged, f"its section {name}", error) from error
        return found

    def check(self) -> bytes:
        """Read all of it against its name and its checksums; its content."""
        head, directory = self._begun or self._begin()
        ends = [_padded(offset + length) for offset, length, _ in directory.values()]
        content = self._bytes(0, max([*ends, self._directory_size(head)[0]]) + 1)  # none may follow
        if page_name(self.kind, content) != content_name(self.name):
            for section in directory:
                self.section(section)  # which says more
            raise self.damaged("its content is not what its name says")
        return content

    def _bytes(self, start: int, length: int) -> bytes:
        [found] = self._pieces([(start, length)])
        return found

    def _pieces(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        try:
            return self._read(wanted)
        except FileNotFoundError:
            raise self.damaged("it is missing") from None
        except OSError as error:
            raise self.damaged(f"it can't be read: {error.strerror or error}") from error

    def sound(self, what: str) -> Sound:
        return Sound(self.damaged, what)


def numbers_blob(*arrays: Any) -> bytes:
    """For `Page.arrays`."""
    return b"".join(packed(np.asarray(one, np.int64)) for one in arrays)
