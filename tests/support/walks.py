"""Which functions of lading a call goes through, in the order in which each is first entered."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import lading

_ROOT = str(Path(lading.__file__).parent) + "/"


@contextmanager
def walked() -> Iterator[list[str]]:
    """`storage/folder.py:write_atomic`, … for all that is entered within."""
    seen: dict[str, None] = {}
    steps: list[str] = []

    def entered(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_ROOT):
            step = f"{code.co_filename[len(_ROOT) :]}:{code.co_qualname}"
            if step not in seen:
                seen[step] = None
                steps.append(step)

    before = sys.getprofile()
    sys.setprofile(entered)
    threading.setprofile(entered)
    try:
        yield steps
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
