"""What one file says of its columns: a pass over it of its own, whose findings are kept (evidence.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lading.formats.evidence import FileEvidence
from lading.formats.source_file import SourceFile
from lading.model import Format


@dataclass(frozen=True, slots=True)
class LookSpec:
    """How to look at the files of a table; travels to the workers."""

    format: Format
    options: Mapping[str, Any]  # the table's read_options
    names: tuple[str, ...] | None = None  # of files without a header; None: column_1, column_2, …
    limit: int | None = None  # bytes of each file


def look(file: SourceFile, spec: LookSpec) -> FileEvidence:
    """SourceError for a file that can't be read."""
    raise NotImplementedError
