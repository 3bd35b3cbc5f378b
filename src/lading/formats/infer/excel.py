"""What a workbook holds, from what its cells are: nothing is guessed from text, unless lading.yaml says how
the texts of a column are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

import pyarrow as pa

from lading.formats.evidence import FileEvidence
from lading.formats.excel.cells import Cell, kind_of, text_of
from lading.formats.excel.rows import Clean, Table, open_table
from lading.formats.excel.sheet import Row
from lading.formats.infer.delimited import numbered
from lading.formats.infer.kinds import STRING, Kinds
from lading.formats.infer.tally import Tally
from lading.formats.plain import are_plain_fractions
from lading.formats.reader import ReadSpec
from lading.formats.source_file import SourceFile

_ROWS = 5_000  # that are looked at together
_PLAIN = frozenset({"boolean", "bigint", "date"})


def look_at_workbook(file: SourceFile, spec: ReadSpec) -> FileEvidence:
    """Columns of the spec are those of a sheet without a header, if somebody gave them names."""
    table = open_table(file, spec.options, spec.naming)
    if table is None:
        return FileEvidence(0, ())
    names, rows = _named(table, tuple(column.name for column in spec.columns) or None)
    looks = [_Look.of(name, spec) for name in names]
    count = 0
    while block := list(islice(rows, _ROWS)):
        places = [(count + at, row.number) for at, row in enumerate(block, start=1)]
        for place, one in enumerate(looks, start=table.left):
            one.see([row.cells[place] if place < len(row.cells) else None for row in block], places)
        count += len(block)
    return FileEvidence(count, tuple(one.tally.evidence(one.name) for one in looks))


def _named(table: Table, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], Iterator[Row]]:
    """The columns, and the rows. Where nobody named them, there are as many as the first row has cells."""
    if table.names is not None or names is not None:
        return table.names or names or (), table.rows
    first = next(table.rows, None)
    if first is None:
        return (), table.rows
    width = max(place for place, cell in enumerate(first.cells) if cell is not None or place in first.errors)
    return numbered(width + 1), chain([first], table.rows)


@dataclass(frozen=True, slots=True)
class _Look:
    """At the cells of one column."""

    name: str
    clean: Clean
    tally: Tally
    reads_texts: bool  # whether lading.yaml says how texts are read

    @classmethod
    def of(cls, name: str, spec: ReadSpec) -> _Look:
        rule = next((rule for rule in spec.rules if rule.name == name), None)
        clean = Clean.of(spec.options, None if rule is None else rule.nulls)
        kinds = Kinds() if rule is None else Kinds.of({}, rule)
        return cls(name, clean, Tally(kinds), rule is not None and rule.reads_texts)

    def see(self, cells: list[Cell | None], places: list[tuple[int, int]]) -> None:
        found: dict[str, list[int]] = {}
        cells = [self.clean(cell) for cell in cells]
        for at, cell in enumerate(cells):
            if cell is not None:
                found.setdefault(kind_of(cell), []).append(at)
        self.tally.nulls += len(cells) - sum(map(len, found.values()))
        for kind, some in found.items():
            values = [cells[at] for at in some]
            texts = pa.array([text_of(value) for value in values if value is not None])
            if kind == STRING and self.reads_texts:
                self.tally.see_texts(texts, lambda at, some=some: places[some[at]])  # type: ignore[misc]
                continue
            first = (*places[some[0]], texts[0].as_py())
            plain = kind in _PLAIN or (kind == "double" and are_plain_fractions(texts))
            self.tally.add(kind, len(some), lambda first=first: first, plain=plain)  # type: ignore[misc]
            if kind == STRING:
                self.tally.measure(texts)
