"""What a workbook holds, from what its cells are: nothing is guessed from text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from lading.formats.evidence import FileEvidence
from lading.formats.excel.cells import Cell, kind_of, text_of
from lading.formats.excel.rows import Clean, Table, open_table
from lading.formats.excel.sheet import Row
from lading.formats.infer.delimited import numbered
from lading.formats.infer.kinds import STRING, Kinds
from lading.formats.infer.tally import Tally
from lading.formats.plain import are_plain_fractions
from lading.formats.source_file import SourceFile

_ROWS = 5_000  # that are looked at together
_PLAIN = frozenset({"boolean", "bigint", "date"})


def look_at_workbook(
    file: SourceFile, options: Mapping[str, Any], names: tuple[str, ...] | None
) -> FileEvidence:
    """`names` are those of a sheet without a header."""
    table = open_table(file, options)
    if table is None:
        return FileEvidence(0, ())
    names, rows = _named(table, names)
    clean = Clean.of(options)
    tallies = [Tally(Kinds()) for _ in names]
    count = 0
    while block := list(islice(rows, _ROWS)):
        for place, tally in enumerate(tallies, start=table.left):
            cells = [clean(row.cells[place]) if place < len(row.cells) else None for row in block]
            _see(tally, cells, [(count + at, row.number) for at, row in enumerate(block, start=1)])
        count += len(block)
    return FileEvidence(count, tuple(t.evidence(name) for name, t in zip(names, tallies, strict=True)))


def _named(table: Table, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], Iterator[Row]]:
    """The columns, and the rows. Where nobody named them, there are as many as the first row has cells."""
    if table.names is not None or names is not None:
        return table.names or names or (), table.rows
    first = next(table.rows, None)
    if first is None:
        return (), table.rows
    width = max(place for place, cell in enumerate(first.cells) if cell is not None or place in first.errors)
    return numbered(width + 1), chain([first], table.rows)


def _see(tally: Tally, cells: list[Cell | None], places: list[tuple[int, int]]) -> None:
    found: dict[str, list[int]] = {}
    for at, cell in enumerate(cells):
        if cell is not None:
            found.setdefault(kind_of(cell), []).append(at)
    tally.nulls += len(cells) - sum(map(len, found.values()))
    for kind, some in found.items():
        values = [cells[at] for at in some]
        texts = pa.array([text_of(value) for value in values if value is not None])
        first = (*places[some[0]], texts[0].as_py())
        plain = kind in _PLAIN or (kind == "double" and are_plain_fractions(texts))
        tally.add(kind, len(some), lambda first=first: first, plain=plain)  # type: ignore[misc]
        if kind == STRING:
            tally.measure(texts)
