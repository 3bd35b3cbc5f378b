"""What one file says of its columns: a pass over it of its own, whose findings are kept (evidence.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lading.config.names import EXACT, Naming
from lading.formats.evidence import FileEvidence
from lading.formats.infer.delimited import look_at_delimited
from lading.formats.infer.excel import look_at_workbook
from lading.formats.infer.json import look_at_json
from lading.formats.infer.typed import look_at_types
from lading.formats.reader import ReadSpec
from lading.formats.source_file import SourceFile
from lading.model import TYPED, Column, ColumnRule, Format


@dataclass(frozen=True, slots=True)
class LookSpec:
    """How to look at the files of a table; travels to the workers."""

    format: Format
    options: Mapping[str, Any]  # the table's read_options
    names: tuple[str, ...] | None = None  # of files without a header; None: column_1, column_2, …
    limit: int | None = None  # bytes of each file of text
    naming: Naming = EXACT  # what the headers of files are called in the table
    rules: tuple[ColumnRule, ...] = ()  # what lading.yaml says of single columns


def look(file: SourceFile, spec: LookSpec) -> FileEvidence:
    """SourceError for a file that can't be read."""
    assert spec.format != "fixed_width", "its columns are in the spec"
    columns = tuple(Column(name, "string") for name in spec.names or ())
    # What stands in place of a null says nothing of the file.
    rules = tuple(replace(rule, default=None) for rule in spec.rules)
    reading = ReadSpec(spec.format, spec.options, columns, naming=spec.naming, rules=rules)
    if spec.format in TYPED:
        return look_at_types(file, reading)
    if spec.format == "json":
        return look_at_json(file, reading, spec.limit)
    if spec.format == "excel":
        return look_at_workbook(file, reading)
    return look_at_delimited(file, reading, spec.limit)
