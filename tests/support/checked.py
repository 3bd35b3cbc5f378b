"""A table with checks and a quarantine, and an oracle that knows which of its rows are good."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import lading
from lading.config.file import load as load_config
from lading.config.project import Config
from lading.run import RunReport, run

SCHEMA = """\
columns:
  - {name: id, type: bigint}
  - {name: tonnes, type: double}
  - {name: port, type: string}
"""

HEADER = "id,tonnes,port"


class Checked:
    """`data/*.csv` of ships; what `table` adds to the config is up to the test."""

    def __init__(self, folder: Path, table: str = "", *, top: str = "") -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        (folder / "schema").mkdir()
        (folder / "schema" / "ships.yaml").write_text(SCHEMA)
        self.configure(table, top=top)
        self._age = 100_000

    def configure(self, table: str = "", *, top: str = "") -> None:
        lines = "".join(f"    {line}\n" for line in table.splitlines())
        (self.folder / "lading.yaml").write_text(
            f"{top}tables:\n  ships:\n    root: data\n    path: '*.csv'\n    format: csv\n{lines}"
        )

    def put(self, key: str, *lines: str, header: str = HEADER) -> Path:
        """Write a file with a time of its own, long ago."""
        path = self.data / key
        path.write_text("\n".join([header, *lines]) + "\n")
        self._age -= 10
        stamp = path.stat().st_mtime - self._age
        os.utime(path, (stamp, stamp))
        return path

    @property
    def config(self) -> Config:
        return load_config(self.folder)

    @property
    def table(self) -> Path:
        return self.folder / "warehouse" / "ships"

    def run(self, **options: Any) -> RunReport:
        return run(self.config, allow_vanish=True, **options)

    def good(self, **options: Any) -> RunReport:
        report = self.run(**options)
        if report.error is not None:
            raise report.error
        return report

    def rows(self) -> Counter[tuple[Any, ...]]:
        """What readers see, by the name of the file."""
        with lading.open(self.table) as reader:
            keys = {source.id: source.key for source in reader.sources()}
            table = reader.scan(columns=["id", "tonnes", "port", "_source"]).to_table()
        return Counter((r["id"], r["tonnes"], r["port"], keys[r["_source"]]) for r in table.to_pylist())

    def aside(self, key: str | None = None) -> list[dict[str, Any]]:
        from lading.ingest.quarantine import show_aside

        return list(show_aside(self.config, "ships", key))

    def aside_files(self) -> list[str]:
        folder = self.table / "quarantine"
        return sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []
