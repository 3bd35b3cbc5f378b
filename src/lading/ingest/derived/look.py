"""Looking at a table made of tables without touching anything: its inputs' snapshots, its log, and the plan.

The log says which snapshots of its inputs the table was made from. Where readers still see those, nothing is
opened and there is nothing to do. Where they see others, the slots are found in which rows came or went.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lading.errors import ManifestGone, ManifestParseError, PartError
from lading.ingest.compare import compare
from lading.ingest.derived.changed import Changed, Moves, changed_slots
from lading.ingest.derived.count import reading
from lading.ingest.derived.inputs import (
    OpenInput,
    Shown,
    check_buckets,
    check_columns,
    opened,
    pins_of,
    shown_inputs,
    told,
)
from lading.ingest.derived.recipe import derived_facts, what_changed, widths_in
from lading.ingest.ledger import make_ledger
from lading.ingest.plan import Again, make_plan
from lading.ingest.replay import read_again
from lading.ingest.table_run import TableRun
from lading.ingest.verdict import FileVerdict
from lading.layout.project import source_manifest
from lading.layout.table import slot_key, slot_of
from lading.log.table import Table
from lading.model import FoundFile, Member, Pin, Source
from lading.sources.fingerprint import check_collisions
from lading.sources.manifest import load as load_source_manifest
from lading.sources.recipe import hashed
from lading.words import count_words

_FINGERPRINT = "inputs:"


@dataclass(frozen=True, slots=True)
class DerivedLook:
    """What a run of a table made of tables knows beyond what any table's run does."""

    shown: tuple[Shown, ...]
    pins: tuple[Pin, ...]  # of what readers see of the inputs now
    facts: bytes
    moves: Mapping[str, Moves] = field(default_factory=dict)  # by input: what came and went, as far as known
    advanced: bool = False  # whether the log names other snapshots than these

    @property
    def inputs(self) -> bytes:
        return told(self.pins)


def look_derived(run: TableRun, full: bool) -> TableRun:
    """The run with its plan."""
    config, cfg = run.config, run.cfg
    assert cfg.derived is not None
    run.watch.phase(cfg.name, "discover")
    place = config.place(cfg.name)
    table = Table.open(place) if Table.exists(place) else None
    manifest = load_source_manifest(config.source_manifest(cfg.name))
    ledger = make_ledger(manifest, table.state if table else None, source_manifest(cfg.name))
    run = replace(run, opened=table, manifest=manifest, ledger=ledger)
    shown = shown_inputs(config, cfg)
    run.watch.phase(cfg.name, "plan")
    pinned = pins_of(table.state.meta.inputs) if table is not None else {}
    if table is not None and _is_as_pinned(shown, pinned):
        pins = [pinned[one.input.name] for one in shown]
        facts = derived_facts(config, cfg, pins, widths_in(table.state.meta.facts))
        if hashed(facts) == table.state.meta.recipe:
            known = sorted(slot_of(source.key) or 0 for source, _ in table.state.sources_by_key())
            slots = known if cfg.derived.by_bucket else list(range(cfg.derived.slots))
            derived = DerivedLook(tuple(shown), tuple(pins), facts)
            return _planned(run, derived, slots, {}, full)
    with opened(shown) as inputs:
        return _compared(run, shown, inputs, pinned, full)


def _is_as_pinned(shown: Sequence[Shown], pinned: Mapping[str, Pin]) -> bool:
    """Whether readers see what the table was made from, given in the same way: one by `path` may have
    the name of another table of this project."""
    now = {one.input.name: (one.ref.ref, one.input.path is not None) for one in shown}
    return now == {name: (pin.ref, pin.by_path) for name, pin in pinned.items()}


def _compared(
    run: TableRun,
    shown: Sequence[Shown],
    inputs: Sequence[OpenInput],
    pinned: Mapping[str, Pin],
    full: bool,
) -> TableRun:
    config, cfg, table = run.config, run.cfg, run.opened
    assert cfg.derived is not None
    check_columns(cfg, {one.name: one.schema for one in inputs})
    check_buckets(cfg, inputs)
    pins = [one.pin(at.ref.run_id) for one, at in zip(inputs, shown, strict=True)]
    widths = {one.name: one.width() for one in inputs if one.input.by_bucket}
    facts = derived_facts(config, cfg, pins, widths)
    derived = DerivedLook(tuple(shown), tuple(pins), facts, advanced=told(pins) != _named(table))
    slots = _slots(cfg.derived.by_bucket, cfg.derived.slots, inputs)
    if table is None or hashed(facts) != table.state.meta.recipe:
        return _planned(run, derived, slots, {}, full)  # all of them anyway
    found: dict[str, Changed] = {}
    for one, at, pin in zip(inputs, shown, pins, strict=True):
        found[one.name] = _since(pinned.get(one.name), pin, one, at, run)
    reasons = _reasons(run, found, slots)
    moves = {name: one.moves for name, one in found.items()}
    return _planned(run, replace(derived, moves=moves), slots, reasons, full)


def _named(table: Table | None) -> bytes:
    return table.state.meta.inputs if table is not None else b""


def _since(old: Pin | None, new: Pin, one: OpenInput, shown: Shown, run: TableRun) -> Changed:
    """What came and went in an input since the snapshot that the table was made from."""
    assert run.cfg.derived is not None
    if old is None or old.table_id != new.table_id:
        return Changed(None, why=f"{one.name} is another table than before")
    if old.ref == new.ref:
        return Changed()
    try:
        before = shown.open(old.ref)
    except (ManifestGone, ManifestParseError):
        return Changed(None, why=f"the snapshot of {one.name} that it was made from is no longer kept")
    try:
        return changed_slots(before, one, one.cut(run.cfg.derived), reading(run), run.start_spark is None)
    except PartError:
        return Changed(None, why=f"parts of {one.name} that it was made from are no longer kept")
    finally:
        before.members.close()


def _slots(by_bucket: bool, slots: int, inputs: Sequence[OpenInput]) -> list[int]:
    """Those that there are now."""
    if not by_bucket:
        return list(range(slots))
    cut = [one for one in inputs if one.input.by_bucket]
    return sorted({member.bucket for one in cut for member in one.members.candidates(None)})


def _reasons(run: TableRun, found: Mapping[str, Changed], slots: Sequence[int]) -> dict[int, str]:
    """Why a slot is evaluated again, by its number; all of them once more than half are."""
    everything = next((one.why for one in found.values() if one.slots is None), None)
    if everything is not None:
        return dict.fromkeys(slots, everything)
    changed = {slot for one in found.values() for slot in one.slots or ()} & set(slots)
    reasons = {slot: moved_words(slot, {n: one.moves for n, one in found.items()}) for slot in changed}
    if 2 * len(changed) > len(slots):
        why = f"{len(changed):,} of {len(slots):,} slots changed: all are evaluated at once"
        return dict.fromkeys(slots, why) | reasons
    return reasons


def moved_words(slot: int, moves: Mapping[str, Moves]) -> str:
    """What came and went in a slot, in words."""
    words = []
    for name, one in moves.items():
        mine = [counts for (at, _), counts in one.items() if at == slot]
        went, came = sum(went for went, _ in mine), sum(came for _, came in mine)
        if went or came:
            words.append(f"{count_words(came, 'row')} of {name} came, {went:,} went")
    return "; ".join(words)


def _planned(
    run: TableRun, derived: DerivedLook, slots: Sequence[int], reasons: Mapping[int, str], full: bool
) -> TableRun:
    cfg, table = run.cfg, run.opened
    assert cfg.derived is not None
    keys = {slot_key(slot, of_bucket=cfg.derived.by_bucket): slot for slot in slots}
    check_collisions(keys)
    known = {key: one.source for key, one in run.ledger.known if one.source is not None}
    fresh = _FINGERPRINT + hashlib.sha256(derived.inputs + derived.facts).hexdigest()[:16]
    found = [
        FoundFile(key, "", 0, 0, False, fingerprint=_fingerprint(known.get(key), keys[key] in reasons, fresh))
        for key in sorted(keys)
    ]
    compared = compare(found, run.ledger.known, full=False)
    told = read_again(compared.known, cfg, relaxed=False, replay=run.replay)
    again = _again(run, derived.facts, full)

    def live(sources: frozenset[int] | None) -> list[Member]:
        if table is None:
            return []
        return table.state.candidates(None) if sources is None else table.state.members_of(sources)

    plan = make_plan(cfg.name, compared, told, again=again, live=live, replace=cfg.replace)
    if again is None and len(plan.read) == len(found) > 1 and table is not None and table.state.sequence:
        # One pass over everything, and no part of the old rows stays.
        plan = make_plan(cfg.name, compared, told, again=Again(_first(reasons)), live=live)
    by_key = {key: reasons[slot] for key, slot in keys.items() if slot in reasons}
    plan = replace(plan, files=tuple(_worded(one, by_key) for one in plan.files))
    recipe = hashed(derived.facts)
    return replace(run, found=found, known=told, compared=compared, plan=plan, recipe=recipe, derived=derived)


def _fingerprint(known: Source | None, moved: bool, fresh: str) -> str:
    """As it was, of a slot in which no row came or went."""
    return fresh if known is None or moved else known.hash


def _first(reasons: Mapping[int, str]) -> str:
    return next(iter(reasons.values()), "every slot changed")


def _again(run: TableRun, facts: bytes, full: bool) -> Again | None:
    table = run.opened
    if table is None or table.state.sequence == 0:
        return None
    if full:
        return Again("--full: everything is evaluated again")
    if run.ledger.reset is not None:
        return Again(run.ledger.reset)
    if hashed(facts) != table.state.meta.recipe:
        return Again(what_changed(table.state.meta.facts, facts))
    return None


def _worded(one: FileVerdict, reasons: Mapping[str, str]) -> FileVerdict:
    match one.verdict:
        case "changed":
            return FileVerdict(one.key, one.verdict, reasons.get(one.key, one.reason))
        case "unchanged":
            return FileVerdict(one.key, one.verdict, "no row of it came or went")
        case "new":
            return FileVerdict(one.key, one.verdict, "not evaluated before")
        case "vanished":
            return FileVerdict(one.key, one.verdict, "no input has rows in it any more")
        case _:
            return one
