"""What becomes of files whose columns or values are not the schema's: `drift`, `columns` and `types`.

`drift` is one word for both, or a mapping with a word for each; `columns` and `types` of the table say the
same thing apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from lading.config.section import Section
from lading.model import DRIFTS, STRICT, ColumnsPolicy, Format, Policy, TypesPolicy

WORDS: dict[str, tuple[str, ...]] = {"columns": get_args(ColumnsPolicy), "types": get_args(TypesPolicy)}


def policy_of(table: Section, fmt: Format) -> Policy:
    drift = _drift(table)
    said = dict(drift)
    for name, words in WORDS.items():
        line = table.lines.get(name)
        if line is None or (name == "columns" and isinstance(line.value, dict)):
            continue
        known = len(table.problems)
        said[name] = table.choice(name, words)
        if name in drift and said[name] != drift[name] and len(table.problems) == known:
            table.complain(name, _contradiction(table, name, drift[name]))
    policy = replace(STRICT, **said)
    if fmt == "fixed_width" and (policy.columns != "strict" or policy.types == "widen"):
        table.complain(
            _culprit(table, policy), "fixed-width files take their columns from the spec; remove this key"
        )
    return policy


def _drift(table: Section) -> dict[str, Any]:
    """What `drift` says, of names and of values."""
    line = table.lines.get("drift")
    if line is None:
        return {}
    if not isinstance(line.value, dict):
        policy = DRIFTS[table.choice("drift", tuple(DRIFTS))]
        return {"columns": policy.columns, "types": policy.types}
    section = table.section("drift", tuple(WORDS))
    return {name: section.choice(name, words) for name, words in WORDS.items() if name in section.lines}


def _contradiction(table: Section, name: str, drift: str) -> str:
    line = table.lines["drift"]
    short = not isinstance(line.value, dict)
    said = f"drift: {line.text}, which means {name}: {drift}" if short else f"{name}: {drift}"
    way = "write drift: {columns: …, types: …} with both words" if short else "keep one of them"
    return f"contradicts drift on line {line.line} ({said}); {way}"


def _culprit(table: Section, policy: Policy) -> str:
    names = [name for name in ("drift", "columns", "types") if name in table.lines]
    return names[0] if "drift" in names or policy.columns != "strict" else names[-1]
