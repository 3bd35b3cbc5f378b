"""`drift: evolve`: the pinned columns, widened by what new files bring.

Columns are added, and types that were inferred go to what inference over all files gives; one that a person
wrote stays. The result is another schema and so another recipe: all files are read again under it, which is
what makes the table equal to a rebuild. A column that a file lacks is null there and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lading.config.names import EXACT, Naming
from lading.formats.dialect import Dialect
from lading.formats.drift import RESERVED
from lading.formats.evidence import FileEvidence
from lading.formats.infer.columns import looks
from lading.formats.infer.kinds import LONG
from lading.formats.infer.look import LookSpec
from lading.formats.infer.settle import Settled, misfits, settle
from lading.formats.types import joined
from lading.model import TYPED, Column, ColumnRule, Format, FoundFile


@dataclass(frozen=True, slots=True)
class Evolution:
    columns: tuple[Column, ...]
    because: dict[str, str]  # of the columns that are new or changed
    changes: tuple[str, ...]  # for people


def evolve(
    columns: tuple[Column, ...],
    new: Sequence[FoundFile],
    found: Sequence[FoundFile],
    *,
    fmt: Format,
    read_options: Mapping[str, Any],
    name_columns: Sequence[str] = (),
    empty: Collection[str] = (),
    naming: Naming = EXACT,
    rules: tuple[ColumnRule, ...] = (),
) -> Evolution | None:
    """What `new` files make of the pinned `columns`; None when they fit. Types are taken from all files
    `found`, so that they don't depend on the order in which files arrive. `empty` are columns that are text
    only because no file had a value for them: they take the type of their first values."""
    plain = {column.name: column for column in columns if column.name not in name_columns}
    headless = None if Dialect.of(read_options, fmt).header else tuple(plain)
    look = _Look(plain, frozenset(empty), LookSpec(fmt, read_options, headless, None, naming, rules))
    differing = look.differing(new)
    taken = {*RESERVED, *name_columns}  # refused when the file is staged, with its name
    differing = {name for name in differing if name not in taken and name.strip()}
    if not differing:
        return None
    settled = look.settled(look.evidence(found))
    types = {column.name: column.type for column in settled.columns if column.name in differing}
    changed = tuple(
        Column(one.name, types[one.name], inferred=True) if one.name in types else one for one in columns
    )
    added = tuple(Column(name, kind, inferred=True) for name, kind in types.items() if name not in plain)
    if (*changed, *added) == columns:
        return None
    because = {name: settled.because[name] for name in types}
    changes = [
        f"column {one.name!r} goes from {plain[one.name].type} to {because[one.name]}"
        for one in changed
        if one.name in types and one.type != plain[one.name].type
    ]
    changes += [f"column {one.name!r} is new ({because[one.name]})" for one in added]
    return Evolution((*changed, *added), because, tuple(changes))


@dataclass(frozen=True, slots=True)
class _Look:
    columns: Mapping[str, Column]  # without those from file names
    empty: frozenset[str]
    spec: LookSpec

    def evidence(self, files: Sequence[FoundFile]) -> list[tuple[str, FileEvidence]]:
        """Of those that can be read; the others are refused, or set aside, when they are."""
        return looks(files, self.spec, tolerant=True)[0]

    def settled(self, seen: Sequence[tuple[str, FileEvidence]]) -> Settled:
        spec = self.spec
        return settle(seen, spec.format, spec.options, types=lambda _: "widen", rules=spec.rules)

    def differing(self, files: Sequence[FoundFile]) -> set[str]:
        """The columns that are new, or whose values don't fit the type that was inferred."""
        seen = self.evidence(files)
        found = set()
        for column in self.settled(seen).columns:
            old = self.columns.get(column.name)
            if old is None or (old.inferred and self._grows(old, column.type, seen)):
                found.add(column.name)
        return found

    def _grows(self, old: Column, dtype: str, seen: Sequence[tuple[str, FileEvidence]]) -> bool:
        held = [one for _, file in seen for one in file.columns if one.name == old.name]
        if old.name in self.empty:
            return any(one.values for one in held)
        if joined(old.type, dtype) != old.type:
            return True
        if self.spec.format in TYPED:
            return old.type == "double" and any(one.seen[0].kind == LONG for one in held)
        rule = next((rule for rule in self.spec.rules if rule.name == old.name), None)
        return any(misfits(one, old.type, self.spec.options, rule) for one in held)
