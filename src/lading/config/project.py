"""What a project is, once its lading.yaml has been read: typed, whole and never changed."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lading.config.archives import ArchiveLimits, Preprocess
from lading.config.clean import Keep
from lading.config.derived import Derived
from lading.config.gate import Gate
from lading.config.names import EXACT, Naming
from lading.config.serve import Serve
from lading.config.signals import OpenLineage
from lading.config.stores import PostgresNames
from lading.errors import NotFound
from lading.layout.project import schema_file, source_manifest
from lading.model import STRICT, Check, ColumnRule, Format, OnBad, Place, Policy, Threshold


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """Where Spark runs and what it is told."""

    master: str = field(default="local[*]", repr=False)  # may hold a token: never shown
    conf: dict[str, str] = field(default_factory=dict, repr=False)  # as may these
    in_process_below: int = 0  # bytes of input below which a run reads them in this process, without Spark


@dataclass(frozen=True, slots=True)
class TableConfig:
    """One table of lading.yaml."""

    name: str
    root: Path  # absolute
    path: str  # a glob, relative to the root
    format: Format
    read_options: dict[str, Any] = field(default_factory=dict)
    columns_from_name: str | None = None
    order_by: str | None = None
    bucket_size: int | str | None = None
    fingerprint: Literal["fast", "full"] = "fast"
    transform: str | None = None  # "transforms/voyages.py:clean", relative to the project
    per: Literal["file", "table"] = "file"
    on_bad: OnBad = "fail"
    policy: Policy = STRICT
    naming: Naming = EXACT  # what the headers of files are called in the table
    rules: tuple[ColumnRule, ...] = ()  # of single columns, in the order of lading.yaml
    url: str | None = None  # s3://bucket/prefix: then `root` is where its objects are copied to
    inside: str | None = None  # a glob, relative to the top of each archive
    password_file: Path | None = None
    preprocess: Preprocess | None = None
    replace: Literal["auto", "rewrite", "minus"] = "auto"  # what happens to parts that hold other rows too
    gate: Gate | None = None
    serve: Serve | None = None
    checks: tuple[Check, ...] = ()  # the project's included
    max_bad: Threshold | None = None  # beyond it, what is set aside stops the run
    iceberg: bool = True  # whether every snapshot is written as Iceberg metadata too
    spec: str | None = None  # "specs/ships.yaml", relative to the project: where fixed-width columns are
    derived: Derived | None = None  # how it is made of other tables; None: of files


@dataclass(frozen=True, slots=True)
class Config:
    """A project: a folder with lading.yaml."""

    project: Path  # absolute
    warehouse: Place  # an absolute path, or in a bucket
    cache: Path
    spark: SparkConfig
    tables: dict[str, TableConfig]
    file: Path
    store: str | None = field(default=None, repr=False)  # a URL or an absolute path; None: with the data
    s3: dict[str, str] = field(default_factory=dict, repr=False)  # may hold keys: never shown
    postgres: PostgresNames = field(default_factory=PostgresNames)
    archives: ArchiveLimits = field(default_factory=ArchiveLimits)
    clean: Keep = field(default_factory=Keep)
    metrics_file: Path | None = None  # absolute: for Prometheus' textfile collector
    openlineage: OpenLineage | None = None

    def table(self, name: str) -> TableConfig:
        if name in self.tables:
            return self.tables[name]
        near = difflib.get_close_matches(name, self.tables, n=len(self.tables) or 1, cutoff=0.0)
        raise NotFound(
            f"there is no table {name!r} in {self.file}",
            hint=f"the tables are: {', '.join(near)}",
            table=name,
            file=str(self.file),
        )

    @property
    def graph(self) -> dict[str, Derived | None]:
        """Which table is made of which."""
        return {name: table.derived for name, table in self.tables.items()}

    def place(self, name: str) -> Place:
        """Where a table lies."""
        return self.warehouse.below(name)

    def source_manifest(self, name: str) -> Path:
        return self.project / source_manifest(name)

    def schema_file(self, name: str) -> Path:
        return self.project / schema_file(name)
