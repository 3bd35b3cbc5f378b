"""Which files are read again although they are as they were: pure.

Stored rows were made by the recipe that the log has. Under another one everything is read again, unless only
the columns differ: then a file is, if rows of it are stored in a way that means something else now. A column
that is new is null in rows of files that lack it, one that is gone is not read, and a value that can be
converted without loss is converted by whoever reads it (parts/schema.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lading.formats.evidence import ColumnEvidence, FileEvidence
from lading.formats.infer.settle import misfits
from lading.formats.types import widens
from lading.ingest.plan import Again
from lading.model import TYPED, Check, Column, ColumnRule, Source
from lading.parts.schema import lossless

_COLUMNS = "columns"
_POLICY = ("drift", "policy")
_WORDS = {
    "reading": "how lading reads such files",
    "order_by": "order_by",
    "transform": "the transform's code",
    "transform_name": "the transform",
    "preprocess": "the preprocess script",
    "rules": "the checks",
    "float_checks": "how lading checks floats",
    "layout": "the spec",
    "column_rules": "what lading.yaml says of columns",
    "record_type_filter": "the spec's filter",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """How the rows of a table were made, and from what."""

    recipe: str
    facts: bytes  # b"": only the recipe's hash is known
    sources: Callable[[], Iterable[Source]]  # of files that are in the table and as they were
    evidence: Mapping[str, FileEvidence]  # of those and of others, by key


@dataclass(frozen=True, slots=True)
class Wanted:
    """How they would be made now."""

    recipe: str
    facts: bytes
    order_by: str | None
    checks: Sequence[Check]
    transformed: bool
    name_columns: tuple[str, ...] = ()  # that come from file names
    rules: tuple[ColumnRule, ...] = ()  # what lading.yaml says of columns


def files_to_reread(stored: Stored, wanted: Wanted) -> Again | None:
    """What has to be read again for the table to be what a rebuild would give."""
    if stored.recipe == wanted.recipe:
        return None
    old, new = _told(stored.facts), _told(wanted.facts)
    if old is None or new is None:
        return Again("the recipe changed (columns, read options, checks, order, transform or format)")
    others = _differences(old, new)
    if others:
        return Again(f"{_listed(others)} changed")
    changes = changes_between(_columns(old), _columns(new), new["format"], new["read_options"], wanted.rules)
    loosened = any(old.get(name) != new.get(name) for name in _POLICY)
    if loosened and any(name in old for name in _POLICY):
        return Again("the policy for columns and types changed")
    words = [change.words for change in changes if change.old is None or change.new is None or change.retyped]
    why = _listed(words, "; ")
    touched = {change.name for change in changes}
    if changes and wanted.transformed:
        return Again(f"{why or 'a type is no longer inferred, or is now'}: the transform may read it")
    if touched & set(wanted.name_columns):
        return Again(f"{why or 'how a column is read changed'}: it comes from the files' names")
    filled = {name for name, rule in (new.get("column_rules") or {}).items() if "default" in rule}
    if touched & filled:
        return Again(f"{why or 'how a column is read changed'}: it has a default")
    if wanted.order_by in touched:
        return Again(f"{why or f'how {wanted.order_by!r} is read changed'}: it is the order column")
    checked = sorted({name for check in wanted.checks if check.on_rows for name in check.columns} & touched)
    if checked or (changes and any(check.kind == "sql" for check in wanted.checks)):
        return Again(f"{why or 'how a column is read changed'}: the checks look at it")
    keys = {
        source.key
        for source in (stored.sources() if changes or loosened else ())
        if (loosened and source.set_aside)
        or any(one.concerns(source, stored.evidence.get(source.key)) for one in changes)
    }
    return Again(why or "other rules let more of them in", frozenset(keys)) if keys else None


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one column."""

    name: str
    old: Column | None
    new: Column | None
    format: str = "csv"
    options: Mapping[str, Any] = field(default_factory=dict)  # by which values are read
    rule: ColumnRule | None = None

    @property
    def retyped(self) -> bool:
        return self.old is not None and self.new is not None and self.old.type != self.new.type

    @property
    def words(self) -> str:
        if self.old is None:
            return f"column {self.name!r} ({self.new.type if self.new else ''}) is new"
        if self.new is None:
            return f"column {self.name!r} is gone"
        return f"column {self.name!r} goes from {self.old.type} to {self.new.type}"

    def concerns(self, source: Source, evidence: FileEvidence | None) -> bool:
        """Whether a file has to be read again for it."""
        if self.new is None:
            return source.set_aside  # what was wrong with it may have been that column
        if evidence is None:
            return True
        held = next((one for one in evidence.columns if one.name == self.name), None)
        if held is None:
            return source.aside is not None
        if source.set_aside:
            return True
        if self.old is None:
            return True  # the file has it, and its rows were stored without
        if not self.retyped:
            return False
        kept = lossless(self.old.type, self.new.type, plain=self._is_plain(held))
        return bool(held.seen) and not (kept and self._holds(held))

    def _holds(self, held: ColumnEvidence) -> bool:
        """Whether each value of the file is one of the new type."""
        assert self.new is not None
        kinds, new = {one.kind for one in held.seen}, self.new.type
        if new == "string":
            return True
        if self.files_have_types:
            return all(widens(kind, new) or (kind, new) == ("bigint", "double") for kind in kinds)
        return not misfits(held, new, self.options, self.rule)

    def _is_plain(self, held: ColumnEvidence) -> bool:
        """Whether each value of the file is written as lading writes it, be it stored as text or not."""
        assert self.old is not None and self.new is not None
        typed = self.old.type if self.new.type == "string" else self.new.type
        if self.files_have_types:
            # Of a double, Arrow makes the text 5.0 where a person writes 5.
            return typed != "double" and all(widens(one.kind, typed) for one in held.seen)
        return all(one.plain for one in held.seen) and not misfits(held, typed, self.options, self.rule)

    @property
    def files_have_types(self) -> bool:
        return self.format in TYPED


def changes_between(
    old: Sequence[Column],
    new: Sequence[Column],
    fmt: str = "csv",
    options: Mapping[str, Any] | None = None,
    rules: Sequence[ColumnRule] = (),
) -> list[Change]:
    """Columns that came, went, or are read otherwise."""
    before, after = ({column.name: column for column in columns} for columns in (old, new))
    by_name = {rule.name: rule for rule in rules}
    names = [*before, *(name for name in after if name not in before)]
    return [
        Change(name, before.get(name), after.get(name), fmt, options or {}, by_name.get(name))
        for name in names
        if _read_as(before.get(name)) != _read_as(after.get(name))
    ]


def columns_in(facts: bytes) -> tuple[Column, ...] | None:
    """The columns that a table's rows were read by; None where nobody wrote them down."""
    told = _told(facts)
    return _columns(told) if told is not None else None


def _read_as(column: Column | None) -> tuple[str, bool] | None:
    return None if column is None else (column.type, column.inferred)


def _told(facts: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(facts) if facts else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get(_COLUMNS), list) else None


def _columns(facts: Mapping[str, Any]) -> tuple[Column, ...]:
    return tuple(Column(one[0], one[1], inferred="inferred" in one[2:]) for one in facts[_COLUMNS])


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs besides the columns and the policy, in words."""
    found: dict[str, None] = {}
    for name in sorted(old.keys() | new.keys()):
        if name == _COLUMNS or name in _POLICY or old.get(name) == new.get(name):
            continue
        before, after = old.get(name) or {}, new.get(name) or {}
        if name == "read_options":
            names = sorted(before.keys() | after.keys())
            options = ", ".join(one for one in names if before.get(one) != after.get(one))
            found[f"read_options ({options})"] = None
        else:
            found[_WORDS.get(name, name)] = None
    return list(found)


def _listed(words: Iterable[str], between: str = ", ") -> str:
    words = list(words)
    if len(words) > 5:
        return f"{between.join(words[:5])}{between}and {len(words) - 5} more"
    return between.join(words)
