"""A table's columns when nobody has written them down: from all its files, not from the first.

Whole files are looked at up to a total budget; beyond it, an equal head of each, unless everything is
asked for. What comes out is pinned in `schema/<table>.yaml` with the evidence, so a wrong guess is an
edit, not a surprise in the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lading.errors import ConfigError, SourceError
from lading.formats.drift import RESERVED
from lading.formats.infer.delimited import DelimitedFile, DelimitedLook
from lading.formats.infer.excel import ExcelFile, ExcelLook
from lading.formats.infer.json import json_look
from lading.formats.infer.kinds import Kinds, spark_type
from lading.formats.infer.trail import Evidence
from lading.formats.infer.typed import columns_of_file, types_look
from lading.formats.magic import refuse_what_is_no_text
from lading.formats.registry import row_count
from lading.formats.source_file import SourceFile
from lading.model import BINARY, TYPED, Column, Format, FoundFile

T = TypeVar("T")

BUDGET = 512 << 20
THREADS = 4


@dataclass(frozen=True, slots=True)
class Inferred:
    """Columns and the evidence for them."""

    columns: tuple[Column, ...]
    because: dict[str, str] = field(default_factory=dict)  # by column
    files: int = 0
    rows: int | None = None  # looked at; None when they weren't counted
    whole: bool = True  # whether all of each file was looked at
    problem: SourceError | None = None  # the first thing that could not be read, and was passed over


def infer(
    files: Sequence[FoundFile],
    *,
    fmt: Format,
    read_options: Mapping[str, Any],
    name_columns: Sequence[str] = (),
    names: tuple[str, ...] | None = None,
    full_scan: bool = False,
    join_types: bool = False,
    tolerant: bool = False,
) -> Inferred:
    """The columns of all files, in order of first appearance; those from file names come last, as strings.

    `names` are the columns of files without a header. `join_types` lets files differ that have types.
    `tolerant` passes over files that can't be read, which are refused or set aside when they are.
    """
    limit = None if full_scan else limit_of(files)
    odd: SourceError | None = None
    if fmt not in BINARY:
        files, odd = _texts(files, fmt, read_options, tolerant)
    if fmt in TYPED:
        inferred = _typed(files, fmt, join_types, tolerant)
    elif fmt == "json":
        seen = json_look(files, read_options, limit=limit, tolerant=tolerant)
        looked = len(files) - seen.unread
        inferred = Inferred(
            _columns(seen.types()), seen.because(), looked, seen.rows, limit is None, seen.problem
        )
    else:
        inferred = _delimited(files, read_options, fmt, names, limit, tolerant)
    if not inferred.columns:
        raise odd or inferred.problem or _no_columns(files)
    _refuse_taken(inferred.columns, name_columns)
    from_names = tuple(Column(name, "string", inferred=True) for name in name_columns)
    because = inferred.because | dict.fromkeys(name_columns, "string: from the files' names")
    return Inferred(inferred.columns + from_names, because, inferred.files, inferred.rows, inferred.whole)


def _texts(
    files: Sequence[FoundFile], fmt: Format, read_options: Mapping[str, Any], tolerant: bool
) -> tuple[list[FoundFile], SourceError | None]:
    """Those that are text, and what the first of the others is."""
    encoding = str(read_options.get("encoding", "utf-8"))
    texts, odd = [], None
    for found in files:
        try:
            refuse_what_is_no_text(found.key, found.path, fmt, encoding)
            texts.append(found)
        except SourceError as error:
            if not tolerant:
                raise
            odd = odd or error
    return texts, odd


def _no_columns(files: Sequence[FoundFile]) -> SourceError:
    why = f"none of its {len(files):,} files contains a record" if files else "it has no files"
    if len(files) == 1:
        why = f"{files[0].key} contains no records"
    return SourceError(
        f"no columns can be inferred: {why}",
        hint="add a file with records, or write the table's schema file by hand",
        file=files[0].key if files else None,
    )


def _typed(files: Sequence[FoundFile], fmt: Format, join_types: bool, tolerant: bool) -> Inferred:
    problem = None
    if tolerant:
        tries = [(found, tried(lambda one: columns_of_file(fmt, one), found)) for found in files]
        files = [found for found, got in tries if not isinstance(got, SourceError)]
        problem = next((got for _, got in tries if isinstance(got, SourceError)), None)
    seen = types_look(files, fmt, join_types=join_types)
    counts = [row_count(fmt, SourceFile(found.key, found.path, found.size)) for found in files]
    known = [count for count in counts if count is not None]
    rows = sum(known) if len(known) == len(counts) else None
    return Inferred(_columns(seen.types), seen.because, len(files), rows, problem=problem)


def tried(look: Callable[[FoundFile], T], found: FoundFile) -> T | SourceError:
    """What a look at a file gives, or why there is none."""
    try:
        return look(found)
    except SourceError as error:
        return error


def limit_of(files: Sequence[FoundFile]) -> int | None:
    """Bytes to look at in each file; None for all of it."""
    if sum(found.size for found in files) <= BUDGET:
        return None
    return max(BUDGET // len(files), 1 << 12)


def _columns(types: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, kind, inferred=True) for name, kind in types.items())


def _refuse_taken(columns: Sequence[Column], name_columns: Sequence[str]) -> None:
    for column in columns:
        if not column.name.strip():
            raise SourceError(
                f"a column in the files has no real name, only {column.name!r}",
                hint="give it a name: JSON keys and Parquet columns need one like any other column",
            )
        if column.name in RESERVED or column.name in name_columns:
            own = column.name in RESERVED
            whose = "reserved for lading" if own else "already a group in columns_from_name"
            raise SourceError(
                f"the column name {column.name!r} in the files is {whose}",
                hint="rename the column in the files, or the group",
            )


def _delimited(
    files: Sequence[FoundFile],
    read_options: Mapping[str, Any],
    fmt: Format,
    names: tuple[str, ...] | None,
    limit: int | None,
    tolerant: bool,
) -> Inferred:
    if read_options.get("header") is False and names is None:
        raise ConfigError(
            "columns can't be inferred from files without a header",
            hint="write the table's schema file, with one `- {name: …, type: …}` per column under `columns:`",
        )
    kinds = Kinds.of(read_options)
    look: ExcelLook | DelimitedLook = (
        ExcelLook(read_options, names)
        if fmt == "excel"
        else DelimitedLook(read_options, fmt, names=names, limit=limit)
    )

    def at(found: FoundFile) -> ExcelFile | DelimitedFile | SourceError:
        return tried(look.at, found)

    seen: dict[str, Evidence] = {}
    rows, looked, problem = 0, 0, None
    with ThreadPoolExecutor(THREADS) as pool:
        for found, one in zip(files, pool.map(at, files), strict=True):
            if isinstance(one, SourceError):
                if not tolerant:
                    raise one
                problem = problem or one
                continue
            rows += one.rows
            looked += 1
            for name, trail in one.trails.items():
                seen.setdefault(name, Evidence()).add(kinds, found.key, trail)
    types = {name: spark_type(one.kind) for name, one in seen.items()}
    because = {name: one.because() for name, one in seen.items()}
    return Inferred(_columns(types), because, looked, rows, limit is None or fmt == "excel", problem)
