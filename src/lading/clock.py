"""What time it is, and waiting: the one place that asks the machine.

Call it as `clock.now()`, never by a name of your own: whoever puts another clock in its place (the
simulation, whose hours take no time) changes this module only.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """In UTC."""
    return datetime.now(UTC)


def wall_ns() -> int:
    """Nanoseconds since 1970, as file systems date files."""
    return time.time_ns()


def monotonic() -> float:
    """Seconds that only ever grow, for measuring how long something took."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    time.sleep(seconds)
