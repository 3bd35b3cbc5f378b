"""An example transform: Spark DataFrame in, Spark DataFrame out."""

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, round, trim, unix_seconds


def clean(rows: DataFrame, context: object) -> DataFrame:
    """Add the hours at sea and trim ship names. `context` has `table`, `run_id` and `spark`.

    A row must not depend on other files, on the clock or on randomness. Keep the column `_source`:
    lading uses it to replace and retract rows.
    """
    left, came = (unix_seconds(col(name).cast("timestamp")) for name in ("departed_at", "arrived_at"))
    return rows.withColumn("ship", trim("ship")).withColumn("hours", round((came - left) / 3600, 1))
