"""Spark, and all that imports it. The names that users import from here are read/spark_source.py's."""

from typing import Any

__all__ = ["OPTIONS", "LadingSource", "register"]


def __getattr__(name: str) -> Any:
    # Late: a session without a table to read needs none of it, and it needs this folder.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lading.read import spark_source

    return getattr(spark_source, name)
