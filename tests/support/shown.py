"""A small project without Spark whose table Iceberg engines read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lading.cli.main import invoke
from lading.config.file import load
from lading.config.project import Config
from lading.run import TableReport, run

CONFIG = """\
spark: {{in_process_below: 1GB}}
warehouse: {warehouse}
tables:
  t:
    root: data
    path: '*.{format}'
    format: {format}
    order_by: id
    bucket_size: 10
    drift: evolve
    {more}
"""


class Shown:
    def __init__(
        self, folder: Path, *, format: str = "csv", more: str = "replace: minus", warehouse: str = "warehouse"
    ) -> None:
        self.folder = folder
        self.format, self.more, self.warehouse = format, more, warehouse
        (folder / "data").mkdir(parents=True)
        self.configure()

    @classmethod
    def at(cls, folder: Path, *, format: str = "csv") -> Shown:
        """One that is there."""
        found = object.__new__(cls)
        found.folder, found.format, found.more, found.warehouse = (
            folder,
            format,
            "replace: minus",
            "warehouse",
        )
        return found

    def rewritten(self) -> None:
        assert invoke(["-C", str(self.folder), "iceberg", "t", "--rewrite"]) == 0

    def configure(self, more: str | None = None) -> None:
        self.more = self.more if more is None else more
        text = CONFIG.format(format=self.format, more=self.more, warehouse=self.warehouse)
        (self.folder / "lading.yaml").write_text(text)

    @property
    def config(self) -> Config:
        return load(self.folder)

    @property
    def table(self) -> Path:
        return self.folder / "warehouse" / "t"

    @property
    def metadata(self) -> Path:
        return self.table / "metadata"

    @property
    def hint(self) -> str:
        return (self.metadata / "version-hint.text").read_text()

    def put(self, name: str, rows: str | bytes) -> None:
        path = self.folder / "data" / f"{name}.{self.format}"
        path.write_bytes(rows.encode() if isinstance(rows, str) else rows)
        stamp = path.stat().st_mtime - 10
        os.utime(path, (stamp, stamp))

    def drop(self, name: str) -> None:
        (self.folder / "data" / f"{name}.{self.format}").unlink()

    def run(self, **more: Any) -> TableReport:
        report = run(self.config, allow_vanish=True, **more)
        assert not report.spark_started
        if report.error is not None:
            raise report.error
        return report.tables[0]


def lines(numbers: range, columns: str = "id,a", *, a: Any = lambda number: number) -> str:
    return f"{columns}\n" + "".join(f"{number},{a(number)}\n" for number in numbers)
