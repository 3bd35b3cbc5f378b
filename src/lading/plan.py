"""What a run would do: the door of `lading plan`. It loads nothing that only a run needs."""

from __future__ import annotations

from collections.abc import Sequence

from lading.config.project import Config
from lading.ingest.foresee import foreseen
from lading.ingest.look import look
from lading.ingest.plan import TablePlan
from lading.watch import SILENT, Watch


def plan_tables(
    config: Config, names: Sequence[str] = (), *, full: bool = False, watch: Watch = SILENT
) -> list[TablePlan]:
    """What a run would do. Touches nothing."""
    return [foreseen(look(config, name, full=full, watch=watch)) for name in selected(config, names)]


def selected(config: Config, names: Sequence[str]) -> list[str]:
    return [config.table(name).name for name in names] or list(config.tables)
