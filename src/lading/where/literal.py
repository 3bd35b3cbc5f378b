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

from lading.errors import PredicateError
from lading.late import pa
from lading.model import Bound
from lading.where.tree import Quoted
from lading.zones.bounds import bound_kind, decimal_bound

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_INFINITIES = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True)
class Position:
    """`at` is the greatest value of the type that isn't above the literal; None when all are above it.

    `exact`: the literal is that value. `beyond`: every value of the type is below the literal.
    """

    at: Bound | None
    exact: bool = True
    beyond: bool = False


def place(value: Any, dtype: pa.DataType) -> Position:
    """Where a literal (as parsed, or a Python value) stands; PredicateError if they can't be compared."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    kind = bound_kind(dtype) or ""
    if kind == "str":
        return Position(_of(value, str, dtype, "write text in single quotes: 'abc'"))
    if kind == "bytes":
        return Position(_bytes(value, dtype))
    if kind == "bool":
        return Position(int(_of(value, bool, dtype, "write true or false")))
    if kind == "float":
        return Position(_float(value, dtype))
    if kind == "int" or kind.startswith("decimal"):
        return _number(value, dtype)
    if kind == "date":
        return _steps(Fraction(_moment(value, dtype, zone=None), _DAY), -(2**31), 2**31 - 1)
    if kind.startswith("timestamp"):
        elapsed = Fraction(_moment(value, dtype, zone=bool(dtype.tz)), _NANOSECONDS[dtype.unit])
        return _steps(elapsed, -(2**63), 2**63 - 1)
    if kind.startswith("time"):
        return _steps(Fraction(_clock(value, dtype), _NANOSECONDS[dtype.unit]), 0, 2**63 - 1)
    raise _unlike(value, dtype, "only `is null` and `is not null` work on such a column")


def position_of_key(key: Any, dtype: pa.DataType) -> Position:
    """The same for a key, which may be text whatever the type is: that is how a command line says it."""
    if isinstance(key, str):
        value_type = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
        key = _typed(key, value_type)
    return place(key, dtype)


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


def _typed(text: str, dtype: pa.DataType) -> Any:
    kind = bound_kind(dtype) or ""
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
            raise _unlike(text, dtype, "write a number") from None
    return text


def _of(value: Any, wanted: type, dtype: pa.DataType, hint: str) -> Any:
    if not isinstance(value, wanted):
        raise _unlike(value, dtype, hint)
    return value


def _bytes(value: Any, dtype: pa.DataType) -> bytes:
    if isinstance(value, Quoted) and value.type == "bytes":
        return bytes.fromhex(value.text)
    return bytes(_of(value, bytes, dtype, "write bytes in hexadecimal: x'00ff'"))


def _float(value: Any, dtype: pa.DataType) -> float:
    if isinstance(value, str) and value.lower() in _INFINITIES:
        return _INFINITIES[value.lower()]
    number = _numeric(value, dtype)
    try:
        exact = float(number)
        # A narrow column is compared with the nearest value of its own width, so `= 0.1` finds 0.1.
        near = float(struct.unpack(code, struct.pack(code, exact))[0]) if (code := _narrow(dtype)) else exact
    except OverflowError:
        near = math.nan
    if math.isnan(near) or (math.isinf(near) and not (isinstance(number, float) and math.isinf(number))):
        raise _unlike(value, dtype, "NaN and numbers out of range can't be compared")
    return near


def _narrow(dtype: pa.DataType) -> str:
    return {16: "<e", 32: "<f"}.get(dtype.bit_width, "")


def _number(value: Any, dtype: pa.DataType) -> Position:
    number = _numeric(value, dtype)
    if isinstance(number, float) and not math.isfinite(number):
        raise _unlike(value, dtype, "write a finite number")
    exact = Fraction(number)
    if not pa.types.is_decimal(dtype):
        signed = pa.types.is_signed_integer(dtype)
        low = -(2 ** (dtype.bit_width - 1)) if signed else 0
        return _steps(exact, low, 2 ** (dtype.bit_width - signed) - 1)
    most = 10**dtype.precision - 1
    found = _steps(exact * Fraction(10) ** dtype.scale, -most, most)
    at = decimal_bound(found.at, dtype) if isinstance(found.at, int) else None
    return Position(at, found.exact, found.beyond)


def _numeric(value: Any, dtype: pa.DataType) -> int | float | Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise _unlike(value, dtype, "write a number without quotes")
    if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > 400):
        raise _unlike(value, dtype, "write a finite number of sensible size")
    return value


def _steps(exact: Fraction, low: int, high: int) -> Position:
    floor = math.floor(exact)
    if floor < low:
        return Position(None, exact=False)
    if floor > high:
        return Position(None, exact=False, beyond=True)
    return Position(floor, exact=exact == floor)


def _moment(value: Any, dtype: pa.DataType, *, zone: bool | None) -> int:
    """Nanoseconds since 1970 of a date or timestamp; `zone` says whether the column knows instants."""
    if isinstance(value, Quoted) and value.type != "bytes":
        value = value.text
    if isinstance(value, str):
        moment, extra = _parsed_moment(value, dtype)
    elif isinstance(value, datetime):
        moment, extra = value, getattr(value, "nanosecond", 0)  # pandas keeps three digits more
    elif isinstance(value, date):
        moment, extra = datetime(value.year, value.month, value.day), 0
    else:
        raise _unlike(value, dtype, "write it as text: '2024-01-31' or '2024-01-31 12:30:00'")
    if moment.tzinfo is not None:
        if zone is not True:
            raise _unlike(value, dtype, "the column has no time zone: leave the zone out")
        offset = moment.utcoffset() or timedelta()
    else:
        offset = timedelta()
    # Subtracted last: at either end of the calendar the instant itself is no datetime.
    since = moment.replace(tzinfo=None) - datetime(1970, 1, 1) - offset
    return (since // timedelta(microseconds=1)) * 1000 + int(extra)


def _parsed_moment(text: str, dtype: pa.DataType) -> tuple[datetime, int]:
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise _unlike(
            text, dtype, "write '2024-01-31', '2024-01-31 12:30:00.5' or '2024-01-31T12:30:00+02:00'"
        )
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    digits = (fraction or "").ljust(9, "0")
    iso = f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}.{digits[:6]}{zone or ''}"
    try:
        return datetime.fromisoformat(iso), int(digits[6:])
    except ValueError as error:
        raise _unlike(text, dtype, str(error)) from None


def _clock(value: Any, dtype: pa.DataType) -> int:
    if isinstance(value, time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return seconds * 10**9 + value.microsecond * 1000
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _unlike(value, dtype, "write a time of day as text: '12:30' or '12:30:59.25'")
    hour, minute, second, fraction = match.groups()
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


def _unlike(value: Any, dtype: pa.DataType, hint: str) -> PredicateError:
    return PredicateError(f"{show(value)} can't be compared with a column of type {dtype}", hint=hint)
