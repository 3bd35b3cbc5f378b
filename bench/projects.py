"""Projects to run: a folder with lading.yaml, a pinned schema and raw files.

Whatever needs Spark here goes through `lading.run.run`, as a user's run does, with the project's own
session: the peers that need Spark are given the same one, settings included.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lading.config.file import load
from lading.config.project import Config
from lading.run import RunReport, run
from lading.spark.session import spark_session
from lading.watch import Watch

TABLE = "t"
CORES = os.cpu_count() or 1


def make(
    folder: Path,
    columns: Mapping[str, str],
    table: Iterable[str],
    data: Path | None = None,
    in_process_below: str = "0",
) -> Config:
    """A project whose one table reads below `data` (its own folder `data` if not given); `table` are lines
    of its section in lading.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "spark:",
        f"  master: local[{CORES}]",
        f"  in_process_below: {in_process_below}",
        "tables:",
        f"  {TABLE}:",
        f"    root: {data or 'data'}",
        *(f"    {line}" for line in table),
    ]
    (folder / "lading.yaml").write_text("\n".join(lines) + "\n")
    (folder / "schema").mkdir(exist_ok=True)
    pinned = "".join(f"- {{name: {name}, type: {type}}}\n" for name, type in columns.items())
    (folder / "schema" / f"{TABLE}.yaml").write_text(f"columns:\n{pinned}")
    return load(folder)


def start_session(work: Path) -> Any:
    """The session that `run` finds, with its files in a folder that outlives every project of the job. It
    leaves no process behind that would make an archive of classes while the next job is measured."""
    os.environ.setdefault("LADING_JAVA_ARCHIVE", "off")
    return spark_session(f"local[{CORES}]", {}, work / "cache")


def run_once(config: Config, watch: Watch | None = None) -> RunReport:
    """A run that has to succeed."""
    report = run(config, watch=watch or Watch())
    if report.error is not None:
        raise report.error
    return report


@dataclass
class Phases(Watch):
    """How long each phase of a run took; one that comes twice is summed up."""

    seconds: dict[str, float] = field(default_factory=dict)
    _since: tuple[str, float] | None = None

    def phase(self, table: str, name: str) -> None:
        now = time.perf_counter()
        if self._since is not None:
            before, begun = self._since
            self.seconds[before] = self.seconds.get(before, 0.0) + now - begun
        self._since = (name, now)


def forget_table(config: Config) -> None:
    """As if it had never run: the warehouse, the source manifest and the cache of staged files go."""
    shutil.rmtree(Path(str(config.warehouse)), ignore_errors=True)
    shutil.rmtree(config.project / "manifest", ignore_errors=True)
