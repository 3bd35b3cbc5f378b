"""A line of code for each engine: how it reads a table that lading published."""

from __future__ import annotations

from dataclasses import dataclass

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
    clickhouse = f"icebergS3('{location}/')" if in_bucket else f"icebergLocal('{location}/')"
    return [
        Line("DuckDB", f"SELECT * FROM iceberg_scan('{location}');"),
        Line("polars", f'polars.scan_iceberg("{metadata}")'),
        Line("pyiceberg", f'pyiceberg.table.StaticTable.from_metadata("{metadata}").scan().to_arrow()'),
        Line("Spark, Sail", f'spark.read.format("iceberg").load("{location}")'),
        Line(
            "daft",
            f'daft.read_iceberg(pyiceberg.table.StaticTable.from_metadata("{metadata}"))',
        ),
        Line("ClickHouse, chDB", f"SELECT * FROM {clickhouse}"),
        Line(
            "Trino",
            f"CALL iceberg.system.register_table(schema_name => 'default', table_name => '{table}', "
            f"table_location => '{location if in_bucket else f'file://{location}'}', "
            f"metadata_file_name => '{file}')",
        ),
        Line(
            "Snowflake",
            f"CREATE ICEBERG TABLE {table} EXTERNAL_VOLUME = '…' CATALOG = '…' "
            f"METADATA_FILE_PATH = '{METADATA}/{file}'",
        ),
    ]
