"""A writer that follows shardyfusion's documents and none of lading's code: shards, manifests, pointer.

Keys are hashed and stored as that project says (xxh3_64 of eight little-endian bytes, or of UTF-8; stored
big-endian); a manifest has its two tables and its columns, and nothing else.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import xxhash

BUILD_META = """CREATE TABLE build_meta (
  run_id TEXT NOT NULL, created_at TEXT NOT NULL, num_dbs INTEGER NOT NULL, s3_prefix TEXT NOT NULL,
  key_col TEXT NOT NULL, sharding TEXT NOT NULL, db_path_template TEXT NOT NULL, shard_prefix TEXT NOT NULL,
  format_version INTEGER NOT NULL, key_encoding TEXT NOT NULL, custom TEXT NOT NULL DEFAULT '{}')"""
SHARDS = """CREATE TABLE shards (
  db_id INTEGER NOT NULL PRIMARY KEY, db_url TEXT, attempt INTEGER NOT NULL, row_count INTEGER NOT NULL,
  min_key TEXT, max_key TEXT, checkpoint_id TEXT, writer_info TEXT NOT NULL DEFAULT '{}')"""
INSERT_SHARD = (
    "INSERT INTO shards (db_id, db_url, attempt, row_count, min_key, max_key, checkpoint_id, writer_info)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
TIMESTAMP = "%Y-%m-%dT%H:%M:%S.%fZ"

Key = int | str
Put = Callable[[str, bytes, str], None]  # name below the root, content, content type


@dataclass
class Build:
    """One run's shards and what its manifest says of them."""

    run_id: str
    created_at: datetime
    num_dbs: int
    s3_prefix: str
    sharding: dict[str, Any]
    key_encoding: str
    shards: list[dict[str, Any]] = field(default_factory=list)
    custom: dict[str, Any] = field(default_factory=dict)
    key_col: str = "_key"
    shard_prefix: str = "shards"
    db_path_template: str = "db={db_id:05d}"


@dataclass
class Writer:
    """Publishes below one root. `put` writes an object; `url` is what the root is called in manifests."""

    url: str
    put: Put
    num_dbs: int = 4
    key_encoding: str = "u64be"
    routing_values: Sequence[Key] | None = None
    cel_expr: str | None = None
    cel_columns: Mapping[str, str] | None = None
    checkpoint: Callable[[bytes], str | None] = lambda data: uuid.uuid4().hex

    def publish(self, values: Mapping[Key, bytes], *, format_version: int = 2, **context: Any) -> Build:
        """All values of one snapshot: shards, then the manifest, then the pointer."""
        build = self.build(values, **context)
        at = datetime.now(UTC).strftime(TIMESTAMP)
        name = f"manifests/{at}_run_id={build.run_id}/manifest"
        self.put(name, manifest(build, format_version), "application/x-sqlite3")
        pointer = {
            "manifest_ref": f"{self.url}/{name}",
            "manifest_content_type": "application/x-sqlite3",
            "run_id": build.run_id,
            "updated_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "format_version": 1,
        }
        self.put("_CURRENT", json.dumps(pointer, sort_keys=True).encode(), "application/json")
        return build

    def build(self, values: Mapping[Key, bytes], *, shard_of: Callable[[Key], int] | None = None) -> Build:
        run_id = uuid.uuid4().hex
        build = Build(run_id, datetime.now(UTC), self.num_dbs, self.url, self._sharding(), self.key_encoding)
        grouped: dict[int, dict[Key, bytes]] = {}
        for key, value in values.items():
            number = (
                shard_of(key)
                if shard_of is not None
                else xxhash.xxh3_64_intdigest(hashed(key)) % self.num_dbs
            )
            grouped.setdefault(number, {})[key] = value
        for number, rows in sorted(grouped.items()):
            data = shard_file({self._stored(key): value for key, value in rows.items()})
            folder = f"shards/run_id={run_id}/db={number:05d}/attempt=00"
            self.put(f"{folder}/shard.db", data, "application/octet-stream")
            build.shards.append(
                {
                    "db_id": number,
                    "db_url": f"{self.url}/{folder}",
                    "attempt": 0,
                    "row_count": len(rows),
                    "min_key": min(rows),  # type: ignore[type-var]
                    "max_key": max(rows),  # type: ignore[type-var]
                    "checkpoint_id": self.checkpoint(data),
                    "writer_info": {"stage_id": 3, "task_attempt_id": 7, "attempt": 0, "duration_ms": 12},
                }
            )
        return build

    def _sharding(self) -> dict[str, Any]:
        return {
            "strategy": "cel" if self.cel_expr else "hash",
            "routing_values": list(self.routing_values) if self.routing_values is not None else None,
            "cel_expr": self.cel_expr,
            "cel_columns": dict(self.cel_columns) if self.cel_columns is not None else None,
            "hash_algorithm": "xxh3_64",
        }

    def _stored(self, key: Key) -> bytes:
        if isinstance(key, str):
            return key.encode()
        return key.to_bytes(8 if self.key_encoding == "u64be" else 4, "big")


def hashed(key: Key) -> bytes:
    return key.encode() if isinstance(key, str) else key.to_bytes(8, "little", signed=True)


def manifest(build: Build, format_version: int) -> bytes:
    with closing(sqlite3.connect(":memory:")) as con:
        con.execute(BUILD_META)
        con.execute(SHARDS)
        con.execute(
            "INSERT INTO build_meta (run_id, created_at, num_dbs, s3_prefix, key_col, sharding,"
            " db_path_template, shard_prefix, format_version, key_encoding, custom)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                build.run_id, build.created_at.isoformat(), build.num_dbs, build.s3_prefix, build.key_col,
                json.dumps(build.sharding, sort_keys=True), build.db_path_template, build.shard_prefix,
                format_version, build.key_encoding, json.dumps(build.custom, sort_keys=True),
            ),
        )  # fmt: skip
        for shard in build.shards:
            keys = ("min_key", "max_key", "writer_info")
            told = {name: json.dumps(value) if name in keys else value for name, value in shard.items()}
            con.execute(INSERT_SHARD, tuple(told.values()))
        con.commit()
        return con.serialize()


def shard_file(rows: Mapping[bytes, bytes]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shard.db"
        with closing(sqlite3.connect(path)) as con, con:
            con.execute("CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")
            con.executemany("INSERT INTO kv VALUES (?, ?)", sorted(rows.items()))
        return path.read_bytes()


def into_folder(root: Path) -> Put:
    def put(name: str, data: bytes, content_type: str) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)

    return put
