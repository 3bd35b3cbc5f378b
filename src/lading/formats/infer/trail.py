"""What was seen of a column, and where its kind grew: the evidence that a schema file shows.

A trail belongs to one column of one file. Joined in the order of the files, trails say which value of
which file decided a type: "string because of row 20,412 of x.csv: '00123'".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from lading.formats.infer.kinds import NULL, Kinds, spark_type
from lading.formats.types import NO_VALUE

_SHOWN = 40  # characters of a value


def shown(value: pa.Scalar) -> str:
    """The start of a text, whatever bytes it is made of."""
    return str(value.cast(pa.binary()).as_py().decode("utf-8", errors="replace")[:_SHOWN])


@dataclass(frozen=True, slots=True)
class Step:
    """A value that made a column's kind what it is."""

    kind: str
    row: int  # from 1, the header not counted
    value: str


@dataclass(slots=True)
class ColumnTrail:
    """One column of one file."""

    kind: str = NULL
    values: int = 0  # that are there
    steps: list[Step] = field(default_factory=list)

    def see(self, kinds: Kinds, values: pa.Array, row_of: Callable[[int], int]) -> None:
        """`values` has no nulls; `row_of` turns a place in it into a row."""
        self.values += len(values)
        if self.kind == "string" or len(values) == 0:
            return
        grown = kinds.join(self.kind, kinds.of_text(values))
        if grown == self.kind:
            return
        at = self._first(kinds, values, grown)
        self.steps.append(Step(grown, row_of(at), shown(values[at])))
        self.kind = grown

    def _first(self, kinds: Kinds, values: pa.Array, grown: str) -> int:
        """The shortest head of `values` that makes the kind what all of them make it."""
        least, most = 0, len(values) - 1
        while least < most:
            middle = (least + most) // 2
            if kinds.join(self.kind, kinds.of_text(values.slice(0, middle + 1))) == grown:
                most = middle
            else:
                least = middle + 1
        return least


@dataclass(slots=True)
class Evidence:
    """One column of all files."""

    kind: str = NULL
    values: int = 0
    first: str = NULL  # the kind before anything made it grow
    decided: tuple[str, Step] | None = None  # file and value

    def add(self, kinds: Kinds, key: str, trail: ColumnTrail) -> None:
        """Files come in the order of their keys."""
        self.values += trail.values
        grown = kinds.join(self.kind, trail.kind)
        if grown == self.kind:
            return
        step = next(s for s in trail.steps if kinds.join(self.kind, s.kind) == grown)
        if self.kind == NULL:
            self.first = trail.steps[0].kind
        self.kind, self.decided = grown, (key, step)

    def because(self) -> str:
        dtype = spark_type(self.kind)
        if self.decided is None:
            return NO_VALUE
        key, step = self.decided
        if dtype == "string" or spark_type(self.first) != dtype:
            return f"{dtype} because of row {step.row:,} of {key}: {step.value!r}"
        return f"{dtype} in {'its only value' if self.values == 1 else f'all {self.values:,} values'}"
