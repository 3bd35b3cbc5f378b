"""Rows for other libraries: each gets them as lazily as it can take them, from the one scan there is.

So a pruned file stays unopened, rows that a `minus` takes away stay away, and an older part reads as the
table's schema says, whatever the library. None of them is a dependency.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

from lading.errors import MissingExtra
from lading.read.scan import Scan


def to_arrow(scan: Scan) -> pa.RecordBatchReader:
    """A stream that reads as it is consumed."""
    return pa.RecordBatchReader.from_batches(scan.schema, iter(scan))


def to_pandas(scan: Scan) -> Any:
    """All rows in memory: pandas knows no other way."""
    _library("pandas")
    return scan.to_table().to_pandas()


def to_polars(scan: Scan) -> Any:
    """A LazyFrame. polars says which columns it needs and how many rows; its own filter it applies to
    each batch as it comes."""
    polars = _library("polars")
    plugins = _library("polars.io.plugins")
    empty = polars.from_arrow(scan.schema.empty_table())

    def rows(
        with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        left = n_rows
        names = list(scan.schema.names) if with_columns is None else with_columns
        # A count needs no column, and a scan can't do without one.
        for batch in scan.again(names or scan.schema.names[:1]):
            frame = polars.from_arrow(pa.Table.from_batches([batch]), rechunk=False)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame.select(names) if names else frame
            if left == 0:
                return

    return plugins.register_io_source(rows, schema=empty.schema)


def to_duckdb(scan: Scan, connection: Any = None) -> Any:
    """A relation over a stream that DuckDB opens anew each time it evaluates it."""
    duckdb = _library("duckdb")
    return (connection or duckdb.connect()).from_arrow(_Stream(scan))


class _Stream:
    """What Arrow calls a stream exporter."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    def __arrow_c_schema__(self) -> object:
        return self._scan.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return to_arrow(self._scan.again()).__arrow_c_stream__(requested_schema)


def _library(name: str) -> Any:
    package = name.partition(".")[0]
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(
            f"to_{package} needs {package}, which is not installed", hint=f"pip install {package}"
        ) from error
