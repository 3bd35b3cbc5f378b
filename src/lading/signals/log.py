"""logs/lading.jsonl: what each run did and when, one JSON object a line, for machines and post-mortems.

A log that can't be written must not stop a run: that is said once on stderr, and the run goes on.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any

from lading import clock
from lading.errors import Unexpected
from lading.layout.project import RUN_LOG
from lading.secrets import hide_within
from lading.watch import Watch


class JsonLog:
    """Appends lines; each is one write, so that runs side by side never mix theirs."""

    def __init__(self, project: Path) -> None:
        self.path = project / RUN_LOG
        self._broken = False

    def write(self, event: str, *, level: str = "info", **fields: Any) -> bool:
        """Whether the line was written."""
        line = {
            "at": clock.now().isoformat(),
            "level": level,
            "event": event,
            "pid": os.getpid(),
        }
        data = (json.dumps(hide_within({**line, **fields}), default=str) + "\n").encode()
        try:
            self.path.parent.mkdir(exist_ok=True)
            with open(self.path, "ab", buffering=0) as file:
                file.write(data)
        except OSError as error:
            if not self._broken:
                print(f"warning: can't write {self.path}: {error.strerror}", file=sys.stderr)
            self._broken = True
            return False
        return True


class LogWatch(Watch):
    """Phases go to the log, with how long the one before took; counts inside them do not."""

    def __init__(self, log: JsonLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._since: dict[str, tuple[str, datetime]] = {}

    def phase(self, table: str, name: str) -> None:
        now = clock.now()
        with self._lock:
            before = self._since.get(table)
            self._since[table] = (name, now)
        past: dict[str, Any] = (
            {"after": before[0], "seconds": (now - before[1]).total_seconds()} if before else {}
        )
        self._log.write("phase", table=table, phase=name, **past)


def log_exception(project: Path, error: BaseException) -> Path | None:
    """Where the traceback was logged; None when it could not be."""
    log = JsonLog(project)
    text = "".join(traceback.format_exception(error))
    written = log.write(
        "exception", level="error", kind=type(error).__name__, message=str(error), traceback=text
    )
    return log.path if written else None


def log_unexpected(project: Path, error: Unexpected) -> bool:
    """Log its traceback, and say in its hint where that is; False if it could not be logged."""
    log = log_exception(project, error.__cause__ or error)
    if log is not None:
        error.hint = unexpected_hint(f"in {log}")
    return log is not None


def unexpected_hint(where: str) -> str:
    return f"the traceback is {where}; please report it. Nothing is lost, and you can run the command again"
