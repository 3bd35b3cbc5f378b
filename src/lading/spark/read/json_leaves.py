"""The values of JSON that Spark's parser is lax about, at any depth: dates, timestamps and decimals.

It takes a bare number for a timestamp, cuts a seventh digit of a second, rounds 1.239 to fit decimal(5,2) and
reads "1,500" as 1500. So dates and timestamps are first read as text and decimals as wide as they get; what
they become, and whether anything was lost on the way, is worked out here by walking down the type. A double
that was inferred takes no integer that would lose digits: that only the text can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.formats.text_shapes import (
    DATE,
    EXACT_DIGITS,
    plain_timestamp_shape,
    timestamp_shape,
    whole,
)
from lading.spark.read.values import TIMESTAMP_FORMAT, any_of, inferred_pattern

_DIGITS = 38  # the most that a decimal has
_OWN = (st.DateType, st.TimestampType, st.TimestampNTZType, st.DecimalType)  # that are read by rules of ours
_EXACT = 10.0**EXACT_DIGITS
_NUMBER = r"\A-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\z"
_LONG_INTEGER = rf"\A-?[0-9]{{{EXACT_DIGITS + 1},}}\z"


def as_read(dtype: st.DataType) -> st.DataType:
    """The type that Spark is asked to parse for a column of `type`."""
    return _mapped(dtype, _parsed_as)


def text_leaves(dtype: st.DataType, kind: type[st.DataType]) -> st.DataType:
    """The type with text for leaves of a kind: what was written there."""
    return _mapped(dtype, lambda leaf: st.StringType() if isinstance(leaf, kind) else _parsed_as(leaf))


def has_leaf(dtype: st.DataType, *kinds: type[st.DataType]) -> bool:
    return isinstance(dtype, kinds) or any(has_leaf(inner, *kinds) for inner in _inside(dtype))


def comma_in(value: SparkColumn, dtype: st.DataType) -> SparkColumn | None:
    """Whether a decimal was written in quotes with a comma, which Spark's parser drops."""
    return _any_leaf(
        value, dtype, lambda leaf, kind: _comma(leaf) if isinstance(kind, st.DecimalType) else None
    )


def great_double(value: SparkColumn, dtype: st.DataType) -> SparkColumn | None:
    """Whether a double is so great, or so strange, that what was written has to be asked."""
    return _any_leaf(
        value,
        dtype,
        lambda leaf, kind: (
            F.coalesce(F.abs(leaf) >= F.lit(_EXACT), F.lit(False))
            if isinstance(kind, st.DoubleType)
            else None
        ),
    )


def not_a_plain_double(text: SparkColumn, dtype: st.DataType) -> SparkColumn | None:
    """Whether inference would not take for a double what was written: an integer that would lose digits, a
    word like NaN, a number beyond all doubles."""
    return _any_leaf(
        text, dtype, lambda leaf, kind: _strange(leaf) if isinstance(kind, st.DoubleType) else None
    )


def _strange(text: SparkColumn) -> SparkColumn:
    plain = text.rlike(_NUMBER) & ~text.rlike(_LONG_INTEGER)
    finite = F.abs(text.try_cast("double")) < F.lit(float("inf"))
    return text.isNotNull() & ~F.coalesce(plain & finite, F.lit(False))


@dataclass(frozen=True, slots=True)
class Leaves:
    """The rules for one column, under the table's own formats if it has any."""

    date_format: str | None
    timestamp_format: str | None
    inferred: bool = False  # whether the column takes only what inference would still call so

    def value(self, found: SparkColumn, dtype: st.DataType) -> SparkColumn:
        """The value of `type` for what was parsed `as_read`."""
        if isinstance(dtype, _OWN):
            return self._leaf(found, dtype)
        if not has_leaf(dtype, *_OWN):
            return found
        if isinstance(dtype, st.StructType):
            fields = [self.value(found.getField(f.name), f.dataType).alias(f.name) for f in dtype]
            return F.when(found.isNotNull(), F.struct(*fields))
        if isinstance(dtype, st.MapType):
            inner = dtype.valueType
            return F.transform_values(found, lambda _, one: self.value(one, inner))
        assert isinstance(dtype, st.ArrayType)
        element = dtype.elementType
        return F.transform(found, lambda one: self.value(one, element))

    def misfit(self, found: SparkColumn, dtype: st.DataType) -> SparkColumn | None:
        """Whether anything in what was parsed is no value of its type, or would lose digits."""
        return _any_leaf(found, dtype, self._lost)

    def _leaf(self, found: SparkColumn, dtype: st.DataType) -> SparkColumn:
        if isinstance(dtype, st.DecimalType):
            return found.try_cast(dtype)
        name = dtype.simpleString()
        fmt = self.date_format if name == "date" else self.timestamp_format
        if fmt is None and name == "date":
            return F.when(found.rlike(whole(DATE)), found.try_cast(dtype))
        if fmt is None:
            wanted = timestamp_shape(name)
            if self.inferred:
                wanted = plain_timestamp_shape(name, date_format=self.date_format)
            slow = F.try_to_timestamp(found, F.lit(TIMESTAMP_FORMAT)).cast(dtype)
            return F.when(found.rlike(whole(wanted)), F.coalesce(found.try_cast(dtype), slow))
        value = F.try_to_timestamp(found, F.lit(fmt)).cast(dtype)
        if not self.inferred:
            return value
        pattern = inferred_pattern(fmt, name)
        return F.lit(None).cast(dtype) if pattern is None else F.when(found.rlike(pattern), value)

    def _lost(self, found: SparkColumn, dtype: st.DataType) -> SparkColumn | None:
        if isinstance(dtype, st.DecimalType):
            return found.isNotNull() & F.coalesce(self._leaf(found, dtype) != found, F.lit(True))
        if isinstance(dtype, _OWN):
            return found.isNotNull() & self._leaf(found, dtype).isNull()
        return None


def _comma(text: SparkColumn) -> SparkColumn:
    return F.coalesce(F.contains(text, F.lit(",")), F.lit(False))


def _parsed_as(leaf: st.DataType) -> st.DataType:
    if isinstance(leaf, st.DecimalType):
        return st.DecimalType(_DIGITS, _DIGITS - (leaf.precision - leaf.scale))
    if isinstance(leaf, _OWN):
        return st.StringType()
    return leaf


def _mapped(dtype: st.DataType, change: Callable[[st.DataType], st.DataType]) -> st.DataType:
    if isinstance(dtype, st.StructType):
        return st.StructType([st.StructField(f.name, _mapped(f.dataType, change)) for f in dtype])
    if isinstance(dtype, st.ArrayType):
        return st.ArrayType(_mapped(dtype.elementType, change))
    if isinstance(dtype, st.MapType):
        return st.MapType(dtype.keyType, _mapped(dtype.valueType, change))
    return change(dtype)


def _inside(dtype: st.DataType) -> list[st.DataType]:
    if isinstance(dtype, st.StructType):
        return [field.dataType for field in dtype]
    if isinstance(dtype, st.ArrayType):
        return [dtype.elementType]
    return [dtype.valueType] if isinstance(dtype, st.MapType) else []


def _any_leaf(
    value: SparkColumn,
    dtype: st.DataType,
    test: Callable[[SparkColumn, st.DataType], SparkColumn | None],
) -> SparkColumn | None:
    """Whether `test` holds for any leaf; None when it has nothing to say of a type like this."""
    if isinstance(dtype, st.StructType):
        found = [_any_leaf(value.getField(f.name), f.dataType, test) for f in dtype]
        known = [one for one in found if one is not None]
        return any_of(known) if known else None
    if isinstance(dtype, st.ArrayType | st.MapType):
        inner = _inside(dtype)[0]
        if _any_leaf(F.lit(None), inner, test) is None:
            return None
        elements = value if isinstance(dtype, st.ArrayType) else F.map_values(value)
        return F.coalesce(F.exists(elements, lambda one: _some(_any_leaf(one, inner, test))), F.lit(False))
    return test(value, dtype)


def _some(found: SparkColumn | None) -> SparkColumn:
    assert found is not None
    return found
