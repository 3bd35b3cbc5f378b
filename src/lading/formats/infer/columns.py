"""A table's columns when nobody has written them down: from all its files, not from the first.

Whole files are looked at up to a total budget; beyond it, an equal head of each, unless everything is
asked for. What comes out is pinned in `schema/<table>.yaml` with the evidence, so a wrong guess is an
edit, not a surprise in the next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lading.config.names import EXACT, Naming
from lading.errors import SourceError
from lading.formats.drift import RESERVED
from lading.formats.evidence import FileEvidence
from lading.formats.infer.json import problem_of
from lading.formats.infer.look import LookSpec, look
from lading.formats.infer.settle import settle
from lading.formats.opening import limits_of
from lading.formats.source_file import SourceFile
from lading.model import BINARY, Column, ColumnRule, Format, FoundFile

BUDGET = 512 << 20
_THREADS = 4


@dataclass(frozen=True, slots=True)
class Inferred:
    """Columns and the evidence for them."""

    columns: tuple[Column, ...]
    because: dict[str, str] = field(default_factory=dict)  # by column
    files: int = 0
    rows: int | None = None  # looked at; None when they weren't counted
    whole: bool = True  # whether all of each file was looked at


def infer(
    files: Sequence[FoundFile],
    *,
    fmt: Format,
    read_options: Mapping[str, Any],
    name_columns: Sequence[str] = (),
    names: tuple[str, ...] | None = None,
    naming: Naming = EXACT,
    rules: tuple[ColumnRule, ...] = (),
    full_scan: bool = False,
    join_types: bool = False,
    tolerant: bool = False,
) -> Inferred:
    """The columns of all files, in order of first appearance; those from file names come last, as strings.

    `names` are the columns of files without a header. `join_types` lets files differ that have types.
    `tolerant` passes over files that can't be read, which are refused or set aside when they are.
    """
    limit = None if full_scan else limit_of(files)
    spec = LookSpec(fmt, read_options, names, limit, naming, rules)
    seen, problem = looks(files, spec, tolerant=tolerant)
    settled = settle(seen, fmt, read_options, types=lambda _: "widen", rules=rules, join_types=join_types)
    if not settled.columns:
        raise problem or first_problem(map(_file, files), spec) or _no_columns(files)
    refuse_taken(settled.columns, name_columns, seen)
    from_names = tuple(Column(name, "string", inferred=True) for name in name_columns)
    because = settled.because | dict.fromkeys(name_columns, "string: from the files' names")
    whole = limit is None or fmt in BINARY
    return Inferred(settled.columns + from_names, because, settled.files, settled.rows, whole)


def looks(
    files: Sequence[FoundFile], spec: LookSpec, *, tolerant: bool
) -> tuple[list[tuple[str, FileEvidence]], SourceError | None]:
    """The evidence of files, by key. With `tolerant`, those are left out that can't be read; why the first
    of them can't is said as well."""
    seen: list[tuple[str, FileEvidence]] = []
    problem: SourceError | None = None
    with ThreadPoolExecutor(_THREADS) as pool:
        for found, one in zip(files, pool.map(lambda found: _tried(found, spec), files), strict=True):
            if isinstance(one, FileEvidence):
                seen.append((found.key, one))
            elif tolerant:
                problem = problem or one
            else:
                raise one
    return seen, problem


def _tried(found: FoundFile, spec: LookSpec) -> FileEvidence | SourceError:
    """What a look at a file gives, or why there is none."""
    try:
        return look(_file(found), spec)
    except SourceError as error:
        return error


def _file(found: FoundFile) -> SourceFile:
    return SourceFile(found.key, found.path, found.size, limits=limits_of(found.path))


def limit_of(files: Sequence[FoundFile]) -> int | None:
    """Bytes to look at in each file; None for all of it."""
    if sum(found.size for found in files) <= BUDGET:
        return None
    return max(BUDGET // len(files), 1 << 12)


def first_problem(files: Iterable[SourceFile], spec: LookSpec) -> SourceError | None:
    """Why files that are there hold no record."""
    if spec.format != "json":
        return None
    found = (problem_of(file, spec.options, spec.limit) for file in files)
    return next((one for one in found if one is not None), None)


def _no_columns(files: Sequence[FoundFile]) -> SourceError:
    why = f"none of its {len(files):,} files contains a record" if files else "it has no files"
    if len(files) == 1:
        why = f"{files[0].key} contains no records"
    return SourceError(
        f"no columns can be inferred: {why}",
        hint="add a file with records, or write the table's schema file by hand",
        file=files[0].key if files else None,
    )


def refuse_taken(
    columns: Sequence[Column], name_columns: Sequence[str], seen: Sequence[tuple[str, FileEvidence]]
) -> None:
    """Names that no column may have; `seen` says which file has them."""
    for column in columns:
        if not column.name.strip():
            raise SourceError(
                f"{_first_with(column.name, seen)}a column has no real name, only {column.name!r}",
                hint="give it a name: JSON keys and Parquet columns need one like any other column",
            )
        if column.name.lower() in {*RESERVED, *(name.lower() for name in name_columns)}:
            own = column.name.lower() in RESERVED
            whose = "reserved for lading" if own else "already a group in columns_from_name"
            raise SourceError(
                f"{_first_with(column.name, seen)}the column name {column.name!r} is {whose}",
                hint="rename the column in the files, or the group",
            )


def _first_with(name: str, seen: Sequence[tuple[str, FileEvidence]]) -> str:
    """The first place where a column has a value, or the first file that has it, as a message begins."""
    for key, evidence in seen:
        for column in evidence.columns:
            if column.name == name:
                line = min((one.line for one in column.seen if one.line), default=0)
                return f"{key}:{line}: " if line else f"{key}: "
    return ""
