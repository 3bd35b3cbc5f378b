"""A small project that is watched without an operating system or a clock, and without Spark."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import lading
from lading.config.file import load as load_config
from lading.config.project import Config
from lading.run import run
from lading.watcher.events import Event
from lading.watcher.hints import Hint
from lading.watcher.loop import Options, Watcher

CONFIG = """\
spark: {in_process_below: 1MB}
tables:
  a: {root: data, path: '**/*.csv', format: csv, order_by: id}
  b: {root: other, path: '*.csv', format: csv, order_by: id}
"""
SCHEMA = "columns:\n- {name: id, type: bigint}\n- {name: note, type: string}\n"


class WatchedProject:
    def __init__(self, folder: Path, config: str = CONFIG) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lading.yaml").write_text(config)
        (folder / "schema").mkdir()
        for table in ("a", "b"):
            (folder / "schema" / f"{table}.yaml").write_text(SCHEMA)
        for root in ("data", "other"):
            (folder / root).mkdir()
        self._times = itertools.count(1_600_000_000)

    @property
    def config(self) -> Config:
        return load_config(self.folder)

    def put(self, path: str, *rows: tuple[int, str]) -> None:
        """No two files have one time, and none is young."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("id,note\n" + "".join(f"{number},{note}\n" for number, note in rows))
        at = next(self._times)
        os.utime(file, (at, at))

    def rows(self, table: str = "a") -> list[tuple[Any, ...]]:
        """What readers see, with the file that each row is from."""
        if not (self.folder / "warehouse" / table / "_CURRENT").exists():
            return []
        with lading.open(self.folder / "warehouse" / table) as reader:
            names = {source.id: source.key for source in reader.sources()}
            found = reader.scan(columns=["id", "note", "_source"]).to_table().to_pylist()
        return sorted((one["id"], one["note"], names[one["_source"]]) for one in found)

    def rebuilt(self, folder: Path, table: str = "a") -> list[tuple[Any, ...]]:
        """What a project that never saw anything else makes of the same files."""
        fresh = WatchedProject(folder, (self.folder / "lading.yaml").read_text())
        for root in ("data", "other"):
            (folder / root).rmdir()
            (folder / root).symlink_to(self.folder / root)
        report = run(fresh.config)
        assert report.error is None, report.error
        return fresh.rows(table)


class Ticking:
    """A watcher on a clock of its own, to which hints are told by hand."""

    def __init__(self, project: WatchedProject, **options: Any) -> None:
        self.project = project
        self.now = 0.0
        self.events: list[Event] = []
        self.watcher = Watcher(
            project.config,
            options=Options(**({"every": 60.0, "settle": 0.2} | options)),
            clock=lambda: self.now,
        )
        self.watcher.heard.wait = self._wait  # type: ignore[method-assign]
        self.watcher.tell.listen(self.events.append)
        self._hints: list[Hint] = []

    def _wait(self, seconds: float) -> list[Hint]:
        hints, self._hints = self._hints, []
        if not hints:
            self.now += seconds if self.now + seconds <= self._until else 0.0
            self._over = seconds > 0
        return hints

    def hint(self, *keys: str | None, table: str = "a", fresh: bool = True) -> None:
        self._hints += [Hint(table, key, fresh) for key in keys]

    def until(self, seconds: float) -> None:
        """Let so much time pass, with all that falls due."""
        self._until = self.now + seconds
        while True:
            self._over = False
            before = self.now
            self.watcher.step()
            if self._over and self.now == before:
                break
        self.now = self._until

    def runs(self) -> list[tuple[str, int | None]]:
        """Table, and how many files it was told of, of each run since the last call."""
        found = [(str(one.table), one.fields["files"]) for one in self.events if one.kind == "run started"]
        self.events.clear()
        return found
