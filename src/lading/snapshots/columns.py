"""The columns of a snapshot beside those of the one before: which came, which went, which changed their type.

That is told by the schemas that two manifests hold. Which file it was, only the run knew that published the
later one; it may have said so in the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lading.errors import ManifestParseError
from lading.state.sqlite import HINT

_TEXTS = 10_000  # that are read of a manifest; it may be a stranger's


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that came, went or changed its type; None is "not there"."""

    name: str
    before: str | None
    after: str | None

    @property
    def words(self) -> str:
        if self.before is None:
            return f"column {self.name!r} ({self.after}) is new"
        if self.after is None:
            return f"column {self.name!r} ({self.before}) is gone"
        return f"column {self.name!r} goes from {self.before} to {self.after}"


def column_changes(before: bytes, after: bytes) -> tuple[ColumnChange, ...]:
    """From one schema to the other, both as manifests hold them; ManifestParseError for one that is none."""
    if before == after:
        return ()
    old, new = _types(before), _types(after)
    return tuple(
        ColumnChange(name, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )


def recorded_changes(custom: Mapping[str, Any]) -> tuple[str, ...]:
    """What the run that published a snapshot said of its columns: `column 'x' (bigint) is new (b.csv)`."""
    texts = custom.get("schema_changes")
    return tuple(one for one in texts[:_TEXTS] if isinstance(one, str)) if isinstance(texts, list) else ()


def in_words(changes: Sequence[ColumnChange], recorded: Sequence[str]) -> tuple[str, ...]:
    """A line for each change, the one that was recorded where there is one: that names the file."""
    known = {one.name: f"column {one.name!r} " for one in changes}
    silent = [one for one in changes if not any(text.startswith(known[one.name]) for text in recorded)]
    return (*recorded, *(one.words for one in silent))


def _types(schema: bytes) -> dict[str, str]:
    """As schema files write them."""
    if not schema:
        return {}
    import pyarrow as pa  # not for a history in which no column changed

    try:
        return {field.name: _type(field.type) for field in pa.ipc.read_schema(pa.py_buffer(schema))}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ManifestParseError(f"the snapshot's schema can't be read: {error}", hint=HINT) from error


def _type(kind: Any) -> str:
    from lading.formats.file_types import from_arrow

    try:
        return from_arrow(kind)
    except ValueError:
        return str(kind)  # of a collection's files, which may have any
