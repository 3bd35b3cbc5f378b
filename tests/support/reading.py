"""What a reader of a format gives for a file, put together."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
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
    table: pa.Table
    records: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    taken: int = 0
    taken_lines: int = 0
    blocks: int = 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.table.to_pylist()


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


def read(spec: ReadSpec, path: Path, piece: Piece = WHOLE, reader: Reader | None = None) -> Seen:
    seen = Seen(arrow_schema(spec.columns).empty_table())
    batches = []
    for rows in (reader or reader_of(spec)).rows(source(path), piece):
        rows.batch.validate(full=True)
        assert rows.batch.schema.equals(arrow_schema(spec.columns))
        assert rows.taken_records == rows.batch.num_rows + len(rows.bad) == len(rows.records) + len(rows.bad)
        batches.append(rows.batch)
        seen.records += rows.records.tolist()
        seen.lines += [] if rows.lines is None else rows.lines.tolist()
        seen.texts += rows.texts(range(rows.batch.num_rows))
        seen.bad += rows.bad
        seen.taken += rows.taken_records
        seen.taken_lines += rows.taken_lines
        seen.blocks += 1
    seen.table = pa.Table.from_batches(batches, arrow_schema(spec.columns))
    return seen


def pieces_of(size: int, cuts: list[int]) -> list[Piece]:
    ends = sorted({cut % (size + 1) for cut in cuts})
    return [
        Piece(start, end)
        for start, end in zip([0, *ends], [*ends, None], strict=True)
        if end is None or start < end
    ]
