"""A table without Spark, on disk or in a bucket: a real log, real parts, a real store and real run records,
on a clock of its own. What runs, readers and crashes do is played by hand; cleaning and the rest are the
product's."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from support.handmade import shard_bytes
from support.servers import S3Server

import lading
from lading.config.project import Config, SparkConfig, TableConfig
from lading.log.table import Table
from lading.model import Commit, Member, Place, Source
from lading.parts.footer import Origin
from lading.parts.write import PartWriter
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot
from lading.snapshots.runs import RunHandle, start
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.files import LocalStore
from lading.snapshots.stores.protocol import ManifestStore, Published
from lading.state.members import MemberStore
from lading.storage.place import folder_of, place, storage_of

SHARD = shard_bytes({(1).to_bytes(8, "big"): b"v"})
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string()), ("_source", pa.int64())])


@dataclass
class InFlight:
    """A run that has begun: what it wrote, and the log as it saw it."""

    run_id: str
    table: Table
    handle: RunHandle
    parts: list[Member] = field(default_factory=list)
    replaces: tuple[str, ...] = ()
    number: int = 0  # of its source
    saw: frozenset[str] = frozenset()  # the members that were live when it began: it may read them


class World:
    """One table, `t`, in `folder`/warehouse."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        table = TableConfig("t", folder / "data", "*.csv", "csv", order_by="id")
        self.config = Config(
            folder,
            Place(str(folder / "warehouse")),
            folder / ".lading_cache",
            SparkConfig(),
            {"t": table},
            folder / "x",
        )
        self.now = datetime.now(UTC)
        self.live: set[str] = set()  # what the log has to hold, by the commits that were acknowledged
        self._runs = 0
        self.schema = SCHEMA  # of the rows that runs write
        self.settle()

    def settle(self) -> None:
        """Where the table lies."""
        self.where: Place = self.config.place("t")
        self.root = folder_of(self.where)
        self.store: ManifestStore = LocalStore(self.root)
        Table.create(self.where, "t").close()

    def table(self) -> Table:
        return Table.open(self.where)

    def pass_time(self, **span: float) -> None:
        self.now += timedelta(**span)

    def begin(self, parts: int = 1, rows: int = 3, replace: int = 0) -> InFlight:
        """A run up to its commit: it replaces the `replace` oldest members."""
        self._runs += 1
        run = InFlight(f"run-{self._runs}-{uuid.uuid4().hex[:4]}", self.table(), None)  # type: ignore[arg-type]
        run.handle = start(self.where, run.run_id, self.now)
        run.number = self._runs
        run.parts = [self.write_part(run, rows) for _ in range(parts)]
        live = sorted(member.path for member in run.table.state.candidates(None))
        run.replaces = tuple(live[:replace])
        run.saw = frozenset(live)
        return run

    def write_part(self, run: InFlight, rows: int, *, table_id: str | None = None, nulls: int = 0) -> Member:
        origin = Origin(table_id or run.table.table_id, run.run_id, "c", "id")
        writer = PartWriter(self.where, 0, self.schema, origin)
        values = {"note": [None] * nulls + ["x"] * (rows - nulls), "_source": [run.number] * rows}
        columns = [pa.array(values.get(one.name, range(rows)), one.type) for one in self.schema]
        writer.write(pa.table(columns, schema=self.schema))
        member = writer.close()
        self.dated(member.path)
        return member

    def age(self, path: Path) -> None:
        os.utime(path, (self.now.timestamp(), self.now.timestamp()))

    def dated(self, path: str) -> None:
        """A file that was written just now is as old as the clock says."""
        self.age(self.root / path)

    def date_pages(self) -> None:
        """Pages that were written or touched just now, too."""
        for path in self.root.glob("pages/*"):
            if abs(path.stat().st_mtime - time.time()) < 60:
                self.age(path)

    def names(self) -> set[str]:
        """All files, relative to the root."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)
        self.dated(path)

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def commit(self, run: InFlight) -> Commit:
        rows = sum(part.rows for part in run.parts)
        source = Source(run.number, f"{run.run_id}.csv", "h", "s", 1, 1, rows, False, self.now.isoformat())
        schema = self.schema.serialize().to_pybytes()
        changed = schema != run.table.state.meta.schema
        done = run.table.commit(
            Commit(
                uuid.uuid4().hex,
                run.run_id,
                self.now.isoformat(),
                "recipe",
                add=tuple(run.parts),
                remove=run.replaces,
                sources=(*self._left(run), source),
                schema=schema if changed else None,
                order_by="id" if changed else None,
            )
        )
        self.live = (self.live - set(run.replaces)) | {part.path for part in run.parts}
        return done

    def _left(self, run: InFlight) -> list[Source]:
        """The sources of the members that it replaces, with the rows that others hold of them."""
        went = Counter[int]()
        for member in run.table.state.candidates(None):
            if member.path in run.replaces:
                went.update(dict(member.sources))
        known = [source for source, _ in run.table.state.sources().values() if source.id in went]
        return [msgspec.structs.replace(one, rows=one.rows - went[one.id]) for one in known]

    def write_shard(self, run: InFlight, db_id: int, attempt: int, prefix: str = "shards") -> ShardMeta:
        """One attempt's file, and how a manifest would name it."""
        url = f"{prefix}/run_id={run.run_id}/db={db_id:05d}/attempt={attempt:02d}"
        self.write(f"{url}/shard.db", SHARD)
        url = f"{storage_of(self.where).prefix}{url}"
        digest = hashlib.sha256(SHARD).hexdigest()
        return ShardMeta(
            db_id=db_id, db_url=url, attempt=attempt, row_count=1, min_key=1, max_key=1,
            checkpoint_id=digest, db_bytes=len(SHARD),
        )  # fmt: skip

    def settled(self, table: Table) -> MemberStore:
        """What a snapshot shows."""
        return table.settle()

    def payload(
        self, table: Table, run_id: str, *, shards: Sequence[ShardMeta] = (), gate: Any = None, **more: Any
    ) -> bytes:
        store = self.settled(table)
        self.date_pages()
        state = table.state
        custom = {"table": "t", "table_id": table.table_id, "sequence": state.sequence}
        custom |= {"rows": state.row_count(), "parts": state.count()}
        custom |= more | ({"gate": gate} if gate is not None else {})
        meta = BuildMeta(run_id=run_id, created_at=self.now, num_dbs=len(shards) or 1, custom=custom)
        return build_snapshot(meta, shards, lambda con: store.write_root(con, state.meta))

    def publish(self, run: InFlight, **more: Any) -> Published:
        current = self.store.load_current()
        run.handle.moving(current.ref if current is not None else None)
        run.table.refuse_expired(run.run_id)
        payload = self.payload(run.table, run.run_id, **more)
        return self.store.publish(payload, run.run_id, sequence=run.table.state.sequence, now=self.now)

    def finish(self, run: InFlight, published: Published | None = None) -> None:
        ref = published.ref if published is not None else None
        run.handle.finish("succeeded", manifest_ref=ref, now=self.now)
        run.table.close()

    def run(self, parts: int = 1, rows: int = 3, replace: int = 0, **more: Any) -> Published:
        """A whole run."""
        run = self.begin(parts, rows, replace)
        self.commit(run)
        published = self.publish(run, **more)
        self.finish(run, published)
        return published

    def parts_on_disk(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.glob("bucket=000000/part-*.parquet")}

    def open(self) -> lading.Reader:
        return lading.open(self.root)


class BucketWorld(World):
    """The same in a bucket, whose clock is this one's: `close` gives it back."""

    def __init__(self, folder: Path, url: str, server: S3Server) -> None:
        self.url, self.server = url, server
        super().__init__(folder)

    def settle(self) -> None:
        self.server.set_clock(self.now)
        options = self.server.options()
        there = place(self.url, options, self.config.cache)
        self.config = dataclasses.replace(self.config, warehouse=there, s3=options)
        self.where = self.config.place("t")
        self.storage = storage_of(there.below("t"))
        self.store = store_of(self.config, "t")
        Table.create(self.where, "t").close()

    def close(self) -> None:
        self.server.set_clock(None)

    def pass_time(self, **span: float) -> None:
        super().pass_time(**span)
        self.server.set_clock(self.now)

    def dated(self, path: str) -> None:
        pass  # by the server

    def date_pages(self) -> None:
        pass

    def names(self) -> set[str]:
        return {one.name for one in self.storage.list()}

    def read(self, path: str) -> bytes:
        return self.storage.get(path)

    def write(self, path: str, data: bytes) -> None:
        self.storage.put(path, data)

    def remove(self, path: str) -> None:
        self.storage.delete(path)

    def parts_on_disk(self) -> set[str]:
        return {name for name in self.names() if name.startswith("bucket=000000/part-")}

    def open(self) -> lading.Reader:
        return lading.open(f"{self.url}/t", s3=self.server.options(), cache=self.folder / "reader-cache")
