"""What SQLite does for a statement, in its own instructions: the same on every machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STEP = 10  # instructions between two looks
_MANY = 1_000_000  # then it is stopped: some statements would never end


class Instructions:
    done = 0


@contextmanager
def instructions() -> Iterator[Instructions]:
    """How many are executed on connections that are made inside the block."""
    counted, connect = Instructions(), sqlite3.connect

    def tick() -> bool:
        counted.done += _STEP
        return counted.done > _MANY

    class Counting(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            super().set_progress_handler(tick, _STEP)

        def set_progress_handler(self, *_: Any) -> None:
            """A bound of the code under test: this one is lower."""

    def counting(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, factory=Counting, **options)

    sqlite3.connect = counting
    try:
        yield counted
    finally:
        sqlite3.connect = connect
