"""JSON objects as rows, strictly: one object a line, no key that the schema lacks, no value forced.

Spark's own JSON reader stops at the end of the first value on a line and drops the rest in silence,
ignores unknown keys, takes the last of two equal keys, and reads a number as a timestamp. So lines are
read as text and parsed by expressions, which leaves the raw text at hand for whatever doesn't fit.
"""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.model import Column

_TEXT = "value"  # what Spark's text reader calls its column
_BYTE_ORDER_MARK = "\ufeff"


def json_rows(
    lines: DataFrame, columns: tuple[Column, ...], options: dict[str, str], *, whole: bool, raw: str
) -> DataFrame:
    """`lines` with the columns of the schema and `raw` (the text of a bad line) instead of the text."""
    text = F.ltrim(F.col(_TEXT), F.lit(_BYTE_ORDER_MARK))
    kept = [name for name in lines.columns if name != _TEXT]
    lines = lines.select(*(F.col(_quoted(name)) for name in kept), text.alias(_TEXT))
    if whole:
        lines = lines.withColumn(_TEXT, F.explode(_elements(F.col(_TEXT), options)))
    lines = lines.where(F.col(_TEXT).rlike(r"\S"))
    schema = st.StructType([st.StructField(c.name, st.DataType.fromDDL(c.type)) for c in columns])
    parsed = lines.withColumn("__lading_json", _parsed(F.col(_TEXT), schema, options, raw))
    found = {c.name: _value(c, schema[c.name].dataType, options) for c in columns}
    bad = _is_bad(F.col(_TEXT), schema, raw)
    for column in columns:
        if isinstance(schema[column.name].dataType, st.TimestampType):
            bad = bad | (_field(column.name).isNotNull() & found[column.name].isNull())
    return parsed.select(
        *(F.col(_quoted(name)) for name in kept),
        *(value.alias(name) for name, value in found.items()),
        F.when(bad, F.make_valid_utf8(F.col(_TEXT))).alias(raw),
    )


def unknown_keys(text: SparkColumn, type: st.DataType) -> SparkColumn | None:
    """Whether a JSON text has a key, at any depth, that `type` lacks or that occurs twice."""
    if isinstance(type, st.StructType):
        keys = F.json_object_keys(text)
        names = F.array(*(F.lit(name) for name in type.names)).cast("array<string>")
        found = (F.size(F.array_except(keys, names)) > 0) | (F.size(F.array_distinct(keys)) < F.size(keys))
        for field in type:
            inner = unknown_keys(F.get_json_object(text, _path(field.name)), field.dataType)
            found = found if inner is None else found | F.coalesce(inner, F.lit(False))
        return found
    if isinstance(type, st.ArrayType):
        elements = F.from_json(text, "array<string>")
        return _any_unknown(elements, type.elementType)
    if isinstance(type, st.MapType):
        return _any_unknown(F.map_values(F.from_json(text, "map<string,string>")), type.valueType)
    return None


def _any_unknown(elements: SparkColumn, type: st.DataType) -> SparkColumn | None:
    if unknown_keys(F.lit(""), type) is None:
        return None

    def has_unknown(one: SparkColumn) -> SparkColumn:
        found = unknown_keys(one, type)
        return F.lit(False) if found is None else F.coalesce(found, F.lit(False))

    return F.exists(elements, has_unknown)


def _elements(text: SparkColumn, options: dict[str, str]) -> SparkColumn:
    """The objects of a file that is one array, or one object; the whole text if it is neither."""
    array = F.when(_ends_once(text), F.from_json(text, "array<string>", options))
    listed = F.ltrim(F.regexp_replace(text, r"^\s+", "")).startswith("[")
    return F.coalesce(F.when(listed, array), F.array(text))


def _parsed(text: SparkColumn, schema: st.StructType, options: dict[str, str], raw: str) -> SparkColumn:
    """The line as the value of a key, so that whatever follows it on the line is an error."""
    as_read = [
        st.StructField(f.name, st.StringType() if isinstance(f.dataType, st.TimestampType) else f.dataType)
        for f in schema
    ]
    wrapper = st.StructType(
        [st.StructField("v", st.StructType(as_read)), st.StructField(raw, st.StringType())]
    )
    return F.from_json(F.concat(F.lit('{"v":'), text, F.lit("}")), wrapper, options)


def _is_bad(text: SparkColumn, schema: st.StructType, raw: str) -> SparkColumn:
    whole = F.col("__lading_json")
    unknown = unknown_keys(text, schema)
    assert unknown is not None
    fits = whole.isNotNull() & whole[raw].isNull() & whole["v"].isNotNull() & _ends_once(text)
    return ~F.coalesce(fits & F.is_valid_utf8(text) & ~unknown, F.lit(False))


def _ends_once(text: SparkColumn) -> SparkColumn:
    """Whether the text is one JSON value: together with `_parsed`, nothing can hide behind it."""
    return F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1


def _field(name: str) -> SparkColumn:
    return F.col("__lading_json")["v"].getField(name)


def _value(column: Column, type: st.DataType, options: dict[str, str]) -> SparkColumn:
    if isinstance(type, st.TimestampType):
        return F.try_to_timestamp(_field(column.name), F.lit(options["timestampFormat"]))
    return _field(column.name)


def _path(name: str) -> str:
    return "$['" + name + "']"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
