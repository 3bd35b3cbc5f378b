"""A table that has read its files, without Spark: only its log and its manifest say so."""

from __future__ import annotations

import os
import time
from pathlib import Path

import yaml

from lading.config.file import load as load_config
from lading.ingest.look import look
from lading.ingest.recipe import recipe_of
from lading.ingest.record import record_sources
from lading.ingest.schema import pinned_columns
from lading.ingest.table_run import TableRun, new_id
from lading.log.table import Table
from lading.model import Commit, Member, Source
from lading.sources.discover import discover
from lading.sources.fingerprint import digest, source_id
from lading.watch import Watch

OLD = 1_600_000_000


class Shelf:
    """A table that has read its files, as far as its log and its manifest say."""

    def __init__(self, folder: Path, *, racy: bool = False, known: bool = False) -> None:
        """`known`: the log has the files' real digests, not some that fit nothing."""
        self.folder = folder
        self.known = known
        self.configure()
        (folder / "schema").mkdir()
        (folder / "schema" / "t.yaml").write_text("columns:\n- {name: a, type: bigint}\n")
        for name in ("a", "b", "c"):
            self.put(f"{name}.csv", "a\n1\n")
        self.commit(racy=racy)
        self.record()

    def put(self, name: str, text: str, at: float = OLD) -> None:
        path = self.folder / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (at, at))

    def look(self, **options: bool) -> TableRun:
        return look(load_config(self.folder), "t", watch=Watch(), **options)

    def record(self, **failures: str) -> None:
        record_sources(self.look(), {f"{key}.csv": why for key, why in failures.items()})

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest" / "t.json"

    def commit(self, *keys: str, racy: bool = False, at: str = "2024-01-01T00:00:00+00:00") -> None:
        """What a run commits that is killed before it records anything; all files, or some."""
        config = load_config(self.folder)
        cfg = config.table("t")
        columns = pinned_columns(config, cfg)
        assert columns is not None
        found = discover(cfg.root, cfg.path, now_ns=time.time_ns())
        sources = tuple(
            Source(source_id(f.key), f.key, f.hash, self.digest(f.path), f.size, f.mtime_ns, 1, racy, "2024")
            for f in found
            if not keys or f.key in keys
        )
        recipe = recipe_of(config, cfg, columns)
        place = config.place("t")
        table = Table.open(place) if Table.exists(place) else Table.create(place, "t")
        held = tuple((source.id, 1) for source in sorted(sources, key=lambda one: one.id))
        part = Member(f"bucket=000000/{new_id()}", len(held), 1, 0, 0, 0, None, None, at, {}, held)
        table.commit(Commit(new_id(), "r", at, recipe, add=(part,), sources=sources))

    def digest(self, path: str) -> str:
        return digest(path).sha256 if self.known else "0" * 64

    def configure(self, **settings: object) -> None:
        table = {"root": "data", "path": "*.csv", "format": "csv", **settings}
        (self.folder / "lading.yaml").write_text(yaml.safe_dump({"tables": {"t": table}}))
