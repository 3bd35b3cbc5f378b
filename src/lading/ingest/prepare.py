"""Before anything is read: the schema that files are read by, what their names say, and who reads what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lading.checks.tally import CheckSpec
from lading.errors import SourceError
from lading.formats.arrow_types import arrow_schema
from lading.formats.reader import ReadSpec
from lading.formats.rules import Rules
from lading.ingest.derived.slots import Cut, can_cut
from lading.ingest.quarantine import Aside
from lading.ingest.recipe import recipe_facts
from lading.ingest.schema import layout_of, one_column_note, pin, repin
from lading.ingest.table_run import TableRun, now_text
from lading.ingest.tasks.outcome import Ingested
from lading.ingest.tasks.splits import FilePiece, make_tasks
from lading.ingest.tasks.task import Ingest
from lading.model import Column, FoundFile, IngestJob, Place
from lading.parts.cut import Limits
from lading.parts.footer import Origin
from lading.parts.task import MEMORY, TaskSpec
from lading.sources.fingerprint import source_id
from lading.sources.names import columns_from_name, name_columns
from lading.sources.recipe import hashed
from lading.words import count_words

MEMORY_SETTING = "spark.lading.task.memory"  # bytes of rows a task holds before it sorts on disk


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files to read, and under which schema and recipe."""

    files: Sequence[FoundFile]
    columns: tuple[Column, ...]
    facts: bytes  # what the recipe is the hash of
    names: Mapping[str, Mapping[str, str | None]]  # what the files' names say, by key and column
    aside: tuple[Aside, ...] = ()  # files that are set aside by their names

    @property
    def recipe(self) -> str:
        return hashed(self.facts)


def prepare(run: TableRun, read: Sequence[FoundFile]) -> Prepared:
    """Settle the schema, and what the names of the files say. Of a table made of tables, the query has the
    say, and Spark tells."""
    if run.derived is not None:
        return Prepared(read, (), run.derived.facts, {})
    files, names, aside = _named(run, read)
    columns = _settled_columns(run, {one.file.key for one in aside})
    return Prepared(files, columns, recipe_facts(run.config, run.cfg, columns), names, tuple(aside))


def ingest_job(run: TableRun, prepared: Prepared, place: Place | None = None) -> IngestJob:
    """`place` is where parts go instead of the table's folder."""
    cfg = run.cfg
    return IngestJob(
        table=run.name,
        table_dir=place or run.table.place,
        table_id=run.table.table_id,
        run_id=run.run_id,
        commit_id=run.commit_id,
        columns=prepared.columns,
        sources=frozenset(source_id(file.key) for file in prepared.files),
        input_bytes=sum(file.size for file in prepared.files),
        order_by=cfg.order_by,
        bucket_size=cfg.bucket_size,
        transform=str(run.config.project / cfg.transform) if cfg.transform else None,
        per=cfg.per,
        spark=run.config.spark.conf,
        checks=cfg.checks,
        quarantine=cfg.on_bad == "quarantine",
        project=str(run.config.project),
        known=run.table.state.schema,
    )


def ingest_of(
    run: TableRun,
    prepared: Prepared,
    job: IngestJob,
    cores: int,
    *,
    only: Collection[int] | None = None,
    reject: Mapping[int, int] | None = None,
    keep_aside: bool = True,
) -> Ingest:
    """What the tasks are told. `only` some sources are read, if it is given; `reject` are row checks (as
    bits) that single sources broke, and whose rows may not stay; without `keep_aside`, rows that are set
    aside are left out and that is all."""
    reading = read_spec(run, prepared.columns)
    Rules(reading)  # a default that is none is told before anything is read
    files = [file for file in prepared.files if file.size and (only is None or source_id(file.key) in only)]
    pieces = [
        FilePiece(
            run.source_file(file),
            source_id(file.key),
            together=run.together(file),
            names=tuple(prepared.names.get(file.key, {}).get(name) for name in reading.name_columns),
        )
        for file in files
    ]
    if only is None:  # what is set aside by its name is known by its content all the same
        pieces += [
            FilePiece(run.source_file(one.file), source_id(one.file.key), None)
            for one in prepared.aside
            if one.file.size
        ]
    return Ingest(
        reading=reading,
        columns=prepared.columns,
        writing=TaskSpec(
            table_dir=job.table_dir,
            origin=Origin(job.table_id, job.run_id, job.commit_id, job.order_by),
            schema=b"",
            bucket_size=None,
            memory=int(job.spark.get(MEMORY_SETTING, MEMORY)),
            limits=Limits(),
        ),
        order_by=job.order_by,
        checks=job.checks,
        judging=CheckSpec.of(job.row_checks, quarantine=job.quarantine, more=reject),
        quarantine=job.quarantine,
        keep_aside=keep_aside,
        keys={source_id(file.key): file.key for file in files},
        table=job.table,
        tasks=tuple(make_tasks(pieces, reading, cores)),
        cuts=_cuts(run, prepared.columns),
    )


def _cuts(run: TableRun, columns: Sequence[Column]) -> tuple[Cut, ...]:
    """How tables of the project that are made of this one cut its rows by columns."""
    there = {field.name for field in arrow_schema(columns) if can_cut(field.type)}
    made = [table.derived for table in run.config.tables.values() if table.derived is not None]
    found = (
        Cut(one.by, derived.slots)
        for derived in made
        for one in derived.inputs
        if one.path is None and one.name == run.name and one.by and there.issuperset(one.by)
    )
    return tuple(dict.fromkeys(cut for cut in found if cut.slots > 1))


def read_spec(run: TableRun, columns: Sequence[Column]) -> ReadSpec:
    """How the table's files are read."""
    cfg = run.cfg
    names = name_columns(cfg.columns_from_name)
    return ReadSpec(
        cfg.format,
        cfg.read_options,
        tuple(column for column in columns if column.name not in names),
        cfg.policy,
        layout_of(run.config, cfg),
        names,
        cfg.naming,
        cfg.rules,
    )


def drift_notes(run: TableRun, prepared: Prepared, ingested: Ingested | None) -> tuple[str, ...]:
    """For people: what the table's `drift` let pass that `strict` would have refused."""
    notes = list(run.followed.changes) if run.followed is not None else []
    if run.columns is None and run.derived is None:  # pinned by this run
        notes += one_column_note(run.cfg, prepared.columns)
    if ingested is None:
        return tuple(notes)
    left_out: Counter[str] = Counter()
    for file in ingested.files.values():
        left_out.update(file.left_out)
    notes += [
        f"column {name!r} of {count_words(files, 'file')} was left out"
        for name, files in sorted(left_out.items())
    ]
    if ingested.ignored_rows:
        notes.append(f"{count_words(ingested.ignored_rows, 'object')} had keys that were left out")
    return tuple(notes)


def _named(
    run: TableRun, files: Sequence[FoundFile]
) -> tuple[list[FoundFile], dict[str, dict[str, str | None]], list[Aside]]:
    """The files whose names give the columns that the table takes from them, what they give, and the others:
    refused, or under `on_bad: quarantine` set aside."""
    pattern = run.cfg.columns_from_name
    if pattern is None:
        return list(files), {}, []
    try:
        return list(files), columns_from_name(pattern, files, run.columns or ()), []
    except SourceError:
        if run.cfg.on_bad != "quarantine":
            raise
    values: dict[str, dict[str, str | None]] = {}  # some don't match or fit: which ones?
    aside = []
    for file in files:
        try:
            values |= columns_from_name(pattern, [file], run.columns or ())
        except SourceError as error:
            aside.append(Aside.because(file, error.message))
    return [file for file in files if file.key in values], values, aside


def _settled_columns(run: TableRun, aside: Collection[str]) -> tuple[Column, ...]:
    """Those that the files are read by. The schema file has them before anything is committed under them."""
    now = now_text()
    if run.columns is None:
        return pin(run, run.found, now, aside)
    repin(run.config, run.cfg, run.columns, run.followed, run.found, now)
    return run.columns
