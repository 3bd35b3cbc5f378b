"""`gate:` of a table: what has to hold of the whole table before readers see it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lading.config.section import Section
from lading.config.sql import sql_problem
from lading.config.yaml import Line

GATE_KEYS = ("rows", "nulls", "unique", "sql")
ROW_KEYS = ("max_drop", "max_grow")
NULL_KEYS = ("max", "max_increase")

_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


@dataclass(frozen=True, slots=True)
class NullLimit:
    """Shares of a column's rows: at most so many nulls, or so many more than readers see now."""

    max: float | None = None
    max_increase: float | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """Checked before the pointer moves; shares are fractions."""

    max_drop: float | None = None
    max_grow: float | None = None
    nulls: dict[str, NullLimit] = field(default_factory=dict)
    unique: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()


def gate(table: Section) -> Gate | None:
    """The table's gate, None when it has none."""
    if "gate" not in table.lines:
        return None
    section = table.section("gate", GATE_KEYS)
    rows = section.section("rows", ROW_KEYS)
    return Gate(
        max_drop=_share(rows, "max_drop", most=100),
        max_grow=_share(rows, "max_grow"),
        nulls=_nulls(section),
        unique=_texts(section, "unique", "the column or columns that identify a row"),
        sql=_expressions(section),
    )


def _expressions(section: Section) -> tuple[str, ...]:
    texts = _texts(section, "sql", "an expression that must be true, such as 'min(tonnes) >= 0'")
    for text in texts:
        if (problem := sql_problem(text)) is not None:
            section.complain("sql", f"{text!r} {problem}")
    return texts


def _nulls(section: Section) -> dict[str, NullLimit]:
    nulls = section.section("nulls", None)
    found = {}
    for column, line in nulls.lines.items():
        if isinstance(line.value, dict):
            limits = nulls.section(column, NULL_KEYS)
            if not limits.lines:
                nulls.complain(column, "is empty; write 5%, or {max_increase: 1%}")
            found[column] = NullLimit(
                _share(limits, "max", most=100), _share(limits, "max_increase", most=100)
            )
        else:
            found[column] = NullLimit(max=_share(nulls, column, most=100))
    return found


def _share(section: Section, name: str, *, most: float | None = None) -> float | None:
    line = section.lines.get(name)
    if line is None:
        return None
    match = _SHARE.fullmatch(line.text or "")
    if match is None or (most is not None and float(match[1]) > most):
        above = f", at most {most:g}%" if most is not None else ""
        section.complain(name, f"must be a share such as 10%{above}")
        return None
    return float(match[1]) / 100


def _texts(section: Section, name: str, what: str) -> tuple[str, ...]:
    line = section.lines.get(name)
    if line is None:
        return ()
    entries = line.value if isinstance(line.value, list) else [line]
    texts = [one.value for one in entries if isinstance(one, Line) and isinstance(one.value, str)]
    if len(texts) < len(entries) or not all(text.strip() for text in texts) or not texts:
        section.complain(name, f"must be text or a list of texts: {what}")
        return ()
    return tuple(texts)
