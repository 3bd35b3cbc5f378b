"""Mending what can be mended without a decision and without reading a source file.

Everything here is either written anew from the log, which is the truth, or a request to the next run to
read some files again. What would need a decision is said, and left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lading import clock
from lading.config.project import Config
from lading.errors import (
    LadingError,
    LogCorrupt,
    ManifestGone,
    ManifestParseError,
    ManifestStoreError,
    NotFound,
    StoreUnreachable,
)
from lading.iceberg.show import follow_pointer
from lading.ingest.look import look
from lading.ingest.record import record_sources, write_table_manifest
from lading.ingest.table_run import new_run_id
from lading.layout.project import VERIFY, source_manifest
from lading.layout.table import TABLE_MANIFEST
from lading.log.checkpoint import newest_name
from lading.log.table import Table
from lading.log.table_manifest import manifest_bytes
from lading.log.table_manifest_text import decode_manifest
from lading.model import Member, Place, SnapshotRef
from lading.snapshots.history import gate_failures
from lading.snapshots.opening import build_meta, open_members
from lading.snapshots.publish import keep_manifest, snapshot_payload
from lading.snapshots.runs import list_runs
from lading.snapshots.runs import start as start_record
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore
from lading.sources.manifest import forget_files
from lading.storage.place import storage_of
from lading.upkeep.mend import mend, mend_checkpoint, snapshots_of
from lading.upkeep.verify import broken_members, has_parts
from lading.watch import Watch
from lading.words import count_words


@dataclass(slots=True)
class Repaired:
    """What was mended, and what is left to a person with the command for it."""

    table: str
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def repair(config: Config, name: str, *, watch: Watch) -> Repaired:
    """One table."""
    found = Repaired(name)
    where = config.place(name)
    if not Table.exists(where):
        if has_parts(where):
            found.left.append(f"its log is gone: lading collection rebuild {where}")
        return found
    table = _open(where, store_of(config, name), found)
    if table is None:
        return found
    try:
        _leftovers(config)
        _table_manifest(table, found)
        _pointer(config, name, table, found)
        _members(config, name, table, found)
        _source_manifest(config, name, found, watch)
    finally:
        table.close()
    return found


def _open(where: Place, store: ManifestStore, found: Repaired) -> Table | None:
    """A checkpoint that is damaged while the log is whole: pages of it are put back, or else all of it is
    written anew and the old one kept aside."""
    try:
        return _opened(where)
    except LogCorrupt as error:
        damage = error
    mended = mend_checkpoint(where, snapshots_of(store, where))
    if mended:
        try:
            table = _opened(where)
        except LogCorrupt as error:
            damage = error
        else:
            found.done += [f"{page} was damaged or missing and was written again" for page in mended]
            return table
    aside = put_aside(where, f"damaged-{clock.now():%Y%m%dT%H%M%S}")
    if aside is not None:
        try:
            table = _opened(where)
            table.checkpoint()
        except LadingError:
            aside.put_back()
        else:
            found.done.append(
                f"{aside.name} was damaged and was written again from the log ({aside.kept_as} is kept)"
            )
            return table
    found.left.append(f"{damage.message}: lading collection rebuild {where}")
    return None


def _opened(where: Place) -> Table:
    table = Table.open(where)
    if table.state.base is not None:
        table.state.base.check()  # every checksum of the checkpoint
    return table


def _leftovers(config: Config) -> None:
    """What a killed `verify` left in the cache."""
    shutil.rmtree(config.cache / VERIFY, ignore_errors=True)


def _table_manifest(table: Table, found: Repaired) -> None:
    """Judged by the log as it is after a look at the file: whoever writes that has committed before."""
    looked = manifest_bytes(table.place)
    table.catch_up()
    state = table.state
    if state.meta.data_sequence == 0:
        return
    try:
        manifest = decode_manifest(looked, TABLE_MANIFEST) if looked else None
    except LadingError:
        manifest = None
    parts = sum(len(bucket.parts) for bucket in manifest.partitions.values()) if manifest else -1
    rows = sum(bucket.row_count for bucket in manifest.partitions.values()) if manifest else -1
    if (parts, rows) != (state.count(), sum(member.rows for member in state.candidates(None))):
        write_table_manifest(table, asked=True, mending=looked)
        found.done.append("manifest.json was written again from the log")


def _pointer(config: Config, name: str, table: Table, found: Repaired) -> None:
    """A pointer that can't be read, or names what can't be: put back where it was held, else to the newest
    snapshot that is whole and that the gate let through, else to one made from the log. Should that lack
    something, the next run publishes it."""
    store = store_of(config, name)
    _mend_snapshot(store, table, found)
    seen, problem = _pointer_problem(store, table)
    if problem is None:
        return
    held = _held_at(store, table)
    target = held or next(iter(_whole(store, table, good=True)), None)
    with start_record(table.place, new_run_id(), action="repair") as record:
        if target is None and name not in config.tables:
            found.left.append(f"{problem}; no snapshot is intact: add the table to lading.yaml again")
            record.finish("failed", error=problem)
            return
        if target is None:
            run_id = new_run_id()
            ref, at = keep_manifest(store, snapshot_payload(name, table, run_id), run_id)
            target = SnapshotRef(ref, run_id, at, table.state.sequence)
        store.set_current(target.ref, hold=held is not None, sequence=target.sequence, expected=seen)
        record.finish("succeeded", manifest_ref=target.ref)
    holds = ", held as it was" if held is not None else ""
    found.done.append(f"{problem}; readers see the snapshot of run {target.run_id} now{holds}")
    note = follow_pointer(config, config.tables[name]) if name in config.tables else None
    if note is not None:
        found.left.append(note)


def _mend_snapshot(store: ManifestStore, table: Table, found: Repaired) -> None:
    """Put back pages of the snapshot that readers see."""
    try:
        current = store.load_current()
        if current is None:
            return
        shown = open_members(store, current.ref, table.place)
    except LadingError:
        return  # told as the pointer's problem
    try:
        mended = mend(table.place, shown, snapshots_of(store, table.place))
    except LadingError:
        mended = []
    finally:
        shown.close()
    found.done += [f"{page} was damaged or missing and was written again" for page in mended]


def _pointer_problem(store: ManifestStore, table: Table) -> tuple[SnapshotRef | None, str | None]:
    """The pointer, if it can be read, and what is wrong with it or with what it names."""
    current = None
    try:
        current = store.load_current()
        if current is None:
            there = table.state.meta.data_sequence > 0 and bool(store.list_manifests(limit=1))
            return None, "the pointer was missing" if there else None
        _check(store, current.ref, table)
    except StoreUnreachable:
        raise  # no answer is no damage
    except ManifestGone as error:
        return current, error.message
    except NotFound:
        return current, None  # another writer's: it has no parts, and nothing is wrong with that
    except (ManifestParseError, ManifestStoreError) as error:
        return current, error.message
    return current, None


def _check(store: ManifestStore, ref: str, table: Table) -> None:
    members = open_members(store, ref, table.place, check=True)
    try:
        members.check()
        if members.meta.table_id != table.table_id:
            raise ManifestParseError(f"{ref} is a snapshot of another table")
    finally:
        members.close()


def _held_at(store: ManifestStore, table: Table) -> SnapshotRef | None:
    """Where the last move by hand left the pointer, if it was a rollback and is still there."""
    moves = [one.record for one in list_runs(table.place)[0] if one.record.action is not None]
    last = next((one for one in moves if one.status == "succeeded" and one.action != "repair"), None)
    if last is None or last.action != "rollback":
        return None
    return next((one for one in _whole(store, table) if one.ref == last.manifest_ref), None)


def _whole(store: ManifestStore, table: Table, *, good: bool = False) -> list[SnapshotRef]:
    found = []
    for one in store.list_manifests():
        try:
            custom = build_meta(store, one.ref).custom
            if good and gate_failures(custom):
                continue
            _check(store, one.ref, table)
        except StoreUnreachable:
            raise
        except (ManifestParseError, ManifestStoreError, NotFound):
            continue  # it is no candidate; `lading verify` and `lading history` name it
        sequence = custom.get("sequence")
        number = sequence if isinstance(sequence, int) else 0
        found.append(SnapshotRef(one.ref, one.run_id, one.published_at, number))
    return found


def _members(config: Config, name: str, table: Table, found: Repaired) -> None:
    """Sources of parts that are lost or damaged are asked to be read again: the parts then go without
    being opened, and the rest of the table is left alone."""
    broken = broken_members(table, table.state.candidates(None))
    if not broken:
        return
    told = f"{count_words(len(broken), 'part is', 'parts are')} broken"
    if name not in config.tables:
        found.left.append(f"{told} and the table is not in lading.yaml: restore from a copy")
        return
    keys = _keys_of([member for member, _ in broken], table)
    # Or all of it is asked for already, or the whole file is gone, which asks for everything.
    with suppress(LadingError):
        forget_files(config.source_manifest(name), keys)
    found.done.append(
        f"{told} ({broken[0][0].path} {broken[0][1]}): "
        f"{count_words(len(keys), 'source file')} will be read again"
    )
    found.left.append(f"lading run {name} reads them")


def _keys_of(members: Sequence[Member], table: Table) -> list[str]:
    numbers = {source for member in members for source, _ in member.sources if source not in member.minus}
    told = (table.state.source(number) for number in numbers)
    return sorted(source.key for source in told if source is not None)


def _source_manifest(config: Config, name: str, found: Repaired, watch: Watch) -> None:
    if name not in config.tables:
        return
    try:
        seen = look(config, name, watch=watch)
    except LadingError as error:
        found.left.append(f"{error.message}: {error.hint}")
        return
    asked = any(known.again is not None for known in seen.known.values())
    if not seen.ledger.behind or seen.ledger.reset is not None or asked:
        return  # what a person asked for is the next run's to answer
    record_sources(seen, {})
    found.done.append(f"{source_manifest(name)} was brought up to date with the log")


@dataclass(frozen=True, slots=True)
class CheckpointAside:
    """The newest checkpoint of a table, under a name that nobody opens."""

    place: Place
    name: str
    kept_as: str

    def put_back(self) -> None:
        storage_of(self.place).rename(self.kept_as, self.name)


def put_aside(place: Place, mark: str) -> CheckpointAside | None:
    """None if the table has no checkpoint."""
    name = newest_name(place)
    if name is None:
        return None
    aside = CheckpointAside(place, name, f"{name}.{mark}")
    storage_of(place).rename(aside.name, aside.kept_as)
    return aside
