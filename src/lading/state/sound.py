"""Content that passed its checksum and still is no content: a checksum tells damage, not malice."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import msgspec

from lading.errors import LadingError, LogCorrupt

_UNSOUND = (ValueError, TypeError, OverflowError, IndexError, LogCorrupt, msgspec.MsgspecError)


class Sound:
    """Whatever can't be read as what it should be is the error that damage is. Not a generator: it is entered
    several times for each page that is looked at."""

    __slots__ = ("_damaged", "_what")

    def __init__(self, damaged: Callable[[str], LadingError], what: str) -> None:
        self._damaged = damaged
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, _UNSOUND):
            raise self._damaged(f"{self._what} can't be read: {error}") from error
