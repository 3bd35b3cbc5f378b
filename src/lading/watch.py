"""How a run tells somebody what it is doing. The base class tells nobody.

`run` and `plan_tables` call a watch; the command line shows it on a terminal and logs it. Anything
that raises here would end the run, so a watch keeps its troubles to itself.
"""

from __future__ import annotations


class Watch:
    """Silent. Override what you want to hear of; calls may come from any thread."""

    def phase(self, table: str, name: str) -> None:
        """`table` enters the phase `name` (discover, plan, prepare, ingest, commit, …)."""

    def progress(self, table: str, text: str, done: int | None = None, total: int | None = None) -> None:
        """Something countable moved on inside the phase."""

    def ended(self, table: str) -> None:
        """Nothing more will be told of `table` in this run, however it went."""

    @property
    def counts(self) -> bool:
        """Whether anybody hears of progress: else nobody needs to ask Spark for it every second."""
        return type(self).progress is not Watch.progress


class Watches(Watch):
    """Several watches as one."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches

    def phase(self, table: str, name: str) -> None:
        for watch in self._watches:
            watch.phase(table, name)

    def progress(self, table: str, text: str, done: int | None = None, total: int | None = None) -> None:
        for watch in self._watches:
            watch.progress(table, text, done, total)

    def ended(self, table: str) -> None:
        for watch in self._watches:
            watch.ended(table)

    @property
    def counts(self) -> bool:
        return any(watch.counts for watch in self._watches)


SILENT = Watch()
