"""A table's columns, from the evidence of its files: a function of what is there, not of the order in which
it came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lading.formats.evidence import FileEvidence
from lading.model import Column, Format


@dataclass(frozen=True, slots=True)
class Settled:
    """Columns and the evidence for them."""

    columns: tuple[Column, ...]
    because: dict[str, str]  # by column
    files: int
    rows: int | None  # None: not all files say how many they have


def settle(
    files: Iterable[tuple[str, FileEvidence]],
    fmt: Format,
    read_options: Mapping[str, Any],
    *,
    types: Callable[[str], Literal["strict", "widen", "quarantine"]],
    join_types: bool = True,
) -> Settled:
    """The columns of files, by their keys. `types` is the policy of a column: `quarantine` gives the type
    that all but a few values have, the others one that all have. SchemaDrift where files that have types
    differ in them and there is no type for both, or `join_types` is off."""
    raise NotImplementedError
