"""What a reader of a format gives for a file, put together from its blocks, whole or in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lading.formats.arrow_types import arrow_schema
from lading.formats.reader import WHOLE, Bad, Piece, Reader
from lading.formats.source_file import SourceFile
from lading.model import Column


def columns_of(text: str, *, inferred: bool = False) -> tuple[Column, ...]:
    """From `a bigint; b string`."""
    pairs = (one.strip().partition(" ") for one in text.split(";"))
    return tuple(Column(name, kind, inferred=inferred) for name, _, kind in pairs)


def source(folder: Path, content: bytes, name: str = "a.csv") -> SourceFile:
    path = folder / name
    path.write_bytes(content)
    return SourceFile(name, str(path), len(content))


@dataclass(slots=True)
class Seen:
    """All rows, with the number, line and text of each; bad ones; and how many there were."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    places: list[tuple[int, int, str]] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    records: int = 0
    lines: int = 0


def seen(
    reader: Reader, file: SourceFile, columns: Sequence[Column], pieces: Sequence[Piece] = (WHOLE,)
) -> Seen:
    found = Seen()
    for piece in pieces:
        records, lines = found.records, found.lines
        for rows in reader.rows(file, piece):
            assert rows.batch.schema == arrow_schema(columns)
            rows.batch.validate(full=True)
            found.rows += zip(*rows.batch.to_pydict().values(), strict=True) if columns else []
            texts = rows.texts(range(rows.batch.num_rows))
            assert rows.lines is not None and len(rows.records) == len(rows.lines) == rows.batch.num_rows
            places = zip(rows.records.tolist(), rows.lines.tolist(), texts, strict=True)
            found.places += [(records + number, lines + line, text) for number, line, text in places]
            found.bad += [
                Bad(records + bad.record, lines + (bad.line or 0), bad.column, bad.reason, bad.text)
                for bad in rows.bad
            ]
            found.records += rows.taken_records
            found.lines += rows.taken_lines
            assert rows.taken_records == rows.batch.num_rows + len(rows.bad)
    return found


def pieces_at(size: int, cuts: Sequence[int]) -> list[Piece]:
    """The pieces of a file of so many bytes that is cut there."""
    edges = sorted({cut for cut in cuts if 0 < cut < size})
    return [Piece(start, end) for start, end in zip([0, *edges], [*edges, None], strict=True)]
