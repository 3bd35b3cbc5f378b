"""logs/lading.jsonl: what each run did and when, one JSON object a line, for machines and post-mortems.

A log that can't be written must not stop a run: that is said once on stderr, and the run goes on.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lading.errors import hide_within
from lading.layout.project import RUN_LOG
from lading.watch import Watch


class LogFile:
    """Appends lines; each is one write, so that runs side by side never mix theirs."""

    def __init__(self, project: Path) -> None:
        self.path = project / RUN_LOG
        self._broken = False

    def write(self, event: str, *, level: str = "info", **fields: Any) -> bool:
        """Whether the line was written."""
        line = {
            "at": datetime.now(UTC).isoformat(),
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

    def __init__(self, log: LogFile) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._since: dict[str, tuple[str, datetime]] = {}

    def phase(self, table: str, name: str) -> None:
        now = datetime.now(UTC)
        with self._lock:
            before = self._since.get(table)
            self._since[table] = (name, now)
        past: dict[str, Any] = (
            {"after": before[0], "seconds": (now - before[1]).total_seconds()} if before else {}
        )
        self._log.write("phase", table=table, phase=name, **past)


def log_exception(project: Path, error: BaseException) -> Path | None:
    """Where the traceback was logged; None when it could not be."""
    log = LogFile(project)
    text = "".join(traceback.format_exception(error))
    written = log.write(
        "exception", level="error", kind=type(error).__name__, message=str(error), traceback=text
    )
    return log.path if written else None
