"""The formats, by the names that lading.yaml has for them. A new one is a line here, its name in model.py and
its options in config/options.py. A module is imported when one of its files is read."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lading.formats.reader import Reader, ReadSpec
from lading.formats.source_file import SourceFile
from lading.formats.typed import FileTypes
from lading.model import Format

_MODULES: dict[Format, str] = {
    "csv": "csv.rows",
    "tsv": "csv.rows",
    "json": "json.rows",
    "parquet": "parquet",
    "orc": "orc",
    "avro": "avro.rows",
    "excel": "excel.rows",
    "fixed_width": "fixed_width.rows",
}


def reader_of(spec: ReadSpec) -> Reader:
    """The module's `reader`."""
    made: Reader = _module(spec.format).reader(spec)
    return made


def may_be_cut(spec: ReadSpec, path: str) -> bool:
    """Whether pieces of a file can be read by themselves: the module's `may_be_cut`."""
    return bool(_module(spec.format).may_be_cut(spec, path))


def file_types(fmt: Format, file: SourceFile) -> FileTypes:
    """Of a format whose files have types: the module's `types`."""
    found: FileTypes = _module(fmt).types(file)
    return found


def _module(fmt: Format) -> Any:
    return import_module(f"lading.formats.{_MODULES[fmt]}")
