"""One mapping of lading.yaml while it is being checked.

Asking for a key checks it; what is wrong is collected and a harmless value returned, so that the
check goes on to the next key and the person sees all of it at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from lading.config.yaml import Line, Problem

_SIZE = re.compile(r"([1-9][0-9]*) ?(kB|MB|GB|TB)")
_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class Section:
    """The keys below one dotted key. `keys` are the valid ones, None when any name is."""

    def __init__(
        self, line: Line | None, key: str, keys: Sequence[str] | None, problems: list[Problem]
    ) -> None:
        self.key = key
        self.line = line.line if line else 1
        self.problems = problems
        self.lines: dict[str, Line] = {}
        if line is not None and isinstance(line.value, dict):
            self.lines = line.value
        elif line is not None and (key == "" or line.value is not None):
            problems.append(Problem(line.line, key, "must be a mapping (key: value)"))
        for name in self.lines:
            if keys is not None and name not in keys:
                self.complain(name, f"unknown key; {_suggestion(name, keys)}")

    def complain(self, name: str, text: str) -> None:
        line = self.lines[name].line if name in self.lines else self.line
        self.problems.append(Problem(line, f"{self.key}.{name}" if self.key else name, text))

    def section(self, name: str, keys: Sequence[str] | None) -> Section:
        return Section(self.lines.get(name), f"{self.key}.{name}" if self.key else name, keys, self.problems)

    def text(self, name: str, *, required: bool = False) -> str | None:
        line = self.lines.get(name)
        if line is None:
            if required:
                self.complain(name, "is missing")
            return None
        if isinstance(line.value, str) or (line.from_env and line.text is not None):
            return line.text
        self.complain(name, "must be text" + (f'; put it in quotes: "{line.text}"' if line.text else ""))
        return None

    def checked(
        self, name: str, problem_of: Callable[[str], str | None], *, required: bool = False
    ) -> str | None:
        """Text that `problem_of` has nothing to say about."""
        text = self.text(name, required=required)
        problem = problem_of(text) if text is not None else None
        if problem:
            self.complain(name, problem)
            return None
        return text

    def flag(self, name: str) -> bool | None:
        line = self.lines.get(name)
        if line is None or isinstance(line.value, bool):
            return line.value if line else None
        self.complain(name, "must be true or false")
        return None

    def size(self, name: str) -> int | None:
        """A number of bytes: 1000000, or 1MB."""
        line = self.lines.get(name)
        if line is None:
            return None
        if isinstance(line.value, int) and not isinstance(line.value, bool) and line.value > 0:
            return line.value
        size = _SIZE.fullmatch(line.value) if isinstance(line.value, str) else None
        if size is not None:
            return int(size[1]) * _UNITS[size[2]]
        self.complain(name, "must be a number above 0 or a size such as 20GB")
        return None

    def choice(self, name: str, values: Sequence[str], *, required: bool = False) -> str:
        """One of `values`; the first is the default."""
        text = self.text(name, required=required)
        if text is not None and text not in values:
            self.complain(name, f"{text!r} is unknown; {_suggestion(text, values)}")
        return text if text is not None and text in values else values[0]


def _suggestion(name: str, valid: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, valid, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"valid: {', '.join(valid)}"
