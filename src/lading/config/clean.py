"""What `lading clean` keeps unless it is told otherwise: `clean:`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from lading.config.section import Section

CLEAN_KEYS = ("keep_runs", "grace")
KEEP_RUNS = 10
GRACE = timedelta(hours=24)

_SPAN = re.compile(r"([0-9]+) ?([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of the past is kept."""

    keep_runs: int = KEEP_RUNS  # the snapshots of so many runs
    grace: timedelta = GRACE  # and whatever something referred to so shortly ago


def keep_of(project: Section) -> Keep:
    section = project.section("clean", CLEAN_KEYS)
    given: dict[str, object] = {}
    runs = section.lines.get("keep_runs")
    if runs is not None:
        if type(runs.value) is not int or runs.value < 1:
            section.complain(
                "keep_runs", "must be a whole number, 1 or more: what readers see is always kept"
            )
        else:
            given["keep_runs"] = runs.value
    text = section.checked("grace", _span_problem)
    span = parse_span(text) if text is not None else None
    if span is not None:
        given["grace"] = span
    return Keep(**given)  # type: ignore[arg-type]


def parse_span(text: str) -> timedelta | None:
    """`7d`, `24h`, `30m`, `0s`; None if it is no span of time."""
    match = _SPAN.fullmatch(text.strip())
    try:
        return timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match is not None else None
    except (OverflowError, ValueError):  # a number of 5,000 digits
        return None


def _span_problem(text: str) -> str | None:
    return None if parse_span(text) is not None else f"{text!r} is not a duration; write 30m, 24h or 7d"
