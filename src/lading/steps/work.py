"""What all steps of one table's run share."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lading.catalog.table import Table
from lading.config import Config
from lading.model import Column, Digest, StagedGroup
from lading.steps.look import Look
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

    @property
    def name(self) -> str:
        return self.look.config.name

    @property
    def staging(self) -> Path:
        return self.config.cache / "staging" / f"{self.run_id}-{self.name}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files that Spark may read, and under which schema and recipe."""

    columns: tuple[Column, ...]
    recipe: str
    digests: dict[str, Digest]
    groups: tuple[StagedGroup, ...]


def new_id() -> str:
    return uuid.uuid4().hex


def now_text() -> str:
    return datetime.now(UTC).isoformat()
