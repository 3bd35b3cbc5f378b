"""Spark's word on an expression of lading.yaml, before it is asked of a single row.

Its words were looked at when lading.yaml was read (config/sql.py). Here Spark resolves them against the
table's columns, on a frame without rows, and the plan shows what words may hide: a query of its own, a
session's variable, a function that is somebody's own.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.config.sql import calls, sql_problem
from lading.errors import ConfigError
from lading.layout.table import SOURCE
from lading.spark.determinism import foreign, nondeterministic
from lading.spark.failures import Py4JError, raise_interrupt, said_first

_TIMES = (st.DateType, st.TimestampType, st.TimestampNTZType)
_OWN = "use only columns of the row"


def quoted(name: str) -> str:
    """A column's name as Spark's parser takes it, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def condition(
    bare: DataFrame, text: str, wrong: Callable[[str, str], ConfigError], *, aggregates: bool = False
) -> tuple[Column, bool]:
    """The expression `text` on the columns of `bare`, a frame without rows, and whether it speaks of each
    row: of all rows together it may only speak with `aggregates`. `wrong` makes the error for what may not
    be asked, of a problem and a hint."""
    written = sql_problem(text)  # before Spark resolves it: that alone may read what it names
    if written is not None:
        raise wrong(written, _OWN)
    try:
        holds = F.expr(f"({text})").cast("boolean") if aggregates else F.expr(text)
        chosen = _over_all(bare, holds) if aggregates else None
        of_rows = chosen is None
        if chosen is None:
            _ = bare.where(holds).schema  # sums and windows have no place there
            chosen = bare.select(holds.alias("held"))
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        said = said_first(error) or type(error).__name__
        columns = ", ".join(name for name in bare.columns if name != SOURCE)
        hint = f"a condition on one row, in Spark SQL; columns: {columns}"
        raise wrong(f"can't be evaluated: {said}" if aggregates else said, hint) from error
    if of_rows and not isinstance(chosen.schema["held"].dataType, st.BooleanType):
        found = chosen.schema["held"].dataType.simpleString()
        raise wrong(f"gives {found}, not true or false", "compare it with something")
    try:
        problem = _refused(chosen, text, bare.schema)
    except (PySparkException, Py4JError) as error:  # Spark works constants out when it explains its plan
        raise_interrupt(error)
        raise wrong(said_first(error), "write it with smaller values") from error
    if problem is not None:
        raise wrong(problem, _OWN)
    return holds, of_rows


def _over_all(bare: DataFrame, holds: Column) -> DataFrame | None:
    """All rows together as the expression has them, None if it has no aggregate."""
    try:
        chosen = bare.agg(holds)
        _ = chosen.schema  # a Spark Connect client finds out about nothing before it is asked
    except ParseException:
        raise
    except AnalysisException:
        return None
    return chosen


def _refused(chosen: DataFrame, text: str, columns: st.StructType) -> str | None:
    """Why the expression `text` may not be asked, `chosen` being what it makes of a frame with these columns
    and without rows; None if it may."""
    own = calls(text) & _own_functions(chosen.sparkSession)
    if own:
        return f"calls {min(own)}(), which is not a built-in Spark function"
    strange = foreign(chosen)
    if strange is not None:
        return f"uses {strange}; it may only use columns of the row or aggregates of them"
    chance = nondeterministic(chosen, [one.name for one in columns if isinstance(one.dataType, _TIMES)])
    return None if chance is None else f"uses {chance}, which gives different results each time"


def _own_functions(spark: SparkSession) -> frozenset[str]:
    """Those that a transform or somebody else registered: their code is in no recipe."""
    found = spark.sql("SHOW USER FUNCTIONS").collect()
    return frozenset(row["function"].rpartition(".")[2].lower() for row in found)
