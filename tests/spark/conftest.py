"""A workshop for pipeline tests: stages files the way the sources stage does, runs an ingest, reads back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lading.model import Column, Ingested, IngestJob, StagedGroup
from lading.spark.ingest import ingest


class Workshop:
    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder
        self.spark = spark
        self._groups = 0

    def stage(
        self,
        files: dict[int, str | bytes],
        header: Sequence[str] | None = None,
        *,
        below: str = "",
        ext: str = "csv",
    ) -> StagedGroup:
        self._groups += 1
        group = self.folder / "staged" / f"g{self._groups}"
        (group / below).mkdir(parents=True)
        for source, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            original = self.folder / "data" / f"g{self._groups}" / f"_the file {source}"
            original.parent.mkdir(parents=True, exist_ok=True)
            original.write_bytes(data)
            (group / below / f"s{source}.{ext}").symlink_to(original)
        return StagedGroup(str(group), tuple(header) if header else None, tuple(files))

    def csv(self, *contents: str) -> list[StagedGroup]:
        """Each content is a file of its own, sources 1, 2, …; a group each."""
        return [
            self.stage({number: content}, content.split("\n", 1)[0].split(","))
            for number, content in enumerate(contents, start=1)
        ]

    def job(self, groups: Sequence[StagedGroup], columns: str, **changes: Any) -> IngestJob:
        pinned = tuple(Column(*item.strip().split(" ", 1)) for item in columns.split(";"))
        settings: dict[str, Any] = {
            "table": "t",
            "table_dir": str(self.folder / "warehouse" / "t"),
            "table_id": "table-1",
            "run_id": "run-1",
            "commit_id": "commit-1",
            "format": "csv",
            "read_options": {},
            "columns": pinned,
            "name_columns": (),
            "groups": tuple(groups),
            "input_bytes": 1000,
        }
        return IngestJob(**(settings | changes))

    def ingest(self, groups: Sequence[StagedGroup], columns: str, **changes: Any) -> Ingested:
        return ingest(self.spark, self.job(groups, columns, **changes), None)

    def table(self, ingested: Ingested) -> pa.Table:
        """All rows, part after part in the order of the members."""
        schema = pa.ipc.read_schema(pa.py_buffer(ingested.schema))
        tables = [self.part(member.path) for member in ingested.members]
        return pa.concat_tables([schema.empty_table(), *tables])

    def part(self, path: str) -> pa.Table:
        with pq.ParquetFile(self.folder / "warehouse" / "t" / path) as file:
            return file.read().replace_schema_metadata(None)

    def transform(self, body: str, name: str = "clean") -> str:
        """A transform file whose function is `name`; `F` is at hand."""
        path = self.folder / "transform.py"
        lines = "\n".join("    " + line for line in body.splitlines())
        path.write_text(f"from pyspark.sql import functions as F\n\n\ndef {name}(df, context):\n{lines}\n")
        return f"{path}:{name}"


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(tmp_path, spark)


@pytest.fixture
def rows_of(shop: Workshop) -> Callable[[Ingested], list[dict[str, Any]]]:
    return lambda ingested: shop.table(ingested).to_pylist()
