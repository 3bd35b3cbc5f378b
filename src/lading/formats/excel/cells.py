"""What a cell of a workbook means: its kind for inference, its text, and its value as the schema's type.

A workbook knows numbers, texts, booleans, dates and times; whole numbers are numbers without a fraction.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.arrow_types import arrow_type
from lading.formats.values import Texts
from lading.model import Column

Cell = str | bool | int | float | date | datetime | time | timedelta

_TEXTS = Texts(empty_is_null=False)
_EXACT = 10**15  # whole numbers below it are surely exact: a workbook keeps 15 digits
_RANGES = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
# The classes of cells that Arrow takes as a type by itself, for columns that hold nothing else.
_AT_ONCE: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "double": frozenset({float, int}),
    "bigint": frozenset({float, int}),
    "date": frozenset({date}),
    "timestamp_ntz": frozenset({datetime}),
}


class Misfit(ValueError):
    """A cell that is no value of the type."""


def is_whole(number: float) -> bool:
    return isinstance(number, int) or number.is_integer()


def kind_of(cell: Cell) -> str:
    """As inference sees it."""
    if isinstance(cell, bool):
        return "boolean"
    if isinstance(cell, (int, float)):
        return "bigint" if is_whole(cell) and abs(cell) < _EXACT else "double"
    if isinstance(cell, datetime):
        return "timestamp_ntz"
    return "date" if isinstance(cell, date) else "string"


def text_of(cell: Cell) -> str:
    """The shortest text that says the same."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if is_whole(cell) and abs(cell) < 1e16 else repr(cell)
    if isinstance(cell, (datetime, time)):
        text = cell.isoformat(" ") if isinstance(cell, datetime) else cell.isoformat()
        return text.rstrip("0") if "." in text else text
    if isinstance(cell, timedelta):
        return _duration(cell)
    return cell.isoformat() if isinstance(cell, date) else str(cell)


def _duration(span: timedelta) -> str:
    """Hours may be more than a day's."""
    ticks = abs(span) // timedelta(microseconds=1)
    seconds, fraction = divmod(ticks, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    sign = "-" if span < timedelta(0) else ""
    return f"{sign}{text}" + (f".{fraction:06}".rstrip("0") if fraction else "")


def array_of(cells: list[Cell | None], column: Column, texts: Texts | None = None) -> pa.Array:
    """The cells as the column's type; Misfit if one is none. `texts` is how those are read that are text."""
    kind = arrow_type(column.type)
    classes = set(map(type, cells)) - {type(None)}
    if texts is not None and str in classes and column.type != "string":
        said = [cell if isinstance(cell, str) else None for cell in cells]
        values, misfits = texts.read(pa.array(said, pa.string()), column)
        if misfits is not None:
            raise Misfit
        return pc.coalesce(values, array_of([c if not isinstance(c, str) else None for c in cells], column))
    if classes <= _AT_ONCE.get(column.type, frozenset()):
        try:
            return pa.array(cells, pa.float64() if float in classes else kind).cast(kind)
        except pa.ArrowInvalid as error:
            raise Misfit from error
    return pa.array([None if cell is None else value_of(cell, column) for cell in cells], kind)


def value_of(cell: Cell, column: Column, texts: Texts | None = None) -> Any:
    """A cell as the column's type; Misfit if it is none."""
    kind = column.type
    if kind == "string":
        return text_of(cell)
    if isinstance(cell, str) and texts is not None:
        return array_of([cell], column, texts)[0].as_py()
    if isinstance(cell, str):
        return _of_text(cell, column)
    if isinstance(cell, bool):
        if kind == "boolean":
            return cell
    elif isinstance(cell, (int, float)):
        return _of_number(cell, kind)
    elif isinstance(cell, datetime):
        if kind in ("timestamp", "timestamp_ntz"):
            return cell.replace(tzinfo=UTC if kind == "timestamp" else None)
    elif isinstance(cell, date):
        if kind == "date":
            return cell
        if kind in ("timestamp", "timestamp_ntz"):
            return datetime(cell.year, cell.month, cell.day, tzinfo=UTC if kind == "timestamp" else None)
    raise Misfit


def _of_number(cell: float, kind: str) -> Any:
    if kind in _RANGES:
        if is_whole(cell) and -_RANGES[kind] <= cell < _RANGES[kind]:
            return int(cell)
    elif kind == "double" or (kind == "float" and abs(cell) < 3.4e38):
        return float(cell)
    elif size := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        return _of_digits(text_of(cell), int(size[1]), int(size[2]))
    raise Misfit


def _of_digits(text: str, precision: int, scale: int) -> Decimal:
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if exponent + zeros < -scale or len(digits) + exponent > precision - scale:
        raise Misfit
    return number


def _of_text(text: str, column: Column) -> Any:
    """A text in a column of another type, which only somebody who wrote that type can want."""
    if column.inferred or not _TEXTS.all_fit(pa.array([text]), column):
        raise Misfit
    kind = column.type
    if kind in _RANGES:
        return int(text)
    if kind in ("double", "float"):
        return float(text)
    if size := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        return _of_digits(text, int(size[1]), int(size[2]))
    if kind == "boolean":
        return text.lower() == "true"
    if kind == "date":
        return date.fromisoformat(text)
    if kind in ("timestamp", "timestamp_ntz"):
        when = datetime.fromisoformat(text)
        return when.replace(tzinfo=when.tzinfo or UTC) if kind == "timestamp" else when
    raise Misfit
