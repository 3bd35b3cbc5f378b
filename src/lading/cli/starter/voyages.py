"""An example transform: Spark DataFrame in, Spark DataFrame out."""

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, round, trim, unix_seconds


def clean(rows: DataFrame, context: object) -> DataFrame:
    """Hours at sea, and ship names without stray spaces. `context` has `table`, `run_id` and `spark`.

    Rows of one file must not depend on another file, on the clock or on chance, and the column
    `_source` has to stay: lading uses it to replace and retract rows.
    """
    left, came = (unix_seconds(col(name).cast("timestamp")) for name in ("departed_at", "arrived_at"))
    return rows.withColumn("ship", trim("ship")).withColumn("hours", round((came - left) / 3600, 1))
