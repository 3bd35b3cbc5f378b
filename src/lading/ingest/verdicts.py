"""The verdicts of a whole table: told where there is something to tell, and made for whoever asks."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from lading.ingest.compare import AS_BEFORE, NEW, PLAIN
from lading.ingest.verdict import NOT_BEFORE, READ_VERDICTS, SAME, SAME_CONTENT, FileVerdict
from lading.late import np
from lading.model import FoundFile
from lading.sources.found import insertion, keys_of


class Verdicts(Sequence[FileVerdict]):
    """By key: one for each file found, and for each that is told of besides."""

    def __init__(
        self,
        found: Sequence[FoundFile],
        marks: bytes | bytearray,
        told: Mapping[int, FileVerdict],
        others: Sequence[FileVerdict] = (),
        again: str | None = None,
    ) -> None:
        """`marks` are those of a comparison, `told` has the verdicts on files that have another one, by
        place. `others` are of files that were not found. `again` says why all the rest is read again."""
        self._found, self._marks, self._told, self._again = found, marks, told, again
        self._others = sorted(others, key=lambda one: one.key)
        # Where each of them is among all.
        self._at = [insertion(found, one.key) + number for number, one in enumerate(self._others)]

    def with_others(self, more: Sequence[FileVerdict]) -> Verdicts:
        return Verdicts(self._found, self._marks, self._told, [*self._others, *more], self._again)

    def counts(self) -> Counter[str]:
        counts = Counter[str](one.verdict for one in (*self._told.values(), *self._others))
        as_before = sum(map(self._marks.count, AS_BEFORE))
        as_before -= sum(self._marks[at] in AS_BEFORE for at in self._told)
        counts["unchanged" if self._again is None else "reread"] += as_before
        counts["new"] += self._marks.count(NEW)
        return counts

    def to_read(self) -> array[int]:
        """The places of the files that a run reads."""
        marks = np.frombuffer(self._marks, np.uint8)
        read = marks == NEW
        if self._again is not None:
            for mark in AS_BEFORE:
                read |= marks == mark
        for at, one in self._told.items():
            read[at] = one.verdict in READ_VERDICTS
        return array("q", np.flatnonzero(read).astype(np.int64).tobytes())

    def __len__(self) -> int:
        return len(self._found) + len(self._others)

    def __iter__(self) -> Iterator[FileVerdict]:
        others = iter(zip(self._at, self._others, strict=True))
        next_at, other = next(others, (-1, None))
        given = 0
        for at, key in enumerate(keys_of(self._found)):
            while other is not None and next_at == given:
                yield other
                given += 1
                next_at, other = next(others, (-1, None))
            yield self._told.get(at) or self._marked(key, self._marks[at])
            given += 1
        if other is not None:
            yield other
            yield from (one for _, one in others)

    @overload
    def __getitem__(self, at: int) -> FileVerdict: ...
    @overload
    def __getitem__(self, at: slice) -> list[FileVerdict]: ...
    def __getitem__(self, at: int | slice) -> FileVerdict | list[FileVerdict]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        before = bisect_right(self._at, at)
        if before and self._at[before - 1] == at:
            return self._others[before - 1]
        at -= before
        return self._told.get(at) or self._marked(self._found[at].key, self._marks[at])

    def _marked(self, key: str, mark: int) -> FileVerdict:
        if mark == NEW:
            return FileVerdict(key, "new", NOT_BEFORE)
        if self._again is not None:
            return FileVerdict(key, "reread", self._again)
        return FileVerdict(key, "unchanged", SAME if mark == PLAIN else SAME_CONTENT)


class AllUnchanged(Verdicts):
    """Of files that are all as they were, as one seal says."""

    def __init__(self, found: Sequence[FoundFile]) -> None:
        super().__init__(found, bytes(len(found)), {})
