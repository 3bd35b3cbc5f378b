"""What Iceberg engines see of a table, and what they should see: rows as `lading scan` gives them."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.sail import by_sail

import lading
from lading.layout.table import SOURCE

# Which planner polars takes: its own comes as another package.
os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")

SOAK = bool(os.environ.get("LADING_SOAK"))  # then also by engines that take a while to be installed
Seen = tuple[list[tuple[str, str]], Counter[str]]  # columns with their types, and rows


def metadata_of(table: Path | str) -> str:
    """The metadata that `version-hint.text` names."""
    version = Path(table, "metadata", "version-hint.text").read_text().strip()
    return str(Path(table, "metadata", f"v{version}.metadata.json"))


def connected() -> Any:
    """DuckDB with its Iceberg extension, which comes from PyPI."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{name}")
        [file] = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def by_duckdb(table: Path | str) -> pa.Table:
    with connected() as connection:
        return connection.execute(f"SELECT * FROM iceberg_scan('{table}')").to_arrow_table()


def by_pyiceberg(table: Path | str) -> pa.Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(metadata_of(table)).scan().to_arrow()


def by_polars(table: Path | str, **which: Any) -> pa.Table:
    import polars

    return polars.scan_iceberg(metadata_of(table), **which).collect().to_arrow()


ENGINES: dict[str, Callable[[Path | str], pa.Table]] = {
    "duckdb": by_duckdb,
    "pyiceberg": by_pyiceberg,
    "polars": by_polars,
}


def by_daft(table: Path | str) -> pa.Table:
    import daft
    from pyiceberg.table import StaticTable

    return daft.read_iceberg(StaticTable.from_metadata(metadata_of(table))).to_arrow()


def by_datafusion(table: Path | str) -> pa.Table:
    from datafusion import SessionContext
    from pyiceberg.table import StaticTable

    context = SessionContext()
    context.register_table("t", StaticTable.from_metadata(f"file://{metadata_of(table)}"))
    return context.sql("SELECT * FROM t").to_arrow_table()


def by_chdb(table: Path | str) -> pa.Table:
    """It opens files below the working directory only. Its type for times without a zone is another than the
    one for times with a zone, but since 26.9 it hands on both with one."""
    import chdb

    with contextlib.chdir("/"):
        rows = chdb.query(f"SELECT * FROM icebergLocal('{table}/')", "ArrowTable")
        described = chdb.query(f"DESCRIBE icebergLocal('{table}/')", "ArrowTable")
    kinds = zip(described["name"].to_pylist(), described["type"].to_pylist(), strict=True)
    plain = {name for name, kind in kinds if "DateTime64(6)" in kind}
    bare = [
        pa.field(field.name, pa.timestamp("us") if field.name in plain else field.type)
        for field in rows.schema
    ]
    return rows.cast(pa.schema(bare))


MORE_ENGINES = {  # of the groups `engines` and `sail`
    "daft": by_daft,
    "datafusion": by_datafusion,
    "chdb": by_chdb,
    "sail": by_sail,
}


def by_lading(table: Path | str, **which: Any) -> pa.Table:
    with lading.open(table, **which) as reader:
        rows = reader.scan().to_table()
    return rows.drop_columns([SOURCE])


def seen(rows: pa.Table) -> Seen:
    """Comparable: types in the one spelling that all engines have for them, rows in any order."""
    kinds = [(field.name, _plain(field.type)) for field in rows.schema]
    return kinds, Counter(repr(_value(row)) for row in rows.to_pylist(maps_as_pydicts="lossy"))


def _plain(kind: pa.DataType) -> str:
    """An Arrow type as Iceberg has it: no small integers, and one width of text."""
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width == 64 else "int"
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_string(kind):
        return "string"
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_binary(kind):
        return "binary"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_map(kind):
        return f"map<{_plain(kind.key_type)}, {_plain(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_plain(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{one.name}: {_plain(one.type)}' for one in kind)}>"
    return str(kind)


def _value(value: Any) -> Any:
    """NaN is NaN, and an instant is one whatever its zone is called."""
    if isinstance(value, dict):
        return {name: _value(one) for name, one in sorted(value.items())}
    if isinstance(value, list):
        return [_value(one) for one in value]
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        return value.timestamp()
    return value


def assert_all_see_the_same(table: Path | str, *, but: tuple[str, ...] = ()) -> None:
    """Each engine sees the rows that lading's readers see, types included; `but` those that can't."""
    wanted = seen(by_lading(table))
    for name, engine in (ENGINES | MORE_ENGINES if SOAK else ENGINES).items():
        if name not in but:
            assert seen(engine(table)) == wanted, name


def assert_tags_read_as_they_did(table: Path | str) -> int:
    """Each engine sees of every tag what lading's readers see of that snapshot; how many tags there are."""
    from pyiceberg.table import StaticTable

    shown = StaticTable.from_metadata(metadata_of(table))
    with connected() as connection:
        for one in shown.metadata.snapshots:
            assert one.summary is not None
            wanted = seen(by_lading(table, ref=one.summary["lading.manifest"]))
            found = connection.execute(
                f"SELECT * FROM iceberg_scan('{table}', snapshot_from_id => {one.snapshot_id})"
            )
            assert seen(found.to_arrow_table()) == wanted, f"duckdb: {one.summary}"
            assert seen(shown.scan(snapshot_id=one.snapshot_id).to_arrow()) == wanted, (
                f"pyiceberg: {one.summary}"
            )
            assert seen(by_polars(table, snapshot_id=one.snapshot_id)) == wanted, f"polars: {one.summary}"
    return len(shown.metadata.snapshots)
