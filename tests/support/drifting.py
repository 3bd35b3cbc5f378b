"""A project whose files gain, lose and retype columns, and an oracle that works out what it should hold.

The oracle reads the files with the csv and json modules and asks the schema file only which columns there
are and of which type: what a value becomes under a type is its own business.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
import yaml

import lading
from lading.config.file import load as load_config
from lading.run import RunReport, run

FORMATS = ("csv", "json", "parquet")
CONFIG = """\
tables:
  t:
    root: data
    path: "*.{format}"
    format: {format}
    drift: {drift}
    order_by: id
"""

Row = dict[str, Any]


class Drifting:
    def __init__(self, folder: Path, format: str, drift: str) -> None:
        self.folder = folder
        self.format = format
        self.drift = drift
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        (folder / "lading.yaml").write_text(CONFIG.format(format=format, drift=drift))

    @property
    def table(self) -> Path:
        return self.folder / "warehouse" / "t"

    def put(self, name: str, rows: list[Row], columns: list[str], at: int) -> None:
        path = self.data / f"{name}.{self.format}"
        if self.format == "csv":
            with open(path, "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows([["" if row.get(c) is None else row[c] for c in columns] for row in rows])
        elif self.format == "json":
            lines = [json.dumps({c: row.get(c) for c in columns}) + "\n" for row in rows]
            path.write_text("".join(lines))
        else:
            pq.write_table(pa.table({c: _array([row.get(c) for row in rows]) for c in columns}), path)
        os.utime(path, (1_600_000_000 + at, 1_600_000_000 + at))

    def delete(self, name: str) -> None:
        (self.data / f"{name}.{self.format}").unlink(missing_ok=True)

    def files(self) -> list[Path]:
        return sorted(self.data.iterdir())

    def run(self, **options: Any) -> RunReport:
        report = run(load_config(self.folder), allow_vanish=True, **options)
        if report.error is not None:
            raise report.error
        return report

    def columns(self) -> dict[str, str]:
        schema = yaml.safe_load((self.folder / "schema" / "t.yaml").read_text())
        return {column["name"]: column["type"] for column in schema["columns"]}

    def truth(self) -> Counter[tuple[Any, ...]]:
        columns = self.columns()
        rows: Counter[tuple[Any, ...]] = Counter()
        for path in self.files():
            source = xxhash.xxh3_64_intdigest(path.name.encode())
            source -= (source >> 63) << 64
            for row in self._rows(path):
                rows[(*(_as(row.get(name), kind) for name, kind in columns.items()), source)] += 1
        return rows

    def seen(self) -> Counter[tuple[Any, ...]]:
        with lading.open(self.table) as reader:
            table = reader.scan(columns=[*self.columns(), "_source"]).to_table()
        return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def published(self) -> bool:
        return (self.table / "_CURRENT").exists()

    def rebuilt(self, folder: Path) -> Drifting:
        """The same files, config and schema, and nothing else."""
        fresh = object.__new__(Drifting)
        fresh.folder, fresh.data, fresh.format, fresh.drift = folder, folder / "data", self.format, self.drift
        folder.mkdir(parents=True)
        shutil.copytree(self.data, fresh.data)
        shutil.copytree(self.folder / "schema", folder / "schema")
        shutil.copy2(self.folder / "lading.yaml", folder / "lading.yaml")
        return fresh

    def _rows(self, path: Path) -> list[Row]:
        if self.format == "csv":
            with open(path, newline="") as file:
                return [{k: v if v != "" else None for k, v in row.items()} for row in csv.DictReader(file)]
        if self.format == "json":
            return [json.loads(line) for line in path.read_text().splitlines()]
        return pq.read_table(path).to_pylist()


def _array(values: list[Any]) -> pa.Array:
    """Whole numbers that need no more are 32 bits wide, so that there is something to widen."""
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, int) and abs(value) < 2**31 for value in there):
        return pa.array(values, pa.int32())
    return pa.array(values, None if there else pa.int32())


def _as(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind in ("int", "bigint"):
        return int(value)
    if kind == "double":
        return float(value)
    assert kind == "string", kind
    return value if isinstance(value, str) else str(value)
