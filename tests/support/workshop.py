"""A workshop for tests of an ingest: lays files out, runs the tasks, reads the parts back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lading.checks.tally import CheckSpec
from lading.formats.reader import ReadSpec
from lading.formats.source_file import SourceFile
from lading.ingest.tasks.execute import execute
from lading.ingest.tasks.outcome import Ingested
from lading.ingest.tasks.splits import FilePiece, make_tasks
from lading.ingest.tasks.task import Ingest
from lading.model import STRICT, Column, IngestJob, Place
from lading.parts.cut import Limits
from lading.parts.footer import Origin
from lading.parts.task import TaskSpec

_OF_READING = ("format", "read_options", "layout", "policy")
_OF_TASKS = ("cores", "memory", "limits", "reject")


@dataclass
class Laid:
    """Files by source, and what their names say."""

    paths: dict[int, Path] = field(default_factory=dict)
    names: dict[int, dict[str, str | None]] = field(default_factory=dict)


class Workshop:
    def __init__(self, folder: Path, spark: Any = None) -> None:
        """Without `spark` everything runs in this process."""
        self.folder = folder
        self.spark = spark
        self._laid = 0

    def stage(
        self,
        files: Mapping[int, str | bytes],
        *,
        ext: str = "csv",
        names: Mapping[str, str | None] | None = None,
    ) -> Laid:
        self._laid += 1
        laid = Laid()
        for source, content in files.items():
            path = self.folder / "data" / f"g{self._laid}" / f"_the file {source}.{ext}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            laid.paths[source] = path
            laid.names[source] = dict(names or {})
        return laid

    def csv(self, *contents: str) -> list[Laid]:
        """Each content is a file of its own, sources 1, 2, …"""
        return [self.stage({number: content}) for number, content in enumerate(contents, start=1)]

    def job(self, files: Sequence[Laid], columns: str, **changes: Any) -> IngestJob:
        settings: dict[str, Any] = {
            "table": "t",
            "table_dir": Place(str(self.folder / "warehouse" / "t")),
            "table_id": "table-1",
            "run_id": "run-1",
            "commit_id": "commit-1",
            "columns": columns_of(columns),
            "sources": frozenset(source for laid in files for source in laid.paths),
            "input_bytes": sum(os.path.getsize(path) for laid in files for path in laid.paths.values()),
        }
        return IngestJob(**(settings | changes))

    def plan(self, job: IngestJob, files: Sequence[Laid], **settings: Any) -> Ingest:
        """What the tasks are told."""
        names = tuple(dict.fromkeys(name for laid in files for one in laid.names.values() for name in one))
        reading = ReadSpec(
            settings.get("format", "csv"),
            settings.get("read_options", {}),
            tuple(column for column in job.columns if column.name not in names),
            settings.get("policy", STRICT),
            settings.get("layout"),
            names,
        )
        pieces = [
            FilePiece(
                SourceFile(path.name, str(path), os.path.getsize(path)),
                source,
                names=tuple(laid.names[source].get(name) for name in names),
            )
            for laid in files
            for source, path in laid.paths.items()
            if os.path.getsize(path)
        ]
        return Ingest(
            reading=reading,
            columns=job.columns,
            writing=TaskSpec(
                table_dir=job.table_dir,
                origin=Origin(job.table_id, job.run_id, job.commit_id, job.order_by),
                schema=b"",
                bucket_size=None,
                memory=settings.get("memory", 256 << 20),
                limits=settings.get("limits") or Limits(),
            ),
            order_by=job.order_by,
            checks=job.checks,
            judging=CheckSpec.of(job.row_checks, quarantine=job.quarantine, more=settings.get("reject")),
            quarantine=job.quarantine,
            keys={piece.source: piece.file.key for piece in pieces},
            table=job.table,
            tasks=tuple(make_tasks(pieces, reading, settings.get("cores", 1))),
        )

    def ingest(self, files: Sequence[Laid], columns: str, **changes: Any) -> Ingested:
        of_tasks = {name: changes.pop(name) for name in (*_OF_READING, *_OF_TASKS) if name in changes}
        job = self.job(files, columns, **changes)
        plan = self.plan(job, files, **of_tasks)
        return execute(job, plan, lambda: self.spark, in_process=self.spark is None)

    def table(self, ingested: Ingested) -> pa.Table:
        """All rows, part after part in the order of the members."""
        schema = pa.ipc.read_schema(pa.py_buffer(ingested.schema))
        tables = [self.part(member.path) for member in ingested.members]
        return pa.concat_tables([schema.empty_table(), *tables])

    def rows(self, ingested: Ingested) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table(ingested).to_pylist()
        return found

    def aside(self, ingested: Ingested) -> list[dict[str, Any]]:
        """The bad rows that were kept, as they lie in their files."""
        pieces = [piece for several in ingested.aside.values() for piece in several]
        return [row for piece in pieces for row in self.part(piece.path).to_pylist()]

    def part(self, path: str) -> pa.Table:
        with pq.ParquetFile(self.folder / "warehouse" / "t" / path) as file:
            return file.read().replace_schema_metadata(None)

    def transform(self, body: str, name: str = "clean") -> str:
        """A transform file whose function is `name`; `F` is at hand."""
        path = self.folder / "transform.py"
        lines = "\n".join("    " + line for line in body.splitlines())
        path.write_text(f"from pyspark.sql import functions as F\n\n\ndef {name}(df, context):\n{lines}\n")
        return f"{path}:{name}"


def columns_of(text: str) -> tuple[Column, ...]:
    """`a bigint; b string`."""
    return tuple(Column(*item.strip().split(" ", 1)) for item in text.split(";"))
