"""What a column of text holds: the narrowest kind that every value of it has.

Kinds are joined, so the answer doesn't depend on how files are cut into blocks. A kind is only given
where nothing is lost: '00123', '+49', 19 digits among decimals and 7 digits of a second stay
strings. The rules are the reader's own (formats/values.py), so a type that is pinned from here on takes
exactly the values with which inference would still give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lading.formats.text_shapes import EXACT_DIGITS
from lading.formats.values import Texts, matches
from lading.model import Column

NULL = "null"  # nothing seen
# Integers of more than 15 digits: bigint alone, but among doubles they would lose digits.
LONG = "bigint beyond double"

_SAMPLE = 64
_ISO = Texts(empty_is_null=False)


def spark_type(kind: str) -> str:
    return {NULL: "string", LONG: "bigint"}.get(kind, kind)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Classifies and joins, under the table's own date and timestamp formats if it has any."""

    texts: Texts = _ISO

    @classmethod
    def of(cls, read_options: Mapping[str, Any]) -> Kinds:
        return cls(Texts.of(read_options, empty_is_null=False))

    def of_text(self, values: pa.Array, *, numbers: bool = True) -> str:
        """The kind of all the values, none of which is null. JSON has numbers of its own: `numbers=False`."""
        if len(values) == 0:
            return NULL
        candidates = ["date", "timestamp_ntz", "timestamp"]
        if numbers:
            candidates = ["boolean", "bigint", "double", *candidates]
        # Most columns are settled by a few values; only what survives them looks at all.
        for block in (values.slice(0, _SAMPLE), values) if len(values) > _SAMPLE else (values,):
            candidates = [kind for kind in candidates if self._all(kind, block)]
            if not candidates:
                return "string"
        if candidates[0] == "bigint" and not matches(rf"\A-?[0-9]{{1,{EXACT_DIGITS}}}\z", values):
            return LONG
        return candidates[0]

    def join(self, one: str, other: str) -> str:
        if one == other or other == NULL:
            return one
        if one == NULL:
            return other
        pair = {one, other}
        if pair == {"bigint", "double"}:
            return "double"
        if pair == {"bigint", LONG}:
            return LONG
        # A date reads as a timestamp unless one of them has a format of its own.
        if pair == {"date", "timestamp_ntz"} and not (self.texts.dates or self.texts.timestamps):
            return "timestamp_ntz"
        return "string"

    def _all(self, kind: str, values: pa.Array) -> bool:
        return self.texts.all_fit(values, Column("", kind, inferred=True))
