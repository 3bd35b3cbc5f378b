"""Plans that were made for a page, kept while somebody leafs through them.

A plan of 100,000 files takes a second. Its pages, filters and stories are of the plan that is being looked
at, named by its stamp; whoever comes without one gets a new plan.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lading import clock
from lading.config.project import Config
from lading.ingest.plan import TablePlan
from lading.plan import plan_tables


@dataclass(frozen=True, slots=True)
class Planned:
    stamp: str
    at: datetime
    mine: TablePlan
    inputs: tuple[TablePlan, ...]  # of the tables that it is made of


class Plans:
    """The last one of each table."""

    def __init__(self) -> None:
        self._kept: dict[str, Planned] = {}
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def of(self, config: Config, table: str, query: Mapping[str, str]) -> Planned:
        kept = self._kept.get(table)
        if kept is not None and query.get("plan") == kept.stamp:
            return kept
        with self._lock:
            making = self._making.setdefault(table, threading.Lock())
        with making:
            *inputs, mine = plan_tables(config, [table])
            made = Planned(secrets.token_hex(4), clock.now(), mine, tuple(inputs))
            self._kept[table] = made
        return made
