"""A small project on disk, and an oracle that reads its files without lading and without Spark."""

from __future__ import annotations

import csv
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import xxhash

import lading
from lading.config.file import load as load_config
from lading.run import RunReport, run

CONFIG = """\
warehouse: warehouse
tables:
  events:
    root: data
    path: "**/*.csv"
    format: csv
    order_by: id
    bucket_size: {bucket_size}
    transform: transform.py:apply
    replace: {replace}
"""
SCHEMA = """\
columns:
  - {name: id, type: bigint}
  - {name: day, type: date}
  - {name: note, type: string}
"""
TRANSFORM = """\
from pyspark.sql import functions as F


def apply(df, context):
    return df.withColumn("note", F.concat(F.col("note"), F.lit("{mark}")))
"""

Row = tuple[int, str, str | None, int]


class Project:
    """`data/` holds the sources; `mark` and `bucket_size` make the recipe, `replace` is no part of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.mark = ""
        self.bucket_size = 10
        self.replace = "auto"
        self.data.mkdir(parents=True)
        (folder / "schema").mkdir()
        (folder / "schema" / "events.yaml").write_text(SCHEMA)
        self.write_recipe()

    def write_recipe(self) -> None:
        (self.folder / "transform.py").write_text(TRANSFORM.replace("{mark}", self.mark))
        text = CONFIG.format(bucket_size=self.bucket_size, replace=self.replace)
        (self.folder / "lading.yaml").write_text(text)

    @property
    def table(self) -> Path:
        return self.folder / "warehouse" / "events"

    def put(
        self, key: str, rows: list[tuple[int, int, str]], *, turned: bool = False, age: float = 10.0
    ) -> Path:
        """Write a source file; `turned` puts its columns in another order. Old enough not to be racy."""
        path = self.data / key
        path.parent.mkdir(parents=True, exist_ok=True)
        order = (2, 0, 1) if turned else (0, 1, 2)
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([("id", "day", "note")[i] for i in order])
            for number, day, note in rows:
                writer.writerow([(number, f"2024-01-{day:02d}", note)[i] for i in order])
        stamp = path.stat().st_mtime - age
        os.utime(path, (stamp, stamp))
        return path

    def keys(self) -> list[str]:
        return sorted(str(p.relative_to(self.data)) for p in self.data.rglob("*.csv"))

    def run(self, **options: object) -> RunReport:
        report = run(load_config(self.folder), allow_vanish=True, **options)  # type: ignore[arg-type]
        if report.error is not None:
            raise report.error
        return report

    def truth(self) -> Counter[Row]:
        """What a rebuild from nothing has to give, worked out by the csv module alone."""
        rows: Counter[Row] = Counter()
        for key in self.keys():
            source = xxhash.xxh3_64_intdigest(key.encode())
            source -= (source >> 63) << 64
            with open(self.data / key, newline="") as file:
                for row in csv.DictReader(file):
                    note = row["note"] + self.mark if row["note"] else None
                    rows[int(row["id"]), row["day"], note, source] += 1
        return rows

    def open(self, **which: Any) -> lading.Reader:
        return lading.open(self.table, **which)

    def seen(self) -> Counter[Row]:
        """What readers see now."""
        with self.open() as reader:
            table = reader.scan(columns=["id", "day", "note", "_source"]).to_table()
        columns = [table.column(i).to_pylist() for i in range(4)]
        return Counter((a, str(b), c, d) for a, b, c, d in zip(*columns, strict=True))

    def published(self) -> bool:
        return (self.table / "_CURRENT").exists()

    def rebuilt(self, folder: Path) -> Project:
        """The same sources and recipe, nothing else."""
        folder.mkdir(parents=True)
        for name in ("data", "schema"):
            shutil.copytree(self.folder / name, folder / name)
        for name in ("lading.yaml", "transform.py"):
            shutil.copy2(self.folder / name, folder / name)
        fresh = object.__new__(Project)
        fresh.folder, fresh.data = folder, folder / "data"
        fresh.mark, fresh.bucket_size = self.mark, self.bucket_size
        fresh.replace = self.replace
        return fresh
