"""What a run would do: the door of `lading plan`. It loads nothing that only a run needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lading.config.derived import in_order
from lading.config.project import Config
from lading.errors import NotReady
from lading.ingest.foresee import foreseen
from lading.ingest.look import look
from lading.ingest.plan import TablePlan
from lading.watch import SILENT, Watch


def plan_tables(
    config: Config, names: Sequence[str] = (), *, full: bool = False, watch: Watch = SILENT
) -> list[TablePlan]:
    """What a run would do, to these tables and those that they are made of. Touches nothing."""
    plans: dict[str, TablePlan] = {}
    for name in in_order(config.graph, selected(config, names)):
        plans[name] = _plan_of(config, name, plans, full, watch)
    return list(plans.values())


def _plan_of(
    config: Config, name: str, plans: Mapping[str, TablePlan], full: bool, watch: Watch
) -> TablePlan:
    derived = config.table(name).derived
    first = [one for one in derived.tables if not plans[one].idle] if derived is not None else []
    try:
        plan = foreseen(look(config, name, full=full, watch=watch))
    except NotReady as error:  # nothing is there yet to be made of
        plan = TablePlan(name, (), waits=True, notes=(error.message,))
    if not first:
        return plan
    have = "has" if len(first) == 1 else "have"
    note = f"{', '.join(first)} {have} work to do first, which may change more"
    return replace(plan, waits=True, notes=(*plan.notes, note))


def selected(config: Config, names: Sequence[str]) -> list[str]:
    return [config.table(name).name for name in names] or list(config.tables)
