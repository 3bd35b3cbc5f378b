"""What a reader of a format gives for a file, put together from its blocks, whole or in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lading.formats.arrow_types import arrow_schema
from lading.formats.reader import WHOLE, Bad, Piece, Reader, ReadSpec
from lading.formats.registry import reader_of
from lading.formats.source_file import SourceFile
from lading.model import DRIFTS, Column, Format


@dataclass
class Seen:
    """All rows, with the number, line and text of each; bad ones; and how many there were."""

    table: pa.Table
    records: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # none where the format has none
    texts: list[str] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    taken: int = 0
    taken_lines: int = 0
    blocks: int = field(default=0, compare=False)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.table.to_pylist()

    @property
    def values(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.rows]

    @property
    def places(self) -> list[tuple[int, int, str]]:
        return list(zip(self.records, self.lines, self.texts, strict=True))


def columns_of(text: str, *, inferred: bool = False) -> tuple[Column, ...]:
    """`a bigint; b string`."""
    pairs = [one.strip().split(" ", 1) for one in text.split(";")]
    return tuple(Column(name, kind, inferred=inferred) for name, kind in pairs)


def spec_of(
    fmt: Format, columns: str, *, drift: str = "strict", inferred: bool = False, **options: Any
) -> ReadSpec:
    return ReadSpec(fmt, options, columns_of(columns, inferred=inferred), DRIFTS[drift])


def source(path: Path) -> SourceFile:
    return SourceFile(path.name, str(path), os.path.getsize(path) if path.exists() else 0)


def kept(folder: Path, content: bytes, name: str = "a.csv") -> Path:
    """A file of this content."""
    path = folder / name
    path.write_bytes(content)
    return path


def read(spec: ReadSpec, path: Path, *pieces: Piece, reader: Reader | None = None) -> Seen:
    """The file, or these pieces of it; rows and lines are numbered from the start of the first."""
    schema = arrow_schema(spec.columns)
    seen = Seen(schema.empty_table())
    batches = []
    for piece in pieces or (WHOLE,):
        records, lines = seen.taken, seen.taken_lines
        for rows in (reader or reader_of(spec)).rows(source(path), piece):
            rows.batch.validate(full=True)
            assert rows.batch.schema.equals(schema)
            assert len(rows.records) == rows.batch.num_rows == rows.taken_records - len(rows.bad)
            assert rows.lines is None or len(rows.lines) == rows.batch.num_rows
            batches.append(rows.batch)
            seen.records += (rows.records + records).tolist()
            seen.lines += [] if rows.lines is None else (rows.lines + lines).tolist()
            seen.texts += rows.texts(range(rows.batch.num_rows))
            seen.bad += (_further(bad, records, lines) for bad in rows.bad)
            seen.taken += rows.taken_records
            seen.taken_lines += rows.taken_lines
            seen.blocks += 1
    seen.table = pa.Table.from_batches(batches, schema)
    return seen


def _further(bad: Bad, records: int, lines: int) -> Bad:
    return replace(bad, record=bad.record + records, line=None if bad.line is None else bad.line + lines)


def pieces_of(size: int, cuts: Iterable[int]) -> list[Piece]:
    """The pieces of a file of so many bytes that is cut there."""
    ends = sorted({cut % (size + 1) for cut in cuts})
    return [
        Piece(start, end)
        for start, end in zip([0, *ends], [*ends, None], strict=True)
        if end is None or start < end
    ]
