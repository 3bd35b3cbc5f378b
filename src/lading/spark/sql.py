"""Spark's word on an expression of lading.yaml, before it is asked of a single row.

Its words were looked at when lading.yaml was read (config/sql.py). Here Spark resolves them against the
table's columns, on a frame without rows, and the plan shows what words may hide: a query of its own, a
session's variable, a function that is somebody's own.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lading.config.sql import calls
from lading.spark.determinism import foreign, nondeterministic

_TIMES = (st.DateType, st.TimestampType, st.TimestampNTZType)


def refused(chosen: DataFrame, text: str, columns: st.StructType) -> str | None:
    """Why the expression `text` may not be asked, `chosen` being what it makes of a frame with these columns
    and without rows; None if it may."""
    own = calls(text) & _own_functions(chosen.sparkSession)
    if own:
        return f"calls {min(own)}(), which is not one of Spark's own functions"
    strange = foreign(chosen)
    if strange is not None:
        return f"uses {strange}: only columns of the row, or aggregates of them, can be asked about"
    chance = nondeterministic(chosen, [one.name for one in columns if isinstance(one.dataType, _TIMES)])
    return None if chance is None else f"uses {chance}, so it would differ each time"


def _own_functions(spark: SparkSession) -> frozenset[str]:
    """Those that a transform or somebody else registered: their code is in no recipe."""
    found = spark.sql("SHOW USER FUNCTIONS").collect()
    return frozenset(row["function"].rpartition(".")[2].lower() for row in found)
