"""Checks and what becomes of bad rows, as lading.yaml says them.

A check is one item of a list: its kind with what it asks for, and beside it `name`, `severity` and
`threshold`. A list, because one column may well have two ranges, one to warn about and one to stop at.
Values are kept as they are written: what `1` means is up to the column's type, which nobody knows yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from lading.config.section import Section
from lading.config.sql import sql_problem
from lading.config.yaml import Line
from lading.model import Check, OnBad, Policy, Severity, Threshold

CHECK_KINDS = ("min_rows", "max_rows", "not_null", "columns", "range", "values", "pattern", "unique", "sql")
CHECK_KEYS = ("name", "severity", "threshold")
RANGE_KEYS = ("column", "min", "max")
VALUES_KEYS = ("column", "in")
PATTERN_KEYS = ("column", "regex")
COLUMNS_KEYS = ("names", "strict")

# What a row check's bit can be: one signed 64-bit number a row says which checks it fails.
MOST_ROW_CHECKS = 62

_SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")


def checks_of(section: Section, inherited: Sequence[Check] = ()) -> tuple[Check, ...]:
    """The list under `checks`; what is inherited stays, unless an item here has the same name."""
    line = section.lines.get("checks")
    if line is None or line.value is None:
        return tuple(inherited)
    if not isinstance(line.value, list):
        section.complain("checks", "must be a list: - not_null: [ship, port]")
        return tuple(inherited)
    found: dict[str, Check] = {}
    where = f"{section.key}.checks" if section.key else "checks"
    for number, item in enumerate(line.value):
        check = _check(Section(item, f"{where}[{number}]", (*CHECK_KINDS, *CHECK_KEYS), section.problems))
        if check is None:
            continue
        if check.name in found:
            section.complain("checks", f"two checks are called {check.name!r}; give one of them a `name`")
        found[check.name] = check
    kept = {check.name: check for check in inherited} | found
    if sum(check.on_rows for check in kept.values()) > MOST_ROW_CHECKS:
        section.complain("checks", f"more than {MOST_ROW_CHECKS} checks on rows; combine some with `sql`")
    return tuple(kept.values())


def on_bad_of(table: Section) -> OnBad:
    return cast(OnBad, table.choice("on_bad", ("fail", "quarantine")))


def max_bad_of(table: Section, on_bad: OnBad, policy: Policy) -> Threshold | None:
    """What stops the run, where rows are set aside."""
    if "max_bad" in table.lines and on_bad != "quarantine" and not policy.quarantines:
        table.complain("max_bad", "needs on_bad: quarantine; with `fail`, the first bad row stops the run")
    return _threshold(table, "max_bad")


def refuse_unplaceable(table: Section, checks: Sequence[Check], on_bad: OnBad, per: str) -> None:
    """Rows of a `per: table` transform are of no file: they can't be set aside with one."""
    strict = [check.name for check in checks if check.on_rows and check.severity == "error"]
    if on_bad == "quarantine" and per == "table" and strict:
        table.complain(
            "on_bad",
            f"rows that fail {strict[0]!r} can't be set aside: with per: table they belong to no file; "
            "set its severity to warn, or on_bad to fail",
        )


def _check(section: Section) -> Check | None:
    kinds = [name for name in section.lines if name in CHECK_KINDS]
    if len(kinds) != 1:
        if section.lines and not (kinds or set(section.lines) - set(CHECK_KEYS)):
            section.complain(next(iter(section.lines)), f"has no check; add one of {', '.join(CHECK_KINDS)}")
        elif len(kinds) > 1:
            section.complain(kinds[1], "only one check per item; start the next one with '-'")
        return None
    kind = kinds[0]
    asked = _asked(section, kind)
    name = section.checked("name", lambda text: None if text.strip() else "is empty")
    severity = section.choice("severity", ("error", "warn"))
    threshold = _threshold(section, "threshold")
    if threshold is not None and kind in ("min_rows", "max_rows", "columns"):
        section.complain("threshold", f"{kind} either passes or fails; remove this key")
    if asked is None:
        return None
    return Check(
        kind=kind,
        name=name or _default_name(kind, asked),
        key=f"{section.key}.{kind}",
        line=section.lines[kind].line,
        severity=cast(Severity, severity),
        threshold=threshold or Threshold(),
        **asked,
    )


def _default_name(kind: str, asked: dict[str, Any]) -> str:
    of = ", ".join(asked.get("columns", ())) or asked.get("text", "")
    return f"{kind} {of}" if of and kind != "columns" else kind


def _asked(section: Section, kind: str) -> dict[str, Any] | None:
    """What the check asks for, as the fields of Check; None if it can't be told."""
    if kind in ("min_rows", "max_rows"):
        return _rows(section, kind)
    if kind == "range":
        return _range(section.section(kind, RANGE_KEYS))
    if kind == "values":
        return _values(section.section(kind, VALUES_KEYS))
    if kind == "pattern":
        inner = section.section(kind, PATTERN_KEYS)
        column = inner.text("column", required=True)
        regex = inner.checked("regex", _regex_problem, required=True)
        return {"columns": (column,), "text": regex} if column and regex else None
    if kind == "sql":
        text = section.checked(kind, sql_problem)
        return {"text": text} if text else None
    if kind == "columns" and isinstance(section.lines[kind].value, dict):
        inner = section.section(kind, COLUMNS_KEYS)
        names = _names(inner, "names", required=True)
        return {"columns": names, "strict": bool(inner.flag("strict"))} if names else None
    listed = _names(section, kind)
    return {"columns": listed} if listed else None


def _rows(section: Section, kind: str) -> dict[str, Any] | None:
    value = section.lines[kind].value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return {"number": value}
    section.complain(kind, "must be a number of rows")
    return None


def _range(section: Section) -> dict[str, Any] | None:
    column = section.text("column", required=True)
    ends = {end: _value(section, end) for end in ("min", "max")}
    if "min" not in section.lines and "max" not in section.lines:
        section.complain("min", "is missing, and so is max; give at least one")
        return None
    wrong = any(end in section.lines and value is None for end, value in ends.items())
    return {"columns": (column,), "least": ends["min"], "most": ends["max"]} if column and not wrong else None


def _values(section: Section) -> dict[str, Any] | None:
    column = section.text("column", required=True)
    line = section.lines.get("in")
    if line is None or not isinstance(line.value, list) or not line.value:
        section.complain("in", "must be a list of values" if line else "is missing")
        return None
    texts = [_text(item) for item in line.value]
    if None in texts:
        section.complain(
            "in", "null and nested values can't be listed; a null always passes unless `not_null` forbids it"
        )
        return None
    return {"columns": (column,), "values": tuple(texts)} if column else None


def _value(section: Section, name: str) -> str | None:
    line = section.lines.get(name)
    if line is None:
        return None
    text = _text(line)
    if text is None:
        section.complain(name, "must be a number, a date or text")
    return text


def _text(line: Line) -> str | None:
    return line.text if line.value is not None and not isinstance(line.value, (list, dict)) else None


def _names(section: Section, name: str, *, required: bool = False) -> tuple[str, ...]:
    """A column or a list of columns."""
    line = section.lines.get(name)
    if line is None:
        if required:
            section.complain(name, "is missing")
        return ()
    items = line.value if isinstance(line.value, list) else [line]
    names = tuple(item.value for item in items if isinstance(item.value, str) and item.value)
    if len(names) != len(items) or not names:
        section.complain(name, "must be a column or a list of columns")
        return ()
    if len(set(names)) < len(names):
        section.complain(name, "names a column twice")
    return names


def _threshold(section: Section, name: str) -> Threshold | None:
    line = section.lines.get(name)
    if line is None:
        return None
    if isinstance(line.value, int) and not isinstance(line.value, bool) and line.value >= 0:
        return Threshold(count=line.value)
    share = _SHARE.fullmatch(line.value) if isinstance(line.value, str) else None
    if share is not None and float(share[1]) <= 100:
        return Threshold(share=float(share[1]) / 100)
    section.complain(name, "must be a number of rows (100) or a share of them (1%)")
    return None


def _regex_problem(text: str) -> str | None:
    try:
        re.compile(text)
    except re.error as error:
        return f"not a regular expression: {error}"
    except (RecursionError, OverflowError):
        return "not a regular expression: nested too deeply, or with too large a repeat count"
    return None
