"""The predicate that a row satisfies and others hardly do: how a row is named on a command line."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lading.where.text import is_plain_name

_LONGEST = 200  # characters of a text that is written down


def of_row(row: pa.Table) -> str:
    """Of the first row: what `parse` reads. Nested and very long values are left out, as is NaN."""
    said = (_said(field.name, row.column(field.name)[0]) for field in row.schema)
    return " and ".join(one for one in said if one is not None)


def _said(name: str, value: pa.Scalar) -> str | None:
    shown = name if is_plain_name(name) else '"' + name.replace('"', '""') + '"'
    if not value.is_valid:
        return f"{shown} is null"
    literal = _literal(value)
    return None if literal is None else f"{shown} = {literal}"


def _literal(value: pa.Scalar) -> str | None:
    kind = value.type
    if pa.types.is_nested(kind):
        return None
    if pa.types.is_timestamp(kind):  # by Arrow: Python has no year 10000
        text = value.cast(pa.timestamp(kind.unit)).cast(pa.string()).as_py()
        return _quoted(f"{text}Z" if kind.tz else text)
    if pa.types.is_date(kind):
        return _quoted(str(value.cast(pa.string()).as_py()))
    return _plain(value.as_py())


def _plain(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if len(value) <= _LONGEST else None
    return _quoted(value) if isinstance(value, str) and len(value) <= _LONGEST else None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
