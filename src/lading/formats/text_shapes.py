"""What a text has to look like to be a value of a type, as regular expressions that Arrow and Java share.

Inference (formats/infer/kinds.py) and the reader (formats/values.py) ask the same question with different
engines: a value fits a type that was inferred if, and only if, inference over all files would still give
that type. So the shapes are written down once.
"""

from __future__ import annotations

# What a person may pin and the reader takes. More than six digits of a second only if nothing is lost.
_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"  # there is no year 0
DATE = rf"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
TIME = r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6}0*)?)?"
ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?|[+-]18(?::?00)?)"

# What inference takes: never a leading zero or plus, of which a number would lose the trace.
_EXPONENT = r"[eE][+-]?[0-9]{1,4}"
PLAIN_BIGINT = r"(?:0|-?[1-9][0-9]{0,18})"
EXACT_DIGITS = 15  # an integer of more could lose some as a double
PLAIN_DOUBLE = (
    rf"-?(?:(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:{_EXPONENT})?"
    rf"|(?:0|[1-9][0-9]*){_EXPONENT}|0|[1-9][0-9]{{0,{EXACT_DIGITS - 1}}})"
)


def whole(shape: str) -> str:
    return rf"\A{shape}\z"


def timestamp_shape(dtype: str) -> str:
    """Of a `timestamp` or `timestamp_ntz` that a person pinned."""
    return rf"{DATE}(?:{TIME}{ZONE + '?' if dtype == 'timestamp' else ''})?"


def plain_timestamp_shape(dtype: str, *, date_format: str | None) -> str:
    """Of one that was inferred: a zone is there or it isn't. A column may mix dates and times as long as
    dates have no format of their own."""
    if dtype == "timestamp":
        return DATE + TIME + ZONE
    return DATE + (f"(?:{TIME})?" if date_format is None else TIME)
