"""Content that passed its checksum and still is no content: a checksum tells damage, not malice.

`with Sound(…)` says so in one line. What is done several times for each page that is looked at catches
UNSOUND itself: entering and leaving a context costs as much as reading a few numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import msgspec

from lading.errors import LadingError, LogCorrupt

UNSOUND = (ValueError, TypeError, OverflowError, IndexError, LogCorrupt, msgspec.MsgspecError)


class Sound:
    """Whatever can't be read as what it should be is the error that damage is."""

    __slots__ = ("_damaged", "_what")

    def __init__(self, damaged: Callable[[str], LadingError], what: str) -> None:
        self._damaged = damaged
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, UNSOUND):
            raise unsound(self._damaged, self._what, error) from error


def unsound(damaged: Callable[[str], LadingError], what: str, error: BaseException) -> LadingError:
    return damaged(f"{what} can't be read: {error}")
