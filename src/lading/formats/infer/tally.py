"""What is counted of a column while its file goes by: values of each kind, and where the first of them is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.evidence import EMPTY, SHOWN, ColumnEvidence, Seen
from lading.formats.infer.classify import BOOLEAN, DOUBLE, Spelling, classify
from lading.formats.infer.kinds import LONG, STRING, Kinds
from lading.formats.plain import are_plain_fractions

Place = Callable[[int], tuple[int, int]]  # of a value: its row and its line, from its place in the array

_SURELY_PLAIN = frozenset({"bigint", LONG})
_SMALL_LETTERS = ord("a")
_NOT_ASCII = 0x80


@dataclass(slots=True)
class _Kind:
    count: int
    row: int
    line: int
    value: str
    plain: bool


class Tally:
    """Of one column in one file."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._seen: dict[str, _Kind] = {}
        self._least: int | None = None
        self._most = 0
        self.nulls = 0

    def add(
        self, kind: str, count: int, first: Callable[[], tuple[int, int, str]], *, plain: bool = False
    ) -> None:
        """So many values of a kind; `first` says row, line and text of the first of them, if it is asked."""
        known = self._seen.get(kind)
        if known is None:
            row, line, value = first()
            self._seen[kind] = _Kind(count, row, line, value[:SHOWN], plain)
        else:
            known.count += count
            known.plain = known.plain and plain

    def add_strings(self, count: int, row: int, line: int, value: str) -> None:
        """Values that are of no type but are no texts either: the first may stand before texts of its rows
        that were seen already."""
        self.add(STRING, count, lambda: (row, line, value))
        known = self._seen[STRING]
        if row < known.row:
            known.row, known.line, known.value = row, line, value[:SHOWN]

    def see_cells(self, column: pa.Array, place: Place) -> None:
        """Fields of delimited text, where an empty one says nothing, whatever the type turns out to be."""
        lengths = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        self.nulls += column.null_count
        if lengths.all():
            self.see_texts(column, place)
            return
        places = np.flatnonzero(lengths)
        empty = len(column) - column.null_count - len(places)
        if empty:
            at = int(pc.index(pc.equal(column, ""), True).as_py())
            self.add(EMPTY, empty, lambda: (*place(at), ""))
        self.see_texts(column.take(pa.array(places)), lambda at: place(int(places[at])))

    def see_texts(self, values: pa.Array, place: Place, *, numbers: bool = True) -> None:
        """Texts, none of which is null."""
        if not len(values):
            return
        self.measure(values)
        bits = classify(self._kinds.texts, values, numbers=numbers)
        counts = np.bincount(bits)
        for found in np.flatnonzero(counts).tolist():
            where = bits == found
            kind = self._kinds.name(found)

            def first(where: np.ndarray = where) -> tuple[int, int, str]:
                at = int(where.argmax())
                return (*place(at), shown(values[at]))

            known = self._seen.get(kind)
            plain = (known is None or known.plain) and self._is_plain(kind, found, values, where)
            self.add(kind, int(counts[found]), first, plain=plain)

    def measure(self, texts: pa.Array) -> None:
        """Take note of how long they are."""
        seen = Spelling(texts)
        one_byte_each = bool((seen.codes < _NOT_ASCII).all())
        lengths = seen.lengths if one_byte_each else pc.utf8_length(texts).to_numpy()
        least = int(lengths.min())
        self._least = least if self._least is None else min(self._least, least)
        self._most = max(self._most, int(lengths.max()))

    def _is_plain(self, kind: str, bits: int, values: pa.Array, where: np.ndarray) -> bool:
        """Whether lading would write each of the values as it stands there."""
        if kind in _SURELY_PLAIN or kind == "date":
            return kind != "date" or not self._kinds.texts.dates
        if bits not in (BOOLEAN, DOUBLE):
            return False
        some = values if where.all() else values.filter(pa.array(where))
        if bits == BOOLEAN:
            return bool((Spelling(some).codes >= _SMALL_LETTERS).all())
        return self._kinds.texts.decimal == "." and are_plain_fractions(some)

    def evidence(
        self, name: str, fields: tuple[ColumnEvidence, ...] = (), items: ColumnEvidence | None = None
    ) -> ColumnEvidence:
        seen = tuple(
            Seen(kind, one.count, one.row, one.line, one.value, one.plain)
            for kind, one in sorted(self._seen.items())
        )
        return ColumnEvidence(name, seen, self.nulls, self._least or 0, self._most, fields, items)


def shown(value: pa.Scalar) -> str:
    """The start of a text, whatever bytes it is made of."""
    return str(value.cast(pa.binary()).as_py().decode("utf-8", errors="replace")[:SHOWN])
