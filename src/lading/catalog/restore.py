"""Rebuilding a table's log from whatever is left: log and checkpoint, else the snapshot that readers see,
else the part files.

The damaged files are kept beside the new ones. A log that may lack commits gets a new table id, so that
no manifest written under the old one is taken for its own, and goes on above every sequence that was
given out, so that what it publishes is newer than what readers see.
"""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lading.catalog.checkpoint import NAME as CHECKPOINT_NAME
from lading.catalog.checkpoint import write_checkpoint
from lading.catalog.log import NAME as LOG_NAME
from lading.catalog.log import LogFile
from lading.catalog.manifest import load_manifest, manifest_of, write_manifest
from lading.catalog.salvage import current_of, salvaged_state
from lading.catalog.state import TableState
from lading.catalog.table import Table
from lading.catalog.walk import walk_files
from lading.errors import LadingError, NotFound
from lading.format.frame import FORMAT_VERSION, LogHeader
from lading.format.state_file import StateMeta
from lading.format.table_manifest import TableManifest
from lading.model import Commit
from lading.storage.local import fsync_dir


@dataclass(frozen=True, slots=True)
class Restored:
    """Where the state was found, and what could not be decided about it."""

    found_in: str  # log (it was whole), checkpoint, snapshot or files
    members: int
    rows: int
    sequence: int
    undecided: tuple[str, ...]
    written: bool  # False: the log was whole, nothing had to be written
    kept: tuple[str, ...] = ()  # the damaged files, under their new names


@dataclass(frozen=True, slots=True)
class Recovered:
    """A state that may become a log, still unwritten."""

    found_in: str
    state: TableState
    undecided: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return self.found_in == "log" and not self.undecided


def recover(folder: Path, *, key: str | None = None) -> Recovered:
    """The best state there is. Writes nothing."""
    table = _whole_log(folder)
    if table is not None:
        return Recovered("log", table.state, ())
    found = salvaged_state(folder)
    if found is not None:
        undecided = [*found.lost, *_unlisted(folder, found.state)]
        return Recovered(found.found_in, found.state, tuple(undecided) or ("the log had to be restored",))
    return _from_files(folder, key)


def restore(folder: Path, *, key: str | None = None) -> Restored:
    """Put a log in place that can be opened; one that is whole is left alone. Writes manifest.json too,
    for a table that has buckets."""
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}", hint="is the path right?", file=str(folder))
    with LogFile(folder).lock():
        found = recover(folder, key=key)
        state = found.state
        kept: tuple[str, ...] = ()
        if not found.whole:
            kept = _set_aside(folder)
            state = _write_anew(folder, found)
    if any(member.path.startswith("bucket=") for member in state.candidates(None)):
        _write_manifest(folder, state)
    return Restored(
        found.found_in,
        state.count(),
        state.row_count(),
        state.sequence,
        () if found.whole else found.undecided,
        not found.whole,
        kept,
    )


def table_manifest(folder: Path, state: TableState) -> TableManifest:
    meta = state.meta
    return manifest_of(meta.table, state.in_order_added(), created_at=meta.created_at, updated_at=meta.at)


def _whole_log(folder: Path) -> Table | None:
    if not Table.exists(folder):
        return None
    try:
        table = Table.open(folder)
        table.state.columns()
    except LadingError:
        return None
    return table


def _unlisted(folder: Path, state: TableState) -> list[str]:
    listed = {member.path for member in state.candidates(None)}
    known = listed | {member.path.rsplit("/", 1)[-1] for member in state.candidates(None)}
    lying = [
        f"{bucket.name}/{file.name}"
        for bucket in sorted(folder.glob("bucket=*/"))
        for file in sorted(bucket.glob("*.parquet"))
    ]
    strangers = [path for path in lying if path not in known]
    if not strangers:
        return []
    shown = ", ".join(strangers[:5]) + (", …" if len(strangers) > 5 else "")
    return [f"{len(strangers)} part files are not in the restored state and were left alone: {shown}"]


def _from_files(folder: Path, key: str | None) -> Recovered:
    walked = walk_files(folder, key)
    now = datetime.now(UTC).isoformat()
    manifest = None
    try:
        manifest = load_manifest(folder)
    except LadingError:
        walked_note: tuple[str, ...] = ("manifest.json could not be read either",)
    else:
        walked_note = ()
    name = manifest.table if manifest is not None else os.path.basename(os.path.abspath(folder))
    header = LogHeader(FORMAT_VERSION, name, uuid.uuid4().hex, "", now, 0)
    state = TableState(str(folder), StateMeta.before_the_first_commit(header))
    schema = walked.schema.serialize().to_pybytes() if len(walked.schema) else None
    commit = Commit(
        uuid.uuid4().hex,
        "rebuild",
        now,
        "",
        add=walked.members,
        schema=schema,
        order_by=walked.key,
        sequence=1,
    )
    state.apply([commit])
    outside = "members outside of the folder, and which files had been removed, are not known any more"
    return Recovered("files", state, (*walked.undecided, *walked_note, outside))


def _set_aside(folder: Path) -> tuple[str, ...]:
    """Copies, not renames: killed in between, whatever could be read before still can."""
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    kept = []
    for name in (LOG_NAME, CHECKPOINT_NAME):
        if (folder / name).exists():
            kept.append(f"{name}.damaged-{stamp}")
            shutil.copyfile(folder / name, folder / kept[-1])
    fsync_dir(folder)
    return tuple(kept)


def _write_anew(folder: Path, found: Recovered) -> TableState:
    current = current_of(folder)
    seen = current.sequence if current is not None else 0
    sequence = max(found.state.sequence, seen) + 1
    as_published = found.found_in == "snapshot" and found.state.meta.data_sequence <= seen
    meta = msgspec.structs.replace(
        found.state.meta,
        table_id=uuid.uuid4().hex,
        sequence=sequence,
        data_sequence=found.state.meta.data_sequence if as_published else sequence,
    )
    header = LogHeader(FORMAT_VERSION, meta.table, meta.table_id, uuid.uuid4().hex, meta.created_at, sequence)
    written = msgspec.structs.replace(meta, log_id=header.log_id, log_offset=len(header.to_bytes()))
    write_checkpoint(folder, written, found.state.columns())
    LogFile(folder).replace(header)
    return Table.open(folder).state


def _write_manifest(folder: Path, state: TableState) -> None:
    extra = {"table_id": state.meta.table_id, "sequence": state.sequence, "order_by": state.order_by}
    write_manifest(folder, table_manifest(folder, state), extra)
