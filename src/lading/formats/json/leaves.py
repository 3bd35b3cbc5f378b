"""Plain values of JSON as Arrow's, from their texts: nothing is forced.

A number is one where it is written as one, but a decimal may stand in quotes. A column of text takes
everything as it is written. Dates and times are texts, which formats/values.py reads.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.arrow_types import arrow_type
from lading.formats.json.structure import keys_in
from lading.formats.text_shapes import EXACT_DIGITS
from lading.formats.values import Texts
from lading.model import Column

MISSING = msgspec.Raw(b"")  # the text of a key that a record lacks

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_LONG_INTEGER = rf"\A-?[0-9]{{{EXACT_DIGITS + 1},}}\z"
_SPECIAL = r"\A(?:NaN|[+-]?(?:Inf(?:inity)?|INF))\z"
_PLAIN_DECIMAL = r"\A[+-]?(?:[0-9]{1,38}\.?[0-9]{0,38}|\.[0-9]{1,38})\z"
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_EXACT = Context(prec=100)


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a node, one for each place where it may stand."""

    array: pa.Array
    missing: np.ndarray  # where there is no key
    misfit: np.ndarray | None = None  # where a value is none of the type
    keys: np.ndarray | None = None  # how many are written inside of each value; None for none in any
    ignored: np.ndarray | None = None  # where there are keys inside that are left out


class Written:
    """Plain values as they are written, one behind the other."""

    def __init__(self, texts: Sequence[Any]) -> None:
        self.texts = texts
        self.data = b"\0".join([*texts, b""])
        bytes_ = np.frombuffer(self.data, np.uint8)
        self._offsets = np.zeros(len(texts) + 1, np.int32)
        self._offsets[1:] = np.flatnonzero(bytes_ == 0) + 1
        self.first = bytes_[self._offsets[:-1]] if len(texts) else np.zeros(0, np.uint8)
        self.missing = self.first == 0
        self.null = self.missing | (self.first == ord("n"))
        self.quoted = self.first == ord('"')
        self.numbers = (self.first == ord("-")) | ((self.first >= ord("0")) & (self.first <= ord("9")))

    def bare(self, where: np.ndarray) -> pa.Array:
        """The texts where they are wanted, null elsewhere."""
        return pc.binary_slice(self._array(where), 0, -1).view(pa.string())

    def unquoted(self, where: np.ndarray) -> pa.Array:
        """What texts in quotes say, where they are wanted; null elsewhere."""
        found = pc.binary_slice(self._array(where), 1, -2).view(pa.string())
        if b"\\" not in self.data:
            return found
        slashes = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\\"))
        escaped = np.zeros(len(where), bool)
        escaped[np.searchsorted(self._offsets, slashes, side="right") - 1] = True
        escaped &= where
        listed = b"[" + b",".join([self.texts[at] for at in np.flatnonzero(escaped).tolist()]) + b"]"
        said = msgspec.json.decode(listed, type=list[str])
        return pc.replace_with_mask(found, pa.array(escaped), pa.array(said, pa.string()))

    def keys(self) -> np.ndarray | None:
        """How many keys are written in each."""
        nested = np.flatnonzero((self.first | 0x20) == ord("{"))  # `[` as well
        if not len(nested):
            return None
        keys = np.zeros(len(self.first), np.int64)
        keys[nested] = keys_in([bytes(self.texts[at]) for at in nested.tolist()])
        return keys

    def _array(self, where: np.ndarray) -> pa.Array:
        valid = None if where.all() else pa.py_buffer(np.packbits(where, bitorder="little"))
        buffers = [valid, pa.py_buffer(self._offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), len(where), buffers)


class Leaf:
    """A value without parts, in a column of the type."""

    annotation: Any = msgspec.Raw
    default: Any = MISSING

    def __init__(self, column: Column, texts: Texts, *, quoted: bool = False) -> None:
        """`quoted`: numbers may stand in quotes, and are read as `texts` says."""
        self._column, self._formats, self._quoted = column, texts, quoted
        self.type: pa.DataType = arrow_type(column.type)

    def read(self, values: Sequence[Any]) -> Values:
        written = Written(values)
        there = ~written.null
        nothing = self._nothing(written)
        if self._column.type == "string":
            found = _strings(written, there)
            return found if nothing is None else replace(found, array=_without(found.array, nothing))
        array, fits = self._typed(written, there)
        if nothing is not None:
            array, there = _without(array, nothing), there & ~nothing
        misfit = there & ~fits
        return Values(array, written.missing, misfit if misfit.any() else None)

    def _nothing(self, written: Written) -> np.ndarray | None:
        """Where a text stands that means null; None for nowhere."""
        nulls = self._formats.nulls
        if not nulls or not written.quoted.any():
            return None
        here = pc.is_in(written.unquoted(written.quoted), value_set=pa.array(nulls, pa.string()))
        found: np.ndarray = here.to_numpy(zero_copy_only=False)
        return found if found.any() else None

    def _typed(self, written: Written, there: np.ndarray) -> tuple[pa.Array, np.ndarray]:
        """The values, and which of them are of the type."""
        kind = self._column.type
        if kind == "boolean":
            true, false = written.first == ord("t"), written.first == ord("f")
            return pa.array(true, mask=~(true | false)), true | false
        if kind in (*_INTEGERS, *_FLOATS) or kind.startswith("decimal("):
            return _valid(self._numbers(written))
        if kind == "binary":
            return _valid(_binary(written.unquoted(written.quoted)))
        values, _ = self._formats.read(written.unquoted(written.quoted), self._column)
        return _valid(values)

    def _numbers(self, written: Written) -> pa.Array:
        kind = self._column.type
        quoted = written.unquoted(written.quoted) if written.quoted.any() else None
        if kind in _FLOATS:
            values = self._floats(written)
        else:
            plain = written.bare(written.numbers)
            if kind in _INTEGERS:
                values = cast_where_possible(plain, self.type)
            else:
                texts = plain if quoted is None or self._quoted else pc.coalesce(plain, quoted)
                values = _decimals(texts, self.type)
        if quoted is None or not self._quoted:
            return values
        return pc.coalesce(values, self._formats.read(quoted, self._column)[0])

    def _floats(self, written: Written) -> pa.Array:
        texts = written.bare(written.numbers)
        values = pc.cast(texts, self.type)
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, self.type))
        if self._column.inferred and self._column.type == "double":
            great = pc.greater_equal(pc.abs(values), 10.0**EXACT_DIGITS)
            if great.true_count:
                lossy = pc.and_(great, pc.match_substring_regex(texts, _LONG_INTEGER))
                values = pc.if_else(lossy, pa.scalar(None, self.type), values)
        elif written.quoted.any():
            words = written.unquoted(written.quoted)
            words = pc.if_else(pc.match_substring_regex(words, _SPECIAL), words, pa.scalar(None, pa.string()))
            values = pc.coalesce(values, pc.cast(pc.utf8_lower(words), self.type))
        return values


def _without(values: pa.Array, nothing: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(nothing), pa.scalar(None, values.type), values)


def _valid(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    if not values.null_count:
        return values, np.ones(len(values), bool)
    return values, pc.is_valid(values).to_numpy(zero_copy_only=False)


def _strings(written: Written, there: np.ndarray) -> Values:
    texts = written.unquoted(written.quoted)
    others = there & ~written.quoted
    if not others.any():
        return Values(texts, written.missing)
    return Values(pc.coalesce(texts, written.bare(others)), written.missing, keys=written.keys())


def left_out(values: Sequence[Any]) -> Values:
    """Of a key that the table leaves out."""
    written = Written(values)
    nothing = pa.nulls(len(values))
    return Values(nothing, written.missing, keys=written.keys(), ignored=~written.missing)


def cast_where_possible(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """The values of texts; null where one is none."""
    try:
        return pc.cast(texts, target)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, target)
        half = len(texts) // 2
        return pa.concat_arrays(
            [cast_where_possible(part, target) for part in (texts.slice(0, half), texts.slice(half))]
        )


def _decimals(texts: pa.Array, target: pa.DataType) -> pa.Array:
    # An exponent is beyond Arrow, which breaks down at some of them.
    plain = pc.match_substring_regex(texts, _PLAIN_DECIMAL)
    values = cast_where_possible(pc.if_else(plain, texts, pa.scalar(None, pa.string())), target)
    if values.null_count == texts.null_count:
        return values
    left = pc.and_(pc.is_valid(texts), pc.is_null(values))
    exact = [_decimal(text, target) for text in texts.filter(left).to_pylist()]
    return pc.replace_with_mask(values, left, pa.array(exact, target))


def _decimal(text: str, target: pa.DataType) -> Decimal | None:
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        value = Decimal(text)
    except ArithmeticError:
        return None
    if not value:
        return Decimal(0)
    _, digits, exponent = value.as_tuple()
    zeros = len(digits) - len(bytes(digits).rstrip(b"\0"))
    assert isinstance(exponent, int)
    if exponent + zeros < -target.scale or value.adjusted() >= target.precision - target.scale:
        return None
    return value.quantize(Decimal(1).scaleb(-target.scale), context=_EXACT)


def _binary(texts: pa.Array) -> pa.Array:
    return pa.array([None if text is None else _from_base64(text) for text in texts.to_pylist()], pa.binary())


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
