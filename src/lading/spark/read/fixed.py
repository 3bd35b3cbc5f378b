"""Lines of fixed width as rows: each column is so many characters from a place in the line.

A line that is too short for the spec is a bad row, an empty one too; nothing is padded and nothing is
dropped but what `record_type_filter` says is no record. What follows the last column is not looked at.
The staging has turned other encodings into UTF-8: Spark's reader of lines knows no other.
"""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.model import Column, Field, IngestJob, Layout
from lading.spark.read.values import Texts, quoted, text_name, typed_rows

_TEXT = "value"  # what Spark's text reader calls its column
LINE = "__lading_line"
_BYTE_ORDER_MARK = "\ufeff"


def fixed_rows(lines: DataFrame, job: IngestJob) -> DataFrame:
    """`lines` with the columns of the job's layout, and the text of bad lines, instead of the text."""
    layout = job.layout
    assert layout is not None, "a fixed-width job without a layout"
    kept = [F.col(quoted(name)) for name in lines.columns if name != _TEXT]
    lines = lines.select(*kept, F.ltrim(F.col(_TEXT), F.lit(_BYTE_ORDER_MARK)).alias(LINE))
    line = F.col(LINE)
    if layout.filter is not None:
        lines = lines.where(_is_record(line, layout))
    pieces = [_piece(line, field).alias(text_name(number)) for number, field in enumerate(layout.fields)]
    short = f"CASE WHEN length({LINE}) < {layout.width} THEN {LINE} END"
    columns = [Column(field.name, field.type) for field in layout.fields]
    typed = typed_rows(lines.select("*", *pieces), columns, Texts.of(job), malformed=short, record=LINE)
    return typed.drop(LINE)


def _is_record(line: SparkColumn, layout: Layout) -> SparkColumn:
    """Whether the filter lets a line through. One too short to tell is a bad row, not another record."""
    assert layout.filter is not None
    position, length, value = layout.filter
    here = F.substring(line, position + 1, length)
    return (here == value) | (F.length(line) < position + length)


def _piece(line: SparkColumn, field: Field) -> SparkColumn:
    piece = F.substring(line, field.start + 1, field.length)
    if field.type != "string":
        return F.trim(piece)
    return F.nullif(F.trim(piece), F.lit("")) if field.trim else piece
