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
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import xxhash

from lading.errors import NotFound, SourceError
from lading.sources.entries import FileEntry, OnDisk, encoded, indented
from lading.sources.since import drop_since, load_since
from lading.sources.source_manifest import VERSION, SourceManifest, seen_of
from lading.state.bounded_json import refuse_deep
from lading.storage.folder import write_atomic

__all__ = ["FileEntry", "SourceManifest", "forget_files", "forget_table", "load", "save"]


class _Top(msgspec.Struct):
    table_name: str
    version: str
    preprocessing: dict[str, Any] | None = None
    schema: dict[str, Any] | None = None
    lading: dict[str, Any] | None = None


_TOP_KEYS = frozenset(_Top.__struct_fields__)
_sections_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()
_BEFORE_FILES = b',\n  "files": '
_BEHIND_FILES = b',\n  "preprocessing": '
IN_MEMORY = 32 << 20  # bytes of a file that is read whole
_AT_ONCE = 1_000  # keys that are looked through together


def load(path: Path) -> SourceManifest | None:
    """Read it; None when there is none, which means that somebody asks for the table to be read again."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            large = size > IN_MEMORY
            seen = seen_of(path) if large else None
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
    manifest.seen, manifest.bytes = seen, size
    if manifest.table_id is not None:
        manifest.lay_over(load_since(path, manifest.base))
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
    manifest.hold(section, section.xxh3)
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


def forget_files(path: Path, keys: Collection[str]) -> list[str]:
    """Remove these entries, and all entries of these archives, as a person would with an editor: the checksum
    no longer fits, so the next run asks the log what is missing. The keys that were removed; NotFound if
    there is nothing of all that was asked for."""
    asked, gone = frozenset(keys), list[str]()
    if not asked:
        return []
    manifest = load(path)
    if manifest is None:
        raise _no_entry(path, asked, ())
    archives = asked & manifest.preprocessing.keys()
    there = manifest

    def staying() -> Iterator[tuple[str, FileEntry]]:
        for key, entry in there.entries():
            if asked.isdisjoint((key, entry.archive)):
                yield key, entry
            else:
                gone.append(key)
        if not gone and not archives:
            raise _no_entry(path, asked, (key for key, _ in there.entries()))

    manifest.preprocessing = {k: told for k, told in manifest.preprocessing.items() if k not in archives}
    save(path, manifest, staying(), lambda: {"files_xxh3": ""})
    return gone


def _no_entry(path: Path, asked: Collection[str], known: Iterable[str]) -> NotFound:
    key, near, rest = min(asked), list[str](), iter(known)
    while some := list(islice(rest, _AT_ONCE)):
        near = difflib.get_close_matches(key, [*near, *some], n=3, cutoff=0.5)
    return NotFound(
        f"{path} has no entry {key!r}",
        hint=f"did you mean {', '.join(near)}?" if near else "`lading manifest show` lists them",
        file=key,
    )


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
    manifest.hold(raw_files, seen)
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
    manifest.extra = {key: value for key, value in msgspec.json.decode(rest).items() if key not in _TOP_KEYS}
    for one in (top.preprocessing, top.schema, top.lading, manifest.extra):
        refuse_deep(one)
    return manifest


def _pieces(
    manifest: SourceManifest, entries: Iterable[tuple[str, FileEntry]], told: Callable[[], dict[str, Any]]
) -> Iterator[bytes]:
    """The file from its beginning to its end; no piece has more than a thousand entries."""
    head = {"version": VERSION, "table_name": manifest.table_name}
    yield indented(head)[: -len(b"\n}")] + _BEFORE_FILES
    seen = xxhash.xxh3_64()
    for piece in encoded(iter(entries), manifest.extras()):
        seen.update(piece)
        yield piece
    said = told()
    tail = {
        "preprocessing": manifest.preprocessing,
        "schema": manifest.schema,
        "lading": {**manifest.lading, **said, "files_xxh3": said.get("files_xxh3", seen.hexdigest())},
        **manifest.extra,
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
