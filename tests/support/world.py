"""A table on disk without Spark: a real log, real parts, a real store and real run records, on a clock of
its own. What runs, readers and crashes do is played by hand; cleaning and the rest are the product's."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lading.catalog.table import Table
from lading.config.project import Config, SparkConfig, TableConfig
from lading.format.snapshot import BuildMeta, ShardMeta, build_snapshot
from lading.format.state_file import write_state
from lading.model import Commit, Member, Source
from lading.pipeline.parts import Origin, PartWriter
from lading.snapshots.runs import RunHandle, start
from lading.snapshots.stores.local import LocalStore
from lading.snapshots.stores.protocol import Published

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
            folder, folder / "warehouse", folder / ".lading_cache", SparkConfig(), {"t": table}, folder / "x"
        )
        self.root = self.config.table_dir("t")
        self.now = datetime.now(UTC)
        self.store = LocalStore(self.root)
        Table.create(self.root, "t").close()
        self._runs = 0

    def table(self) -> Table:
        return Table.open(self.root)

    def pass_time(self, **span: float) -> None:
        self.now += timedelta(**span)

    def begin(self, parts: int = 1, rows: int = 3, replace: int = 0) -> InFlight:
        """A run up to its commit: it replaces the `replace` oldest members."""
        self._runs += 1
        run = InFlight(f"run-{self._runs}-{uuid.uuid4().hex[:4]}", self.table(), None)  # type: ignore[arg-type]
        run.handle = start(self.root, run.run_id, self.now)
        run.number = self._runs
        run.parts = [self.write_part(run, rows) for _ in range(parts)]
        live = sorted(member.path for member in run.table.state.candidates(None))
        run.replaces = tuple(live[:replace])
        run.saw = frozenset(live)
        return run

    def write_part(self, run: InFlight, rows: int, *, table_id: str | None = None, nulls: int = 0) -> Member:
        origin = Origin(table_id or run.table.table_id, run.run_id, "c", "id")
        writer = PartWriter(str(self.root), 0, SCHEMA, origin)
        notes = [None] * nulls + ["x"] * (rows - nulls)
        writer.write(pa.table([list(range(rows)), notes, [run.number] * rows], schema=SCHEMA))
        member = writer.close()
        self.age(self.root / member.path)
        return member

    def age(self, path: Path) -> None:
        os.utime(path, (self.now.timestamp(), self.now.timestamp()))

    def commit(self, run: InFlight) -> Commit:
        source = Source(run.number, f"{run.run_id}.csv", "h", "s", 1, 1, 3, False, self.now.isoformat())
        first = run.table.state.meta.schema == b""
        return run.table.commit(
            Commit(
                uuid.uuid4().hex,
                run.run_id,
                self.now.isoformat(),
                "recipe",
                add=tuple(run.parts),
                remove=run.replaces,
                sources=(source,),
                schema=SCHEMA.serialize().to_pybytes() if first else None,
                order_by="id" if first else None,
            )
        )

    def payload(
        self, table: Table, run_id: str, *, shards: Sequence[ShardMeta] = (), gate: Any = None
    ) -> bytes:
        state = table.state
        custom = {"table": "t", "table_id": table.table_id, "sequence": state.sequence}
        custom |= {"rows": state.row_count(), "parts": state.count()}
        custom |= {"gate": gate} if gate is not None else {}
        meta = BuildMeta(run_id=run_id, created_at=self.now, num_dbs=len(shards) or 1, custom=custom)
        return build_snapshot(meta, shards, lambda con: write_state(con, state.meta, state.columns()))

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
