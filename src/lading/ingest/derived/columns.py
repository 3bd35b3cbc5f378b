"""The columns that inputs are cut by, looked at before anything runs."""

from __future__ import annotations

import pyarrow as pa

from lading.config.derived import Input
from lading.config.project import Config, TableConfig
from lading.formats.arrow_types import arrow_schema
from lading.ingest.derived.inputs import check_columns, place_and_store, without_buckets
from lading.ingest.schema import follows, pinned_columns
from lading.layout.table import SOURCE
from lading.snapshots.opening import build_meta_and_schema


def check_known_columns(config: Config, table: TableConfig) -> None:
    """ConfigError for `by` columns and buckets that aren't there, or differ, as far as that can be known by
    now: an input that was never run is looked at when it was."""
    if table.derived is None:
        return
    for one in table.derived.inputs:
        if one.by_bucket and one.path is None and config.tables[one.name].bucket_size is None:
            raise without_buckets(table, one)
    known = {one.name: schema for one in table.derived.cut if (schema := _schema(config, one)) is not None}
    check_columns(table, known)


def _schema(config: Config, one: Input) -> pa.Schema | None:
    """The columns that it will have: of a table whose files are read as they are, its schema file says so,
    unless it follows the files and is settled by the run itself."""
    own = config.tables[one.name] if one.path is None else None
    if own is not None and own.derived is None and own.transform is None and not follows(own):
        columns = pinned_columns(config, own)
        return None if columns is None else arrow_schema(columns)
    if own is not None:
        return None  # its files or its code say so, and these may have changed since it was last run
    _, store = place_and_store(config, one)
    current = store.load_current()
    _, schema = (None, None) if current is None else build_meta_and_schema(store, current.ref)
    if not schema:
        return None
    return pa.schema([field for field in pa.ipc.read_schema(pa.py_buffer(schema)) if field.name != SOURCE])
