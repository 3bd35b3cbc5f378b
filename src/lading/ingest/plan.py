"""What a run would do, decided without touching anything.

Files found, the source manifest and the log go in; a verdict for each file, with its reason, and the
parts that have to change come out. `lading plan`, `lading explain`, `lading run` and the tests share
this one truth.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lading.errors import VanishGuard
from lading.model import Digest, FoundFile, Member, Source, Verdict
from lading.sources.fingerprint import is_elsewhere
from lading.words import count_words

VERDICTS: tuple[Verdict, ...] = (
    "new",
    "changed",
    "reread",
    "touched",
    "unchanged",
    "vanished",
    "failed",
    "quarantined",
)

READ_VERDICTS = frozenset({"new", "changed", "reread", "failed"})  # of files that a run reads

# `replace: auto`: what is rewritten without the rows that leave. Everything larger gets a `minus`, so that
# a change costs what changed, however widely its rows are spread. Decided anew with every commit.
REWRITE_PART = 4 << 20  # bytes of a part
REWRITE_COMMIT = 64 << 20  # bytes of all parts that one commit rewrites

Replace = Literal["auto", "rewrite", "minus"]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one source key before the run."""

    source: Source | None  # as the log has it; None when its rows were never committed
    again: str | None = None  # why it is read again although the log has it
    failed: bool = False
    spot: int = 0  # where it lay when it was read; 0: not known


@dataclass(frozen=True, slots=True)
class Again:
    """Files that are read again although they are as they were."""

    why: str
    keys: frozenset[str] | None = None  # None: all of them

    def asks_for(self, key: str) -> bool:
        return self.keys is None or key in self.keys


@dataclass(frozen=True, slots=True)
class FileVerdict:
    key: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table's verdicts and steps."""

    table: str
    files: Sequence[FileVerdict]
    again: Again | None = None  # what is read again that has not changed, in one line
    read: tuple[FoundFile, ...] = ()
    vanished: tuple[Source, ...] = ()
    note: tuple[FoundFile, ...] = ()  # same bytes, new fingerprint: recorded without reading
    digests: Mapping[str, Digest] = field(default_factory=dict)
    replaced: frozenset[int] = frozenset()  # sources whose old rows leave
    drop: tuple[Member, ...] = ()  # parts that hold nothing else
    rewrite: tuple[Member, ...] = ()  # parts that also hold rows that stay
    touches: bool = False  # whether `note` holds more than racy files that were cleared
    waits: bool = False  # whether there are archives that a run would open
    subtract: tuple[Member, ...] = ()  # parts that stay, and whose rows of `replaced` no longer count
    notes: tuple[str, ...] = ()  # for people: nothing that a run would do anything about
    quiet: bool = False  # every file is unchanged: nobody need count the verdicts
    publish: str | None = None  # what readers get although no row changes
    reshapes: bool = False  # whether the table's columns change, rows or not

    @property
    def replaces_all(self) -> bool:
        """Whether every row of the table is made anew."""
        return self.again is not None and self.again.keys is None

    @property
    def verdicts(self) -> dict[str, int]:
        if self.quiet:
            return {verdict: len(self.files) if verdict == "unchanged" else 0 for verdict in VERDICTS}
        counts = Counter(file.verdict for file in self.files)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    @property
    def parts_to_rewrite(self) -> int:
        return len(self.rewrite)

    @property
    def rows_to_rewrite(self) -> int:
        return sum(member.live_rows for member in self.rewrite)

    @property
    def bytes_to_rewrite(self) -> int:
        return sum(member.bytes for member in self.rewrite)

    @property
    def changes_rows(self) -> bool:
        return bool(self.read or self.vanished or self.drop or self.reshapes)

    @property
    def idle(self) -> bool:
        """Nothing that a person would call work; racy files may still be cleared."""
        return not (self.changes_rows or self.touches or self.waits or self.publish)


def to_compare(found: Iterable[FoundFile], known: Mapping[str, Known], *, full: bool) -> list[FoundFile]:
    """The files whose verdict depends on their content."""
    return [
        file
        for file in found
        if file.fingerprint is None and (full or _depends_on_content(file, known.get(file.key)))
    ]


def verdict_on(file: FoundFile, known: Known | None, digest: Digest | None, *, full: bool) -> FileVerdict:
    """The verdict on one file that was found."""
    if known is None:
        return FileVerdict(file.key, "new", "not read before")
    if known.failed:
        return FileVerdict(file.key, "failed", known.again or "the last attempt failed")
    source = known.source
    if source is None:
        return FileVerdict(file.key, "new", known.again or "not read before")
    if known.again is not None:
        return FileVerdict(file.key, "reread", known.again)
    if file.fingerprint is not None:
        return _verdict_by_fingerprint(file, known, source)
    elsewhere = is_elsewhere(file.spot, known.spot)
    if is_same(file, source) and not source.racy and not full and not elsewhere:
        return _as_before(source, "same size and modification time")
    if digest is None or digest.sha256 != source.sha256:
        return FileVerdict(file.key, "changed", _what_changed(file, source))
    if full or (is_same(file, source) and not elsewhere):
        return _as_before(source, "same content")
    if not is_same(file, source):
        return FileVerdict(file.key, "touched", "new modification time, same content")
    return FileVerdict(file.key, "touched", "another file in its place, same content")


def _verdict_by_fingerprint(file: FoundFile, known: Known, source: Source) -> FileVerdict:
    """A member or an object: its fingerprint is of its content, there is no time to be touched. An ETag
    is the bucket's own word, and says nothing in another."""
    if is_elsewhere(file.spot, known.spot):
        return FileVerdict(file.key, "changed", "it comes from a different bucket or prefix than before")
    if file.fingerprint == source.hash:
        return _as_before(source, "same content")
    return FileVerdict(file.key, "changed", _what_changed(file, source))


def _as_before(source: Source, why: str) -> FileVerdict:
    """A file that was set aside whole stays there until it changes, or is replayed."""
    if source.aside is None:
        return FileVerdict(source.key, "unchanged", why)
    return FileVerdict(source.key, "quarantined", source.aside)


def with_waiting(plan: TablePlan, waiting: Sequence[FileVerdict]) -> TablePlan:
    """The plan with archives that only a run may open, or that were set aside, each as one line."""
    if not waiting:
        return plan
    files = tuple(sorted([*plan.files, *waiting], key=lambda one: one.key))
    waits = any(one.verdict != "quarantined" for one in waiting)
    return dataclasses.replace(plan, files=files, waits=waits)


def make_plan(
    table: str,
    found: Sequence[FoundFile],
    known: Mapping[str, Known],
    digests: Mapping[str, Digest],
    *,
    full: bool,
    again: Again | None,
    live: Callable[[frozenset[int] | None], list[Member]],
    replace: Replace = "rewrite",
    reshapes: bool = False,
) -> TablePlan:
    """`live` gives the members that hold rows of some sources, or all members for None."""
    verdicts = [verdict_on(file, known.get(file.key), digests.get(file.key), full=full) for file in found]
    if again is not None:
        verdicts = [_reread(one, again.why) if again.asks_for(one.key) else one for one in verdicts]
    here = {file.key for file in found}
    lost = {key: one.source for key, one in known.items() if one.source is not None and key not in here}
    vanished = tuple(source for _, source in sorted(lost.items()) if source is not None)
    read = tuple(file for file, one in zip(found, verdicts, strict=True) if one.verdict in READ_VERDICTS)
    note = tuple(
        file
        for file, one in zip(found, verdicts, strict=True)
        if one.verdict == "touched"
        or (
            one.verdict in ("unchanged", "quarantined")
            and _settles(file, known.get(file.key), digests.get(file.key), full)
        )
    )
    replaced = _replaced(read, known) | {source.id for source in vanished}
    everything = again is not None and again.keys is None
    touched = live(None if everything else replaced) if everything or replaced else []
    drop, rewrite, subtract = parts_to_change(touched, None if everything else replaced, replace)
    return TablePlan(
        table=table,
        files=tuple(sorted([*verdicts, *map(_vanished, vanished)], key=lambda one: one.key)),
        again=again,
        read=read,
        vanished=vanished,
        note=note,
        digests=digests,
        replaced=replaced,
        drop=drop,
        rewrite=rewrite,
        touches=any(one.verdict == "touched" for one in verdicts),
        subtract=subtract,
        reshapes=reshapes,
    )


def parts_to_change(
    members: Sequence[Member], replaced: frozenset[int] | None, how: Replace
) -> tuple[tuple[Member, ...], tuple[Member, ...], tuple[Member, ...]]:
    """What becomes of parts when the rows of `replaced` leave (None: all rows): those to drop, those to
    rewrite, and those to leave with a `minus`."""
    drop, mixed = split_members(members, replaced)
    held = [member for member in mixed if replaced is not None and member.counts_any(replaced)]
    return drop, *split_mixed(held, how)


def split_members(
    members: Sequence[Member], replaced: frozenset[int] | None
) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """Those that hold nothing but rows of `replaced` (None: of anything), and those that hold more."""
    if replaced is None:
        return tuple(members), ()
    drop = [m for m in members if all(source in replaced or source in m.minus for source, _ in m.sources)]
    dropped = {member.path for member in drop}
    return tuple(drop), tuple(member for member in members if member.path not in dropped)


def split_mixed(members: Sequence[Member], how: Replace) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """Of parts that also hold rows that stay: those to rewrite, and those to leave with a `minus`."""
    if how != "auto":
        return (tuple(members), ()) if how == "rewrite" else ((), tuple(members))
    rewrite = set()
    total = 0
    for member in sorted(members, key=lambda member: (member.bytes, member.path)):
        total += member.bytes
        if member.bytes > REWRITE_PART or total > REWRITE_COMMIT:
            break
        rewrite.add(member.path)
    return (
        tuple(member for member in members if member.path in rewrite),
        tuple(member for member in members if member.path not in rewrite),
    )


def guard_vanished(plan: TablePlan, known: Mapping[str, Known], *, allow: bool) -> None:
    """Refuse to retract more than half of a table's sources unless asked to."""
    if allow or not plan.vanished:
        return
    before = sum(one.source is not None for one in known.values())
    if len(plan.vanished) * 2 <= before:
        return
    names = ", ".join(source.key for source in plan.vanished[:3]) + (", …" if len(plan.vanished) > 3 else "")
    raise VanishGuard(
        f"{plan.table} has lost {len(plan.vanished):,} of its {count_words(before, 'source file')} "
        f"({names}): their rows would be retracted",
        hint="check that the root is mounted and complete; if they are meant to be gone, use --allow-vanish",
        table=plan.table,
        file=plan.vanished[0].key,
    )


def _depends_on_content(file: FoundFile, known: Known | None) -> bool:
    if known is None or known.source is None or known.again is not None or known.failed:
        return False
    moved = is_elsewhere(file.spot, known.spot)
    return known.source.racy or moved or not is_same(file, known.source)


def is_same(file: FoundFile, source: Source) -> bool:
    """By size and time, which is what the fast fingerprint says."""
    return file.mtime_ns == source.mtime_ns and file.size == source.size


def recorded_hash(file: FoundFile, digest: Digest | None, *, full: bool) -> str:
    """The fingerprint as manifest/<table>.json shows it."""
    return digest.sha256 if full and digest is not None and file.fingerprint is None else file.hash


def _settles(file: FoundFile, known: Known | None, digest: Digest | None, full: bool) -> bool:
    """A racy file whose content was compared and whose mtime has aged needs no comparison any more; a
    fingerprint of the other kind is written anew."""
    if known is None or known.source is None:
        return False
    cleared = known.source.racy and not file.racy
    return cleared or known.source.hash != recorded_hash(file, digest, full=full)


def _what_changed(file: FoundFile, source: Source) -> str:
    if file.size != source.size:
        return f"size was {source.size}, is {file.size}"
    return "content differs"


def _replaced(read: Iterable[FoundFile], known: Mapping[str, Known]) -> frozenset[int]:
    found = (known.get(file.key) for file in read)
    return frozenset(one.source.id for one in found if one is not None and one.source is not None)


def _reread(verdict: FileVerdict, reason: str) -> FileVerdict:
    if verdict.verdict in ("unchanged", "touched", "quarantined"):
        return FileVerdict(verdict.key, "reread", reason)
    return verdict


def _vanished(source: Source) -> FileVerdict:
    return FileVerdict(source.key, "vanished", "in the table, no longer in the folder")
