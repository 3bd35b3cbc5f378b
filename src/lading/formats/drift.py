"""The policy at work: whether a file whose columns are not the schema's is read (see `Policy`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lading.errors import SchemaDrift
from lading.formats.types import joined, widens
from lading.layout.table import SOURCE
from lading.model import STRICT, Column, Policy, TypesPolicy

# The row's lineage; no source may bring a column of that name.
RESERVED = frozenset({SOURCE})


def check_columns(
    key: str,
    have: Sequence[str] | Mapping[str, str],
    columns: Sequence[Column],
    name_columns: Sequence[str] = (),
    *,
    policy: Policy = STRICT,
) -> tuple[str, ...]:
    """Refuse a file whose columns (or types, when `have` maps names to them) the policy doesn't allow.
    Returns those that it holds and the table leaves out."""
    _refuse_taken(key, have, name_columns)
    wanted = {column.name: column.type for column in columns if column.name not in name_columns}
    missing = [name for name in wanted if name not in have] if not policy.adds else []
    new = tuple(name for name in have if name not in wanted)
    if missing or (new and policy.columns != "ignore"):
        said = [f"column {name!r} is missing{_nearest(name, have)}" for name in missing]
        said += [f"column {name!r} is new{'' if missing else _nearest(name, wanted)}" for name in new]
        raise _drift(key, "; ".join(said))
    if isinstance(have, Mapping):
        for name in wanted.keys() & have.keys():
            if not _reads_as(have[name], wanted[name], policy.types_of(name)):
                raise _drift(key, f"column {name!r} is {have[name]}, but the schema says {wanted[name]}")
    return new


def _reads_as(kind: str, wanted: str, types: TypesPolicy) -> bool:
    return widens(kind, wanted) or (types == "widen" and joined(wanted, kind) == wanted)


def _refuse_taken(key: str, have: Sequence[str] | Mapping[str, str], name_columns: Sequence[str]) -> None:
    for name in have:
        if not name.strip():
            raise SchemaDrift(
                f"{key}: a column has no real name, only {name!r}",
                hint="name it in the file",
                file=key,
            )
        if name in RESERVED:
            raise SchemaDrift(
                f"{key}: the column name {name!r} is reserved for lading",
                hint="rename the column in the file",
                file=key,
            )
        if name in name_columns:
            raise SchemaDrift(
                f"{key}: column {name!r} is both in the file and in columns_from_name",
                hint="rename the group in `columns_from_name`",
                file=key,
            )


def _drift(key: str, what: str) -> SchemaDrift:
    return SchemaDrift(
        f"{key}: {what}",
        hint="fix the file, run `lading discover-schema`, or set `drift` for the table",
        file=key,
    )


def _nearest(name: str, others: Sequence[str] | Mapping[str, str]) -> str:
    for other in others:
        if other != name and other.strip().casefold() == name.strip().casefold():
            how = "case" if other.casefold() == name.casefold() else "spaces around it"
            return f" (there is {other!r}, which differs only in {how})"
    return ""
