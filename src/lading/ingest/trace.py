"""From a row of a snapshot back to where it stands: its file, its line, and the lines around it.

A row says which file it came from (`_source`), the file says on which line: it is read again, by the code
that a run reads it with, until a record gives the row's values. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading import clock
from lading.config.project import Config
from lading.errors import LadingError, ManifestGone, ManifestParseError, NotFound
from lading.formats.reader import Rows
from lading.formats.registry import reader_of
from lading.ingest.look import look
from lading.ingest.noop import are_plain_files
from lading.ingest.prepare import read_spec
from lading.ingest.schema import pinned_columns
from lading.ingest.table_run import TableRun
from lading.ingest.verdict import is_same
from lading.layout.table import SOURCE
from lading.model import FoundFile, Place, SnapshotRef, Source
from lading.read.text import plain_rows
from lading.snapshots.opening import open_members
from lading.snapshots.stores.protocol import ManifestStore
from lading.sources.archives.scratch import scratch
from lading.sources.discover import discover_files, objects_of
from lading.sources.named import named_files
from lading.watch import Watch

NEIGHBOURS = 3  # records before and behind the one that is found
_TEXT = 4_096  # characters shown of a record

_LOOKED_BACK = 100  # snapshots

SourceOf = Callable[[int], Source | None]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it stands in its file."""

    record: int  # from 1; the header, blank lines and comments don't count
    line: int | None  # from 1, where it begins; None where records have no lines
    text: str
    reason: str | None = None  # why it is no row, if it isn't one


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one row stands."""

    row: dict[str, Any]
    file: str  # its key
    path: str | None = None  # where the file is now, if it is anywhere
    archive: str | None = None
    sha256: str | None = None  # of what was read
    read_at: str | None = None
    found: Line | None = None
    before: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()
    differs: tuple[str, ...] = ()  # columns that a transform made something else of
    note: str | None = None  # what else there is to know, such as why no line was found


def trace(
    config: Config, name: str, rows: pa.Table, source_of: SourceOf, *, neighbours: int = NEIGHBOURS
) -> list[Trace]:
    """Of each of `rows`, which come from a snapshot of the table `name` with all columns; `source_of` is what
    that snapshot knows of a `_source`."""
    tracing = _Tracing(config, name, neighbours)
    shown = [row for batch in rows.to_batches() for row in plain_rows(batch)]
    return [tracing.row(rows.slice(at, 1), shown[at], source_of) for at in range(rows.num_rows)]


def since(store: ManifestStore, place: Place, seen: SnapshotRef, source: Source) -> tuple[str, str | None]:
    """The run whose snapshot was the first to show the file as it was read for the one `seen`, and the run of
    the snapshot before that, if there is one."""
    listed = store.list_manifests()
    at = next((number for number, one in enumerate(listed) if one.ref == seen.ref), len(listed))
    first = seen.run_id
    for one in listed[at + 1 : at + 1 + _LOOKED_BACK]:
        try:
            members = open_members(store, one.ref, place)
        except (ManifestGone, ManifestParseError, NotFound):
            continue  # cleaned away meanwhile, damaged, or another writer's
        try:
            known = members.source(source.id)
        finally:
            members.close()
        if known is None or known[0].processed_at != source.processed_at:
            return first, one.run_id
        first = one.run_id
    return first, None


class _Tracing:
    def __init__(self, config: Config, name: str, neighbours: int) -> None:
        self.config = config
        self.cfg = config.table(name)
        self.neighbours = neighbours
        self._looked: TableRun | None = None

    def row(self, row: pa.Table, shown: dict[str, Any], source_of: SourceOf) -> Trace:
        number = row.column(SOURCE)[0].as_py() if SOURCE in row.schema.names else None
        source = source_of(number) if number is not None else None
        if source is None:
            return Trace(row=shown, file="", note="no file is known for this row")
        told = Trace(
            row=shown,
            file=source.key,
            archive=source.archive,
            sha256=source.sha256,
            read_at=source.processed_at,
        )
        if self.cfg.derived is not None:
            slot = f"lading sources {self.cfg.name} --slot {source.key.removeprefix('slot=')}"
            return _noted(told, f"a query made this row of other tables; their files: {slot}")
        try:
            return self._placed(told, row, source)
        except (LadingError, OSError) as error:
            message = error.message if isinstance(error, LadingError) else str(error)
            return _noted(told, f"the file can't be read again: {message}")

    def _placed(self, told: Trace, row: pa.Table, source: Source) -> Trace:
        run, file = self._file(source)
        if file is None:
            packed = " in its archive" if source.archive is not None else ""
            return _noted(told, f"the file is no longer there{packed}, so its lines can't be shown")
        told = msgspec.structs.replace(told, path=_shown_path(run, file))
        note = None if _is_what_was_read(run, file, source) else "the file has changed since it was read"
        columns = pinned_columns(self.config, self.cfg)
        if columns is None:
            return _noted(told, "the table has no schema file, so its files can't be read again")
        with scratch():
            blocks = reader_of(read_spec(run, columns)).rows(run.source_file(file))
            search = _Search(row, self.neighbours, almost=self.cfg.transform is not None)
            found = search.through(blocks)
        if found is None:
            return _noted(told, note or self._why_not_found())
        return msgspec.structs.replace(told, note=note, **found)

    def _why_not_found(self) -> str:
        if self.cfg.transform is not None:
            return f"no record gives these values: {self.cfg.transform} stands between the file and the row"
        return "no record of the file gives these values: lading verify --deep tells more"

    def _file(self, source: Source) -> tuple[TableRun, FoundFile | None]:
        """The file as it is now. What lies in a folder is asked for by its name; objects, and what
        comes out of archives and scripts, are found as a plan finds them."""
        if are_plain_files(self.cfg) and source.archive is None:
            named = named_files(self.cfg.root, self.cfg.path, [source.key], now_ns=clock.wall_ns())
            if named is not None:
                return TableRun(self.config, self.cfg, Watch()), (named[0] if named else None)
        if self._looked is None:
            self._looked = self._look(source)
        return self._looked, next((one for one in self._looked.found if one.key == source.key), None)

    def _look(self, source: Source) -> TableRun:
        if source.archive is not None or self.cfg.preprocess is not None:
            return look(self.config, self.cfg.name, watch=Watch())
        objects = objects_of(self.config, self.cfg)
        found = discover_files(self.config, self.cfg, objects)
        return TableRun(self.config, self.cfg, Watch(), objects, found=found)


def _noted(told: Trace, note: str) -> Trace:
    return msgspec.structs.replace(told, note=note)


def _is_what_was_read(run: TableRun, file: FoundFile, source: Source) -> bool:
    """By its fingerprint; if that is another one, the content decides."""
    same = is_same(file, source) if file.fingerprint is None else file.hash == source.hash
    return same or run.source_file(file).digest() == source.sha256


def _shown_path(run: TableRun, file: FoundFile) -> str:
    inside = run.objects is not None and file.archive is None
    return f"{run.objects.url}/{file.key}" if inside and run.objects is not None else file.path


class _Search:
    """Goes through the blocks of a file until one has the row; `almost` also takes the one record that agrees
    with it in most columns."""

    def __init__(self, row: pa.Table, neighbours: int, *, almost: bool) -> None:
        self._row = row
        self._neighbours = neighbours
        self._almost = almost
        self._best: tuple[int, dict[str, Any]] | None = None  # in how many columns, and what is told of it
        self._rivals = 0  # records that agree in as many

    def through(self, blocks: Iterator[Rows]) -> dict[str, Any] | None:
        before: Rows | None = None
        for block in blocks:
            masks = _agreeing(block.batch, self._row)
            agree = np.zeros(block.batch.num_rows, np.int64)
            for mask in masks.values():
                agree += mask
            for at in np.flatnonzero(agree == len(masks)).tolist():
                if _is_nested_same(block.batch, at, self._row):
                    return self._told(before, block, at, blocks, ())
            if self._almost and len(agree):
                self._remember(before, block, agree, masks)
            before = block
        if self._best is None or self._rivals:
            return None
        return self._best[1]

    def _remember(
        self, before: Rows | None, block: Rows, agree: np.ndarray, masks: dict[str, np.ndarray]
    ) -> None:
        most = int(agree.max())
        if most * 2 <= len(masks) or (self._best is not None and most < self._best[0]):
            return
        places = np.flatnonzero(agree == most)
        if self._best is not None and most == self._best[0]:
            self._rivals += len(places)
            return
        at = int(places[0])
        differs = tuple(name for name, mask in masks.items() if not mask[at])
        self._best = (most, self._told(before, block, at, iter(()), differs))
        self._rivals = len(places) - 1

    def _told(
        self, before: Rows | None, block: Rows, at: int, rest: Iterator[Rows], differs: tuple[str, ...]
    ) -> dict[str, Any]:
        record, span = int(block.records[at]), self._neighbours
        around = [*(_lines(before, record - span, record) if before is not None else [])]
        around += _lines(block, record - span, record + span + 1)
        following = next(rest, None) if _last_record(block) < record + span else None
        if following is not None:
            around += _lines(following, record + 1, record + span + 1)
        [found] = [one for one in around if one.record == record]
        return {
            "found": found,
            "before": tuple(one for one in around if one.record < record),
            "after": tuple(one for one in around if one.record > record),
            "differs": differs,
        }


def _last_record(block: Rows) -> int:
    bad = block.bad[-1].record if block.bad else 0
    return max(bad, int(block.records[-1]) if len(block.records) else 0)


def _lines(block: Rows, first: int, end: int) -> list[Line]:
    """The records of a block whose numbers are from `first` up to `end`, good and bad ones."""
    places = np.flatnonzero((block.records >= first) & (block.records < end)).tolist()
    found = [
        Line(
            record=int(block.records[at]),
            line=None if block.lines is None else int(block.lines[at]),
            text=text[:_TEXT],
        )
        for at, text in zip(places, block.texts(places), strict=True)
    ]
    found += [
        Line(record=one.record, line=one.line, text=one.text[:_TEXT], reason=one.reason)
        for one in block.bad
        if first <= one.record < end
    ]
    return sorted(found, key=lambda one: one.record)


def _agreeing(batch: pa.RecordBatch, row: pa.Table) -> dict[str, np.ndarray]:
    """For each column that both have and that isn't nested: which rows of the batch have the row's value."""
    names = [name for name in batch.schema.names if name in row.schema.names]
    flat = [name for name in names if not pa.types.is_nested(batch.schema.field(name).type)]
    return {name: _equals(batch.column(name), row.column(name)[0]) for name in flat}


def _equals(column: pa.Array, value: pa.Scalar) -> np.ndarray:
    if not value.is_valid:
        mask = column.is_null()
    elif pa.types.is_floating(value.type) and value.as_py() != value.as_py():
        mask = pc.is_nan(column) if pa.types.is_floating(column.type) else None
    else:
        try:
            mask = pc.equal(column, pc.cast(value, column.type))
        except pa.ArrowException:
            mask = None  # of a type that has been changed since: nothing equals it
    if mask is None:
        return np.zeros(len(column), bool)
    found: np.ndarray = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return found


def _is_nested_same(batch: pa.RecordBatch, at: int, row: pa.Table) -> bool:
    nested = [
        name
        for name in batch.schema.names
        if name in row.schema.names and pa.types.is_nested(batch.schema.field(name).type)
    ]
    return all(_same(batch.column(name)[at].as_py(), row.column(name)[0].as_py()) for name in nested)


def _same(one: Any, other: Any) -> bool:
    return bool(repr(one) == repr(other))
