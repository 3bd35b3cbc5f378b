"""Checks on rows: what lading.yaml asks for, as one number a row that says which of them the row fails.

Whatever is wrong with a check itself, a column that isn't there or a value of another type, shows when
`RowChecks` is made, before a single row is read. It then goes to the tasks that read, and costs no pass of
its own over the data. `sql`, and the few patterns that only Java can match, are left to Spark.
"""

from __future__ import annotations

import difflib
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.checks.java_patterns import re2_of_java
from lading.checks.moments import date_text, days_of, micros_of
from lading.errors import ConfigError
from lading.formats.file_types import from_arrow
from lading.layout.table import SOURCE
from lading.model import Check

_LONGEST_NUMBER = 400  # digits before or behind the point
_YEAR_0, _YEAR_10000 = -719_528, 2_932_897  # days: between them Arrow and Spark write dates alike

_Column = Any  # pa.Array or pa.ChunkedArray: both are computed with alike
_Fails = Callable[[_Column], _Column]  # true where a value fails; null and false where it doesn't


class RowChecks:
    """The row checks among `checks`, for rows of `schema`. Travels to the workers."""

    def __init__(self, checks: Sequence[Check], schema: pa.Schema, table: str) -> None:
        self._schema = schema
        self._table = table
        for check in checks:
            if check.kind == "unique":
                self._places(check)
        rows = [check for check in checks if check.on_rows]
        spark: dict[int, Check] = {}
        self._tests: list[tuple[int, int, _Fails]] = []  # bit, column, test
        for bit, check in enumerate(rows):
            tests = self._of(check)
            if tests is None:
                spark[bit] = check
            else:
                self._tests += [(bit, column, fails) for column, fails in tests]
        self.names = tuple(check.name for check in rows)
        self.needs_spark: Mapping[int, Check] = spark  # by bit: the caller brings what these find

    def failed(
        self, batch: pa.RecordBatch | pa.Table, extra: _Column | np.ndarray | None = None
    ) -> np.ndarray:
        """A number for each row, bit i set if it fails row check i. The columns are those of the schema, in
        its order; `extra` has the bits of `needs_spark`."""
        if extra is None and self.needs_spark:
            raise ValueError(f"nobody evaluated {', '.join(c.name for c in self.needs_spark.values())}")
        bits = np.zeros(batch.num_rows, np.uint64) if extra is None else np.asarray(extra).astype(np.uint64)
        for bit, column, fails in self._tests:
            found = fails(batch.column(column))
            if pc.any(found).as_py():
                failing = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
                bits |= failing.astype(np.uint64) << np.uint64(bit)
        return bits

    def _of(self, check: Check) -> Iterator[tuple[int, _Fails]] | None:
        """The tests of columns of which none may fail; None when Spark has to make them."""
        if check.kind == "sql":
            return None
        places = self._places(check)
        if check.kind == "not_null":
            return ((place, pc.is_null) for place in places)
        value_type = self._schema.field(places[0]).type
        if check.kind == "pattern":
            text_of = _text_of(value_type)
            pattern = re2_of_java(check.text) if text_of is not None else None
            if text_of is None or pattern is None:
                return None
            tests: list[_Fails] = [partial(_unmatched, text_of=text_of, pattern=pattern)]
        else:
            values = _Values(value_type, check, self._table)
            tests = list(values.outside() if check.kind == "range" else values.unlisted())
        return ((places[0], fails) for fails in tests)

    def _places(self, check: Check) -> list[int]:
        for name in check.columns:
            if name not in self._schema.names or name == SOURCE:
                columns = [one for one in self._schema.names if one != SOURCE]
                raise unknown_column(check, name, columns, self._table)
        return [self._schema.names.index(name) for name in check.columns]


def unknown_column(check: Check, name: str, columns: Sequence[str], table: str) -> ConfigError:
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(columns)}"
    return _wrong(check, table, f"{table} has no column {name!r}", hint)


def _wrong(check: Check, table: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"lading.yaml:{check.line}: {check.key}: {what}", hint=hint, table=table)


class _Values:
    """The values that a check names, among those of the column's type. None is ever rounded: a number is
    the last value of the type at or below it, counted in the type's smallest steps, and whether it is it."""

    def __init__(self, value_type: pa.DataType, check: Check, table: str) -> None:
        self._type = value_type
        self._check = check
        self._table = table
        self._stepped = pa.types.is_integer(value_type) or pa.types.is_decimal(value_type)
        self._floating = pa.types.is_floating(value_type)

    def outside(self) -> Iterator[_Fails]:
        if self._floating:
            yield pc.is_nan  # lies in no range
        if self._check.least is not None:
            yield from self._below(self._check.least)
        if self._check.most is not None:
            yield from self._above(self._check.most)

    def unlisted(self) -> Iterator[_Fails]:
        if not self._stepped:
            listed = [self._literal(text) for text in self._check.values]
            zeros = [-0.0, 0.0] if self._floating and 0.0 in listed else []
            nan = self._floating and any(map(math.isnan, listed))
            yield partial(_unlisted, values=pa.array([*listed, *zeros], self._compared()), nan=nan)
            return
        steps = [step for step, exact in map(self._step, self._check.values) if exact and self._fits(step)]
        yield partial(_unlisted, values=pa.array(map(self._number, steps), self._compared()), nan=False)

    def _below(self, least: str) -> Iterator[_Fails]:
        if not self._stepped:
            literal = self._literal(least)
            nothing_less = self._floating and math.isnan(literal)  # NaN is the greatest
            yield pc.is_valid if nothing_less else self._compare(pc.less, literal)
            return
        step, exact = self._step(least)
        first = step if exact else step + 1  # that is no longer below
        if self._fits(first):
            yield self._compare(pc.less, self._number(first))
        elif first > 0:
            yield pc.is_valid

    def _above(self, most: str) -> Iterator[_Fails]:
        if not self._stepped:
            yield self._compare(pc.greater, self._literal(most))
            return
        last, _ = self._step(most)  # that is not yet above
        if self._fits(last):
            yield self._compare(pc.greater, self._number(last))
        elif last < 0:
            yield pc.is_valid

    def _compare(self, compare: Callable[[_Column, pa.Scalar], _Column], value: Any) -> _Fails:
        return partial(_compared, compare=compare, value=pa.scalar(value, self._compared()))

    def _compared(self) -> pa.DataType:
        """The type to compare in: one that holds every value of the column's, and none of Python's limits."""
        if pa.types.is_integer(self._type) or pa.types.is_timestamp(self._type):
            return pa.int64()
        if pa.types.is_date(self._type):
            return pa.int32()
        return pa.float64() if self._floating else self._type

    def _step(self, text: str) -> tuple[int, bool]:
        try:
            number = Decimal(text)
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or abs(number.adjusted()) > _LONGEST_NUMBER:
            raise self._unlike(text)
        scaled = Fraction(number) * 10 ** self._scale()
        return math.floor(scaled), scaled.denominator == 1

    def _number(self, step: int) -> int | Decimal:
        if pa.types.is_integer(self._type):
            return step
        return Decimal((int(step < 0), tuple(map(int, str(abs(step)))), -self._scale()))

    def _scale(self) -> int:
        return self._type.scale if pa.types.is_decimal(self._type) else 0

    def _fits(self, step: int) -> bool:
        if pa.types.is_decimal(self._type):
            return bool(abs(step) < 10**self._type.precision)
        return -(2**63) <= step < 2**63

    def _literal(self, text: str) -> Any:
        """A value as one of the type to compare in; numbers with steps have a way of their own."""
        found: Any = None
        if pa.types.is_string(self._type):
            found = text
        elif self._floating:
            found = self._float(text)
        elif pa.types.is_boolean(self._type):
            found = {"true": True, "false": False}.get(text.lower())
        elif pa.types.is_date(self._type):
            found = days_of(text)
        elif pa.types.is_timestamp(self._type):
            found = micros_of(text, zoned=self._type.tz is not None)
        if found is None:
            raise self._unlike(text)
        return found

    def _float(self, text: str) -> float | None:
        """The nearest value of the column's own width, so that 0.1 is 0.1. A number that only a double can
        hold is left one: the column's values are compared as doubles, which loses nothing."""
        try:
            number = float(text)
        except ValueError:
            return None
        if not pa.types.is_float32(self._type):
            return number
        try:
            return float(struct.unpack("<f", struct.pack("<f", number))[0])
        except OverflowError:
            return number

    def _unlike(self, text: str) -> ConfigError:
        what = (
            f"{text!r} can't be compared with {self._check.columns[0]!r}, which is {from_arrow(self._type)}"
        )
        return _wrong(self._check, self._table, what, "write a value of that type")


def _compared(column: _Column, compare: Callable[[_Column, pa.Scalar], _Column], value: pa.Scalar) -> _Column:
    return compare(column.cast(value.type), value)


def _unlisted(column: _Column, values: pa.Array, nan: bool) -> _Column:
    fails = pc.and_not(pc.is_valid(column), pc.is_in(column.cast(values.type), value_set=values))
    return pc.and_not(fails, pc.is_nan(column)) if nan else fails


def _unmatched(column: _Column, text_of: Callable[[_Column], _Column], pattern: str) -> _Column:
    return pc.invert(pc.match_substring_regex(text_of(column), pattern=pattern))


def _text_of(value_type: pa.DataType) -> Callable[[_Column], _Column] | None:
    """How a value of this type is written, as Spark's cast to text does; None where only Spark knows."""
    types = pa.types
    if types.is_string(value_type) or types.is_boolean(value_type) or types.is_integer(value_type):
        return _plain_text
    if types.is_date(value_type):
        return _date_text
    return _decimal_text if types.is_decimal(value_type) else None


def _plain_text(column: _Column) -> _Column:
    return column.cast(pa.string())


def _date_text(column: _Column) -> _Column:
    days = column.cast(pa.int32())
    far = pc.or_(pc.less(days, _YEAR_0), pc.greater_equal(days, _YEAR_10000))
    if not pc.any(far).as_py():
        return column.cast(pa.string())
    return pa.array([None if one is None else date_text(one) for one in days.to_pylist()], pa.string())


def _decimal_text(column: _Column) -> _Column:
    """Arrow writes small numbers as 1E-7, Spark with all of their digits."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    scale = array.type.scale
    whole = pa.Array.from_buffers(pa.decimal128(38), len(array), array.buffers(), offset=array.offset)
    text = whole.cast(pa.string())
    if scale == 0:
        return text
    sign = pc.if_else(pc.starts_with(text, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
    before = pc.utf8_slice_codeunits(digits, 0, -scale)
    return pc.binary_join_element_wise(sign, before, ".", pc.utf8_slice_codeunits(digits, -scale), "")
