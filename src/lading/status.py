"""Each table at a glance, from its log, its pointer and its folder; starts no JVM and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lading.catalog.table import Table
from lading.config import Config
from lading.errors import LadingError
from lading.model import SnapshotRef
from lading.snapshots.runs import last_run
from lading.snapshots.stores.local import LocalStore
from lading.steps.look import look
from lading.watch import Watch


@dataclass(frozen=True, slots=True)
class TableStatus:
    table: str
    rows: int = 0
    parts: int = 0
    buckets: int = 0
    sources: int = 0
    sequence: int = 0
    current: SnapshotRef | None = None
    last_run: dict[str, Any] | None = None
    pending: dict[str, int] | None = None  # verdicts that a run would act on; None when it can't be told
    note: str | None = None


def status(config: Config, names: Sequence[str] = ()) -> list[TableStatus]:
    """The selected tables; without a selection all of them, those that the config dropped included."""
    wanted = [config.table(name).name for name in names] or list(config.tables)
    found = [_status(config, name) for name in wanted]
    if not names:
        found += [_status(config, name) for name in _dropped(config)]
    return found


def _status(config: Config, name: str) -> TableStatus:
    folder = config.table_dir(name)
    pending, note = _pending(config, name)
    if not Table.exists(folder):
        return TableStatus(name, pending=pending, note=note or "never run")
    state = Table.open(folder).state
    current = LocalStore(folder).load_current()
    published = current.sequence if current is not None else 0
    if note is None and published < state.meta.data_sequence:
        note = "held: rolled back" if current and current.held else "committed but not published: run again"
    return TableStatus(
        table=name,
        rows=state.row_count(),
        parts=state.count(),
        buckets=state.bucket_count(),
        sources=state.source_count(),
        sequence=state.sequence,
        current=current,
        last_run=last_run(folder),
        pending=pending,
        note=note,
    )


def _pending(config: Config, name: str) -> tuple[dict[str, int] | None, str | None]:
    if name not in config.tables:
        return None, "not in lading.yaml: left alone"
    try:
        verdicts = look(config, name, watch=Watch()).plan.verdicts
    except LadingError as error:
        return None, error.message
    return {verdict: n for verdict, n in verdicts.items() if n and verdict != "unchanged"}, None


def _dropped(config: Config) -> list[str]:
    if not config.warehouse.is_dir():
        return []
    folders = sorted(folder for folder in config.warehouse.iterdir() if Table.exists(folder))
    return [folder.name for folder in folders if folder.name not in config.tables]
