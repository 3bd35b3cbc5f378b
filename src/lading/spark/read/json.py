"""JSON objects as rows, strictly: one object a line, no key that the schema lacks, no value forced.

Spark's own JSON reader stops at the end of the first value on a line and drops the rest in silence,
ignores unknown keys, takes the last of two equal keys, reads a number as a timestamp, and rounds decimals.
So lines are read as text and parsed by expressions, which leaves the raw text at hand for whatever
doesn't fit.
"""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.model import Column
from lading.spark.read.json_leaves import (
    Leaves,
    as_read,
    comma_in,
    great_double,
    has_leaf,
    not_a_plain_double,
    text_leaves,
)
from lading.spark.read.values import Texts, any_of

_TEXT = "value"  # what Spark's text reader calls its column
_LINE = "__lading_line"
NEW_KEYS = "__lading_new_keys"  # whether an object has keys that are left out
_PARSED = "__lading_json"
_BYTE_ORDER_MARK = "\ufeff"


def json_rows(
    lines: DataFrame,
    columns: tuple[Column, ...],
    options: dict[str, str],
    formats: Texts,
    *,
    raw: str,
    ignore_new: bool,
) -> DataFrame:
    """`lines` with the columns of the schema and `raw` (the text of a bad line) instead of the text."""
    text = F.ltrim(F.col(_TEXT), F.lit(_BYTE_ORDER_MARK))
    kept = [name for name in lines.columns if name != _TEXT]
    lines = lines.select(*(F.col(_quoted(name)) for name in kept), text.alias(_LINE))
    lines = lines.where(F.col(_LINE).rlike(r"\S"))
    schema = st.StructType([st.StructField(c.name, st.DataType.fromDDL(c.type)) for c in columns])
    parsed = lines.withColumn(_PARSED, _parsed(F.col(_LINE), schema, options, raw))
    bad = [_is_bad(F.col(_LINE), schema, raw, ignore_new=ignore_new)]
    if has_leaf(schema, st.DecimalType):
        as_text = F.from_json(F.col(_LINE), text_leaves(schema, st.DecimalType), options)  # type: ignore[arg-type]
        bad += [leaf for leaf in [comma_in(as_text, schema)] if leaf is not None]
    inferred = st.StructType([f for f, c in zip(schema, columns, strict=True) if c.inferred])
    if has_leaf(inferred, st.DoubleType):
        bad.append(_lossy_double(F.col(_LINE), inferred, options))
    leaves = {c.name: Leaves(formats.date, formats.timestamp, c.inferred) for c in columns}
    for field in schema:
        misfit = leaves[field.name].misfit(_field(field.name), field.dataType)
        bad += [misfit] if misfit is not None else []
    new_keys = []
    if ignore_new:
        unknown = unknown_keys(F.col(_LINE), schema)
        assert unknown is not None
        new_keys = [F.coalesce(unknown, F.lit(False)).alias(NEW_KEYS)]
    return parsed.select(
        *(F.col(_quoted(name)) for name in kept),
        *(leaves[f.name].value(_field(f.name), f.dataType).alias(f.name) for f in schema),
        F.when(any_of(bad), F.make_valid_utf8(F.col(_LINE))).alias(raw),
        *new_keys,
    )


def _lossy_double(line: SparkColumn, schema: st.StructType, options: dict[str, str]) -> SparkColumn:
    """Whether a double holds what inference would call something else. The line is parsed once more only if
    a value is so great that it may."""
    great = any_of([one for f in schema if (one := great_double(_field(f.name), f.dataType)) is not None])
    as_text = F.from_json(line, text_leaves(schema, st.DoubleType), options)  # type: ignore[arg-type]
    strange = not_a_plain_double(as_text, schema)
    assert strange is not None
    return F.when(great, F.coalesce(strange, F.lit(False))).otherwise(F.lit(False))


def unknown_keys(text: SparkColumn, dtype: st.DataType, *, ignore_new: bool = False) -> SparkColumn | None:
    """Whether a JSON text has a key, at any depth, that occurs twice or, unless `ignore_new`, that `type`
    lacks."""
    if isinstance(dtype, st.StructType):
        keys = F.json_object_keys(text)
        names = F.array(*(F.lit(name) for name in dtype.names)).cast("array<string>")
        found = F.size(F.array_distinct(keys)) < F.size(keys)
        if not ignore_new:
            found = found | (F.size(F.array_except(keys, names)) > 0)
        for field in dtype:
            inner = F.get_json_object(text, _path(field.name))
            unknown = unknown_keys(inner, field.dataType, ignore_new=ignore_new)
            found = found if unknown is None else found | F.coalesce(unknown, F.lit(False))
        return found
    if isinstance(dtype, st.ArrayType):
        elements = F.from_json(text, "array<string>")
        return _any_unknown(elements, dtype.elementType, ignore_new)
    if isinstance(dtype, st.MapType):
        values = F.map_values(F.from_json(text, "map<string,string>"))
        return _any_unknown(values, dtype.valueType, ignore_new)
    return None


def _any_unknown(elements: SparkColumn, dtype: st.DataType, ignore_new: bool) -> SparkColumn | None:
    if unknown_keys(F.lit(""), dtype) is None:
        return None

    def has_unknown(one: SparkColumn) -> SparkColumn:
        found = unknown_keys(one, dtype, ignore_new=ignore_new)
        return F.lit(False) if found is None else F.coalesce(found, F.lit(False))

    return F.exists(elements, has_unknown)


def _parsed(text: SparkColumn, schema: st.StructType, options: dict[str, str], raw: str) -> SparkColumn:
    """The line as the value of a key, so that whatever follows it on the line is an error."""
    wrapper = st.StructType([st.StructField("v", as_read(schema)), st.StructField(raw, st.StringType())])
    return F.from_json(F.concat(F.lit('{"v":'), text, F.lit("}")), wrapper, options)


def _is_bad(text: SparkColumn, schema: st.StructType, raw: str, *, ignore_new: bool) -> SparkColumn:
    whole = F.col(_PARSED)
    unknown = unknown_keys(text, schema, ignore_new=ignore_new)
    assert unknown is not None
    fits = whole.isNotNull() & whole[raw].isNull() & whole["v"].isNotNull() & _ends_once(text)
    return ~F.coalesce(fits & F.is_valid_utf8(text) & ~unknown, F.lit(False))


def _ends_once(text: SparkColumn) -> SparkColumn:
    """Whether the text is one JSON value: together with `_parsed`, nothing can hide behind it."""
    return F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1


def _field(name: str) -> SparkColumn:
    return F.col(_PARSED)["v"].getField(name)


def _path(name: str) -> str:
    return "$['" + name + "']"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
