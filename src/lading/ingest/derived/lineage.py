"""From a slot back to source files: which of them have rows in it, and which rows moved it.

Worked out when somebody asks, from the snapshots that the table names: the columns that rows are cut by, and
where each row came from. An input that is made of tables itself is followed to its files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from lading.config.project import Config, TableConfig
from lading.errors import ConfigError, ManifestGone, ManifestParseError, NotFound, PartError
from lading.ingest.derived.changed import Moves, changed_slots
from lading.ingest.derived.evaluate import members_in
from lading.ingest.derived.inputs import OpenInput, Shown, pins_in, pins_of, place_and_store
from lading.layout.table import SOURCE, slot_key, slot_of
from lading.model import Pin, SnapshotRef, Source
from lading.parts.pick import picked
from lading.snapshots.opening import build_meta, open_members
from lading.snapshots.stores.by_url import store_of
from lading.sources.fingerprint import source_id

_LOOKED_BACK = 50  # snapshots in which the last change of a slot is looked for


@dataclass(frozen=True, slots=True)
class FileRows:
    """A source file, and how many rows of it are in a slot."""

    table: str
    key: str
    rows: int
    whole: bool = False  # its table is given to every slot as a whole


@dataclass(frozen=True, slots=True)
class FileMoves:
    """A source of an input, and what came and went of it in a slot."""

    table: str
    key: str
    came: int
    went: int


@dataclass(frozen=True, slots=True)
class LastChange:
    """When a slot last changed, and because of what; `moved` is empty where nobody can tell any more."""

    run_id: str
    sequence: int
    moved: tuple[FileMoves, ...] = ()
    note: str = ""


def slot_named(cfg: TableConfig, text: str) -> str:
    """The key of the slot that somebody means by `slot=00017` or `17`."""
    if cfg.derived is None:
        raise ConfigError(
            f"{cfg.name} is made of files and has no slots", hint="give a file, or a table that has `from`"
        )
    slot = slot_of(text)
    if slot is None or (not cfg.derived.by_bucket and not 0 <= slot < cfg.derived.slots):
        raise NotFound(
            f"{cfg.name} has no slot {text!r}",
            hint=f"slots are slot=00000 to {slot_key(cfg.derived.slots - 1)}; `lading sources {cfg.name}`"
            if not cfg.derived.by_bucket
            else f"`lading sources {cfg.name}` lists them",
            table=cfg.name,
        )
    return slot_key(slot, of_bucket=cfg.derived.by_bucket)


def files_in(
    config: Config, cfg: TableConfig, pins: Mapping[str, Pin], slots: frozenset[int]
) -> list[FileRows]:
    """The source files whose rows are in any of `slots`, by table and key."""
    found: Counter[tuple[str, str, bool]] = Counter()
    for one in _followed(config, cfg, pins, slots):
        found[one.table, one.key, one.whole] += one.rows
    return [FileRows(table, key, rows, whole) for (table, key, whole), rows in sorted(found.items())]


def _followed(
    config: Config, cfg: TableConfig, pins: Mapping[str, Pin], slots: frozenset[int] | None
) -> Iterator[FileRows]:
    assert cfg.derived is not None
    for one in _named(config, cfg, pins):
        try:
            cut = one.cut(cfg.derived)
            held = one.members.sources()
            inner = slots if cut is not None else None
            counts = _rows_of(one, inner, cfg) if inner is not None else {s.id: s.rows for s, _ in held}
            mine = [source for source, _ in held if counts.get(source.id)]
            own = config.tables.get(one.name) if one.input.path is None else None
            if own is not None and own.derived is not None:
                below = frozenset(slot_of(source.key) or 0 for source in mine)
                yield from _followed(config, own, pins_of(one.members.meta.inputs), below)
            else:
                yield from (FileRows(one.name, s.key, counts[s.id], cut is None) for s in mine)
        finally:
            one.members.close()


def _named(config: Config, cfg: TableConfig, pins: Mapping[str, Pin]) -> Iterator[OpenInput]:
    """The snapshots that a table names."""
    assert cfg.derived is not None
    for one in cfg.derived.inputs:
        if one.name in pins:
            place, store = place_and_store(config, one)
            ref = pins[one.name].ref
            yield OpenInput(one, place, ref, open_members(store, ref, place))


def _rows_of(one: OpenInput, slots: frozenset[int], cfg: TableConfig) -> dict[int, int]:
    """How many rows each source has in `slots`."""
    assert cfg.derived is not None
    cut = one.cut(cfg.derived)
    assert cut is not None
    found: Counter[int] = Counter()
    wanted = partial(cut.within, slots=slots)
    members = members_in(one, cut, slots)
    for batch in picked(one.place, members, one.whole_schema, [SOURCE], cut.columns, wanted):
        sources = batch.column(SOURCE).to_numpy()
        found.update(dict(zip(*(x.tolist() for x in np.unique(sources, return_counts=True)), strict=True)))
    return dict(found)


def moved_files(
    moves: Mapping[str, Moves],
    slot: int,
    keys: Mapping[str, Mapping[int, str]],
    whole: Collection[str] = (),
) -> tuple[FileMoves, ...]:
    """What came and went in a slot, by input and source; `keys` are those of the sources. What did so in the
    inputs that are given `whole` did in every slot."""
    found = []
    for name, one in moves.items():
        for (at, source), (went, came) in one.items():
            if at == slot or name in whole:
                key = keys.get(name, {}).get(source, str(source))
                found.append(FileMoves(name, key, came, went))
    return tuple(sorted(found, key=lambda one: (one.table, one.key)))


def pending_files(shown: Iterable[Shown], pins: Mapping[str, Pin]) -> dict[str, dict[int, str]]:
    """The keys of all sources of the inputs, as they were and as they are."""
    found: dict[str, dict[int, str]] = {}
    for one in shown:
        name = one.input.name
        refs = {one.ref.ref, *([pins[name].ref] if name in pins else [])}
        for ref in refs:
            try:
                snapshot = one.open(ref)
            except (ManifestGone, ManifestParseError):
                continue
            found.setdefault(name, {}).update({s.id: s.key for s, _ in snapshot.members.sources()})
            snapshot.members.close()
    return found


@dataclass(frozen=True, slots=True)
class _At:
    """A slot in one snapshot of its table."""

    snapshot: SnapshotRef
    source: Source | None
    pins: Mapping[str, Pin] = field(default_factory=dict)
    sequence: int = 0


def last_change(config: Config, cfg: TableConfig, key: str) -> LastChange | None:
    """The snapshot in which a slot last changed, and which rows of which input's sources did that; None if it
    isn't in what readers see."""
    states = _states(config, cfg, key)
    now = next(states, None)
    if now is None or now.source is None:
        return None
    newer = now
    for older in states:
        if older.source is None or older.source.processed_at != now.source.processed_at:
            moved, note = _between(config, cfg, older.pins, newer.pins, slot_of(key) or 0)
            return LastChange(newer.snapshot.run_id, newer.sequence, moved, note)
        newer = older
    return LastChange(
        newer.snapshot.run_id, newer.sequence, note="in the oldest snapshot that is kept, or before"
    )


def _states(config: Config, cfg: TableConfig, key: str) -> Iterator[_At]:
    """From what readers see back to the oldest."""
    store, place = store_of(config, cfg.name), config.place(cfg.name)
    current = store.load_current()
    listed = store.list_manifests()
    at = next((n for n, one in enumerate(listed) if current is not None and one.ref == current.ref), None)
    for one in listed[at : (at or 0) + _LOOKED_BACK] if at is not None else []:
        try:
            pins = pins_in(build_meta(store, one.ref).custom)
            members = open_members(store, one.ref, place)
        except (ManifestGone, ManifestParseError):
            return
        found = members.source(source_id(key))
        sequence = members.meta.sequence
        members.close()
        yield _At(one, found[0] if found is not None else None, pins, sequence)


def _between(
    config: Config, cfg: TableConfig, before: Mapping[str, Pin], after: Mapping[str, Pin], slot: int
) -> tuple[tuple[FileMoves, ...], str]:
    assert cfg.derived is not None
    moves: dict[str, Moves] = {}
    keys: dict[str, dict[int, str]] = {}
    try:
        for one in cfg.derived.inputs:
            if one.name not in before or one.name not in after:
                continue
            place, store = place_and_store(config, one)
            old, new = (
                OpenInput(one, place, pin.ref, open_members(store, pin.ref, place))
                for pin in (before[one.name], after[one.name])
            )
            keys[one.name] = {s.id: s.key for side in (old, new) for s, _ in side.members.sources()}
            changed = changed_slots(old, new, old.cut(cfg.derived))
            moves[one.name] = changed.moves
            old.members.close()
            new.members.close()
    except (ManifestGone, ManifestParseError, PartError):
        return (), "the snapshots of its inputs from before are no longer kept"
    return moved_files(moves, slot, keys, [one.name for one in cfg.derived.inputs if not one.is_cut]), ""
