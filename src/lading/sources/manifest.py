"""`manifest/<table>.json`: the people's copy of which files were read.

The layout is Fairway's, key by key; lading adds keys and renames none. People read this file, edit
it and delete it, so loading has to notice an edit. It does so for the price of a hash: `lading.files_xxh3`
is the xxh3_64 of the `files` section's own bytes. While they match, nothing in there can ask for
anything, and the section isn't even decoded until somebody looks at `files`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from lading.errors import NotFound, SourceError
from lading.state.bounded_json import refuse_deep
from lading.storage.folder import write_atomic

VERSION = "3.0"


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
        self._files: dict[str, FileEntry] | None = files
        self._raw = msgspec.Raw()
        # What a person or another program added, at the top and by file; it is written back.
        self._extra: dict[str, Any] = {}
        self._entry_extra: dict[str, dict[str, Any]] = {}

    @property
    def files(self) -> dict[str, FileEntry]:
        if self._files is None:
            self._files, self._entry_extra = _decode_files(self._raw)
            self._raw = msgspec.Raw()
        return self._files

    def entries(self) -> Iterator[tuple[str, FileEntry]]:
        """The entries in the order of their keys, one after the other."""
        return iter(sorted(self.files.items()))

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
        _ = self.files  # extras are known once the section is decoded
        new = SourceManifest(
            self.table_name,
            files,
            preprocessing=self.preprocessing if preprocessing is None else preprocessing,
            schema=self.schema if schema is None else schema,
            lading=self.lading | (lading or {}),
        )
        new._extra, new._entry_extra = self._extra, self._entry_extra
        return new


class _Top(msgspec.Struct):
    table_name: str
    version: str
    preprocessing: dict[str, Any] | None = None
    schema: dict[str, Any] | None = None
    lading: dict[str, Any] | None = None


_TOP_KEYS = frozenset(_Top.__struct_fields__)
_ENTRY_KEYS = frozenset(FileEntry.__struct_fields__)
_sections_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_files_decoder = msgspec.json.Decoder(dict[str, FileEntry])
_encoder = msgspec.json.Encoder()
_AT_ONCE = 1_000  # entries that are encoded together
_BEFORE_FILES = b',\n  "files": '
_BEHIND_FILES = b',\n  "preprocessing": '


def load(path: Path) -> SourceManifest | None:
    """Read it; None when there is none, which means that somebody asks for the table to be read again."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(
            f"{path} can't be read: {error.strerror}", hint="make it readable, then run again", file=str(path)
        ) from error
    try:
        manifest = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        said = "it is nested too deeply" if deep else _positioned(str(error), data)
        raise SourceError(
            f"{path} is not a source manifest: {said}",
            hint="undo the edit, or delete the file to have all of the table's files read again",
            file=str(path),
        ) from error
    return manifest


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


def forget_table(path: Path) -> list[str]:
    """Remove the file, which asks for the whole table to be read again; the keys it had."""
    manifest = load(path)
    path.unlink(missing_ok=True)
    return sorted(manifest.files) if manifest is not None else []


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
    whole = msgspec.json.decode(path.read_bytes())
    for name in keys:
        del whole["files"][name]
    whole.get("preprocessing", {}).pop(key, None)
    if isinstance(whole.get("lading"), dict):
        whole["lading"]["files_xxh3"] = ""
    write_atomic(path, _indented(whole) + b"\n")
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
    top = msgspec.json.decode(rest, type=_Top)
    if top.version != VERSION:
        raise msgspec.ValidationError(f'`version` is "{top.version}", not "{VERSION}"')
    manifest = SourceManifest(
        top.table_name, {}, preprocessing=top.preprocessing, schema=top.schema, lading=top.lading
    )
    manifest._extra = {key: value for key, value in msgspec.json.decode(rest).items() if key not in _TOP_KEYS}
    for one in (top.preprocessing, top.schema, top.lading, manifest._extra):
        refuse_deep(one)
    manifest._files, manifest._raw = None, raw_files
    manifest.as_written = manifest.lading.get("files_xxh3") == seen
    if not manifest.as_written:
        _ = manifest.files  # an edit may be malformed: say so now, not in the middle of a plan
    return manifest


def _pieces(
    manifest: SourceManifest, entries: Iterable[tuple[str, FileEntry]], told: Callable[[], dict[str, Any]]
) -> Iterator[bytes]:
    """The file from its beginning to its end; no piece has more than a thousand entries."""
    head = {"version": VERSION, "table_name": manifest.table_name}
    yield _indented(head)[: -len(b"\n}")] + _BEFORE_FILES
    seen = xxhash.xxh3_64()
    for piece in _encode_files(iter(entries), manifest._entry_extra):
        seen.update(piece)
        yield piece
    tail = {
        "preprocessing": manifest.preprocessing,
        "schema": manifest.schema,
        "lading": {**manifest.lading, **told(), "files_xxh3": seen.hexdigest()},
        **manifest._extra,
    }
    yield b"," + _indented(tail)[len(b"{") :] + b"\n"


def _encode_files(
    entries: Iterator[tuple[str, FileEntry]], extra: dict[str, dict[str, Any]]
) -> Iterator[bytes]:
    """The section's bytes, indented as they stand in the file."""
    before = b"{"
    while some := dict[str, Any](islice(entries, _AT_ONCE)):
        for key in extra.keys() & some.keys():
            some[key] = msgspec.to_builtins(some[key]) | extra[key]
        yield before + _indented({"files": some})[len(b'{\n  "files": {') : -len(b"\n  }\n}")]
        before = b","
    yield b"\n  }" if before == b"," else b"{}"


def _decode_files(raw: msgspec.Raw) -> tuple[dict[str, FileEntry], dict[str, dict[str, Any]]]:
    """Entries, and the unknown keys in them, by file."""
    try:
        return _files_decoder.decode(raw), {}
    except msgspec.ValidationError:
        # Somebody else's keys, or lading's missing: slower, and without losing either.
        entries = msgspec.json.decode(raw, type=dict[str, dict[str, Any]])
    extra = {
        key: unknown
        for key, entry in entries.items()
        if (unknown := {name: value for name, value in entry.items() if name not in _ENTRY_KEYS})
    }
    refuse_deep(extra)
    return {key: _tolerant(key, entry) for key, entry in entries.items()}, extra


def _tolerant(key: str, entry: dict[str, Any]) -> FileEntry:
    """An entry with lading's own keys; one that lost its hash matches nothing and is read again."""
    known: dict[str, Any] = {"hash": "", "last_processed": "", "status": "", "metadata": {}}
    known |= {name: value for name, value in entry.items() if name in _ENTRY_KEYS and value is not None}
    try:
        return msgspec.convert(known, FileEntry)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"the entry for {key!r} in `files`: {error}") from error


def _indented(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(_encoder.encode(value), indent=2)


def _hash(section: bytes | memoryview | msgspec.Raw) -> str:
    return xxhash.xxh3_64_hexdigest(section)


def _positioned(message: str, data: bytes) -> str:
    """The decoder names a byte; people look for a line."""
    match = re.search(r"\(byte (\d+)\)", message)
    if match is None:
        return message
    line = data.count(b"\n", 0, int(match[1])) + 1
    return message.replace(match[0], f"(line {line})")
