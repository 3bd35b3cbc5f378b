"""What surrounds the way from the files of a table to what is read: where they are, and what may be done.

A plan opens no archive and runs no script: what would have to be done first is a line of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lading.config.archives import UNZIP
from lading.config.project import Config, TableConfig
from lading.errors import LadingError
from lading.ingest.plan import FileVerdict
from lading.model import FoundFile, StartSpark
from lading.sources.archives.extractions import relative_path
from lading.sources.archives.input import Input
from lading.sources.objects import Objects
from lading.watch import Watch


@dataclass(frozen=True, slots=True)
class Refused:
    """An archive that was set aside."""

    key: str
    reason: str
    fresh: bool  # found out by this look; if not, it is as it was then


@dataclass(frozen=True, slots=True)
class Expanded:
    """What a table is made of, after archives and scripts."""

    found: list[FoundFile]
    waiting: tuple[FileVerdict, ...] = ()
    hidden: tuple[str, ...] = ()  # starts of keys that a waiting archive decides on
    preprocessing: dict[str, Any] = field(default_factory=dict)  # for manifest/<table>.json
    made: bool = False  # whether anything was extracted or run
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One table, and whether somebody may act for it: without `act` it is looked at and nothing is done."""

    config: Config
    table: TableConfig
    watch: Watch
    objects: Objects | None
    act: StartSpark | None
    replay: Collection[str] | None = None  # keys that are tried again, empty for all; None: none is

    @property
    def full(self) -> bool:
        return self.table.fingerprint == "full"

    @property
    def on_cluster(self) -> bool:
        return self.table.preprocess is not None and self.table.preprocess.where == "cluster"

    def in_spark(self, work: Callable[[Any], str], tasks: Sequence[Any]) -> list[str | LadingError]:
        if not tasks:
            return []
        assert self.act is not None
        spark = self.act()
        from lading.spark.preprocess import on_cluster  # here: driver-side work needs no pyspark

        return on_cluster(spark, work, tasks)

    def fetch(self, input: Input) -> None:
        if self.objects is not None:
            self.objects.fetch(input.files)

    def relative(self, input: Input) -> str:
        return relative_path(self.config.project, self.table.root, input.key, self.table.url)

    def waits(self, input: Input, section: Mapping[str, Any]) -> FileVerdict:
        """The line of a plan for what a run would do first."""
        unzips = self.table.preprocess is None or self.table.preprocess.action == UNZIP
        before = input.key in section
        done = "extracted" if unzips else "preprocessed"
        why = f"it changed since it was {done}, or that is gone" if before else f"not {done} yet"
        reason = f"{why}: a run does that and compares what is inside"
        return FileVerdict(input.key, "changed" if before else "new", reason)


def unless_error(answer: str | LadingError) -> str:
    if isinstance(answer, LadingError):
        raise answer
    return answer
