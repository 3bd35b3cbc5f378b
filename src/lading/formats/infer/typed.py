"""What files hold that have types of their own, from their heads: nothing else is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lading.config.types import VOID
from lading.errors import SchemaDrift
from lading.formats.evidence import UNCOUNTED, ColumnEvidence, FileEvidence, Seen
from lading.formats.header import table_names
from lading.formats.infer.kinds import LONG
from lading.formats.reader import ReadSpec
from lading.formats.registry import file_types
from lading.formats.source_file import SourceFile
from lading.formats.text_shapes import EXACT_DIGITS
from lading.formats.types import NO_VALUE, joined, widens, without_void
from lading.model import Format

_WHERE = {"parquet": "footer", "orc": "footer", "avro": "header"}
# What is stored as text of values of these types is what lading writes of them, and nothing else.
_PLAIN = frozenset({"boolean", "tinyint", "smallint", "int", "bigint", LONG})


def look_at_types(file: SourceFile, spec: ReadSpec) -> FileEvidence:
    found = file_types(spec.format, file)
    rows = UNCOUNTED if found.rows is None else found.rows
    kinds = {
        name: LONG if kind == "bigint" and name not in found.short else kind
        for name, kind in found.columns.items()
    }
    names = table_names(file.key, kinds, spec.naming)
    return FileEvidence(rows, tuple(_column(*one, rows) for one in zip(names, kinds.values(), strict=True)))


def _column(name: str, kind: str, rows: int) -> ColumnEvidence:
    return ColumnEvidence(name, (Seen(kind, max(rows, 0), 0, 0, "", kind in _PLAIN),))


@dataclass(slots=True)
class _Type:
    """Of a column, over the files so far."""

    type: str
    key: str  # of the file that made it so
    because: str
    long: str | None = None  # a file with integers of too many digits for a double


def settled_types(
    files: Iterable[tuple[str, FileEvidence]], fmt: Format, *, join_types: bool
) -> dict[str, tuple[str, str]]:
    """Types over all files, and why. SchemaDrift for those that differ, unless `join_types` finds one."""
    found: dict[str, _Type] = {}
    for key, one in files:
        for column in one.columns:
            kind = column.seen[0].kind
            dtype = "bigint" if kind == LONG else kind
            known = found.get(column.name)
            if known is None:
                because = f"{dtype}: the {_WHERE[fmt]} of {key}"
                known = found[column.name] = _Type(dtype, key, because)
            else:
                _widen(known, column.name, dtype, key, fmt, join_types)
            if kind == LONG:
                known.long = known.long or key
    return {name: _settled(one) for name, one in found.items()}


def _widen(known: _Type, name: str, dtype: str, key: str, fmt: Format, join_types: bool) -> None:
    wider = _wider(known.type, dtype, join_types)
    if wider is None:
        raise SchemaDrift(
            f"column {name!r} is {known.type} in {known.key} and {dtype} in {key}",
            hint="rewrite one of the two files with the other's type",
            file=key,
        )
    if wider == dtype != known.type:
        known.because = f"{wider}: the {_WHERE[fmt]} of {key}"
    elif wider != known.type:
        known.because = f"{wider}: {known.type} in {known.key}, and {dtype} in {key}"
    if wider != known.type:
        known.type, known.key = wider, key


def _settled(one: _Type) -> tuple[str, str]:
    if one.type == VOID:
        return "string", NO_VALUE
    if without_void(one.type) != one.type:
        return without_void(one.type), one.because.replace(one.type, without_void(one.type))
    if one.type != "double" or one.long is None:
        return one.type, one.because
    return "string", f"string: doubles, and integers of more than {EXACT_DIGITS} digits in {one.long}"


def _wider(known: str, kind: str, join_types: bool) -> str | None:
    if widens(known, kind):
        return kind
    if widens(kind, known):
        return known
    return joined(known, kind) if join_types else None
