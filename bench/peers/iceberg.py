"""Iceberg through pyiceberg: data files are appended as manifest entries; the catalog is SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.fixtures import ROWS, MadeUp, kept, made_up, version_of

_STEP = 10_000  # files a manifest
_NAMES = ("key", "status", "host", "ms")


def table(data: Path, size: int) -> Path:
    """A table of `size` files, with a manifest for every 10,000. Paths in Iceberg are absolute, so the
    fixture is built where it stays."""
    made_by = version_of("pyiceberg") + f"{size} 1"
    folder = kept(data, f"iceberg-{size}", made_by, lambda at: None)
    if not (folder / "done").exists():
        fill(folder, size)
        (folder / "done").touch()
    return folder


def plan(folder: Path, where: str) -> int:
    """Open the table from nothing (the process's cache of manifests is emptied) and plan the files."""
    from pyiceberg.manifest import clear_manifest_cache

    clear_manifest_cache()
    catalog = _catalog(folder)
    try:
        return len(list(catalog.load_table("d.t").scan(row_filter=where).plan_files()))
    finally:
        catalog.close()


def opened(folder: Path) -> Any:
    return _catalog(folder).load_table("d.t")


def append(table: Any, ones: list[MadeUp]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as files:
        for one in ones:
            files.append_data_file(_data_file(one))


def fill(at: Path, size: int) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

    for leftover in at.glob("catalog.db*"):
        leftover.unlink()
    types = (LongType(), IntegerType(), StringType(), DoubleType())
    fields = [NestedField(n, _NAMES[n - 1], types[n - 1], required=False) for n in range(1, 5)]
    catalog = _catalog(at)
    catalog.create_namespace("d")
    made = catalog.create_table("d.t", Schema(*fields))
    for start in range(0, size, _STEP):
        append(made, list(made_up(start, min(size, start + _STEP))))
    catalog.close()


def _catalog(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    at = folder.absolute()
    return SqlCatalog("bench", uri=f"sqlite:///{at}/catalog.db", warehouse=at.as_uri())


def _data_file(one: MadeUp) -> Any:
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record
    from pyiceberg.types import DoubleType, IntegerType, LongType, StringType

    types = {"key": LongType(), "status": IntegerType(), "host": StringType(), "ms": DoubleType()}
    zones = one.zones
    numbers = {name: number for number, name in enumerate(_NAMES, 1)}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file:///nowhere/{one.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=ROWS,
        file_size_in_bytes=100_000,
        column_sizes={},
        value_counts=dict.fromkeys(numbers.values(), ROWS),
        null_value_counts=dict.fromkeys(numbers.values(), 0),
        nan_value_counts={},
        lower_bounds={numbers[name]: to_bytes(types[name], low) for name, (low, _) in zones.items()},
        upper_bounds={numbers[name]: to_bytes(types[name], high) for name, (_, high) in zones.items()},
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
        spec_id=0,
    )
