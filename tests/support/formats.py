"""Projects of many small tables, each an awkward file or two; one run for all of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import lading
from lading.config.file import load as load_config
from lading.errors import LadingError
from lading.ingest.quarantine import show_aside
from lading.run import run


@dataclass
class Case:
    """A table: its files, how lading.yaml describes it, and what is expected of it."""

    name: str
    files: dict[str, bytes]
    want: Any  # rows as tuples, sorted; or what the error says
    format: str = "csv"
    options: dict[str, Any] = field(default_factory=dict)
    schema: str | None = None  # "a bigint, b string"
    types: str | None = None  # what is to be inferred
    spec: dict[str, Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


class Project:
    def __init__(self, folder: Path, cases: list[Case]) -> None:
        self.folder = folder
        self._errors: dict[str, LadingError | None] = {}
        tables = {case.name: self._table(case) for case in cases}
        text = yaml.safe_dump({"tables": tables}, sort_keys=False, allow_unicode=True)
        (folder / "lading.yaml").write_text(text, encoding="utf-8")
        report = run(load_config(folder))
        self._errors = {table.table: table.error for table in report.tables}

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        error = self._errors[name]
        if error is not None:
            raise error
        return sorted(self._table_of(name), key=repr)

    def types(self, name: str) -> str:
        schema = yaml.safe_load((self.folder / "schema" / f"{name}.yaml").read_text(encoding="utf-8"))
        return ", ".join(f"{column['name']} {column['type']}" for column in schema["columns"])

    def error(self, name: str) -> LadingError:
        error = self._errors[name]
        assert error is not None, f"{name} loaded: {self._table_of(name)}"
        return error

    def aside(self, name: str) -> list[dict[str, Any]]:
        return list(show_aside(load_config(self.folder), name))

    def _table_of(self, name: str) -> list[tuple[Any, ...]]:
        with lading.open(self.folder / "warehouse" / name) as reader:
            table = reader.scan().to_table().drop_columns(["_source"])
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _table(self, case: Case) -> dict[str, Any]:
        for name, data in case.files.items():
            path = self.folder / "data" / case.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (1_700_000_000, 1_700_000_000))
        table: dict[str, Any] = {"root": f"data/{case.name}", "path": "**/*", "format": case.format}
        if case.options:
            table["read_options"] = case.options
        if case.spec is not None:
            spec = self.folder / "specs" / f"{case.name}.yaml"
            spec.parent.mkdir(exist_ok=True)
            spec.write_text(yaml.safe_dump(case.spec))
            table["spec"] = f"specs/{case.name}.yaml"
        if case.schema is not None:
            (self.folder / "schema").mkdir(exist_ok=True)
            columns = [
                dict(zip(("name", "type"), c.split(" ", 1), strict=True)) for c in case.schema.split("; ")
            ]
            (self.folder / "schema" / f"{case.name}.yaml").write_text(yaml.safe_dump({"columns": columns}))
        return table | case.settings
