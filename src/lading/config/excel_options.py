"""The read options that only a workbook has, and those that mean something else there."""

from __future__ import annotations

import re
from typing import Any

from lading.config.section import Section

CELL_RANGE = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})?:([A-Z]{1,3})([1-9][0-9]{0,6})?", re.IGNORECASE)
_ROWS = 1_048_576  # of a sheet
_CHOICES = {"unnamed": ("fail", "name"), "duplicates": ("fail", "rename")}  # the first is the default

EXCEL_OPTIONS = ("sheet", "header", "range", "skip", "null", "trim", "unnamed", "duplicates")
EXCEL_OWN = ("sheet", "header", "range", *_CHOICES)


def excel_option(section: Section, name: str) -> Any:
    """One of `EXCEL_OWN`, checked; None for the default."""
    if name not in section.lines:
        return None
    if name in _CHOICES:
        found = section.choice(name, _CHOICES[name])
        return None if found == _CHOICES[name][0] else found
    if name == "range":
        return section.checked(name, _range_problem)
    return _sheet(section) if name == "sheet" else _header(section)


def _range_problem(text: str) -> str | None:
    parts = CELL_RANGE.fullmatch(text)
    if parts is None:
        return "must be a range of cells such as B3:F200, or of columns such as B:F"
    backwards = parts[2] and parts[4] and int(parts[2]) > int(parts[4])
    letters = [parts[at].upper().rjust(3) for at in (1, 3)]
    return "ends before it begins" if backwards or letters[0] > letters[1] else None


def _sheet(section: Section) -> str | int | None:
    value = section.lines["sheet"].value
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= 1:
            return value
        section.complain("sheet", "must be a name, or a number from 1")
        return None
    return section.checked("sheet", lambda text: None if text else "is empty")


def _header(section: Section) -> bool | int | None:
    value = section.lines["header"].value
    if isinstance(value, bool):
        return False if value is False else None
    if isinstance(value, int) and 1 <= value <= _ROWS:
        return value
    section.complain("header", "must be the number of the row that names the columns, or false")
    return None
