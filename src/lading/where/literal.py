"""A literal's place among the values of a column's type.

`x < 2.5` on integers, `day < '2024-01-01 12:00'` on dates and `b = 300` on bytes all have a plain
meaning, yet the literal is no value of the type. So a literal becomes a *place*: the greatest value of
the type at or below it, and whether it is that value. Nobody behind `bind` ever rounds or overflows.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import pyarrow as pa

from lading.errors import PredicateError
from lading.model import Bound
from lading.where.bounds import bound_kind, decimal_bound
from lading.where.tree import Quoted

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_INFINITIES = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True)
class Place:
    """`at` is the greatest value of the type that isn't above the literal; None when all are above it.

    `exact`: the literal is that value. `beyond`: every value of the type is below the literal.
    """

    at: Bound | None
    exact: bool = True
    beyond: bool = False


def place(value: Any, type: pa.DataType) -> Place:
    """Where a literal (as parsed, or a Python value) stands; PredicateError if they can't be compared."""
    if pa.types.is_dictionary(type):
        type = type.value_type
    kind = bound_kind(type) or ""
    if kind == "str":
        return Place(_of(value, str, type, "write text in single quotes: 'abc'"))
    if kind == "bytes":
        return Place(_bytes(value, type))
    if kind == "bool":
        return Place(int(_of(value, bool, type, "write true or false")))
    if kind == "float":
        return Place(_float(value, type))
    if kind == "int" or kind.startswith("decimal"):
        return _number(value, type)
    if kind == "date":
        return _steps(Fraction(_moment(value, type, zone=None), _DAY), -(2**31), 2**31 - 1)
    if kind.startswith("timestamp"):
        elapsed = Fraction(_moment(value, type, zone=bool(type.tz)), _NANOSECONDS[type.unit])
        return _steps(elapsed, -(2**63), 2**63 - 1)
    if kind.startswith("time"):
        return _steps(Fraction(_clock(value, type), _NANOSECONDS[type.unit]), 0, 2**63 - 1)
    raise _unlike(value, type, "only `is null` and `is not null` work on such a column")


def place_of_key(key: Any, type: pa.DataType) -> Place:
    """The same for a key, which may be text whatever the type is: that is how a command line says it."""
    if isinstance(key, str):
        value_type = type.value_type if pa.types.is_dictionary(type) else type
        key = _typed(key, value_type)
    return place(key, type)


def show(value: Any) -> str:
    """A literal as a message quotes it."""
    if isinstance(value, Quoted):
        return f"{'x' if value.type == 'bytes' else value.type + ' '}'{value.text}'"
    return (
        f"'{value}'"
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def _typed(text: str, type: pa.DataType) -> Any:
    kind = bound_kind(type) or ""
    if kind == "bytes":
        return text.encode()
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in ("int", "float") or kind.startswith("decimal"):
        if text.lower() in _INFINITIES:
            return text.lower()
        try:
            return Decimal(text)
        except InvalidOperation:
            raise _unlike(text, type, "write a number") from None
    return text


def _of(value: Any, wanted: type, type: pa.DataType, hint: str) -> Any:
    if not isinstance(value, wanted):
        raise _unlike(value, type, hint)
    return value


def _bytes(value: Any, type: pa.DataType) -> bytes:
    if isinstance(value, Quoted) and value.type == "bytes":
        return bytes.fromhex(value.text)
    return bytes(_of(value, bytes, type, "write bytes in hexadecimal: x'00ff'"))


def _float(value: Any, type: pa.DataType) -> float:
    if isinstance(value, str) and value.lower() in _INFINITIES:
        return _INFINITIES[value.lower()]
    number = _numeric(value, type)
    try:
        exact = float(number)
        # A narrow column is compared with the nearest value of its own width, so `= 0.1` finds 0.1.
        near = float(struct.unpack(code, struct.pack(code, exact))[0]) if (code := _narrow(type)) else exact
    except OverflowError:
        near = math.nan
    if math.isnan(near) or (math.isinf(near) and not (isinstance(number, float) and math.isinf(number))):
        raise _unlike(value, type, "NaN and numbers out of range can't be compared")
    return near


def _narrow(type: pa.DataType) -> str:
    return {16: "<e", 32: "<f"}.get(type.bit_width, "")


def _number(value: Any, type: pa.DataType) -> Place:
    number = _numeric(value, type)
    if isinstance(number, float) and not math.isfinite(number):
        raise _unlike(value, type, "write a finite number")
    exact = Fraction(number)
    if not pa.types.is_decimal(type):
        signed = pa.types.is_signed_integer(type)
        low = -(2 ** (type.bit_width - 1)) if signed else 0
        return _steps(exact, low, 2 ** (type.bit_width - signed) - 1)
    most = 10**type.precision - 1
    found = _steps(exact * Fraction(10) ** type.scale, -most, most)
    at = decimal_bound(found.at, type) if isinstance(found.at, int) else None
    return Place(at, found.exact, found.beyond)


def _numeric(value: Any, type: pa.DataType) -> int | float | Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise _unlike(value, type, "write a number without quotes")
    if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > 400):
        raise _unlike(value, type, "write a finite number of sensible size")
    return value


def _steps(exact: Fraction, low: int, high: int) -> Place:
    floor = math.floor(exact)
    if floor < low:
        return Place(None, exact=False)
    if floor > high:
        return Place(None, exact=False, beyond=True)
    return Place(floor, exact=exact == floor)


def _moment(value: Any, type: pa.DataType, *, zone: bool | None) -> int:
    """Nanoseconds since 1970 of a date or timestamp; `zone` says whether the column knows instants."""
    if isinstance(value, Quoted) and value.type != "bytes":
        value = value.text
    if isinstance(value, str):
        moment, extra = _parsed_moment(value, type)
    elif isinstance(value, datetime):
        moment, extra = value, getattr(value, "nanosecond", 0)  # pandas keeps three digits more
    elif isinstance(value, date):
        moment, extra = datetime(value.year, value.month, value.day), 0
    else:
        raise _unlike(value, type, "write it as text: '2024-01-31' or '2024-01-31 12:30:00'")
    if moment.tzinfo is not None:
        if zone is not True:
            raise _unlike(value, type, "the column has no time zone: leave the zone out")
        offset = moment.utcoffset() or timedelta()
    else:
        offset = timedelta()
    # Subtracted last: at either end of the calendar the instant itself is no datetime.
    since = moment.replace(tzinfo=None) - datetime(1970, 1, 1) - offset
    return (since // timedelta(microseconds=1)) * 1000 + int(extra)


def _parsed_moment(text: str, type: pa.DataType) -> tuple[datetime, int]:
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise _unlike(
            text, type, "write '2024-01-31', '2024-01-31 12:30:00.5' or '2024-01-31T12:30:00+02:00'"
        )
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    digits = (fraction or "").ljust(9, "0")
    iso = f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}.{digits[:6]}{zone or ''}"
    try:
        return datetime.fromisoformat(iso), int(digits[6:])
    except ValueError as error:
        raise _unlike(text, type, str(error)) from None


def _clock(value: Any, type: pa.DataType) -> int:
    if isinstance(value, time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return seconds * 10**9 + value.microsecond * 1000
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _unlike(value, type, "write a time of day as text: '12:30' or '12:30:59.25'")
    hour, minute, second, fraction = match.groups()
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


def _unlike(value: Any, type: pa.DataType, hint: str) -> PredicateError:
    return PredicateError(f"{show(value)} can't be compared with a column of type {type}", hint=hint)
