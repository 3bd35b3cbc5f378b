"""Before Spark: digests, the schema, links to read; after it: bad rows named for people."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lading.errors import BadRows, SourceError
from lading.formats.heads import Dialect
from lading.formats.locate import locate
from lading.formats.magic import refuse_what_is_no_text
from lading.formats.quotes import unclosed_quote
from lading.ingest.quarantine import Aside
from lading.ingest.recipe import recipe_of
from lading.ingest.schema import layout_of, one_column_note, pin, repin
from lading.ingest.table_run import TableRun, now_text
from lading.layout.beside import lock_of
from lading.model import BadRow, Column, Digest, FoundFile, Ingested, IngestJob, StagedGroup
from lading.sources.discover import digests_of
from lading.sources.names import columns_from_name, name_columns
from lading.sources.staging import stage
from lading.storage.folder import is_locked, locked
from lading.words import count_words


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files that Spark may read, and under which schema and recipe."""

    files: Sequence[FoundFile]
    columns: tuple[Column, ...]
    recipe: str
    digests: dict[str, Digest]
    groups: tuple[StagedGroup, ...]
    aside: tuple[Aside, ...] = ()


def prepare(run: TableRun, read: Sequence[FoundFile]) -> Prepared:
    """Digest what will be read, settle the schema, lay out links for Spark."""
    cfg = run.cfg
    run.fetch(read, _counting(run, "bytes copied", sum(file.size for file in read)))
    digests = dict(run.plan.digests)
    missing = [file for file in read if file.key not in digests]
    total = sum(file.size for file in missing)
    digests |= digests_of(cfg, missing, _counting(run, "bytes looked at", total))
    _refuse_altered(run.name, read, digests)
    unfit = _Unfit(run)
    files, names = unfit.named(unfit.closed(unfit.decodable(unfit.texts(read, digests), digests)))
    columns = _settled_columns(run, {one.file.key for one in unfit.aside})
    groups = stage(
        files,
        folder=run.staging,
        fmt=cfg.format,
        read_options=cfg.read_options,
        columns=columns,
        name_values=names,
        aside=unfit.add if cfg.on_bad == "quarantine" else None,
        drift=cfg.drift,
    )
    recipe = recipe_of(run.config, cfg, columns)
    return Prepared(read, columns, recipe, digests, groups, tuple(unfit.aside))


def ingest_job(run: TableRun, prepared: Prepared) -> IngestJob:
    cfg = run.cfg
    return IngestJob(
        table=run.name,
        table_dir=run.table.place,
        table_id=run.table.table_id,
        run_id=run.run_id,
        commit_id=run.commit_id,
        format=cfg.format,
        read_options=cfg.read_options,
        columns=prepared.columns,
        name_columns=name_columns(cfg.columns_from_name),
        groups=prepared.groups,
        input_bytes=sum(file.size for file in prepared.files),
        order_by=cfg.order_by,
        bucket_size=cfg.bucket_size,
        transform=str(run.config.project / cfg.transform) if cfg.transform else None,
        per=cfg.per,
        spark=run.config.spark.conf,
        checks=cfg.checks,
        quarantine=cfg.on_bad == "quarantine",
        layout=layout_of(run.config, cfg),
        ignore_new=cfg.drift == "ignore_new",
        project=str(run.config.project),
    )


def drift_notes(run: TableRun, prepared: Prepared, ingested: Ingested | None) -> tuple[str, ...]:
    """For people: what the table's `drift` let pass that `strict` would have refused."""
    notes = list(run.evolution.changes) if run.evolution is not None else []
    if run.columns is None:  # pinned by this run
        notes += one_column_note(run.cfg, prepared.columns)
    left_out: Counter[str] = Counter()
    for group in prepared.groups:
        left_out.update(dict.fromkeys(group.ignored, len(group.sources)))
    notes += [
        f"column {name!r} of {count_words(files, 'file')} was left out"
        for name, files in sorted(left_out.items())
    ]
    if ingested is not None and ingested.ignored_rows:
        notes.append(f"{count_words(ingested.ignored_rows, 'object')} had keys that were left out")
    return tuple(notes)


def refuse_bad_rows(run: TableRun, ingested: Ingested, by_id: Mapping[int, FoundFile]) -> None:
    """`on_bad: fail`: the table commits nothing; the error names file, line, column and text."""
    if not ingested.bad:
        return
    bad = ingested.bad[0]
    file = by_id.get(bad.source)
    key = file.key if file is not None else "an unknown file"
    cfg = run.cfg
    layout = layout_of(run.config, cfg)
    line = locate(file, bad, fmt=cfg.format, read_options=cfg.read_options, layout=layout) if file else None
    more = f" ({count_words(ingested.bad_rows - 1, 'more bad row')})" if ingested.bad_rows > 1 else ""
    raise BadRows(
        f"{key}{f':{line}' if line else ''}: {bad.reason}{_shown_column(bad)}: {bad.text[:200]!r}{more}",
        hint=f"{bad.hint}; nothing was committed",
        table=run.name,
        file=key,
    )


@contextmanager
def staging(run: TableRun) -> Iterator[None]:
    """The run's folder of links for Spark: locked while in use, so that the next run can tell and drop
    one that a killed run left behind."""
    lock = run.staging.with_name(lock_of(run.staging.name))
    sweep_staging(run.staging.parent)
    try:
        with locked(lock):
            yield
    finally:
        shutil.rmtree(run.staging, ignore_errors=True)
        lock.unlink(missing_ok=True)


def sweep_staging(folder: Path) -> int:
    """Drop what killed runs left; how many of them."""
    swept = 0
    for lock in folder.glob(lock_of("*")):
        if not is_locked(lock):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
            swept += 1
    return swept


def _counting(run: TableRun, text: str, total: int) -> Callable[[int], None]:
    done = 0

    def tick(more: int) -> None:
        nonlocal done
        done += more
        run.watch.progress(run.name, text, done, total)

    return tick


def _refuse_altered(table: str, read: Sequence[FoundFile], digests: dict[str, Digest]) -> None:
    """A member's fingerprint is its content when it was extracted: whoever changed the cache since, or a
    disk that lost it, must not become rows."""
    for file in read:
        if file.archive is not None and digests[file.key].sha256 != file.fingerprint:
            raise SourceError(
                f"{file.path} is not what was extracted from {file.archive}",
                hint="delete that file: the next run extracts the archive again",
                table=table,
                file=file.key,
            )


class _Unfit:
    """Files that can't be read as they are: refused, or under `on_bad: quarantine` set aside."""

    def __init__(self, run: TableRun) -> None:
        self.aside: list[Aside] = []
        self._run = run

    def add(self, file: FoundFile, error: SourceError, line: int | None = None) -> None:
        self.aside.append(Aside.because(file, error.message, line))

    def texts(self, read: Sequence[FoundFile], digests: dict[str, Digest]) -> list[FoundFile]:
        """Those that can be read to their end and are what the table's format says, by their first bytes."""
        cfg = self._run.cfg
        fine = []
        for file in read:
            broken = digests[file.key].unreadable
            if broken is not None:
                self.aside.append(Aside.because(file, broken))
                continue
            try:
                if cfg.format != "parquet":
                    encoding = str(cfg.read_options.get("encoding", "utf-8"))
                    refuse_what_is_no_text(file.key, file.path, cfg.format, encoding)
                fine.append(file)
            except SourceError as error:
                self._refuse(file, error)
        return fine

    def decodable(self, files: list[FoundFile], digests: dict[str, Digest]) -> list[FoundFile]:
        fine = []
        for file in files:
            line = digests[file.key].bad_utf8_line
            if line is None:
                fine.append(file)
                continue
            error = BadRows(
                f"{file.key}:{line}: bytes that are not UTF-8",
                hint="convert the file to UTF-8"
                if self._run.cfg.format == "json"
                else "set read_options.encoding (latin1, windows-1252, …) or fix the file",
                table=self._run.name,
                file=file.key,
            )
            self._refuse(file, error, line)
        return fine

    def closed(self, files: list[FoundFile]) -> list[FoundFile]:
        """Those whose quotes are all closed: Spark would take half a value for the whole."""
        cfg = self._run.cfg
        if cfg.format not in ("csv", "tsv"):
            return files
        dialect = Dialect.of(cfg.read_options, cfg.format)
        fine = []
        for file in files:
            try:
                line = unclosed_quote(file.path, dialect)
            except SourceError as error:
                self._refuse(file, error)
                continue
            if line is None:
                fine.append(file)
                continue
            spanning = (
                "" if dialect.multiline else "; if values span lines, set read_options: {multiline: true}"
            )
            unclosed = BadRows(
                f"{file.key}:{line}: a quote is opened and never closed",
                hint=f"fix the line, or set another read_options.quote{spanning}",
                table=self._run.name,
                file=file.key,
            )
            self._refuse(file, unclosed, line)
        return fine

    def named(self, files: list[FoundFile]) -> tuple[list[FoundFile], dict[str, dict[str, str | None]]]:
        """Those whose names give the columns that the table takes from them, and what they give."""
        pattern = self._run.cfg.columns_from_name
        if pattern is None:
            return files, {}
        try:
            return files, columns_from_name(pattern, files, self._run.columns or ())
        except SourceError:
            values: dict[str, dict[str, str | None]] = {}  # some don't match or fit: which ones?
        for file in files:
            try:
                values |= columns_from_name(pattern, [file], self._run.columns or ())
            except SourceError as error:
                self._refuse(file, error)
        return [file for file in files if file.key in values], values

    def _refuse(self, file: FoundFile, error: SourceError, line: int | None = None) -> None:
        if self._run.cfg.on_bad != "quarantine":
            raise error
        self.add(file, error, line)


def _settled_columns(run: TableRun, aside: Collection[str]) -> tuple[Column, ...]:
    """Those that the files are read by. The schema file has them before anything is committed under them."""
    now = now_text()
    if run.columns is None:
        return pin(run.config, run.cfg, run.found, now, aside)
    repin(run.config, run.cfg, run.columns, run.evolution, run.found, now)
    return run.columns


def _shown_column(bad: BadRow) -> str:
    return f" in column {bad.column!r}" if bad.column else ""
