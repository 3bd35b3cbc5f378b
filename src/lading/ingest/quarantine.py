"""What a table has set aside: kept with its source, shown, or forgotten; replay.py has it read again.

The log's entry of a source says how many of its rows were set aside and which Parquet file holds them, so
they are replaced and retracted by the very commit that replaces or retracts the source's other rows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import msgspec

from lading.config.project import Config
from lading.errors import BadRows, NotFound, PartError
from lading.ingest.replay import nothing_of
from lading.ingest.table_run import TableRun, new_id, now_text
from lading.ingest.unpack import RefusedBefore, refused_before
from lading.layout.table import SOURCE
from lading.log.table import Table
from lading.model import Commit, FoundFile, Source
from lading.parts.footer import Origin
from lading.sources.archives.scratch import scratch
from lading.sources.fingerprint import source_id
from lading.sources.manifest import load as load_source_manifest
from lading.storage.place import storage_of
from lading.words import count_words

_TEXT = 1 << 16  # characters kept of a line of a file that was set aside whole


@dataclass(frozen=True, slots=True)
class Aside:
    """A file that is set aside whole."""

    file: FoundFile
    reason: str
    line: int | None = None

    @staticmethod
    def because(file: FoundFile, message: str, line: int | None = None) -> Aside:
        """The message of an error as a reason: the file is named beside it, by its key."""
        told = message.replace(file.path, file.key)
        if line is None and (named := re.match(rf"{re.escape(file.key)}:(\d+): ", told)):
            line = int(named[1])
        return Aside(file, told.removeprefix(f"{file.key}: "), line)


@dataclass(frozen=True, slots=True)
class Rejected:
    """What was set aside of one source, and where it is kept."""

    rows: int
    path: str  # relative to the table
    whole: str | None = None  # why all of the file is


def refuse_too_many(
    run: TableRun, whole: Sequence[Aside], rows: Mapping[str, int], bad: int, total: int
) -> None:
    """`max_bad`: a number counts the rows and files of this run, together; a share is one of all rows, and
    one of all files, that the table has read, those of earlier runs included."""
    limit = run.cfg.max_bad
    archives = {one.key: one.reason for one in run.refused if one.fresh}
    lost = {one.file.key: one.reason for one in whole} | archives
    if limit is None or not (bad or lost):
        return  # what was let in before stops no run
    said = [f"{count_words(count, 'row')} {what}" for what, count in rows.items()]
    first = next(iter(lost), None)
    said += [f"{count_words(len(lost), 'whole file')} ({first}: {lost[first]})"] if first is not None else []
    if limit.share is None:
        over = limit.exceeded(bad + len(lost), 0)
    else:
        before = _before(run)
        files_read = len(run.plan.read) + len(archives) + before.files
        over = limit.exceeded(bad + before.lost_rows, total + before.rows)
        over = over or limit.exceeded(len(lost) + before.lost_files, files_read)
        said += before.words()
    if not over:
        return
    raise BadRows(
        f"more rows or files are bad than max_bad allows ({limit}): {', '.join(said)}",
        hint="fix the files or the rules, or raise max_bad in lading.yaml; nothing was committed",
        table=run.name,
    )


@dataclass(frozen=True, slots=True)
class _Before:
    """What the table has read in earlier runs, and this one leaves as it is."""

    rows: int
    lost_rows: int
    files: int
    lost_files: int

    def words(self) -> list[str]:
        rows = [f"{count_words(self.lost_rows, 'row')} set aside before"] if self.lost_rows else []
        return rows + (
            [f"{count_words(self.lost_files, 'file')} set aside before"] if self.lost_files else []
        )


def _before(run: TableRun) -> _Before:
    leaving = {file.key for file in run.plan.read} | {one.key for one in run.plan.vanished}
    archives = sum(not one.fresh for one in run.refused)
    rows, lost_rows, files, lost_files = 0, 0, archives, archives
    for key, known in run.ledger.known:
        if known.source is not None and key not in leaving:
            rows += known.source.rows + known.source.rejected
            lost_rows += known.source.rejected
            files += 1
            lost_files += known.source.aside is not None
    return _Before(rows, lost_rows, files, lost_files)


def keep_files(run: TableRun, whole: Sequence[Aside]) -> dict[int, Rejected]:
    """Write down the files that were set aside whole, one Parquet file each."""
    if not whole:
        return {}
    from lading.parts.aside import write_aside

    origin = Origin(run.table.table_id, run.run_id, run.commit_id, None)
    kept = {}
    for one in whole:
        number = source_id(one.file.key)
        row = {
            SOURCE: number,
            "file": one.file.key,
            "record": None,
            "line": one.line,
            "column": None,
            "reason": one.reason,
            "text": _line_of(run, one),
        }
        member = write_aside(iter([row]), run.table.place, origin)
        assert member is not None
        kept[number] = Rejected(0, member.path, one.reason)
    return kept


def _line_of(run: TableRun, one: Aside) -> str | None:
    """The line at fault, if there is one; a file that can't be opened has said so already."""
    if one.line is None:
        return None
    with scratch(), run.source_file(one.file).open() as lines:
        line = next(islice(lines, one.line - 1, None), b"")
    return line[:_TEXT].decode("utf-8", "backslashreplace").rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class SetAside:
    """What is set aside of one source."""

    file: str
    rows: int
    whole: str | None  # why all of the file is
    at: str  # when it was read
    kept: bool  # whether the rows are still there to be shown

    def as_json(self, table: str) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {
            "table": table,
            "file": self.file,
            "rows": self.rows,
            "whole": self.whole is not None,
            "reason": self.whole,
            "read_at": self.at,
            "kept": self.kept,
        }


def list_aside(config: Config, name: str) -> list[SetAside]:
    """By file."""
    of_sources = [
        SetAside(one.key, one.rejected, one.aside, one.processed_at, one.quarantine is not None)
        for one in _aside(_table(config, name), None, name)
    ]
    archives = [SetAside(one.key, 0, one.reason, one.at, True) for one in _archives(config, name)]
    return sorted([*of_sources, *archives], key=lambda one: one.file)


def show_aside(
    config: Config, name: str, key: str | None = None, *, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """The rows themselves: file, record, line, column, reason, text."""
    table = _table(config, name)
    archives = [one for one in _archives(config, name) if key in (None, one.key)]
    sources = [] if key is not None and archives else _aside(table, key, name)
    kept = [one for one in sources if one.quarantine is not None]
    rows = (row for source in kept for row in _rows(table, source))
    return islice(
        chain(map(_archive_row, archives), rows), None if limit is None else min(limit, sys.maxsize)
    )


def drop_aside(config: Config, name: str, key: str | None = None) -> list[SetAside]:
    """Forget the rows that are set aside: the log keeps their number, since the file still holds them."""
    table = _table(config, name)
    if key is not None and any(one.key == key for one in _archives(config, name)):
        raise NotFound(
            f"{key} was refused as a whole: none of its rows are kept, so there is nothing to drop",
            hint="remove the archive, or get a good one; `lading quarantine replay` tries it again",
            table=name,
            file=key,
        )
    kept = [source for source in _aside(table, key, name) if source.quarantine is not None]
    if not kept:
        return []
    forgotten = tuple(msgspec.structs.replace(source, quarantine=None) for source in kept)
    recipe = table.state.meta.recipe
    table.commit(Commit(new_id(), f"drop-{new_id()[:8]}", now_text(), recipe, sources=forgotten))
    for source in kept:
        storage_of(table.place).delete(str(source.quarantine))
    return [SetAside(one.key, one.rejected, one.aside, one.processed_at, False) for one in kept]


def _table(config: Config, name: str) -> Table:
    folder = config.place(name)
    if not Table.exists(folder):
        config.table(name)
        raise NotFound(f"{name} was never run", hint=f"lading run {name}", table=name)
    return Table.open(folder)


def _aside(table: Table, key: str | None, name: str) -> list[Source]:
    aside = [source for source, _ in table.state.sources_by_key() if source.set_aside]
    if key is None:
        return aside
    found = [source for source in aside if source.key == key]
    if not found:
        raise nothing_of(key, name, [source.key for source in aside])
    return found


def _archives(config: Config, name: str) -> list[RefusedBefore]:
    """Archives that were refused. No log entry speaks of them, since nothing was ever read of them."""
    manifest = load_source_manifest(config.source_manifest(name))
    return list(refused_before(manifest.preprocessing)) if manifest is not None else []


def _archive_row(one: RefusedBefore) -> dict[str, Any]:
    return {"file": one.key, "record": None, "line": None, "column": None, "reason": one.reason, "text": None}


def _rows(table: Table, source: Source) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    from lading.parts.open import open_parquet, shown_path

    path = str(source.quarantine)
    try:
        with open_parquet(table.place, path) as file:
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    del row[SOURCE]
                    yield row
    except (OSError, pa.ArrowException) as error:
        raise PartError(
            f"{shown_path(table.place, path)}, with rows of {source.key} that were set aside, can't be read: "
            f"{error}",
            hint="to set them aside again: "
            f"lading quarantine replay {table.state.meta.table} --file '{source.key}'",
            file=source.key,
        ) from error
