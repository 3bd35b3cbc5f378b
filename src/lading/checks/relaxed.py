"""Whether changed checks only let more rows in.

The checks that keep rows out of a table are its rules, and they are part of the recipe: tighten one, and rows
that are in the table might have to leave, so everything is read again. Loosen one, and every row that is in
the table may stay; only what was set aside is read again. To tell the two apart the old rules are kept, as
text, in manifest/<table>.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lading.errors import PredicateError
from lading.late import pa
from lading.model import Check, Column
from lading.where.literal import position_of_key


def rules_of(checks: Sequence[Check]) -> str | None:
    """The checks that keep rows out, in a canonical form; None when there are none."""
    rules = [_rule(check) for check in checks if check.on_rows and check.severity == "error"]
    return json.dumps(rules, sort_keys=True, separators=(",", ":")) if rules else None


def relaxes(old: str | None, new: str | None, schema: pa.Schema) -> bool:
    """Whether every row that passed the old rules passes the new ones too. `schema` is the table's, the
    same under both: the ends of a range are compared as values of their column."""
    before, after = _rules(old), _rules(new)
    if before is None or after is None:
        return False
    return all(any(_implies(one, other, schema) for one in before) for other in after)


def compares_floats(rules: str | None, columns: Sequence[Column], *, transformed: bool) -> bool:
    """Whether a rule may compare values of a `float` column; behind a transform any column may be one."""
    narrow = {column.name for column in columns if column.type.lower() in ("float", "real")}
    return any(
        rule["kind"] in ("range", "values") and (transformed or not narrow.isdisjoint(rule["columns"]))
        for rule in _rules(rules) or ()
    )


def _rules(text: str | None) -> list[dict[str, Any]] | None:
    try:
        found = json.loads(text) if text is not None else []
    except (ValueError, RecursionError):
        return None
    fine = isinstance(found, list) and all(isinstance(one, dict) and "kind" in one for one in found)
    return found if fine else None


def _rule(check: Check) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "kind": check.kind,
        "columns": sorted(check.columns),
        "min": check.least,
        "max": check.most,
        "values": sorted(check.values),
        "text": check.text,
        "count": check.threshold.count if check.threshold.share is None else None,
        "share": check.threshold.share,
    }
    return {key: value for key, value in rule.items() if value not in (None, [], "")}


def _implies(old: dict[str, Any], new: dict[str, Any], schema: pa.Schema) -> bool:
    """Whether a row, and a file, that passes `old` passes `new`."""
    if old["kind"] != new["kind"] or old.get("text") != new.get("text"):
        return False
    if not _more_tolerant(old, new):
        return False
    mine, theirs = set(old.get("columns", ())), set(new.get("columns", ()))
    if new["kind"] == "not_null":
        return theirs <= mine
    dtype = _type_of(theirs, schema)
    low = _within(old.get("min"), new.get("min"), dtype, lower=True)
    high = _within(old.get("max"), new.get("max"), dtype, lower=False)
    return mine == theirs and low and high and set(old.get("values", ())) <= set(new.get("values", ()))


def _more_tolerant(old: dict[str, Any], new: dict[str, Any]) -> bool:
    none_before = not old.get("count") and not old.get("share")
    if none_before:
        return True  # nothing failed then, and nothing does now
    return all(key in old and key in new and old[key] <= new[key] for key in old.keys() & {"count", "share"})


def _type_of(columns: set[str], schema: pa.Schema) -> pa.DataType | None:
    """Of the one column that a range is about."""
    name = next(iter(columns), "")
    return schema.field(name).type if len(columns) == 1 and schema.names.count(name) == 1 else None


def _within(old: Any, new: Any, dtype: pa.DataType | None, *, lower: bool) -> bool:
    """Whether what keeps to the old end of a range keeps to the new one, in the order that the check itself
    goes by: as text, "9" lies behind "10". What can't be told for certain doesn't."""
    if new is None or old == new:
        return True
    if old is None or dtype is None:
        return False
    try:
        before, after = _rank(old, dtype), _rank(new, dtype)
    except PredicateError:
        return False
    return after <= before if lower else before <= after


def _rank(text: str, dtype: pa.DataType) -> tuple[int, Any, bool]:
    """Where a value of lading.yaml stands among the column's own."""
    place = position_of_key(text, dtype)
    if place.at is None:
        return (1 if place.beyond else -1, 0, False)
    return (0, place.at, not place.exact)
