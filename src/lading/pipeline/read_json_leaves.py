"""The values of JSON that Spark's parser is lax about, at any depth: timestamps and decimals.

It takes a bare number for a timestamp, rounds 1.239 to fit decimal(5,2) and reads "1,500" as 1500. So
timestamps are first read as text and decimals as wide as they get; what they become, and whether
anything was lost on the way, is worked out here by walking down the type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.pipeline.read_values import any_of

_DIGITS = 38  # the most that a decimal has


def as_read(type: st.DataType) -> st.DataType:
    """The type that Spark is asked to parse for a column of `type`."""
    return _mapped(type, _parsed_as)


def text_leaves(type: st.DataType) -> st.DataType:
    """The type with text for decimals: what was written there, as far as it was in quotes."""
    return _mapped(
        type, lambda leaf: st.StringType() if isinstance(leaf, st.DecimalType) else _parsed_as(leaf)
    )


def has_leaf(type: st.DataType, kind: type[st.DataType]) -> bool:
    return isinstance(type, kind) or any(has_leaf(inner, kind) for inner in _inside(type))


def comma_in(value: SparkColumn, type: st.DataType) -> SparkColumn | None:
    """Whether a decimal was written in quotes with a comma, which Spark's parser drops."""
    return _any_leaf(
        value, type, lambda leaf, kind: _comma(leaf) if isinstance(kind, st.DecimalType) else None
    )


@dataclass(frozen=True, slots=True)
class Leaves:
    timestamp_format: str

    def value(self, found: SparkColumn, type: st.DataType) -> SparkColumn:
        """The value of `type` for what was parsed `as_read`."""
        if isinstance(type, st.TimestampType | st.DecimalType):
            return self._leaf(found, type)
        if not has_leaf(type, st.TimestampType) and not has_leaf(type, st.DecimalType):
            return found
        if isinstance(type, st.StructType):
            fields = [self.value(found.getField(f.name), f.dataType).alias(f.name) for f in type]
            return F.when(found.isNotNull(), F.struct(*fields))
        if isinstance(type, st.MapType):
            inner = type.valueType
            return F.transform_values(found, lambda _, one: self.value(one, inner))
        assert isinstance(type, st.ArrayType)
        element = type.elementType
        return F.transform(found, lambda one: self.value(one, element))

    def misfit(self, found: SparkColumn, type: st.DataType) -> SparkColumn | None:
        """Whether anything in what was parsed is no value of its type, or would lose digits."""
        return _any_leaf(found, type, self._lost)

    def _leaf(self, found: SparkColumn, type: st.DataType) -> SparkColumn:
        if isinstance(type, st.TimestampType):
            return F.try_to_timestamp(found, F.lit(self.timestamp_format))
        return found.try_cast(type)

    def _lost(self, found: SparkColumn, type: st.DataType) -> SparkColumn | None:
        if isinstance(type, st.TimestampType):
            return found.isNotNull() & self._leaf(found, type).isNull()
        if isinstance(type, st.DecimalType):
            return found.isNotNull() & F.coalesce(self._leaf(found, type) != found, F.lit(True))
        return None


def _comma(text: SparkColumn) -> SparkColumn:
    return F.coalesce(F.contains(text, F.lit(",")), F.lit(False))


def _parsed_as(leaf: st.DataType) -> st.DataType:
    if isinstance(leaf, st.TimestampType):
        return st.StringType()
    if isinstance(leaf, st.DecimalType):
        return st.DecimalType(_DIGITS, _DIGITS - (leaf.precision - leaf.scale))
    return leaf


def _mapped(type: st.DataType, change: Callable[[st.DataType], st.DataType]) -> st.DataType:
    if isinstance(type, st.StructType):
        return st.StructType([st.StructField(f.name, _mapped(f.dataType, change)) for f in type])
    if isinstance(type, st.ArrayType):
        return st.ArrayType(_mapped(type.elementType, change))
    if isinstance(type, st.MapType):
        return st.MapType(type.keyType, _mapped(type.valueType, change))
    return change(type)


def _inside(type: st.DataType) -> list[st.DataType]:
    if isinstance(type, st.StructType):
        return [field.dataType for field in type]
    if isinstance(type, st.ArrayType):
        return [type.elementType]
    return [type.valueType] if isinstance(type, st.MapType) else []


def _any_leaf(
    value: SparkColumn,
    type: st.DataType,
    test: Callable[[SparkColumn, st.DataType], SparkColumn | None],
) -> SparkColumn | None:
    """Whether `test` holds for any leaf; None when it has nothing to say of a type like this."""
    if isinstance(type, st.StructType):
        found = [_any_leaf(value.getField(f.name), f.dataType, test) for f in type]
        known = [one for one in found if one is not None]
        return any_of(known) if known else None
    if isinstance(type, st.ArrayType | st.MapType):
        inner = _inside(type)[0]
        if _any_leaf(F.lit(None), inner, test) is None:
            return None
        elements = value if isinstance(type, st.ArrayType) else F.map_values(value)
        return F.coalesce(F.exists(elements, lambda one: _some(_any_leaf(one, inner, test))), F.lit(False))
    return test(value, type)


def _some(found: SparkColumn | None) -> SparkColumn:
    assert found is not None
    return found
