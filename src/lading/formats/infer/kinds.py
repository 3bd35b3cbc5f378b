"""Kinds of values, and what a column of some kinds is.

A kind says which types a value could be read as: '5' as bigint and double, '0.5' only as double. A column is
of the narrowest type that all its values could be read as, so the answer depends neither on their order nor
on how files are cut into blocks. A type is only given where nothing is lost: '00123', '+49', 19 digits among
decimals and 7 digits of a second stay strings. The rules are the reader's own (formats/values.py), so a type
that is pinned from here on takes exactly the values with which inference would still give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from lading.formats.infer.classify import BIGINT, DATE, DOUBLE, TEXT_TYPES, TIMESTAMP_NTZ, classify
from lading.formats.rules import texts_by
from lading.formats.values import Texts
from lading.model import ColumnRule

NULL = "null"  # nothing seen
STRING = "string"  # of no other type
LONG = "bigint beyond double"  # integers of more than 15 digits: among doubles they would lose some

TYPES = (*TEXT_TYPES, "struct", "array")  # narrowest first; the last are JSON's
_OR = " or "
_ISO = Texts(empty_is_null=False)


def spark_type(kind: str) -> str:
    """Of a column that holds nothing else."""
    return {NULL: STRING, LONG: "bigint"}.get(kind, kind.partition(_OR)[0])


@dataclass(frozen=True, slots=True)
class Kinds:
    """Under the date and timestamp formats of the table or the column, if it has any."""

    texts: Texts = _ISO

    @classmethod
    def of(cls, read_options: Mapping[str, Any], rule: ColumnRule | None = None) -> Kinds:
        """`rule` is what lading.yaml says of the column."""
        texts = Texts.of(read_options, empty_is_null=False)
        return cls(texts if rule is None else texts_by(rule, texts))

    def types(self, kind: str) -> frozenset[str]:
        """Those that values of a kind could be read as; of a string, none."""
        return _types(kind, self._own)

    def name(self, bits: int) -> str:
        """The kind of texts that could be read as these types (classify.py)."""
        return _name(bits, self._own)

    def join(self, one: str, other: str) -> str:
        if NULL in (one, other):
            return other if one == NULL else one
        both = self.types(one) & self.types(other)
        if both & {"struct", "array"}:
            return one
        return self.name(sum(1 << place for place, kind in enumerate(TEXT_TYPES) if kind in both))

    def of_text(self, values: pa.Array, *, numbers: bool = True) -> str:
        """The kind of all the values, none of which is null. JSON has numbers of its own: `numbers=False`."""
        if len(values) == 0:
            return NULL
        return self.name(int(np.bitwise_and.reduce(classify(self.texts, values, numbers=numbers))))

    @property
    def _own(self) -> bool:
        """Whether dates and times are written in formats of the table's own. If they aren't, every date
        could be read as a timestamp, and that goes without saying."""
        return bool(self.texts.dates or self.texts.timestamps)


@lru_cache
def _types(kind: str, own: bool) -> frozenset[str]:
    found = set(kind.split(_OR))
    if "bigint" in found:
        found.add("double")
    if LONG in found:
        found.add("bigint")
    if "date" in found and not own:
        found.add("timestamp_ntz")
    return frozenset(found & set(TYPES))


@lru_cache
def _name(bits: int, own: bool) -> str:
    parts = []
    if bits & BIGINT:
        parts.append("bigint" if bits & DOUBLE else LONG)
    elif bits & DOUBLE:
        parts.append("double")
    left = bits & ~(BIGINT | DOUBLE)
    if left & DATE and not own:
        left &= ~TIMESTAMP_NTZ
    parts += [kind for place, kind in enumerate(TEXT_TYPES) if left >> place & 1]
    return _OR.join(parts) or STRING
