"""The policy at work: whether a file whose columns are not the schema's is read, and how (see `Policy`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from lading.config.names import folded
from lading.errors import SchemaDrift
from lading.formats.reader import ReadSpec
from lading.formats.types import is_nested, joined, widens
from lading.layout.table import SOURCE

# The row's lineage; no source may bring a column of that name.
RESERVED = frozenset({SOURCE})


def check_columns(key: str, have: Sequence[str] | Mapping[str, str], spec: ReadSpec) -> tuple[str, ...]:
    """Refuse a file whose columns (or types, when `have` maps names to them) the policy doesn't allow.
    Returns those that it holds and the table leaves out."""
    _refuse_taken(key, have, spec.name_columns)
    wanted = {column.name: column.type for column in spec.columns if column.name not in spec.name_columns}
    defaults = {rule.name for rule in spec.rules if rule.default is not None}
    there = frozenset(have)
    missing = [name for name in wanted if name not in there and name not in defaults]
    missing = [] if spec.policy.adds else missing
    new = tuple(name for name in have if name not in wanted)
    if missing or (new and spec.policy.columns != "ignore"):
        near = {name: _nearest(name, have) for name in missing}
        near |= {name: "" if missing else _nearest(name, wanted) for name in new}
        said = [f"column {name!r} is missing{near[name]}" for name in missing]
        said += [f"column {name!r} is new{near[name]}" for name in new]
        raise _drift(key, "; ".join(said), foldable=spec.naming.how == "exact" and any(near.values()))
    if isinstance(have, Mapping):
        for name in wanted.keys() & have.keys():
            if reading_of(name, have[name], wanted[name], spec) is None:
                raise _drift(key, f"column {name!r} is {have[name]}, but the schema says {wanted[name]}")
    return new


def reading_of(
    name: str, kind: str, wanted: str, spec: ReadSpec
) -> Literal["values", "texts", "misfits"] | None:
    """How a column of a file that has types becomes one of the schema's: as the values that they are, by
    their texts, or not one of them. None: the file is refused."""
    types = spec.policy.types_of(name)
    rule = next((rule for rule in spec.rules if rule.name == name), None)
    if kind == "string" and rule is not None and not is_nested(wanted):
        said = rule.nulls is not None if wanted == kind else rule.reads_texts or rule.type is not None
        if said:
            return "texts"
    if widens(kind, wanted) or (types != "strict" and joined(wanted, kind) == wanted):
        return "values"
    if types != "quarantine":
        return None
    return "misfits" if is_nested(kind) or is_nested(wanted) or kind == "binary" else "texts"


def _refuse_taken(key: str, have: Sequence[str] | Mapping[str, str], name_columns: Sequence[str]) -> None:
    taken = {name.lower() for name in name_columns}
    for name in have:
        if not name.strip():
            raise SchemaDrift(
                f"{key}: a column has no real name, only {name!r}",
                hint="name it in the file",
                file=key,
            )
        if name.lower() in RESERVED:
            raise SchemaDrift(
                f"{key}: the column name {name!r} is reserved for lading",
                hint="rename the column in the file",
                file=key,
            )
        if name.lower() in taken:
            raise SchemaDrift(
                f"{key}: column {name!r} is both in the file and in columns_from_name",
                hint="rename the group in `columns_from_name`",
                file=key,
            )


def _drift(key: str, what: str, *, foldable: bool = False) -> SchemaDrift:
    fold = "set `names: fold` for the table, which takes such names for one column; or " if foldable else ""
    return SchemaDrift(
        f"{key}: {what}",
        hint=f"{fold}fix the file, run `lading discover-schema`, or set `drift` for the table",
        file=key,
    )


def _nearest(name: str, others: Sequence[str] | Mapping[str, str]) -> str:
    for other in others:
        if other != name and folded(other) == folded(name):
            how = "case" if other.lower() == name.lower() else "spaces"
            return f" (there is {other!r}, which differs only in {how})"
    return ""
