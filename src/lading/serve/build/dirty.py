"""Which shards a change touches: those with keys of rows that came or went since the snapshot readers see.

Parts that merely moved rows (a merge, a rewrite without one file) touch nothing: what counts is whether a
source was read anew or retracted. Of the parts that are left only the key and what else routes is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lading.model import Member, Source
from lading.serve.build.rows import PartRows

_NO_SOURCE = 0  # rows that no single file gave (per: table): nobody can tell which of them are new


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to look at for their keys."""

    gone: tuple[PartRows, ...]
    come: tuple[PartRows, ...]
    bytes: int  # of the parts they lie in


def changed_sources(old: Iterable[Source], new: Iterable[Source]) -> frozenset[int]:
    """Sources whose rows may differ: read anew, retracted, or new."""
    before, after = {_reading(source) for source in old}, {_reading(source) for source in new}
    return frozenset({reading[0] for reading in before ^ after} | {_NO_SOURCE})


def changed_rows(old: Iterable[Member], new: Iterable[Member], sources: frozenset[int]) -> Changes:
    """The rows of `sources` that one side has and the other lacks."""
    before = {member.path: member for member in old}
    after = {member.path: member for member in new}
    gone, come, size = [], [], 0
    for path in sorted(before.keys() | after.keys()):
        one, other = before.get(path), after.get(path)
        lost = _live(one, sources) - _live(other, sources)
        found = _live(other, sources) - _live(one, sources)
        if lost:
            gone.append(PartRows(path, only=tuple(sorted(lost))))
        if found:
            come.append(PartRows(path, only=tuple(sorted(found))))
        if lost or found:
            size += (one or other).bytes if one is not None or other is not None else 0  # type: ignore[union-attr]
    return Changes(tuple(gone), tuple(come), size)


def _reading(source: Source) -> tuple[int, str, str, int]:
    # A touched file keeps the time it was read at; one that was read again does not.
    return (source.id, source.sha256, source.processed_at, source.rows)


def _live(member: Member | None, sources: frozenset[int]) -> set[int]:
    if member is None:
        return set()
    return {source for source, _ in member.sources if source in sources and source not in member.minus}
