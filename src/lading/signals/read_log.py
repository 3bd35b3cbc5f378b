"""The project's log read back: its newest lines, and those of one run. Both read a piece of it only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

import msgspec

Line = dict[str, Any]

_PIECE = 1 << 16  # bytes read at once
_FAR = 1 << 23  # bytes looked through for one run's lines
_SLACK = timedelta(seconds=5)  # between a run's record and its line


def newest(path: Path, limit: int, wanted: Callable[[Line], bool] = lambda line: True) -> list[Line]:
    """The last lines that are wanted, oldest first."""
    found: list[Line] = []
    for line in _backwards(path, _size(path)):
        if wanted(line):
            found.append(line)
        if len(found) == limit:
            break
    return found[::-1]


def of_run(path: Path, pid: int, run_id: str, started: datetime, finished: datetime | None) -> list[Line]:
    """What a process logged about one run, from `run started` to how it ended, oldest first."""
    middle = _offset_of(path, started)
    before: list[Line] = []
    for line in _backwards(path, middle):
        if line.get("pid") == pid:
            before.append(line)
            if line.get("event") == "run started":
                break
            if _ends(line):  # a run before this one
                before.pop()
                break
    after: list[Line] = []
    for line in _forwards(path, middle):
        late = finished is not None and (at := _at(line)) is not None and at > finished + _SLACK
        if line.get("pid") == pid:
            after.append(line)
            if _ends(line) and line.get("run_id") in (run_id, None):
                break
        elif late:
            break
    return [*reversed(before), *after]


def phases_in(lines: list[Line], table: str) -> dict[str, float]:
    """How long each phase of a table's run took, in seconds, in their order."""
    took: dict[str, float] = {}
    for line in lines:
        if line.get("table") == table and isinstance(line.get("phases"), dict):
            return dict(line["phases"])  # a watcher tells them all at once
        if line.get("event") == "phase" and line.get("table") == table and "after" in line:
            took[line["after"]] = took.get(line["after"], 0.0) + float(line.get("seconds") or 0)
    return took


def _ends(line: Line) -> bool:
    event = str(line.get("event")).removeprefix("watch: ")
    return event in ("run finished", "run failed", "run interrupted")


def _at(line: Line) -> datetime | None:
    try:
        return datetime.fromisoformat(str(line.get("at")))
    except ValueError:
        return None


def _size(path: Path) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def parsed(text: bytes) -> Line | None:
    """None for a line that was torn or isn't ours."""
    try:
        line = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return None
    return line if isinstance(line, dict) else None


def _backwards(path: Path, end: int) -> Iterator[Line]:
    """The lines that begin before `end`, newest first."""
    if end <= 0:
        return
    with open(path, "rb") as file:
        rest, stop = b"", max(0, end - _FAR)
        while end > stop:
            start = max(stop, end - _PIECE)
            file.seek(start)
            lines = (file.read(end - start) + rest).split(b"\n")
            rest, end = lines[0], start
            yield from _told(reversed(lines[1:]))
        if end == 0:
            yield from _told([rest])


def _forwards(path: Path, start: int) -> Iterator[Line]:
    """The lines that begin at `start` or behind."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        file.seek(start)
        while file.tell() < start + _FAR and (text := file.readline()):
            yield from _told([text])


def _told(texts: Any) -> Iterator[Line]:
    for text in texts:
        line = parsed(text) if text else None
        if line is not None:
            yield line


def _offset_of(path: Path, at: datetime) -> int:
    """Where the first line of that time or later begins: lines are in the order of their times, nearly."""
    low, high = 0, _size(path)
    if not high:
        return 0
    with open(path, "rb") as file:
        while low < high:
            middle = (low + high) // 2
            begin = _next_line(file, middle)
            line = parsed(file.readline()) if begin < high else None
            told = _at(line) if line is not None else None
            if begin >= high or told is None or told >= at:
                high = middle
            else:
                low = middle + 1
        return _next_line(file, low)


def _next_line(file: IO[bytes], offset: int) -> int:
    """Where the first line at or behind `offset` begins; the file is left there."""
    file.seek(max(0, offset - 1))
    if offset:
        file.readline()
    return file.tell()
