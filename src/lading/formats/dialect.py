"""How delimited text is written, and what the columns of its header are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lading.config.names import EXACT, Naming
from lading.errors import SourceError
from lading.formats.header import renamed, table_names
from lading.model import DELIMITERS, Format

RENAME = "rename one of them, or set read_options: {duplicates: rename}"


class Records(Protocol):
    """What `csv.reader` gives."""

    line_num: int  # physical lines taken so far

    def __iter__(self) -> Iterator[list[str]]: ...
    def __next__(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """How delimited text is to be read, with lading's defaults filled in."""

    delimiter: str
    quote: str
    escape: str | None  # None: a quote inside quotes is doubled
    encoding: str
    comment: str | None
    header: bool
    multiline: bool
    trim: bool
    skip: int = 0  # lines before the header, or before the first record

    @classmethod
    def of(cls, read_options: Mapping[str, Any], fmt: Format) -> Dialect:
        quote = read_options.get("quote", '"')
        escape = read_options.get("escape")
        encoding = str(read_options.get("encoding", "utf-8"))
        return cls(
            delimiter=read_options.get("delimiter", DELIMITERS.get(fmt, ",")),
            quote=quote,
            escape=None if escape == quote else escape,
            encoding="utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding,
            comment=read_options.get("comment"),
            header=read_options.get("header", True),
            multiline=read_options.get("multiline", False),
            trim=read_options.get("trim", False),
            skip=read_options.get("skip", 0),
        )


def header_names(
    key: str,
    fields: Sequence[str],
    read_options: Mapping[str, Any],
    naming: Naming = EXACT,
    line: int | None = None,
) -> tuple[str, ...]:
    """What the columns are called in the table; a SourceError for one that has no name, or has another's,
    unless the options say what it is to be called."""
    names = [field.strip() if read_options.get("trim") else field for field in fields]
    if read_options.get("unnamed") == "name":
        names = [name if name.strip() else f"column_{place}" for place, name in enumerate(names, start=1)]
    if read_options.get("duplicates") == "rename":
        names = renamed(names, naming)
    seen: set[str] = set()
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise SourceError(
                f"{key}: column {position} of the header has no name",
                hint="name it, or set read_options: {unnamed: name}; without a header, {header: false}",
                file=key,
            )
        if name in seen:
            raise SourceError(
                f"{key}: the header has two columns named {name!r}",
                hint=RENAME,
                file=key,
            )
        seen.add(name)
    return table_names(key, names, naming, line=line, way=RENAME)
