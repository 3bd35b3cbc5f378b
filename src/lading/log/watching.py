"""Whether a member is live at this very moment: the log is read again only when somebody wrote to it."""

from __future__ import annotations

from lading.log.table import Table, log_of


class LogWatch:
    """One table, brought up to date and then asked again and again: on disk a question costs two stats, in a
    bucket one request."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._log = log_of(table.place)
        self._seen = self._log.mark()  # before the log is read: what comes later is noticed
        table.refresh()

    def is_live(self, path: str) -> bool:
        now = self._log.mark()
        if now != self._seen or self._log.is_behind(self._table.state.sequence):
            self._table.refresh()
        self._seen = now
        return self._table.state.contains(path)
