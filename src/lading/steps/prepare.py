"""Before Spark: digests, the schema, links to read; after it: bad rows named for people."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lading.errors import BadRows
from lading.model import BadRow, Column, Digest, Ingested, IngestJob
from lading.sources.ids import source_id
from lading.sources.locate import locate
from lading.sources.names import columns_from_name, name_columns
from lading.sources.schema import TableSchema, combined_hash, save_schema
from lading.sources.staging import stage
from lading.steps.look import digests_of, infer_columns, recipe_of
from lading.steps.work import Prepared, Work, now_text
from lading.storage.local import is_locked, locked


def prepare(work: Work) -> Prepared:
    """Digest what will be read, settle the schema, lay out links for Spark."""
    cfg, plan = work.look.config, work.look.plan
    digests = dict(plan.digests)
    missing = [file for file in plan.read if file.key not in digests]
    total = sum(file.size for file in missing)
    digests |= digests_of(cfg, missing, _counting(work, "bytes looked at", total))
    _refuse_undecodable(work, digests)
    columns = work.look.columns or _pin_schema(work)
    groups = stage(
        plan.read,
        folder=work.staging,
        format=cfg.format,
        read_options=cfg.read_options,
        columns=columns,
        name_values=columns_from_name(cfg.columns_from_name, plan.read) if cfg.columns_from_name else {},
    )
    return Prepared(columns, recipe_of(work.config, cfg, columns), digests, groups)


def ingest_job(work: Work, prepared: Prepared) -> IngestJob:
    cfg = work.look.config
    return IngestJob(
        table=work.name,
        table_dir=str(work.table.folder),
        table_id=work.table.table_id,
        run_id=work.run_id,
        commit_id=work.commit_id,
        format=cfg.format,
        read_options=cfg.read_options,
        columns=prepared.columns,
        name_columns=name_columns(cfg.columns_from_name),
        groups=prepared.groups,
        input_bytes=sum(file.size for file in work.look.plan.read),
        order_by=cfg.order_by,
        bucket_size=cfg.bucket_size,
        transform=str(work.config.project / cfg.transform) if cfg.transform else None,
        per=cfg.per,
        spark=work.config.spark.conf,
    )


def refuse_bad_rows(work: Work, ingested: Ingested) -> None:
    """`on_bad: fail`: the table commits nothing; the error names file, line, column and text."""
    if not ingested.bad_rows:
        return
    by_id = {source_id(file.key): file for file in work.look.plan.read}
    bad = ingested.bad[0]
    file = by_id.get(bad.source)
    key = file.key if file is not None else "an unknown file"
    line = (
        locate(file, bad, format=work.look.config.format, read_options=work.look.config.read_options)
        if file
        else None
    )
    more = f" ({ingested.bad_rows - 1:,} more bad rows)" if ingested.bad_rows > 1 else ""
    raise BadRows(
        f"{key}{f':{line}' if line else ''}: {bad.reason}{_shown_column(bad)}: {bad.text[:200]!r}{more}",
        hint=f"fix the row, or the type in schema/{work.name}.yaml; nothing was committed",
        table=work.name,
        file=key,
    )


@contextmanager
def staging(work: Work) -> Iterator[None]:
    """The run's folder of links for Spark: locked while in use, so that the next run can tell and drop
    one that a killed run left behind."""
    lock = work.staging.with_suffix(".lock")
    _sweep(work.staging.parent)
    try:
        with locked(lock):
            yield
    finally:
        shutil.rmtree(work.staging, ignore_errors=True)
        lock.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    for lock in folder.glob("*.lock"):
        if not is_locked(lock):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)


def _counting(work: Work, text: str, total: int) -> Callable[[int], None]:
    done = 0

    def tick(more: int) -> None:
        nonlocal done
        done += more
        work.watch.progress(work.name, text, done, total)

    return tick


def _refuse_undecodable(work: Work, digests: dict[str, Digest]) -> None:
    for file in work.look.plan.read:
        line = digests[file.key].bad_utf8_line
        if line is not None:
            raise BadRows(
                f"{file.key}:{line}: bytes that are not UTF-8",
                hint="set read_options.encoding (latin1, windows-1252, …) or fix the file",
                table=work.name,
                file=file.key,
            )


def _pin_schema(work: Work) -> tuple[Column, ...]:
    columns = infer_columns(work.look.config, work.look.found)
    hashes = {file.key: file.hash for file in work.look.found}
    schema = TableSchema(columns, now_text(), combined_hash(hashes))
    save_schema(work.config.schema_file(work.name), schema)
    return columns


def _shown_column(bad: BadRow) -> str:
    return f" in column {bad.column!r}" if bad.column else ""
