"""What happened between two snapshots of a table: by source file, by part, by column. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from lading.model import Member, Pin, Source
from lading.snapshots.columns import ColumnChange, column_changes
from lading.state.members import MemberStore

Kind = Literal["added", "removed", "replaced"]


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A source file whose rows differ, or were read again."""

    key: str
    kind: Kind
    rows_before: int
    rows_after: int


@dataclass(frozen=True, slots=True)
class PartChanges:
    """`lessened` parts are the same files with fewer rows that count."""

    added: int
    removed: int
    lessened: int
    kept: int
    bytes_added: int
    bytes_removed: int


@dataclass(frozen=True, slots=True)
class Diff:
    rows_before: int
    rows_after: int
    sources: tuple[SourceChange, ...]
    parts: PartChanges
    columns: tuple[ColumnChange, ...]
    order_by: tuple[str | None, str | None] | None = None  # when it changed
    recipe_changed: bool = False
    inputs: tuple[tuple[str, int, int], ...] = ()  # of a table made of tables: their sequences, where others

    @property
    def same(self) -> bool:
        """Whether a reader could tell no difference in rows or columns."""
        return not self.sources and not self.columns and self.rows_before == self.rows_after

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "sources": [
                {
                    "key": one.key,
                    "change": one.kind,
                    "rows_before": one.rows_before,
                    "rows_after": one.rows_after,
                }
                for one in self.sources
            ],
            "parts": {name: getattr(self.parts, name) for name in PartChanges.__dataclass_fields__},
            "columns": [{"name": one.name, "before": one.before, "after": one.after} for one in self.columns],
            "order_by": list(self.order_by) if self.order_by else None,
            "recipe_changed": self.recipe_changed,
            "inputs": [{"name": name, "before": old, "after": new} for name, old, new in self.inputs],
        }


def diff(before: MemberStore, after: MemberStore) -> Diff:
    """From one state to the other."""
    order = (before.order_by, after.order_by)
    return Diff(
        rows_before=int(before.live_rows.sum()),
        rows_after=int(after.live_rows.sum()),
        sources=_sources(before, after),
        parts=_parts(before.members(None), after.members(None)),
        columns=column_changes(before.schema, after.schema),
        order_by=order if order[0] != order[1] else None,
        recipe_changed=before.meta.recipe != after.meta.recipe,
        inputs=_inputs(before.meta.inputs, after.meta.inputs),
    )


def _inputs(before: bytes, after: bytes) -> tuple[tuple[str, int, int], ...]:
    old, new = ({pin.name: pin.sequence for pin in _pins(told)} for told in (before, after))
    names = sorted(old.keys() | new.keys())
    return tuple(
        (name, old.get(name, 0), new.get(name, 0)) for name in names if old.get(name) != new.get(name)
    )


def _pins(told: bytes) -> list[Pin]:
    return msgspec.json.decode(told, type=list[Pin]) if told else []


def _sources(before: MemberStore, after: MemberStore) -> tuple[SourceChange, ...]:
    old = {source.key: source for source, _ in before.sources()}
    new = {source.key: source for source, _ in after.sources()}
    found = [SourceChange(key, "removed", old[key].rows, 0) for key in old.keys() - new.keys()]
    found += [SourceChange(key, "added", 0, new[key].rows) for key in new.keys() - old.keys()]
    found += [
        SourceChange(key, "replaced", old[key].rows, new[key].rows)
        for key in old.keys() & new.keys()
        if _read_again(old[key], new[key])
    ]
    return tuple(sorted(found, key=lambda one: one.key))


def _read_again(old: Source, new: Source) -> bool:
    """Reading a file again sets its time; noting a new fingerprint for the same bytes does not."""
    return (old.processed_at, old.sha256, old.rows) != (new.processed_at, new.sha256, new.rows)


def _parts(before: list[Member], after: list[Member]) -> PartChanges:
    old = {member.path: member for member in before}
    new = {member.path: member for member in after}
    lessened = sum(old[path].minus != new[path].minus for path in old.keys() & new.keys())
    return PartChanges(
        added=len(new.keys() - old.keys()),
        removed=len(old.keys() - new.keys()),
        lessened=lessened,
        kept=len(old.keys() & new.keys()) - lessened,
        bytes_added=sum(new[path].bytes for path in new.keys() - old.keys()),
        bytes_removed=sum(old[path].bytes for path in old.keys() - new.keys()),
    )
