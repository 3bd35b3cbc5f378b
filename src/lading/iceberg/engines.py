"""A line of code for each engine: how it reads a table that lading published."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lading.layout.table import METADATA


@dataclass(frozen=True, slots=True)
class Line:
    engine: str
    code: str


def lines(table: str, location: str, metadata: str) -> list[Line]:
    """`location` is where the table lies, `metadata` the version that readers are pointed at: engines that
    take the location find it by themselves, and the next one too."""
    in_bucket = "://" in location
    file = metadata.rpartition("/")[2]
    clickhouse = "icebergS3" if in_bucket else "icebergLocal"
    whole = location if in_bucket else f"file://{location}"
    return [
        Line("DuckDB", f"SELECT * FROM iceberg_scan({_in_sql(location)});"),
        Line("polars", f"polars.scan_iceberg({_in_python(metadata)})"),
        Line(
            "pyiceberg",
            f"pyiceberg.table.StaticTable.from_metadata({_in_python(metadata)}).scan().to_arrow()",
        ),
        Line("Spark, Sail", f'spark.read.format("iceberg").load({_in_python(location)})'),
        Line(
            "daft",
            f"daft.read_iceberg(pyiceberg.table.StaticTable.from_metadata({_in_python(metadata)}))",
        ),
        Line("ClickHouse, chDB", f"SELECT * FROM {clickhouse}({_in_sql(f'{location}/')})"),
        Line(
            "Trino",
            f"CALL iceberg.system.register_table(schema_name => 'default', table_name => '{table}', "
            f"table_location => {_in_sql(whole)}, "
            f"metadata_file_name => '{file}')",
        ),
        Line(
            "Snowflake",
            f"CREATE ICEBERG TABLE {table} EXTERNAL_VOLUME = '…' CATALOG = '…' "
            f"METADATA_FILE_PATH = '{METADATA}/{file}'",
        ),
    ]


def unreadable(location: str) -> str | None:
    """Why some engines can't read a table that lies there, whatever lading writes; None if all can."""
    if not any(mark in location for mark in "#?"):
        return None
    return (
        "pyiceberg, and polars and daft, which use it, take the rest of a path behind # or ? for something "
        "else and find no file: they can't read this table until the warehouse lies elsewhere"
    )


def ambiguous(schemas: Iterable[Mapping[str, Any]]) -> str | None:
    """Why some engines can't read a table with these columns, whatever lading writes; None if all can."""
    for schema in schemas:
        for name, times in Counter(_full_names(schema)).items():
            if times > 1:
                return (
                    f"a column and a field inside another one are both {name!r} to pyiceberg, and to polars "
                    "and daft, which use it: rename one of them; these engines can read the table once the "
                    "snapshots from before are cleaned"
                )
    return None


def _full_names(kind: Any, before: str = "") -> Iterator[str]:
    """Of all that is inside of a schema or a type, each with the names around it before a dot."""
    if not isinstance(kind, Mapping):
        return
    inside = {one["name"]: one["type"] for one in kind.get("fields", ())}
    inside |= {step: kind[step] for step in ("element", "key", "value") if step in kind}
    for name, of in inside.items():
        yield f"{before}{name}"
        yield from _full_names(of, f"{before}{name}.")


def _in_sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _in_python(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
