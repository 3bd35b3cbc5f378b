"""A table's columns, from the evidence of its files: a function of what is there, not of the order in which
it came.

A column has the narrowest type that all its values could be read as. Under `types: quarantine` a few may be
left over, which are bad rows when they are read. What decided a type is said with file, line and value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from lading.config.names import case_clash
from lading.config.types import inner_types, struct_type
from lading.errors import SchemaDrift
from lading.formats.evidence import EMPTY, UNCOUNTED, ColumnEvidence, FileEvidence, Seen
from lading.formats.header import IN_CASE
from lading.formats.infer.kinds import STRING, TYPES, Kinds, spark_type
from lading.formats.infer.typed import settled_types
from lading.formats.types import NO_VALUE
from lading.model import TYPED, Column, ColumnRule, Format, TypesPolicy

_FEW = 10  # one value in so many may be a misfit
_NESTED = ("struct", "array")


@dataclass(frozen=True, slots=True)
class Settled:
    """Columns and the evidence for them."""

    columns: tuple[Column, ...]
    because: dict[str, str]  # by column
    files: int
    rows: int | None  # None: not all files say how many they have


def settle(
    files: Iterable[tuple[str, FileEvidence]],
    fmt: Format,
    read_options: Mapping[str, Any],
    *,
    types: Callable[[str], TypesPolicy],
    rules: Iterable[ColumnRule] = (),
    join_types: bool = True,
) -> Settled:
    """The columns of files, in order of first appearance over their sorted keys. `types` is the policy of a
    column; `rules` say how single ones were looked at. SchemaDrift where files that have types of their own
    differ in them, and there is no type for both or `join_types` is off; those hold no misfits, so that
    `quarantine` is like `widen`. It is raised as well for columns that differ only in case."""
    known = sorted(files, key=itemgetter(0))
    _refuse_alike(known)
    if fmt in TYPED:
        found = settled_types(known, fmt, join_types=join_types)
    else:
        by_name = {rule.name: rule for rule in rules}
        unit = "row" if fmt == "excel" else "line"
        found = {
            name: _Settler(Kinds.of(read_options, by_name.get(name)), unit).column(part, types(name))
            for name, part in _gathered(known).items()
        }
    return Settled(
        tuple(Column(name, kind, inferred=True) for name, (kind, _) in found.items()),
        {name: because for name, (_, because) in found.items()},
        len(known),
        None if any(one.rows == UNCOUNTED for _, one in known) else sum(one.rows for _, one in known),
    )


def _refuse_alike(files: Iterable[tuple[str, FileEvidence]]) -> None:
    seen: dict[str, tuple[str, str]] = {}
    for key, file in files:
        for column in file.columns:
            first, name = seen.setdefault(column.name.lower(), (key, column.name))
            if name != column.name:
                raise SchemaDrift(
                    f"the columns {name!r} in {first} and {column.name!r} in {key} {IN_CASE}",
                    hint="set `names: fold` for the table, which takes such names for one column; "
                    "or rename one of them",
                    file=key,
                )


@dataclass(slots=True)
class _Kind:
    count: int
    key: str  # of the file that holds the first
    first: Seen


class _Part:
    """A column of all files, or one place in a nested one."""

    __slots__ = ("fields", "items", "kinds", "values")

    def __init__(self) -> None:
        self.kinds: dict[str, _Kind] = {}  # in the order of their first values
        self.values = 0
        self.fields: dict[str, _Part] = {}
        self.items: _Part | None = None

    def add(self, key: str, one: ColumnEvidence) -> None:
        new = []
        for seen in one.seen:
            if seen.kind == EMPTY:
                continue
            self.values += seen.count
            known = self.kinds.get(seen.kind)
            if known is None:
                new.append(seen)
            else:
                known.count += seen.count
        for seen in sorted(new, key=lambda seen: seen.row) if len(new) > 1 else new:
            self.kinds[seen.kind] = _Kind(seen.count, key, seen)
        for field in one.fields:
            self.field(field.name).add(key, field)
        if one.items is not None:
            self.items = self.items or _Part()
            self.items.add(key, one.items)

    def field(self, name: str) -> _Part:
        known = self.fields.get(name)
        if known is None:
            known = self.fields[name] = _Part()
        return known


def _gathered(files: Iterable[tuple[str, FileEvidence]]) -> dict[str, _Part]:
    root = _Part()
    for key, one in files:
        for column in one.columns:
            root.field(column.name).add(key, column)
    return root.fields


def misfits(
    column: ColumnEvidence, dtype: str, read_options: Mapping[str, Any], rule: ColumnRule | None = None
) -> int:
    """How many values of a column in a file of text can't be read as a type that was inferred."""
    shape = dtype.partition("<")[0]
    if shape == STRING:
        return 0
    kinds = Kinds.of(read_options, rule)
    count = sum(one.count for one in column.seen if one.kind != EMPTY and shape not in kinds.types(one.kind))
    if shape == "array":
        inside = [(column.items, inner_types(dtype)["0"])]
    else:
        types = inner_types(dtype) if shape == "struct" else {}
        inside = [(field, types[field.name]) for field in column.fields if field.name in types]
    return count + sum(misfits(one, kind, read_options, rule) for one, kind in inside if one is not None)


@dataclass(frozen=True, slots=True)
class _Settler:
    kinds: Kinds
    unit: str  # what a place in a file is called

    def column(self, part: _Part, policy: TypesPolicy) -> tuple[str, str]:
        """Its type, and why."""
        kind = self._type(part, policy)
        return kind, f"{kind}{self._because(part, kind, policy)}" if part.values else NO_VALUE

    def _shape(self, part: _Part, policy: TypesPolicy) -> str:
        """The type without what is inside of it."""
        fits = dict.fromkeys(TYPES, 0)
        for kind, found in part.kinds.items():
            for one in self.kinds.types(kind):
                fits[one] += found.count
        best = max(TYPES, key=lambda one: fits[one])  # the narrowest, of those that most values have
        few = part.values - fits[best]
        fine = _FEW * few <= part.values if policy == "quarantine" else not few
        return best if part.values and fine else STRING

    def _type(self, part: _Part, policy: TypesPolicy) -> str:
        shape = self._shape(part, policy)
        if shape == "array":
            return f"array<{STRING if part.items is None else self._type(part.items, policy)}>"
        if shape == "struct":
            if not part.fields or case_clash(part.fields) is not None:
                return STRING
            return struct_type({name: self._type(field, policy) for name, field in part.fields.items()})
        return shape

    def _because(self, part: _Part, dtype: str, policy: TypesPolicy) -> str:
        """What is said behind the type."""
        shape = self._shape(part, policy)
        few = self._misfits(part, policy, "")
        if few is not None:
            return few
        if shape == "struct" and (clash := case_clash(part.fields)) is not None:
            first = next(iter(part.fields[clash[1]].kinds.values()), None)
            where = "" if first is None else f"; {self._told(first)}"
            return f": Spark can't tell apart its keys {clash[0]!r} and {clash[1]!r}{where}"
        if shape in _NESTED:
            return ": as the values are" if dtype != STRING else f": objects without keys; {self._at(part)}"
        if shape == STRING and not part.kinds.keys().isdisjoint(_NESTED):
            return f": a mix of objects, lists and plain values; {self._at(part)}"
        if shape == STRING or spark_type(next(iter(part.kinds))) != shape:
            return f" because of {self._at(part)}"
        return " in its only value" if part.values == 1 else f" in all {part.values:,} values"

    def _misfits(self, part: _Part, policy: TypesPolicy, where: str) -> str | None:
        """Of the first place in a column where values are left over."""
        shape = self._shape(part, policy)
        if shape == STRING or (shape == "struct" and case_clash(part.fields) is not None):
            return None
        few = [one for kind, one in part.kinds.items() if shape not in self.kinds.types(kind)]
        if few:
            count = sum(one.count for one in few)
            return f": all but {count:,} of {part.values:,} values{where}; {self._told(few[0])}"
        inside = list(part.fields.items()) if shape == "struct" else []
        if shape == "array" and part.items is not None:
            inside = [("", part.items)]
        deeper = (self._misfits(one, policy, f" in {name}" if name else where) for name, one in inside)
        return next((found for found in deeper if found is not None), None)

    def _at(self, part: _Part) -> str:
        """The value that made the type what it is: the first with which it was."""
        shape = self._shape(part, "widen")
        left = frozenset(TYPES)
        for kind, first in part.kinds.items():
            left &= self.kinds.types(kind)
            if next((one for one in TYPES if one in left), STRING) == shape:
                return self._told(first)
        raise AssertionError("all kinds together are of the type")

    def _told(self, one: _Kind) -> str:
        first = one.first
        place = f"{self.unit} {first.line:,}" if first.line else f"row {first.row:,}"
        return f"{place} of {one.key}: {first.value!r}"
