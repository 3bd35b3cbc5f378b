"""A table that is served by key, built by hand with sqlite3: no Spark, no code of the building side."""

from __future__ import annotations

import hashlib
import sqlite3
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from lading.log.state import TableState
from lading.serve.routing import Router
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot
from lading.snapshots.stores.files import LocalStore
from lading.snapshots.stores.protocol import ManifestStore, Published
from lading.state.tables import StateMeta
from lading.storage.bucket import ObjectStorage
from lading.storage.place import place_of

SCHEMA = pa.schema([("imo", pa.int64()), ("_source", pa.int64())])
KINDS = {"u64be": "int", "u32be": "int", "utf8": "str", "raw": "bytes"}

_watched: list[tuple[str, list[str]]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched or event not in ("open", "sqlite3.connect", "os.listdir", "os.scandir"):
        return
    path = unquote(str(arguments[0]).partition("?")[0].removeprefix("file://"))
    for root, seen in _watched:
        if path.startswith(f"{root}/"):
            word = "list" if event.startswith("os.") else "open"
            seen.append(f"{word} {path.removeprefix(f'{root}/')}")


sys.addaudithook(_note)


@contextmanager
def touched(root: Path) -> Iterator[list[str]]:
    """What is opened (`open <path>`) and listed (`list <path>`) below `root` inside the block."""
    entry = (str(root), list[str]())
    _watched.append(entry)
    try:
        yield entry[1]
    finally:
        _watched.remove(entry)


def shard_bytes(rows: Mapping[bytes, bytes]) -> bytes:
    """A shard file, as docs/format has it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shard.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("CREATE TABLE kv(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")
            connection.executemany("INSERT INTO kv VALUES (?, ?)", sorted(rows.items()))
        return path.read_bytes()


class ServedTable:
    """Publishes snapshots of whatever values it is given; shards that stay the same are shared."""

    def __init__(
        self,
        root: Path,
        *,
        num_dbs: int = 4,
        store: ManifestStore | None = None,
        storage: ObjectStorage | None = None,
        key_encoding: str = "u64be",
        encoding: str = "json",
        **meta: Any,
    ) -> None:
        self.root = root
        self.store: ManifestStore = store or LocalStore(root)
        self.storage = storage
        self.num_dbs = num_dbs
        self.sequence = 0
        self.key_encoding = key_encoding
        self.serve = {"key": ["imo"], "kinds": [KINDS[key_encoding]], "encoding": encoding, "spec": "test"}
        self.meta = meta
        self.shards: dict[int, tuple[str, ShardMeta]] = {}
        root.mkdir(parents=True, exist_ok=True)

    def publish(self, values: Mapping[Any, bytes], **custom: Any) -> Published:
        """One snapshot with these values and no others."""
        self.sequence += 1
        run_id = f"r{self.sequence}-{uuid.uuid4().hex[:6]}"
        meta = BuildMeta(
            run_id=run_id,
            created_at=datetime.now(UTC),
            num_dbs=self.num_dbs,
            key_col="imo",
            key_encoding=self.key_encoding,  # type: ignore[arg-type]
            custom={"table": self.root.name, "sequence": self.sequence, "serve": self.serve, **custom},
            **self.meta,
        )
        router = Router.of_manifest(meta)
        grouped: dict[int, dict[bytes, bytes]] = {}
        for key, value in values.items():
            grouped.setdefault(router.route(key), {})[router.key.stored(key)] = value
        shards = [self._shard(number, rows, run_id, router) for number, rows in sorted(grouped.items())]
        payload = build_snapshot(meta, shards, self._fill)
        return self.store.publish(payload, run_id, sequence=self.sequence)

    def file(self, shard: ShardMeta) -> Path:
        return self.root / str(shard.db_url) / "shard.db"

    def _shard(self, number: int, rows: dict[bytes, bytes], run_id: str, router: Router) -> ShardMeta:
        data = shard_bytes(rows)
        digest = hashlib.sha256(data).hexdigest()
        known = self.shards.get(number)
        if known is not None and known[0] == digest:
            return known[1]
        url = f"shards/run_id={run_id}/db={number:05d}/attempt=00"
        if self.storage is not None:
            self.storage.put_new(f"{url}/shard.db", data)
            url = f"{self.storage.url}/{url}"
        else:
            (self.root / url).mkdir(parents=True)
            (self.root / url / "shard.db").write_bytes(data)
        keys = sorted(rows)
        shard = ShardMeta(
            db_id=number,
            db_url=url,
            attempt=0,
            row_count=len(rows),
            min_key=router.key.shown(keys[0]),
            max_key=router.key.shown(keys[-1]),
            checkpoint_id=digest,
            db_bytes=len(data),
        )
        self.shards[number] = (digest, shard)
        return shard

    def _fill(self, con: sqlite3.Connection) -> None:
        state = TableState(place_of(self.root), self._state())
        state.settled().write_root(con, state.meta)

    def _state(self) -> StateMeta:
        now = datetime.now(UTC).isoformat()
        return StateMeta(
            table=self.root.name, table_id="t", created_at=now, sequence=self.sequence,
            data_sequence=self.sequence, at=now, recipe="", schema=SCHEMA.serialize().to_pybytes(),
            order_by=None, next_serial=0,
        )  # fmt: skip
