"""Every file that was found, beside what is known of it.

Both come in the order of their keys and are walked side by side, once, and neither is held whole. Most files
are as they were, or were never seen before: of those a mark is kept, a byte each. Of the others, the file and
what is known of it are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lading.ingest.verdict import Known, depends_on_content, settles, verdict_on
from lading.model import Digest, FoundFile, Source
from lading.sources.fingerprint import digest_all, is_elsewhere
from lading.sources.found import keys_of, rows_of

PLAIN, BY_CONTENT, NEW, ODD = range(4)  # same size and time, same content, not known, there is more to say
AS_BEFORE = (PLAIN, BY_CONTENT)

_AT_ONCE = 8_192  # files whose content is compared together

KnownByKey = Iterable[tuple[str, Known]]  # in the order of the keys
Digests = Callable[[Sequence[FoundFile]], Mapping[str, Digest]]


class Walk:
    """What is known, from its beginning for each who asks."""

    def __init__(self, begin: Callable[[], Iterator[tuple[str, Known]]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[tuple[str, Known]]:
        return self._begin()


@dataclass(slots=True)
class Compared:
    """What came out, by the place of each file among those found."""

    found: Sequence[FoundFile]
    full: bool
    marks: bytearray
    odd: dict[int, FoundFile] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)  # of those, and of what vanished
    digests: dict[str, Digest] = field(default_factory=dict)  # of those whose content was compared
    vanished: tuple[Source, ...] = ()
    sources: int = 0  # that the log has
    left: list[str] = field(default_factory=list)  # files that failed, were never read, and are gone
    unplaced: bool = False  # whether there are files of which nobody wrote down where they lay

    def there(self, known: KnownByKey) -> Iterator[Source]:
        """The sources of files that are in the table, or set aside, and are as they were."""
        for at, one in _side_by_side(keys_of(self.found), known):
            if one.source is None or self.marks[at] == NEW:
                continue
            if self.marks[at] in AS_BEFORE or self._is_as_it_was(self.odd[at], one):
                yield one.source

    def _is_as_it_was(self, file: FoundFile, known: Known) -> bool:
        plain = Known(known.source, spot=known.spot)
        verdict = verdict_on(file, plain, self.digests.get(file.key), full=self.full).verdict
        return verdict in ("unchanged", "touched", "quarantined")


def compare(
    found: Sequence[FoundFile], known: KnownByKey, *, full: bool, digest: Digests = digest_all
) -> Compared:
    """Files whose content decides are opened, by `digest`."""
    return _Comparison(found, full, digest).done(known)


class _Comparison:
    def __init__(self, found: Sequence[FoundFile], full: bool, digest: Digests) -> None:
        self._made = Compared(found, full, bytearray(len(found)))
        self._digest = digest
        self._undecided: list[tuple[int, FoundFile, Known]] = []
        self._vanished: list[Source] = []

    def done(self, known: KnownByKey) -> Compared:
        made = self._made
        marks, full = made.marks, made.full
        pairs = iter(known)
        here, one = next(pairs, (None, None))
        sources, unplaced = 0, False
        for at, (key, size, mtime_ns, spot, fingerprint) in enumerate(rows_of(made.found)):
            while here is not None and here < key:
                self._lost(here, one)
                here, one = next(pairs, (None, None))
            if one is None or here != key:
                marks[at] = NEW
                continue
            source = one.source
            if source is not None:
                sources += 1
                # As `verdict_on` and `settles` would find it: this is the way of nearly every file.
                if (
                    fingerprint is None
                    and not full
                    and source.size == size
                    and source.mtime_ns == mtime_ns
                    and not source.racy
                    and one.again is None
                    and not one.failed
                    and (one.spot == spot or not is_elsewhere(spot, one.spot))
                    and not source.rejected
                    and source.aside is None
                    and source.hash.startswith("mtime:")
                ):
                    if not one.spot:
                        unplaced = True
                    here, one = next(pairs, (None, None))
                    continue
            self._look_closer(at, one)
            here, one = next(pairs, (None, None))
        while here is not None:
            self._lost(here, one)
            here, one = next(pairs, (None, None))
        self._decide()
        made.odd = dict(sorted(made.odd.items()))
        made.vanished = tuple(self._vanished)
        made.sources, made.unplaced = sources + len(self._vanished), unplaced
        return made

    def _lost(self, key: str, known: Known | None) -> None:
        if known is None or known.source is None:
            self._made.left.append(key)
            return
        self._vanished.append(known.source)
        self._made.known[key] = known

    def _look_closer(self, at: int, known: Known) -> None:
        file = self._made.found[at]
        if not depends_on_content(file, known, full=self._made.full):
            self._settle(at, file, known, None)
            return
        self._undecided.append((at, file, known))
        if len(self._undecided) >= _AT_ONCE:
            self._decide()

    def _decide(self) -> None:
        digests = self._digest([file for _, file, _ in self._undecided]) if self._undecided else {}
        for at, file, known in self._undecided:
            self._settle(at, file, known, digests.get(file.key))
        self._undecided.clear()

    def _settle(self, at: int, file: FoundFile, known: Known, digest: Digest | None) -> None:
        made = self._made
        verdict = verdict_on(file, known, digest, full=made.full).verdict
        source = known.source
        aside = source is not None and source.set_aside
        if verdict == "unchanged" and not aside and not settles(file, known, digest, full=made.full):
            made.marks[at] = BY_CONTENT
            return
        made.marks[at] = ODD
        made.odd[at], made.known[file.key] = file, known
        if digest is not None:
            made.digests[file.key] = digest


def _side_by_side(keys: Iterable[str], known: KnownByKey) -> Iterator[tuple[int, Known]]:
    """What is known of files that are there, with the place of each."""
    pairs = iter(known)
    here, one = next(pairs, (None, None))
    for at, key in enumerate(keys):
        while here is not None and here < key:
            here, one = next(pairs, (None, None))
        if one is not None and here == key:
            yield at, one
