"""A manifest as shardyfusion writes it: its two tables and nothing else, from rows that lie elsewhere.

Its PostgreSQL store keeps builds and shards as rows and no manifest at all. What is made of them here is
parsed like any other, so nothing is checked twice, and what is wrong with a row is said there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

BUILD_COLUMNS = (
    "run_id", "created_at", "num_dbs", "s3_prefix", "key_col", "sharding", "db_path_template",
    "shard_prefix", "key_encoding", "custom",
)  # fmt: skip
SHARD_COLUMNS = (
    "db_id", "db_url", "attempt", "row_count", "min_key", "max_key", "checkpoint_id", "writer_info",
)  # fmt: skip


def foreign_snapshot(build: Sequence[Any], shards: Sequence[Sequence[Any]], *, version: int) -> bytes:
    """The manifest that rows of these columns describe; structures as JSON text, the time as ISO-8601."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for name, columns, rows in (
            ("build_meta", (*BUILD_COLUMNS, "format_version"), [(*build, version)]),
            ("shards", SHARD_COLUMNS, shards),
        ):
            listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
            connection.execute(f"CREATE TABLE {name} ({listed})")
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return connection.serialize()
