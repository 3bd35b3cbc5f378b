"""`drift: evolve`: the pinned columns, widened by what new files bring.

Columns are added, types go from int over bigint and double to string, and nothing ever narrows. The
result is another schema and so another recipe: all files are read again under it, which is what makes
the table equal to a rebuild. A column that a file lacks is null there and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lading.errors import SourceError
from lading.formats.dialect import Dialect
from lading.formats.drift import RESERVED
from lading.formats.infer.columns import THREADS, infer, tried
from lading.formats.infer.delimited import DelimitedFile, DelimitedLook
from lading.formats.infer.excel import ExcelFile, ExcelLook
from lading.formats.infer.json import JsonSeen, json_look
from lading.formats.infer.parquet import exact_as_double
from lading.formats.infer.typed import columns_of_file
from lading.formats.types import VOID, case_clash, inner_types, is_nested, joined, nested_type, settled
from lading.model import TYPED, Column, Format, FoundFile

_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})


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
) -> Evolution | None:
    """What `new` files make of the pinned `columns`; None when they fit. Types are taken from all files
    `found`, so that they don't depend on the order in which files arrive. `empty` are columns that are text
    only because no file had a value for them: they take the type of their first values."""
    plain = {column.name: column for column in columns if column.name not in name_columns}
    look = _Look(plain, frozenset(empty), fmt, read_options)
    differing = look.differing(new)
    taken = {*RESERVED, *name_columns}  # refused when the file is staged, with its name
    differing = {name: why for name, why in differing.items() if name not in taken and name.strip()}
    if not differing:
        return None
    types, because = look.types_of(found, differing)
    changed = tuple(_changed(column, types.get(column.name)) for column in columns)
    added = tuple(Column(name, types[name], inferred=True) for name in types if name not in plain)
    evolved = (*changed, *added)
    if evolved == columns:
        return None
    changes = [
        f"column {c.name!r} goes from {plain[c.name].type} to {c.type} ({differing[c.name]})"
        for c in changed
        if c.name in types and c.type != plain[c.name].type
    ]
    changes += [f"column {c.name!r} ({c.type}) is new ({differing[c.name]})" for c in added]
    return Evolution(evolved, because, tuple(changes))


def _changed(column: Column, dtype: str | None) -> Column:
    return column if dtype in (None, column.type) else Column(column.name, str(dtype), inferred=True)


@dataclass(frozen=True, slots=True)
class _Look:
    columns: Mapping[str, Column]  # without those from file names
    empty: frozenset[str]
    format: Format
    read_options: Mapping[str, Any]

    @property
    def pinned(self) -> dict[str, Column]:
        return {name: column for name, column in self.columns.items() if name not in self.empty}

    def differing(self, files: Sequence[FoundFile]) -> dict[str, str]:
        """The columns that are new or whose values don't fit, with where that shows."""
        if self.format in TYPED:
            return self._typed(files)
        return self._json(files) if self.format == "json" else self._cells(files)

    def types_of(
        self, files: Sequence[FoundFile], names: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The types of some columns over all files, none narrower than it is pinned; and why."""
        if self.format == "json":
            grown_types = self._json_types(self._json_seen(files))
            types = {name: grown_types.get(name, "string") for name in names}
            return types, {name: _because(kind, names[name]) for name, kind in types.items()}
        inferred = infer(
            files,
            fmt=self.format,
            read_options=self.read_options,
            names=self._headless,
            full_scan=True,
            join_types=True,
            tolerant=True,
        )
        types, because = {}, {}
        for column in inferred.columns:
            if column.name not in names:
                continue
            old = self.pinned[column.name].type if column.name in self.pinned else None
            kind = column.type if old is None else joined(old, column.type) or "string"
            # The values don't fit and nothing between is wider: text holds them.
            types[column.name] = "string" if kind == old else kind
            because[column.name] = _because(types[column.name], names[column.name])
        return types, because

    @property
    def _headless(self) -> tuple[str, ...] | None:
        return None if Dialect.of(self.read_options, self.format).header else tuple(self.columns)

    def _cells(self, files: Sequence[FoundFile]) -> dict[str, str]:
        look: ExcelLook | DelimitedLook = (
            ExcelLook(self.read_options, self._headless, self.pinned)
            if self.format == "excel"
            else DelimitedLook(self.read_options, self.format, self._headless, self.pinned)
        )

        def at(found: FoundFile) -> ExcelFile | DelimitedFile | SourceError:
            return tried(look.at, found)

        differing: dict[str, str] = {}
        with ThreadPoolExecutor(THREADS) as pool:
            for found, one in zip(files, pool.map(at, files), strict=True):
                if isinstance(one, SourceError):
                    continue  # it is refused, or set aside, when it is read
                for name, step in one.misfits.items():
                    differing.setdefault(name, f"row {step.row:,} of {found.key}: {step.value!r}")
                for name, trail in one.trails.items():
                    if name not in self.empty or trail.values:
                        differing.setdefault(name, found.key)
        return differing

    def _json(self, files: Sequence[FoundFile]) -> dict[str, str]:
        seen = self._json_seen(files)
        return {
            name: seen.decided(name)
            for name, kind in self._json_types(seen).items()
            if name not in self.columns or kind != self.columns[name].type
        }

    def _json_seen(self, files: Sequence[FoundFile]) -> JsonSeen:
        """Inference goes on from the types that it gave; those that a person wrote are asked afterwards."""
        known = {name: column.type for name, column in self.pinned.items() if column.inferred}
        return json_look(files, self.read_options, limit=None, tolerant=True, known=known)

    def _json_types(self, seen: JsonSeen) -> dict[str, str]:
        types, raw = seen.types(), seen.raw_types()
        for name, column in self.pinned.items():
            if name in raw and not column.inferred:
                types[name] = grown(column.type, raw[name])
        return types

    def _typed(self, files: Sequence[FoundFile]) -> dict[str, str]:
        differing: dict[str, str] = {}
        for found in files:
            columns = tried(lambda one: columns_of_file(self.format, one), found)
            for name, kind in () if isinstance(columns, SourceError) else columns.items():
                old = self.columns[name].type if name in self.columns else None
                too_long = (old, kind) == ("double", "bigint") and not (
                    self.format == "parquet" and exact_as_double([found], name)
                )
                if old is None or joined(old, kind) != old or too_long:
                    differing.setdefault(name, f"{kind} in {found.key}")
        return differing


def grown(pinned: str, seen: str) -> str:
    """The type that holds values of `pinned` and those seen in JSON; `pinned` itself if they fit."""
    if seen == VOID and pinned != VOID:
        return pinned
    if pinned == VOID:
        return settled(seen)
    if pinned == "string" or _reads(pinned, seen):
        return pinned
    if is_nested(pinned) and pinned.partition("<")[0] == seen.partition("<")[0]:
        (these, those) = (inner_types(pinned), inner_types(seen))
        names = [*these, *(name for name in those if name not in these)]
        if case_clash(names) is not None:
            return "string"
        return nested_type(
            pinned, {name: grown(these.get(name, VOID), those.get(name, VOID)) for name in names}
        )
    if pinned.startswith("map<") and seen.startswith("struct<"):
        key, value = inner_types(pinned).values()
        for kind in inner_types(seen).values():
            value = grown(value, kind)
        return f"map<{key},{value}>"
    return joined(pinned, settled(seen)) or "string"


def _reads(pinned: str, seen: str) -> bool:
    """Whether JSON values of a kind are read as the pinned type as they are."""
    if pinned in ("float", "double"):
        return seen in _NUMBERS
    if pinned.startswith("decimal("):
        return seen in _NUMBERS  # whether the digits fit, the reader says
    if pinned == "timestamp":
        return seen in ("date", "timestamp_ntz", "timestamp")
    return joined(pinned, seen) == pinned


def _because(kind: str, where: str) -> str:
    return f"{kind} because of {where}"
