"""What becomes of files whose columns or values are not the schema's: `drift`, `columns` and `types`.

`drift` is one word for both, or a mapping with a word for each; `columns` and `types` of the table say the
same thing apart, and `types` of a column what holds for that one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, get_args

from lading.config.section import Section
from lading.model import DRIFTS, STRICT, ColumnRule, ColumnsPolicy, Format, Policy, TypesPolicy

_WORDS: dict[str, tuple[str, ...]] = {"columns": get_args(ColumnsPolicy), "types": get_args(TypesPolicy)}


def policy_of(table: Section, fmt: Format, rules: Iterable[ColumnRule]) -> Policy:
    drift, apart = _drift(table), _apart(table)
    said = drift | apart
    for name in drift:
        if said[name] != drift[name]:
            table.complain(name, _contradiction(table, name, drift[name]))
    policy: Policy = replace(STRICT, **said)
    if fmt == "fixed_width" and (policy.columns != "strict" or policy.types == "widen"):
        key = "columns" if policy.columns != "strict" else "types"
        table.complain(
            key if key in apart else "drift",
            "fixed-width files take their columns from the spec; remove this key",
        )
    own = [(rule.name, rule.types) for rule in rules if rule.types not in (None, policy.types)]
    return replace(policy, by_column=tuple(sorted(own)))


def _drift(table: Section) -> dict[str, Any]:
    """What `drift` says, of names and of values."""
    line = table.lines.get("drift")
    if line is None:
        return {}
    if not isinstance(line.value, dict):
        policy = DRIFTS[table.choice("drift", tuple(DRIFTS))]
        return {"columns": policy.columns, "types": policy.types}
    return _words(table.section("drift", tuple(_WORDS)))


def _apart(table: Section) -> dict[str, Any]:
    line = table.lines.get("columns")
    if line is not None and isinstance(line.value, dict):
        return _words(table, "types")
    if line is not None and not isinstance(line.value, str):
        valid = ", ".join(_WORDS["columns"])
        table.complain("columns", f"must be one of {valid}, or a mapping of columns (amount: bigint)")
        return _words(table, "types")
    return _words(table, *_WORDS)


def _words(section: Section, *names: str) -> dict[str, Any]:
    """Those that are given and valid."""
    given = [name for name in names or _WORDS if name in section.lines]
    found = {name: section.choice(name, _WORDS[name]) for name in given}
    return {name: word for name, word in found.items() if word == section.lines[name].text}


def _contradiction(table: Section, name: str, drift: str) -> str:
    line = table.lines["drift"]
    short = not isinstance(line.value, dict)
    said = f"drift: {line.text}, which means {name}: {drift}" if short else f"{name}: {drift}"
    way = "write drift: {columns: …, types: …} with both words" if short else "keep one"
    return f"contradicts drift on line {line.line} ({said}); {way}"
