"""Texts that are written as lading writes their values back.

A stored column of them goes from text to a type, or from a type to text, without its file being read again:
'0.5' and 0.5 say the same, '0.50' says more.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.text_shapes import EXACT_DIGITS
from lading.formats.values import matches

_WHOLE = 10.0**EXACT_DIGITS  # below it, a double without a fraction is surely the integer that it looks like
# Of numbers with a fraction, those that Arrow writes without an exponent and digit for digit: at most 15 of
# them from the first that isn't zero on, ten before the point, five zeros behind it, and none at the end.
_DOUBLE = "|".join(
    [
        r"0\.0{0,5}[1-9](?:[0-9]{0,13}[1-9])?",
        *(
            rf"[1-9][0-9]{{{digits - 1}}}\.[0-9]{{0,{EXACT_DIGITS - 1 - digits}}}[1-9]"
            for digits in range(1, 11)
        ),
    ]
)
_FRACTION = rf"\A-?(?:{_DOUBLE})\z"
_SAMPLE = 64


def as_text(values: pa.Array) -> pa.Array:
    """Values as lading writes them back. A double without a fraction is written like an integer."""
    texts = pc.cast(values, pa.string())
    if not pa.types.is_floating(values.type):
        return texts
    whole = pc.and_(pc.less(pc.abs(values), _WHOLE), pc.equal(pc.trunc(values), values))
    integers = pc.cast(pc.if_else(whole, values, pa.scalar(None, values.type)), pa.int64())
    return pc.coalesce(pc.cast(integers, pa.string()), texts)


def are_plain_fractions(texts: pa.Array) -> bool:
    """Whether each of these texts, all of which are doubles and no integers, is written as lading would."""
    sample = texts.slice(0, _SAMPLE)  # which settles it for most columns where one is not
    return matches(_FRACTION, sample) and matches(_FRACTION, texts)
