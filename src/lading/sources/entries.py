"""The entries of a source manifest: one by one from the bytes of its `files`, and back.

A file of a million entries has 300 MB. Where it is laid out as lading does it, which is also how editors
leave it, it is never decoded whole: an entry ends with a line of its own, and some are decoded at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import xxhash

from lading.errors import Conflict
from lading.state.bounded_json import refuse_deep

_AT_ONCE = 1_000  # entries that are encoded together
_CHUNK = 1 << 20  # bytes that are read together
_END = b"\n    },\n"  # of an entry that is not the last one

Extras = dict[str, dict[str, Any]]  # what a person or another program added to entries, by file


class FileEntry(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One file, as last tried. Without a `hash` that matches, the file is read again."""

    hash: str
    last_processed: str  # ISO-8601
    status: str  # "success", "failed", or "quarantined" when the whole file was set aside
    metadata: dict[str, Any]  # {"row_count": n}
    sha256: str | None = None
    size: int | None = None
    mtime_ns: int | None = None
    racy: bool = False
    error: str | None = None  # why it failed, or was set aside
    archive: str | None = None  # the archive, or what a script made it from
    rows_rejected: int = 0  # that were set aside
    quarantine: str | None = None  # the file that holds them, relative to the table's folder
    spot: int = 0  # where it lay when it was read, as a number (sources/fingerprint.py); 0: not known

    @property
    def row_count(self) -> int | None:
        count = self.metadata.get("row_count")
        return count if isinstance(count, int) else None


_ENTRY_KEYS = frozenset(FileEntry.__struct_fields__)
_decoder = msgspec.json.Decoder(dict[str, FileEntry])
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The bytes of `files` where they lie, and the hash that they had when they were found."""

    path: Path
    start: int
    end: int
    xxh3: str

    @staticmethod
    def at(path: Path, file: BinaryIO, start: int, end: int) -> OnDisk:
        seen = xxhash.xxh3_64()
        for chunk in _chunks(file, start, end):
            seen.update(chunk)
        return OnDisk(path, start, end, seen.hexdigest())

    def walk(self, extras: Extras) -> Iterator[tuple[str, FileEntry]]:
        """Entries in the order of the file; what others added to them goes to `extras`. Raises Conflict if
        the file was changed in between."""
        seen = xxhash.xxh3_64()
        try:
            with open(self.path, "rb") as file:
                rest = b""
                for chunk in _chunks(file, self.start, self.end):
                    seen.update(chunk)
                    rest = rest + chunk if rest else chunk[1:]  # without the first brace
                    cut = rest.rfind(_END)
                    if cut >= 0:
                        yield from _decoded(b"{%b\n    }}" % rest[:cut], extras).items()
                        rest = rest[cut + len(_END) :]
        except FileNotFoundError as error:
            raise self._changed() from error
        if seen.hexdigest() != self.xxh3:
            raise self._changed()
        yield from _decoded(b"{" + rest, extras).items()

    def _changed(self) -> Conflict:
        return Conflict(
            f"{self.path} was changed while it was being read",
            hint="run again: it will plan from what it says then",
        )


def decoded(raw: msgspec.Raw) -> tuple[dict[str, FileEntry], Extras]:
    """All entries of a section, and what others added to them."""
    extras: Extras = {}
    return _decoded(raw, extras), extras


def encoded(entries: Iterator[tuple[str, FileEntry]], extras: Extras) -> Iterator[bytes]:
    """The section's bytes, indented as they stand in the file; no piece has more than a thousand entries."""
    before = b"{"
    while some := dict[str, Any](islice(entries, _AT_ONCE)):
        for key in extras.keys() & some.keys():
            some[key] = msgspec.to_builtins(some[key]) | extras[key]
        yield before + indented({"files": some})[len(b'{\n  "files": {') : -len(b"\n  }\n}")]
        before = b","
    yield b"\n  }" if before == b"," else b"{}"


def indented(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(_encoder.encode(value), indent=2)


def _chunks(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    file.seek(start)
    while start < end and (chunk := file.read(min(_CHUNK, end - start))):
        start += len(chunk)
        yield chunk


def _decoded(raw: msgspec.Raw | bytes, extras: Extras) -> dict[str, FileEntry]:
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        # Somebody else's keys, or lading's missing: slower, and without losing either.
        entries = msgspec.json.decode(raw, type=dict[str, dict[str, Any]])
    found = {
        key: unknown
        for key, entry in entries.items()
        if (unknown := {name: value for name, value in entry.items() if name not in _ENTRY_KEYS})
    }
    refuse_deep(found)
    extras |= found
    return {key: _tolerant(key, entry) for key, entry in entries.items()}


def _tolerant(key: str, entry: dict[str, Any]) -> FileEntry:
    """An entry with lading's own keys; one that lost its hash matches nothing and is read again."""
    known: dict[str, Any] = {"hash": "", "last_processed": "", "status": "", "metadata": {}}
    known |= {name: value for name, value in entry.items() if name in _ENTRY_KEYS and value is not None}
    try:
        return msgspec.convert(known, FileEntry)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"the entry for {key!r} in `files`: {error}") from error
