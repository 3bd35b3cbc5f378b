"""A small project that is served by key, and an oracle that works out its values with the csv module."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from lading.config.file import load as load_config
from lading.layout.table import SHARD
from lading.run import RunReport, run
from lading.serve.routing import Router
from lading.snapshots.manifest import ParsedSnapshot, ShardMeta, read_snapshot
from lading.snapshots.opening import open_manifest
from lading.snapshots.stores.by_url import store_of

CONFIG = """\
{head}tables:
  ships:
    root: data
    path: "*.csv"
    format: csv
    order_by: day
    replace: {replace}
    serve:
{serve}
"""
SCHEMA = """\
columns:
  - {name: imo, type: bigint}
  - {name: day, type: date}
  - {name: name, type: string}
"""
SERVE = """\
key: imo
value: [day, name]
shards: 4
duplicates: latest
"""

Ship = tuple[int, int, str]  # imo, day of January 2024, name


class ServedProject:
    def __init__(self, folder: Path, serve: str = SERVE, *, head: str = "", replace: str = "auto") -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        (folder / "schema").mkdir()
        (folder / "schema" / "ships.yaml").write_text(SCHEMA)
        self.head, self.replace = head, replace
        self.serve(serve)

    @property
    def table(self) -> Path:
        return self.folder / "warehouse" / "ships"

    def serve(self, text: str) -> None:
        lines = "\n".join(f"      {line}" for line in text.strip().splitlines())
        (self.folder / "lading.yaml").write_text(
            CONFIG.format(head=self.head, replace=self.replace, serve=lines)
        )

    def put(self, name: str, ships: list[Ship]) -> None:
        path = self.data / name
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(
                [("imo", "day", "name"), *((i, f"2024-01-{d:02d}", n) for i, d, n in ships)]
            )
        os.utime(path, (path.stat().st_mtime - 100,) * 2)

    def run(self, **options: Any) -> RunReport:
        report = self.try_run(**options)
        if report.error is not None:
            raise report.error
        return report

    def try_run(self, **options: Any) -> RunReport:
        return run(load_config(self.folder), allow_vanish=True, **options)

    def snapshot(self) -> ParsedSnapshot:
        """What readers see now."""
        store = store_of(load_config(self.folder), "ships")
        current = store.load_current()
        assert current is not None
        with closing(open_manifest(store, current.ref)) as con:
            return read_snapshot(con)

    def urls(self) -> dict[int, str | None]:
        return {shard.db_id: shard.db_url for shard in self.snapshot().shards}

    def file(self, shard: ShardMeta) -> Path:
        return self.table / str(shard.db_url) / SHARD

    def shards(self) -> dict[int, dict[Any, bytes]]:
        """Every shard's content as it lies there, keys decoded."""
        snapshot = self.snapshot()
        key = Router.of_manifest(snapshot.meta).key
        found = {}
        for shard in snapshot.shards:
            with closing(sqlite3.connect(f"file:{self.file(shard)}?mode=ro&immutable=1", uri=True)) as con:
                rows = con.execute("SELECT k, v FROM kv ORDER BY k").fetchall()
            found[shard.db_id] = {key.decoded(k): v for k, v in rows}
        return found

    def rows(self) -> dict[int, list[tuple[str, str, bytes]]]:
        """By imo, what the files say: day, file and value as bytes."""
        found = defaultdict(list)
        for path in sorted(self.data.glob("*.csv")):
            with open(path, newline="") as file:
                for row in csv.DictReader(file):
                    value = {"day": row["day"], "name": row["name"] or None}
                    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
                    found[int(row["imo"])].append((row["day"], path.name, text.encode()))
        return dict(found)

    def latest(self) -> dict[int, bytes]:
        """What has to be served: of each imo the greatest (day, file, value)."""
        return {imo: max(rows)[2] for imo, rows in self.rows().items()}

    def expected(self) -> dict[int, dict[int, bytes]]:
        """The same by shard, empty ones left out."""
        router = Router.of_manifest(self.snapshot().meta)
        found: dict[int, dict[int, bytes]] = defaultdict(dict)
        for imo, value in sorted(self.latest().items()):
            found[router.route(imo)][imo] = value
        return dict(found)

    def rebuilt(self, folder: Path) -> ServedProject:
        """The same sources and config, nothing else."""
        folder.mkdir(parents=True)
        for name in ("data", "schema"):
            shutil.copytree(self.folder / name, folder / name)
        shutil.copy2(self.folder / "lading.yaml", folder / "lading.yaml")
        fresh = object.__new__(ServedProject)
        fresh.folder, fresh.data, fresh.head, fresh.replace = folder, folder / "data", self.head, self.replace
        return fresh
