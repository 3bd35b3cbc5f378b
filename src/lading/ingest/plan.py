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
from typing import Any, Literal

from lading.errors import VanishGuard
from lading.ingest.compare import AS_BEFORE, NEW, Compared
from lading.ingest.verdict import (
    VERDICTS,
    FileVerdict,
    Known,
    reread,
    settles,
    vanished,
    verdict_on,
)
from lading.ingest.verdicts import Verdicts
from lading.model import Digest, FoundFile, Member, Source
from lading.sources.fingerprint import source_id
from lading.sources.found import Picked, keys_of
from lading.words import count_words

# `replace: auto`: what is rewritten without the rows that leave. Everything larger gets a `minus`, so that
# a change costs what changed, however widely its rows are spread. Decided anew with every commit.
REWRITE_PART = 4 << 20  # bytes of a part
REWRITE_COMMIT = 8 << 20  # bytes of all parts that one commit rewrites, in this process

Replace = Literal["auto", "rewrite", "minus"]


@dataclass(frozen=True, slots=True)
class Again:
    """Files that are read again although they are as they were."""

    why: str
    keys: frozenset[str] | None = None  # None: all of them

    def asks_for(self, key: str) -> bool:
        return self.keys is None or key in self.keys


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table's verdicts and steps."""

    table: str
    files: Sequence[FileVerdict]
    again: Again | None = None  # what is read again that has not changed, in one line
    read: Sequence[FoundFile] = ()
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
    publish: str | None = None  # what readers get although no row changes
    reshapes: bool = False  # whether the table's columns change, rows or not
    columns: tuple[str, ...] = ()  # for people: how they change, and why
    sources: int = 0  # that the log has

    @property
    def replaces_all(self) -> bool:
        """Whether every row of the table is made anew."""
        return self.again is not None and self.again.keys is None

    @property
    def verdicts(self) -> dict[str, int]:
        counts: Counter[str]
        if isinstance(self.files, Verdicts):
            counts = self.files.counts()
        else:
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

    def as_json(self, files: Iterable[FileVerdict] | None = None) -> dict[str, Any]:
        """Plain values, for `--json`; `files`: those alone, where not all are shown."""
        shown = self.files if files is None else files
        return {
            "table": self.table,
            "verdicts": self.verdicts,
            "files": [{"key": f.key, "verdict": f.verdict, "reason": f.reason} for f in shown],
            "parts_to_rewrite": self.parts_to_rewrite,
            "rows_to_rewrite": self.rows_to_rewrite,
            "bytes_to_rewrite": self.bytes_to_rewrite,
            "parts_to_subtract": len(self.subtract),
            "idle": self.idle,
            "reason": self.again.why if self.again is not None and self.replaces_all else None,
            "reread": self.again.why if self.again is not None else None,
            "schema_changes": list(self.columns),
            "publish": self.publish,
            "notes": list(self.notes),
        }


def with_waiting(plan: TablePlan, waiting: Sequence[FileVerdict]) -> TablePlan:
    """The plan with archives that only a run may open, or that were set aside, each as one line."""
    if not waiting:
        return plan
    files: Sequence[FileVerdict]
    if isinstance(plan.files, Verdicts):
        files = plan.files.with_others(waiting)
    else:
        files = tuple(sorted([*plan.files, *waiting], key=lambda one: one.key))
    waits = any(one.verdict != "quarantined" for one in waiting)
    return dataclasses.replace(plan, files=files, waits=waits)


def make_plan(
    table: str,
    compared: Compared,
    known: Mapping[str, Known],
    *,
    again: Again | None,
    live: Callable[[frozenset[int] | None], list[Member]],
    replace: Replace = "rewrite",
    reshapes: bool = False,
) -> TablePlan:
    """`known` is of the files that are not simply as they were. `live` gives the members that hold rows of
    some sources, or all members for None."""
    found, digests = compared.found, compared.digests
    told = {
        at: verdict_on(file, known.get(file.key), digests.get(file.key), full=compared.full)
        for at, file in compared.odd.items()
    }
    note = tuple(
        file
        for at, file in compared.odd.items()
        if _is_noted(file, told[at], again, known.get(file.key), digests.get(file.key), full=compared.full)
    )
    everything = again is not None and again.keys is None
    if again is not None:
        told = {at: reread(one, again.why) if again.asks_for(one.key) else one for at, one in told.items()}
        if again.keys is not None:
            told |= _asked_for(compared, again)
    files = Verdicts(
        found, compared.marks, told, list(map(vanished, compared.vanished)),
        again.why if again is not None and everything else None,
    )  # fmt: skip
    places = files.to_read()
    replaced = _replaced(compared, places, known) | {source.id for source in compared.vanished}
    touched = live(None if everything else replaced) if everything or replaced else []
    drop, rewrite, subtract = parts_to_change(touched, None if everything else replaced, replace)
    return TablePlan(
        table=table,
        files=files,
        again=again,
        read=Picked(found, places),
        vanished=compared.vanished,
        note=note,
        digests=digests,
        replaced=replaced,
        drop=drop,
        rewrite=rewrite,
        touches=any(one.verdict == "touched" for one in told.values()),
        subtract=subtract,
        reshapes=reshapes,
        sources=compared.sources,
    )


def _is_noted(
    file: FoundFile,
    verdict: FileVerdict,
    again: Again | None,
    known: Known | None,
    digest: Digest | None,
    *,
    full: bool,
) -> bool:
    """Same bytes under a new fingerprint, or cleared: recorded without reading."""
    if again is not None and again.asks_for(file.key):
        return False
    if verdict.verdict == "touched":
        return True
    return verdict.verdict in ("unchanged", "quarantined") and settles(file, known, digest, full=full)


def _asked_for(compared: Compared, again: Again) -> dict[int, FileVerdict]:
    """Files that are as they were, and are read again."""
    found = enumerate(zip(keys_of(compared.found), compared.marks, strict=True))
    return {
        at: FileVerdict(key, "reread", again.why)
        for at, (key, mark) in found
        if mark in AS_BEFORE and again.asks_for(key)
    }


def _replaced(compared: Compared, places: Sequence[int], known: Mapping[str, Known]) -> frozenset[int]:
    """The sources whose old rows leave because their files are read."""
    marks, odd = compared.marks, compared.odd
    held = [at for at in places if marks[at] != NEW and (at not in odd or _is_held(known.get(odd[at].key)))]
    return frozenset(source_id(file.key) for file in Picked(compared.found, held))


def _is_held(known: Known | None) -> bool:
    return known is not None and known.source is not None


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
    small = {member.path for member in members if member.bytes <= REWRITE_PART}
    if sum(member.bytes for member in members if member.path in small) > REWRITE_COMMIT:
        small = set()  # to rewrite some of them takes that time and leaves readers the others all the same
    return (
        tuple(member for member in members if member.path in small),
        tuple(member for member in members if member.path not in small),
    )


def guard_vanished(plan: TablePlan, *, allow: bool) -> None:
    """Refuse to retract more than half of a table's sources unless asked to."""
    if allow or not plan.vanished:
        return
    before = plan.sources
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
