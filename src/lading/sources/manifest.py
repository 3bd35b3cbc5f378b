"""`manifest/<table>.json`: the people's copy of which files were read.

The layout is Fairway's, key by key; lading adds keys and renames none. People read this file, edit
it and delete it, so loading has to notice an edit. It does so for the price of a hash: `lading.files_xxh3`
is the xxh3_64 of the `files` section's own bytes. While they match, nothing in there can ask for
anything, and the section isn't even decoded until somebody looks at `files`.

A large one is neither held nor decoded whole (entries.py), and may be older than what it stands for: what was
recorded since is beside it (since.py), and a loaded manifest shows both as one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import xxhash

from lading import clock
from lading.errors import NotFound, SourceError
from lading.sources.entries import Extras, FileEntry, OnDisk, decoded, encoded, indented
from lading.sources.since import Base, Since, drop_since, load_since, since_of
from lading.state.bounded_json import refuse_deep
from lading.storage.folder import write_atomic

__all__ = ["FileEntry", "SourceManifest", "forget_file", "forget_table", "load", "save"]

VERSION = "3.0"


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
        self.as_written = True  # `load` clears it when `files` is not byte for byte what lading wrote
        self.since = Since()  # what was recorded after it was written
        self._files: dict[str, FileEntry] | None = files
        self._section: msgspec.Raw | OnDisk | None = None  # until it is decoded
        self._seen: _Seen | None = None
        # What a person or another program added, at the top and by file; it is written back.
        self._extra: dict[str, Any] = {}
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

    def _extras(self) -> Extras:
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
        new._extra, new._entry_extra = self._extra, self._extras()
        return new

    def stands(self, path: Path) -> bool:
        """Whether the file, and what is beside it, is certainly as it was when it was loaded. A small one is
        better loaded again."""
        return self._seen is not None and self._seen.settled and self._seen.stamps == _stamps(path)

    @property
    def base(self) -> Base:
        """What the file says of itself, whatever was recorded since."""
        if self.since.last is not None:
            return self.since.last.of
        return Base(self.table_id or "", self.sequence, self.at or "", str(self.lading.get("files_xxh3")))


class _Top(msgspec.Struct):
    table_name: str
    version: str
    preprocessing: dict[str, Any] | None = None
    schema: dict[str, Any] | None = None
    lading: dict[str, Any] | None = None


class _Seen(msgspec.Struct, frozen=True):
    """What a file was like when it was loaded."""

    stamps: tuple[tuple[int, ...] | None, ...]
    settled: bool  # its times are not so young that it could change without a trace


_TOP_KEYS = frozenset(_Top.__struct_fields__)
_sections_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()
_BEFORE_FILES = b',\n  "files": '
_BEHIND_FILES = b',\n  "preprocessing": '
IN_MEMORY = 32 << 20  # bytes of a file that is read whole
_RACY_NS = 2_000_000_000


def load(path: Path) -> SourceManifest | None:
    """Read it; None when there is none, which means that somebody asks for the table to be read again."""
    try:
        with open(path, "rb") as file:
            large = os.fstat(file.fileno()).st_size > IN_MEMORY
            seen = _seen(path) if large else None
            manifest = _of_large(path, file) if large else None
            file.seek(0)
            data = b"" if manifest is not None else file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(
            f"{path} can't be read: {error.strerror}", hint="make it readable, then run again", file=str(path)
        ) from error
    if manifest is None:
        manifest = _of_bytes(path, data)
    manifest._seen = seen
    if manifest.table_id is not None:
        _lay_over(manifest, load_since(path, manifest.base))
    return manifest


def _of_bytes(path: Path, data: bytes) -> SourceManifest:
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        said = "it is nested too deeply" if deep else _positioned(str(error), data)
        raise SourceError(
            f"{path} is not a source manifest: {said}",
            hint="undo the edit, or delete the file to have all of the table's files read again",
            file=str(path),
        ) from error


def _of_large(path: Path, file: BinaryIO) -> SourceManifest | None:
    """Without holding its entries; None if it isn't laid out as `save` does it, or has entries that are not
    sorted or can't be decoded: then it has to be looked at as a whole."""
    cut = _cut(file)
    if cut is None:
        return None
    rest, start, end = cut
    try:
        manifest = _decode_rest(rest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    section = OnDisk.at(path, file, start, end)
    _hold(manifest, section, section.xxh3)
    if not manifest.as_written and not _is_in_order(section):
        return None
    return manifest


def _cut(file: BinaryIO) -> tuple[bytes, int, int] | None:
    """All but the section `files`, and where that lies."""
    size = os.fstat(file.fileno()).st_size
    head = file.read(1 << 16)
    start = head.find(_BEFORE_FILES)
    window = 1 << 16
    while start > 0:
        file.seek(max(size - window, 0))
        tail = file.read()
        end = tail.rfind(_BEHIND_FILES)
        if end >= 0:
            behind = max(size - window, 0) + end
            return head[:start] + tail[end:], start + len(_BEFORE_FILES), behind
        if window >= size:
            break
        window *= 16
    return None


def _is_in_order(section: OnDisk) -> bool:
    before = None
    try:
        for key, _ in section.walk({}):
            if before is not None and key <= before:
                return False
            before = key
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _hold(manifest: SourceManifest, section: msgspec.Raw | OnDisk, seen: str) -> None:
    manifest._files, manifest._section, manifest._extras_known = None, section, False
    manifest.as_written = manifest.lading.get("files_xxh3") == seen


def _lay_over(manifest: SourceManifest, since: Since) -> None:
    """What was recorded since, as if it stood in the file."""
    manifest.since = since
    if since.last is None:
        return
    manifest.schema, manifest.lading = since.last.schema, since.last.lading
    if since.preprocessing is not None:
        manifest.preprocessing = since.preprocessing
    if manifest._files is not None and since.files:  # an edit that was decoded at once
        manifest._files = dict(_overlaid(iter(sorted(manifest._files.items())), since.files))


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


def _seen(path: Path) -> _Seen:
    stamps, now = _stamps(path), clock.wall_ns()
    return _Seen(stamps, all(one is None or one[1] < now - _RACY_NS for one in stamps[:1]))


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


def save(
    path: Path,
    manifest: SourceManifest,
    entries: Iterable[tuple[str, FileEntry]] | None = None,
    told: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Write it whole or not at all, files sorted by key, so that equal states are equal bytes. `entries`
    stand for `manifest.files` where those need not exist all at once; they come sorted. `told` is asked for
    what `lading` has to say besides, when the last of them is written."""
    if entries is None:
        entries = manifest.entries()
    write_atomic(path, _pieces(manifest, entries, told))
    drop_since(path)


def forget_table(path: Path) -> list[str]:
    """Remove the file, which asks for the whole table to be read again; the keys it had."""
    manifest = load(path)
    keys = [key for key, _ in manifest.entries()] if manifest is not None else []
    path.unlink(missing_ok=True)
    drop_since(path)
    return keys


def forget_file(path: Path, key: str) -> list[str]:
    """Remove one entry, or all entries of an archive, as a person would with an editor: the checksum no
    longer fits, so the next run asks the log what is missing. The keys that were removed."""
    manifest = load(path)
    entries = manifest.files if manifest is not None else {}
    keys = sorted(name for name, entry in entries.items() if key in (name, entry.archive))
    if not keys and (manifest is None or key not in manifest.preprocessing):
        near = difflib.get_close_matches(key, entries, n=3, cutoff=0.5)
        raise NotFound(
            f"{path} has no entry {key!r}",
            hint=f"did you mean {', '.join(near)}?" if near else "`lading manifest show` lists them",
            file=key,
        )
    assert manifest is not None
    if manifest.since.last is not None:
        save(path, manifest)  # what is removed from it must not be older than what it shows
    whole = msgspec.json.decode(path.read_bytes())
    for name in keys:
        del whole["files"][name]
    whole.get("preprocessing", {}).pop(key, None)
    if isinstance(whole.get("lading"), dict):
        whole["lading"]["files_xxh3"] = ""
    write_atomic(path, indented(whole) + b"\n")
    return keys


def _split(data: bytes) -> tuple[msgspec.Raw, bytes, str]:
    """The bytes of `files`, everything else as one JSON object, and the hash of those bytes.

    Where the file is laid out as `save` does it, the section is cut out and not looked at: no JSON text has
    a line that starts like a top-level key. What was cut must then have the hash that is written behind it.
    """
    start, end = data.find(_BEFORE_FILES), data.rfind(_BEHIND_FILES)
    if 0 < start < end:
        files = memoryview(data)[start + len(_BEFORE_FILES) : end]
        rest = data[:start] + data[end:]
        try:
            lading = _sections_decoder.decode(rest).get("lading")
            told = msgspec.json.decode(lading, type=dict[str, Any]) if lading is not None else {}
        except msgspec.DecodeError:
            told = {}
        seen = _hash(files)
        if told.get("files_xxh3") == seen:
            return msgspec.Raw(files), rest, seen
    sections = _sections_decoder.decode(data)
    raw_files = sections.pop("files", msgspec.Raw(b"{}"))
    return raw_files, _encoder.encode(sections), _hash(raw_files)


def _decode(data: bytes) -> SourceManifest:
    raw_files, rest, seen = _split(data)
    manifest = _decode_rest(rest)
    _hold(manifest, raw_files, seen)
    if not manifest.as_written:
        _ = manifest.files  # an edit may be malformed: say so now, not in the middle of a plan
    return manifest


def _decode_rest(rest: bytes) -> SourceManifest:
    """All of it but its entries."""
    top = msgspec.json.decode(rest, type=_Top)
    if top.version != VERSION:
        raise msgspec.ValidationError(f'`version` is "{top.version}", not "{VERSION}"')
    manifest = SourceManifest(
        top.table_name, {}, preprocessing=top.preprocessing, schema=top.schema, lading=top.lading
    )
    manifest._extra = {key: value for key, value in msgspec.json.decode(rest).items() if key not in _TOP_KEYS}
    for one in (top.preprocessing, top.schema, top.lading, manifest._extra):
        refuse_deep(one)
    return manifest


def _pieces(
    manifest: SourceManifest, entries: Iterable[tuple[str, FileEntry]], told: Callable[[], dict[str, Any]]
) -> Iterator[bytes]:
    """The file from its beginning to its end; no piece has more than a thousand entries."""
    head = {"version": VERSION, "table_name": manifest.table_name}
    yield indented(head)[: -len(b"\n}")] + _BEFORE_FILES
    seen = xxhash.xxh3_64()
    for piece in encoded(iter(entries), manifest._extras()):
        seen.update(piece)
        yield piece
    tail = {
        "preprocessing": manifest.preprocessing,
        "schema": manifest.schema,
        "lading": {**manifest.lading, **told(), "files_xxh3": seen.hexdigest()},
        **manifest._extra,
    }
    yield b"," + indented(tail)[len(b"{") :] + b"\n"


def _hash(section: bytes | memoryview | msgspec.Raw) -> str:
    return xxhash.xxh3_64_hexdigest(section)


def _positioned(message: str, data: bytes) -> str:
    """The decoder names a byte; people look for a line."""
    match = re.search(r"\(byte (\d+)\)", message)
    if match is None:
        return message
    line = data.count(b"\n", 0, int(match[1])) + 1
    return message.replace(match[0], f"(line {line})")
