"""Rebuilding a table's log from whatever is left: log and checkpoint, else the snapshot that readers see,
else the part files.

The damaged files are kept beside the new ones. A log that may lack commits goes on above every sequence
that was given out, and its time is that of the rebuild: so what it publishes is newer than what readers see,
and no manifest of the lost commits is taken for its own. It keeps the table's id wherever that can be known,
since every part and every snapshot names it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lading import clock, ids
from lading.errors import LadingError, NotFound, StorageError
from lading.layout.table import BUCKET, CHECKPOINT, LOG
from lading.log.checkpoint import write_checkpoint
from lading.log.file import LogFile
from lading.log.objects import replace_header
from lading.log.state import TableState
from lading.log.table import Table, log_of
from lading.log.table_manifest import load_manifest, manifest_bytes, manifest_of, replace_manifest
from lading.model import Commit, Place
from lading.state.log_frames import FORMAT_VERSION, LogHeader
from lading.state.members import MemberStore
from lading.state.tables import StateMeta
from lading.storage.folder import fsync_dir
from lading.storage.place import Where, folder_of, last_step, place_of, storage_of
from lading.upkeep.mend import mend_checkpoint
from lading.upkeep.salvage import PublishedState, header_of, own_pointer, salvaged_state
from lading.upkeep.walk import parquet_files, walk_files
from lading.words import count_words


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
    mended: tuple[str, ...] = ()  # pages of the checkpoint that were written again


@dataclass(frozen=True, slots=True)
class Recovered:
    """A state that may become a log, still unwritten."""

    found_in: str
    state: TableState
    undecided: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return self.found_in == "log" and not self.undecided


def recover(where: Place, *, key: str | None = None, published: PublishedState | None = None) -> Recovered:
    """The best state there is. Writes nothing."""
    table = _whole_log(where)
    if table is not None:
        return Recovered("log", table.state, ())
    found = salvaged_state(where, published)
    if found is not None:
        undecided = [*found.lost, *_unlisted(where, found.state)]
        return Recovered(found.found_in, found.state, tuple(undecided) or ("the log had to be restored",))
    return _from_files(where, key)


def restore(where: Where, *, key: str | None = None, published: PublishedState | None = None) -> Restored:
    """Put a log in place that can be opened; one that is whole is left alone. Writes manifest.json too,
    for a table that has buckets. `published` is what readers see; None: what the pointer in the table's own
    directory names."""
    where = place_of(where)
    folder = storage_of(where).folder
    if folder is not None and not folder.is_dir():
        raise NotFound(f"there is no folder {where}", hint="is the path right?", file=str(where))
    if folder is None and not (Table.exists(where) or parquet_files(where)):
        raise NotFound(f"there is nothing in {where}", hint="is the URL right?", file=str(where))
    published = published or own_pointer(where)
    looked = manifest_bytes(where)
    with log_of(where).lock():
        mended = mend_checkpoint(where, _published(published))
        found = recover(where, key=key, published=published)
        state = found.state
        kept: tuple[str, ...] = ()
        if not found.whole:
            kept, state = _written_anew(where, found, published)
    if any(member.path.startswith(BUCKET) for member in state.candidates(None)):
        _write_manifest(where, state, looked)
    return Restored(
        found.found_in,
        state.count(),
        state.row_count(),
        state.sequence,
        () if found.whole else found.undecided,
        not found.whole or bool(mended),
        kept,
        tuple(mended),
    )


def _published(published: PublishedState) -> Iterator[MemberStore]:
    """The snapshot that readers see, if it can be opened."""
    if published.current is not None:
        with suppress(LadingError):
            members = published.members(published.current)
            try:
                yield members
            finally:
                members.close()


def _whole_log(folder: Place) -> Table | None:
    if not Table.exists(folder):
        return None
    try:
        table = Table.open(folder)
        if table.state.base is not None:
            table.state.base.check()
    except StorageError:
        raise  # no answer says nothing about the log
    except LadingError:
        return None
    return table


def _unlisted(where: Place, state: TableState) -> list[str]:
    listed = {member.path for member in state.candidates(None)}
    known = listed | {path.rsplit("/", 1)[-1] for path in listed}
    lying = [path for path in parquet_files(where) if path.startswith(BUCKET)]
    strangers = [path for path in lying if path not in known]
    if not strangers:
        return []
    shown = ", ".join(strangers[:5]) + (", …" if len(strangers) > 5 else "")
    several = count_words(len(strangers), "part file is", "part files are")
    return [f"{several} not in the restored state; left alone: {shown}"]


def _from_files(folder: Place, key: str | None) -> Recovered:
    walked = walk_files(folder, key)
    now = clock.now().isoformat()
    manifest = None
    try:
        manifest = load_manifest(folder)
    except LadingError:
        walked_note: tuple[str, ...] = ("manifest.json could not be read either",)
    else:
        walked_note = ()
    name = manifest.table if manifest is not None else last_step(folder)
    table_id = _id_in_header(folder) or walked.table_id or ids.fresh()
    header = LogHeader(FORMAT_VERSION, name, table_id, "", now, 0)
    state = TableState(folder, StateMeta.before_the_first_commit(header))
    schema = walked.schema.serialize().to_pybytes() if len(walked.schema) else None
    commit = Commit(
        ids.fresh(),
        "rebuild",
        now,
        "",
        add=walked.members,
        schema=schema,
        order_by=walked.key,
        sequence=1,
    )
    state.apply([commit])
    outside = "members outside the folder, and which files had been removed, are no longer known"
    return Recovered("files", state, (*walked.undecided, *walked_note, outside))


def _id_in_header(where: Place) -> str | None:
    header = header_of(where)
    return header.table_id if header is not None else None


def _written_anew(
    where: Place, found: Recovered, published: PublishedState
) -> tuple[tuple[str, ...], TableState]:
    """What was kept of the damaged log, and the state as the beginning of the new one."""
    log = log_of(where)
    given = max(found.state.sequence, log.last_number())
    sequence = max(given, published.given_out) + 1
    seen = published.current.sequence if published.current is not None else 0
    as_published = found.found_in == "snapshot" and found.state.meta.data_sequence <= seen
    meta = msgspec.structs.replace(
        found.state.meta,
        at=clock.now().isoformat(),
        sequence=sequence,
        data_sequence=found.state.meta.data_sequence if as_published else sequence,
    )
    header = LogHeader(FORMAT_VERSION, meta.table, meta.table_id, ids.fresh(), meta.created_at, sequence)
    stamp = f"{clock.now():%Y%m%d-%H%M%S-%f}"
    if isinstance(log, LogFile):
        kept = _set_aside(folder_of(where), stamp)
        meta = msgspec.structs.replace(meta, log_id=header.log_id, log_offset=len(header.to_bytes()))
        write_checkpoint(where, meta, found.state.settled())
        log.replace(header)
    else:
        # The commits of before stay: their numbers lie below the new beginning.
        meta = msgspec.structs.replace(meta, log_id=header.log_id, log_offset=sequence)
        write_checkpoint(where, meta, found.state.settled())
        kept = replace_header(where, header, f"header.damaged-{stamp}")
    return kept, Table.open(where).state


def _set_aside(folder: Path, stamp: str) -> tuple[str, ...]:
    """Copies, not renames: killed in between, whatever could be read before still can."""
    kept = []
    for name in (LOG, CHECKPOINT):
        if (folder / name).exists():
            kept.append(f"{name}.damaged-{stamp}")
            shutil.copyfile(folder / name, folder / kept[-1])
    fsync_dir(folder)
    return tuple(kept)


def _write_manifest(where: Place, state: TableState, looked: bytes) -> None:
    meta = state.meta
    manifest = manifest_of(meta.table, state.in_order_added(), created_at=meta.created_at, updated_at=meta.at)
    extra = {"table_id": meta.table_id, "sequence": state.sequence, "order_by": state.order_by}
    replace_manifest(where, manifest, extra, mending=looked)
