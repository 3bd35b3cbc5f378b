"""Values as text, the one way in which lading writes them: a text is plain if it is written so.

A column of plain texts and the same column as numbers, booleans or dates say the same, so that the one can be
read as the other at any time and nothing is lost: '5', '0.1', 'true' and '2024-01-31' are plain; '05',
'5.0', '1e3' and 'True' are not, of which the value would keep no trace.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.text_shapes import EXACT_DIGITS
from lading.formats.values import matches

# Numbers with a fraction that are plain by their looks: at most 15 digits from the first that isn't zero on,
# ten before the point, five zeros behind it, and none at the end.
_FRACTION = "|".join(
    [
        r"0\.0{0,5}[1-9](?:[0-9]{0,13}[1-9])?",
        *(
            rf"[1-9][0-9]{{{digits - 1}}}\.[0-9]{{0,{EXACT_DIGITS - 1 - digits}}}[1-9]"
            for digits in range(1, 11)
        ),
    ]
)
_PLAIN_FRACTION = rf"\A-?(?:{_FRACTION})\z"
_SAMPLE = 64
_LARGE = 1e15  # from here on numbers have an exponent: a double of more than 15 digits is no longer exact
_SMALL = 1e-20


def written(values: pa.Array) -> pa.Array:
    """Integers, doubles, booleans and dates as text; ArrowInvalid for NaN and the infinities, which have
    several spellings and none of them plain."""
    texts = pc.cast(values, pa.string())
    if not pa.types.is_float64(values.type):
        return texts
    if not pc.all(pc.is_finite(values), min_count=0).as_py():
        raise pa.ArrowInvalid("NaN and infinities have no plain text")
    return _without_exponents(values, texts)


def plain_values(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    """The values of plain texts, null where there is no text; ArrowInvalid names one that is not plain."""
    texts = texts if pa.types.is_string(texts.type) else pc.cast(texts, pa.string())
    values = pc.cast(texts, dtype)
    odd = pc.not_equal(written(values), texts)
    if pc.any(odd, min_count=0).as_py():
        text = texts.filter(odd)[0].as_py()
        raise pa.ArrowInvalid(f"{text!r} is not how the value {values.filter(odd)[0].as_py()} is written")
    return values


def all_plain(texts: pa.Array, dtype: pa.DataType) -> bool:
    """Whether each text that is not null is a plain one of the type."""
    try:
        plain_values(texts, dtype)
    except pa.ArrowInvalid:
        return False
    return True


def are_plain_fractions(texts: pa.Array) -> bool:
    """Whether each of these texts, all of which are doubles and no integers, is surely plain."""
    sample = texts.slice(0, _SAMPLE)  # which settles it for most columns where one is not
    return matches(_PLAIN_FRACTION, sample) and matches(_PLAIN_FRACTION, texts)


def _without_exponents(values: pa.Array, texts: pa.Array) -> pa.Array:
    """Arrow writes 12345678901 as 1.2345678901e+10, and 0.0000001 as 1e-7; people don't."""
    size = pc.abs(values)
    usual = pc.and_(pc.less(size, _LARGE), pc.greater_equal(size, _SMALL))
    odd = pc.fill_null(pc.and_(usual, pc.match_substring(texts, "e")), False)
    if not odd.true_count:
        return texts
    few = values.filter(odd).to_numpy(zero_copy_only=False)
    whole = few == np.trunc(few)
    spelled = np.empty(len(few), object)
    spelled[whole] = pc.cast(pa.array(few[whole].astype(np.int64)), pa.string()).to_pylist()
    spelled[~whole] = [np.format_float_positional(number, trim="-") for number in few[~whole]]
    return pc.replace_with_mask(texts, odd, pa.array(spelled, pa.string()))
