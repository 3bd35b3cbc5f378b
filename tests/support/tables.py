"""A project of several small tables whose files come and go, and the same project built from nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import yaml

import lading
from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.run import RunReport, TableReport, run


class Tables:
    def __init__(self, folder: Path, **tables: dict[str, Any]) -> None:
        self.folder = folder
        self.tables = tables
        folder.mkdir(parents=True, exist_ok=True)
        self.configure()

    def configure(self, **changes: Any) -> None:
        """Write lading.yaml, with some settings changed in every table."""
        for name in self.tables:
            self.tables[name] = {"root": f"data/{name}", "path": "*"} | self.tables[name] | changes
            (self.folder / "data" / name).mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump({"tables": self.tables}, sort_keys=False)
        (self.folder / "lading.yaml").write_text(text)

    def put(self, table: str, file: str, data: str | bytes, at: int = 0) -> None:
        path = self.folder / "data" / table / file
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        os.utime(path, (1_700_000_000 + at, 1_700_000_000 + at))

    def run(self, *names: str, **options: Any) -> dict[str, TableReport]:
        report: RunReport = run(load_config(self.folder), names, allow_vanish=True, **options)
        return {one.table: one for one in report.tables}

    def succeed(self, *names: str, **options: Any) -> dict[str, TableReport]:
        reports = self.run(*names, **options)
        for report in reports.values():
            if report.error is not None:
                raise report.error
        return reports

    def lading(self, *args: str) -> int:
        return invoke(["-C", str(self.folder), *args])

    def schema_file(self, table: str) -> Path:
        return self.folder / "schema" / f"{table}.yaml"

    def schema(self, table: str) -> dict[str, Any]:
        return yaml.safe_load(self.schema_file(table).read_text())

    def types(self, table: str) -> dict[str, str]:
        return {column["name"]: column["type"] for column in self.schema(table)["columns"]}

    def rows(self, table: str) -> list[dict[str, Any]]:
        with lading.open(self.folder / "warehouse" / table) as reader:
            found = reader.scan().to_table().to_pylist()
        return sorted(found, key=repr)

    def from_nothing(self, folder: Path) -> Tables:
        """The same files and config, and nothing else: no schema either."""
        folder.mkdir(parents=True)
        shutil.copytree(self.folder / "data", folder / "data")
        fresh = Tables(folder, **self.tables)
        fresh.succeed()
        return fresh
