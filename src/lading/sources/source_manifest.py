"""A source manifest that was loaded, or is to be saved: what it says of files, and of itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lading import clock
from lading.sources.entries import Extras, FileEntry, OnDisk, decoded
from lading.sources.since import Base, Since, since_of

VERSION = "3.0"
_RACY_NS = 2_000_000_000


class Seen(msgspec.Struct, frozen=True):
    """What a file was like when it was loaded."""

    stamps: tuple[tuple[int, ...] | None, ...]
    settled: bool  # its times are not so young that it could change without a trace


class SourceManifest:
    """The whole file. Made by the caller to be saved, or by `load`."""

    def __init__(
        self,
        table_name: str,
        files: dict[str, FileEntry],
        *,
        preprocessing: dict[str, Any] | None = None,
        schema: dict[str, Any] | None = None,
        lading: dict[str, Any] | None = None,
    ) -> None:
        self.version = VERSION
        self.table_name = table_name
        self.preprocessing = preprocessing or {}
        self.schema = schema or {}
        self.lading = lading or {}
        self.bytes = 0  # of the file that was loaded
        self.as_written = True  # `load` clears it when `files` is not byte for byte what lading wrote
        self.since = Since()  # what was recorded after it was written
        self._files: dict[str, FileEntry] | None = files
        self._section: msgspec.Raw | OnDisk | None = None  # until it is decoded
        self.seen: Seen | None = None
        # What a person or another program added, at the top and by file; it is written back.
        self.extra: dict[str, Any] = {}
        self._entry_extra: Extras = {}
        self._extras_known = True

    @property
    def files(self) -> dict[str, FileEntry]:
        """All entries. Of a large manifest they are many: `entries` has them one by one."""
        if self._files is None:
            self._files = dict(self.entries())
            self._section = None
        return self._files

    def entries(self) -> Iterator[tuple[str, FileEntry]]:
        """The entries in the order of their keys, one after the other."""
        if self._files is not None:
            return iter(sorted(self._files.items()))
        return _overlaid(self._written(), self.since.files)

    def entry(self, key: str) -> FileEntry | None:
        if self._files is not None:
            return self._files.get(key)
        return next((entry for name, entry in self.entries() if name == key), None)

    def _written(self) -> Iterator[tuple[str, FileEntry]]:
        """As they stand in the file."""
        if isinstance(self._section, OnDisk):
            yield from self._section.walk(self._entry_extra)
        elif self._section is not None:
            entries, self._entry_extra = decoded(self._section)
            yield from sorted(entries.items())
        self._extras_known = True

    def hold(self, section: msgspec.Raw | OnDisk, xxh3: str) -> None:
        """Entries that are decoded when somebody asks for them; `xxh3` is the hash of their bytes."""
        self._files, self._section, self._extras_known = None, section, False
        self.as_written = self.lading.get("files_xxh3") == xxh3

    def lay_over(self, since: Since) -> None:
        """What was recorded since, as if it stood in the file."""
        self.since = since
        if since.last is None:
            return
        self.schema, self.lading = since.last.schema, since.last.lading
        if since.preprocessing is not None:
            self.preprocessing = since.preprocessing
        if self._files is not None and since.files:  # an edit that was decoded at once
            self._files = dict(_overlaid(iter(sorted(self._files.items())), since.files))

    def extras(self) -> Extras:
        """What others added to entries, by file."""
        if not self._extras_known:
            for _ in self._written():
                pass
        return self._entry_extra

    @property
    def table_id(self) -> str | None:
        value = self.lading.get("table_id")
        return value if isinstance(value, str) else None

    @property
    def sequence(self) -> int:
        """The log sequence that this file reflects; 0 when lading has not written it."""
        value = self.lading.get("sequence")
        return value if isinstance(value, int) else 0

    @property
    def at(self) -> str | None:
        """When the commit of that sequence was made: a log that was restored may reach it a second time."""
        value = self.lading.get("at")
        return value if isinstance(value, str) else None

    def updated(
        self,
        files: dict[str, FileEntry],
        *,
        schema: dict[str, Any] | None = None,
        lading: dict[str, Any] | None = None,
        preprocessing: dict[str, Any] | None = None,
    ) -> SourceManifest:
        """The same file with other entries, keeping whatever others have put into it."""
        new = SourceManifest(
            self.table_name,
            files,
            preprocessing=self.preprocessing if preprocessing is None else preprocessing,
            schema=self.schema if schema is None else schema,
            lading=self.lading | (lading or {}),
        )
        new.extra, new._entry_extra = self.extra, self.extras()
        return new

    def stands(self, path: Path) -> bool:
        """Whether the file, and what is beside it, is certainly as it was when it was loaded. A small one is
        better loaded again."""
        return self.seen is not None and self.seen.settled and self.seen.stamps == _stamps(path)

    @property
    def base(self) -> Base:
        """What the file says of itself, whatever was recorded since."""
        if self.since.last is not None:
            return self.since.last.of
        return Base(self.table_id or "", self.sequence, self.at or "", str(self.lading.get("files_xxh3")))


def _overlaid(
    written: Iterator[tuple[str, FileEntry]], since: dict[str, FileEntry | None]
) -> Iterator[tuple[str, FileEntry]]:
    later = iter(sorted(since.items()))
    key, entry = next(later, (None, None))
    for pair in written:
        while key is not None and key < pair[0]:
            if entry is not None:
                yield key, entry
            key, entry = next(later, (None, None))
        if key == pair[0]:
            if entry is not None:
                yield key, entry
            key, entry = next(later, (None, None))
        else:
            yield pair
    while key is not None:
        if entry is not None:
            yield key, entry
        key, entry = next(later, (None, None))


def seen_of(path: Path) -> Seen:
    stamps, now = _stamps(path), clock.wall_ns()
    return Seen(stamps, all(one is None or one[1] < now - _RACY_NS for one in stamps[:1]))


def _stamps(path: Path) -> tuple[tuple[int, ...] | None, ...]:
    """Of the file and of what is beside it."""
    found: list[tuple[int, ...] | None] = []
    for one in (path, since_of(path)):
        try:
            stat = os.stat(one)
            found.append((stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns))
        except FileNotFoundError:
            found.append(None)
    return tuple(found)
