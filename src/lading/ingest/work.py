"""What all steps of one table's run share."""

from __future__ import annotations

import re
import secrets
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lading.config.project import Config
from lading.errors import CommitUnknown, LadingError
from lading.ingest.look import Look
from lading.layout.project import STAGING, work_folder
from lading.log.table import Table
from lading.model import CheckResult, Column, Commit, Digest, FoundFile, Ingested, StagedGroup
from lading.watch import Watch


@dataclass(frozen=True, slots=True)
class Work:
    """One table, one run."""

    config: Config
    look: Look
    table: Table
    run_id: str
    commit_id: str
    watch: Watch
    # What commits and manifests of this run refer to, by path or db_url: tidying leaves it alone.
    kept: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.look.config.name

    @property
    def staging(self) -> Path:
        return self.config.cache / STAGING / work_folder(self.run_id, self.name)

    def commit(self, commit: Commit) -> Commit:
        """Commit, and keep what was committed. What may have been committed is kept as well: only a refusal
        makes its files losers."""
        files = {member.path for member in commit.add}
        files |= {source.quarantine for source in commit.sources if source.quarantine is not None}
        fresh = files - self.kept
        self.kept.update(fresh)
        try:
            return self.table.commit(commit)
        except CommitUnknown:
            raise
        except (LadingError, OSError):
            self.kept.difference_update(fresh)
            raise


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files that Spark may read, and under which schema and recipe."""

    columns: tuple[Column, ...]
    recipe: str
    digests: dict[str, Digest]
    groups: tuple[StagedGroup, ...]
    aside: tuple[Aside, ...] = ()


@dataclass(frozen=True, slots=True)
class Aside:
    """A file that is set aside whole."""

    file: FoundFile
    reason: str
    line: int | None = None

    @staticmethod
    def because(file: FoundFile, message: str, line: int | None = None) -> Aside:
        """The message of an error as a reason: the file is named beside it, by its key."""
        told = message.replace(file.path, file.key)
        if line is None and (named := re.match(rf"{re.escape(file.key)}:(\d+): ", told)):
            line = int(named[1])
        return Aside(file, told.removeprefix(f"{file.key}: "), line)


@dataclass(frozen=True, slots=True)
class Rejected:
    """What was set aside of one source, and where it is kept."""

    rows: int
    path: str  # relative to the table
    whole: str | None = None  # why all of the file is


@dataclass(frozen=True, slots=True)
class Read:
    """What became of the files that were read; nobody sees it until it is committed."""

    ingested: Ingested | None
    rejected: dict[int, Rejected] = field(default_factory=dict)  # by source
    checks: tuple[CheckResult, ...] = ()
    buckets: frozenset[int] = frozenset()  # where parts were written, those that did not stay included
    notes: tuple[str, ...] = ()  # for people: what `drift` let pass


def new_id() -> str:
    return uuid.uuid4().hex


def new_run_id() -> str:
    """Sorts by time, and is short enough to be typed."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def now_text() -> str:
    return datetime.now(UTC).isoformat()
