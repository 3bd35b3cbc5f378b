"""Why a row is a bad one, in words that formats share. They stand behind the value or the row itself."""

from __future__ import annotations

import re

from lading.formats.text_shapes import DATE, timestamp_shape
from lading.model import Column

NEVER_CLOSED = "a quote is opened and never closed"
FINER = "is finer than a microsecond"

# Roughly what is read as a type that a person wrote; only the words of a reason depend on it.
_TIMES = re.compile(timestamp_shape("timestamp"))
_READ_AS = {
    "bigint": re.compile(r"[+-]?[0-9]{1,19}"),
    "double": re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|NaN|[+-]?Inf(?:inity)?"),
    "date": re.compile(DATE),
    "timestamp": _TIMES,
    "timestamp_ntz": _TIMES,
}
_NOTHING = re.compile(r"(?!)")


def is_not(text: str, column: Column) -> str:
    """A text that is read as the type where a person wrote it is said to be none that was inferred."""
    if column.inferred and _READ_AS.get(column.type, _NOTHING).fullmatch(text.strip()):
        return f"does not fit the inferred type {column.type}: with it, another type would be inferred"
    return f"is not {a_type(column.type)}"


def a_type(dtype: str) -> str:
    return f"{'an' if dtype[0] in 'aeiou' else 'a'} {dtype}"


def undecodable(encoding: str) -> str:
    return f"bytes that are not {encoding}"


def field_count(have: int, wanted: int) -> str:
    return f"has {have} field{'' if have == 1 else 's'}, but the header has {wanted}"


def too_short(have: int, wanted: int) -> str:
    return f"has {have} character{'' if have == 1 else 's'}, but the spec needs {wanted}"
