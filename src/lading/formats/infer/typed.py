"""Columns of files that have types of their own, from their heads: nothing else is read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from lading.errors import SchemaDrift
from lading.formats.infer.parquet import exact_as_double
from lading.formats.registry import file_columns
from lading.formats.source_file import SourceFile
from lading.formats.types import NO_VALUE, VOID, joined, widens, without_void
from lading.model import Format, FoundFile

_THREADS = 4
_WHERE = {"parquet": "footer", "orc": "footer", "avro": "header"}


@dataclass(slots=True)
class TypesSeen:
    types: dict[str, str] = field(default_factory=dict)
    because: dict[str, str] = field(default_factory=dict)


def columns_of_file(fmt: Format, found: FoundFile) -> dict[str, str]:
    """Names and types; SourceError for a file that can't be read."""
    return file_columns(fmt, SourceFile(found.key, found.path, found.size))


def types_look(files: Sequence[FoundFile], fmt: Format, *, join_types: bool = False) -> TypesSeen:
    """Types over all files; those that differ are an error unless `join_types`."""
    seen = TypesSeen()
    first: dict[str, str] = {}
    longs: dict[str, list[FoundFile]] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for found, columns in zip(files, pool.map(partial(columns_of_file, fmt), files), strict=True):
            for name, kind in columns.items():
                known = seen.types.setdefault(name, kind)
                first.setdefault(name, found.key)
                if kind == "bigint":
                    longs.setdefault(name, []).append(found)
                wider = _wider(known, kind, join_types)
                if wider is None:
                    raise SchemaDrift(
                        f"column {name!r} is {known} in {first[name]} and {kind} in {found.key}",
                        hint="rewrite one of the two files with the other's type",
                        file=found.key,
                    )
                if wider != known or (kind == wider != VOID and name not in seen.because):
                    seen.because[name] = f"{wider}: the {_WHERE[fmt]} of {found.key}"
                seen.types[name] = wider
    for name, holding in longs.items():
        if seen.types[name] == "double" and not (fmt == "parquet" and exact_as_double(holding, name)):
            seen.types[name] = "string"
            seen.because[name] = "string: some integers have more digits than a double can hold"
    for name, kind in seen.types.items():
        seen.types[name] = without_void(kind)
        seen.because.setdefault(name, NO_VALUE)
    return seen


def _wider(known: str, kind: str, join_types: bool) -> str | None:
    if widens(known, kind):
        return kind
    if widens(kind, known):
        return known
    return joined(known, kind) if join_types else None
