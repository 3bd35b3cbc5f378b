"""`manifest/_global.json`: the archives that were extracted, for all tables together.

The layout is Fairway's; lading adds keys and renames none. Tables run side by side, so a change is
merged into the file under a lock and never written over somebody else's. Deleting the file, or an entry
in it, asks for extraction.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from lading.errors import SourceError
from lading.sources.archives.input import Proof
from lading.state.bounded_json import refuse_deep
from lading.storage.folder import locked, write_atomic

VERSION = "3.0"


class ExtractionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One extraction. What Fairway did not write is None: such an entry is no proof of anything."""

    extracted_dir: str  # relative to the project
    archive_hash: str
    extracted_at: str
    used_by_tables: tuple[str, ...] = ()
    sha256: str | None = None
    size: int | None = None
    mtime_ns: int | None = None
    racy: bool = False
    spot: int = 0

    @property
    def proof(self) -> Proof | None:
        if self.sha256 is None or self.size is None or self.mtime_ns is None:
            return None
        return Proof(
            hash=self.archive_hash,
            sha256=self.sha256,
            size=self.size,
            mtime_ns=self.mtime_ns,
            racy=self.racy,
            spot=self.spot,
        )

    def proven(self, proof: Proof) -> ExtractionEntry:
        return msgspec.structs.replace(
            self,
            archive_hash=proof.hash,
            sha256=proof.sha256,
            size=proof.size,
            mtime_ns=proof.mtime_ns,
            racy=proof.racy,
            spot=proof.spot,
        )


def entry_key(path: str) -> str:
    """An entry is named by the archive's absolute path (or its URL)."""
    return f"archive:{path}"


def load_extractions(path: Path) -> dict[str, ExtractionEntry]:
    """Entries by key; none when there is no file."""
    extractions = _read(path).get("extractions") or {}
    try:
        return {key: msgspec.convert(value, ExtractionEntry) for key, value in extractions.items()}
    except (msgspec.ValidationError, AttributeError) as error:
        raise _malformed(path, str(error)) from error


def merge_extractions(
    path: Path, lock: Path, change: Callable[[dict[str, ExtractionEntry]], dict[str, ExtractionEntry | None]]
) -> None:
    """`change` gets the entries as they are now and gives those to write (None: to drop)."""
    with locked(lock):
        whole = _read(path)
        wanted = change(load_extractions(path))
        if not wanted:
            return
        extractions: dict[str, Any] = dict(whole.get("extractions") or {})
        for key, entry in wanted.items():
            if entry is None:
                extractions.pop(key, None)
            else:
                extractions[key] = {**extractions.get(key, {}), **msgspec.to_builtins(entry)}
        ordered = {key: extractions[key] for key in sorted(extractions)}
        data = {"version": VERSION, **whole, "extractions": ordered}
        write_atomic(path, json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        whole = json.loads(path.read_bytes())
        refuse_deep(whole)
    except FileNotFoundError:
        return {}
    except OSError as error:
        hint = "make it readable, then run again"
        raise SourceError(f"{path} can't be read: {error.strerror}", hint=hint, file=str(path)) from error
    except ValueError as error:
        raise _malformed(path, str(error)) from error
    except RecursionError:
        raise _malformed(path, "it is nested too deeply") from None
    if not isinstance(whole, dict) or whole.get("version", VERSION) != VERSION:
        raise _malformed(path, f'it has no `version` "{VERSION}"')
    return whole


def _malformed(path: Path, problem: str) -> SourceError:
    return SourceError(
        f"{path} is not a global manifest: {problem}",
        hint="undo the edit, or delete the file to have all archives extracted again",
        file=str(path),
    )
