"""What the columns of a file are called in the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lading.config.names import Naming
from lading.errors import SourceError

IN_CASE = "differ only in case, and Spark can't tell them apart"


def table_names(
    key: str,
    headers: Iterable[str],
    naming: Naming,
    *,
    line: int | None = None,
    way: str = "rename one of them",
) -> tuple[str, ...]:
    """SourceError for two headers that would be one column; `way` is how to get out of that."""
    seen: dict[str, tuple[str, str]] = {}
    names = []
    for header in headers:
        name = naming.column_of(header)
        names.append(name)
        if name.lower() not in seen:
            seen[name.lower()] = header, name
            continue
        other, column = seen[name.lower()]
        what = f"the headers {other!r} and {header!r} both mean the column {name!r}"
        if column != name:
            what = f"the columns {column!r} and {name!r} {IN_CASE}"
        raise SourceError(f"{key if line is None else f'{key}:{line}'}: {what}", hint=way, file=key)
    return tuple(names)


def renamed(headers: Sequence[str], naming: Naming) -> list[str]:
    """The second `a` is `a_2`, or the next number that no other column has."""
    taken = {naming.key(header).lower() for header in headers}
    counts: dict[str, int] = {}
    found = []
    for header in headers:
        key = naming.key(header).lower()
        counts[key] = counts.get(key, 0) + 1
        if counts[key] > 1 and header.strip():
            while naming.key(other := f"{header}_{counts[key]}").lower() in taken:
                counts[key] += 1
            taken.add(naming.key(other).lower())
            header = other
        found.append(header)
    return found
