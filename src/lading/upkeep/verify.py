"""Whether a table is what it says: sources, log, members, manifests, snapshot, shards, in this order.

Writes nothing to the table. Every finding names the command that mends it; a `note` is nothing wrong,
only work that is waiting.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from lading.config.project import Config
from lading.errors import LadingError, LogCorrupt, ManifestGone, NotFound, PartError
from lading.iceberg.check import problems
from lading.ingest.ledger import shows_the_log
from lading.ingest.look import look
from lading.ingest.record import SMALL
from lading.ingest.table_run import TableRun
from lading.layout.project import source_manifest
from lading.layout.table import BUCKET, NOBODY, SHARD, TABLE_MANIFEST
from lading.log.table import Table
from lading.log.table_manifest import load_manifest
from lading.log.table_manifest_text import TableManifest
from lading.model import Member, Place, SnapshotRef
from lading.parts.intake import footer_of, in_parallel
from lading.snapshots.manifest import ShardMeta, read_snapshot
from lading.snapshots.opening import open_manifest, open_members
from lading.snapshots.runs import list_runs
from lading.snapshots.stores.by_url import beside_the_data, lies_below, store_of
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.members import MemberStore
from lading.storage.place import storage_of
from lading.watch import Watch
from lading.words import count_words

Level = Literal["error", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    about: str  # source, log, member, manifest, snapshot, iceberg, shard, run
    message: str
    remedy: str
    file: str | None = None


@dataclass(slots=True)
class Verified:
    """One table; `checked` counts what was looked at."""

    table: str
    findings: list[Finding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return all(one.level != "error" for one in self.findings)

    def wrong(self, about: str, message: str, remedy: str, file: str | None = None) -> None:
        self.findings.append(Finding("error", about, message, remedy, file))

    def note(self, about: str, message: str, remedy: str, file: str | None = None) -> None:
        self.findings.append(Finding("note", about, message, remedy, file))

    def failed(self, about: str, error: LadingError) -> None:
        self.wrong(about, error.message, error.hint, error.file)

    def count(self, what: str, number: int) -> None:
        self.checked[what] = self.checked.get(what, 0) + number


def verify(config: Config, name: str, *, watch: Watch) -> tuple[Verified, TableRun | None]:
    """Everything that needs no row to be read; and the look at the table, for whoever goes deeper."""
    found = Verified(name)
    watch.phase(name, "verify sources")
    seen = _sources(config, name, found, watch)
    table = _log(config.place(name), found)
    if table is None:
        return found, seen
    try:
        live = table.state.candidates(None)
        watch.phase(name, "verify members")
        _members(table, live, found)
        _rows_of_sources(table, live, found)
        _table_manifest(table, found)
        watch.phase(name, "verify snapshot")
        _snapshot(config, table, {member.path for member in live}, found)
        _runs(table.place, found)
    except LadingError as error:
        found.failed("log", error)
    finally:
        table.close()
    return found, seen


def _sources(config: Config, name: str, found: Verified, watch: Watch) -> TableRun | None:
    if name not in config.tables:
        found.note(
            "source", "not in lading.yaml: its source files are not checked", "add it to lading.yaml again"
        )
        return None
    try:
        seen = look(config, name, watch=watch)
    except LogCorrupt:
        return None  # told of the log itself
    except LadingError as error:
        found.failed("source", error)
        return None
    found.count("sources" if seen.derived is None else "slots", len(seen.found))
    verdicts = {word: n for word, n in seen.plan.verdicts.items() if n and word != "unchanged"}
    if verdicts:
        told = ", ".join(f"{n:,} {word}" for word, n in verdicts.items())
        of = "files" if seen.derived is None else "inputs"
        found.note("source", f"the table is not up to date with its {of}: {told}", f"lading run {name}")
    behind = seen.ledger.behind and seen.ledger.reset is None
    if behind and not (seen.opened and shows_the_log(seen.manifest, seen.opened.state)):
        found.note("source", f"{source_manifest(name)} is behind the log", f"lading repair {name}")
    return seen


def has_parts(where: Place) -> bool:
    return any(name.startswith(BUCKET) for name in storage_of(where).folders())


def _log(folder: Place, found: Verified) -> Table | None:
    if not Table.exists(folder):
        if has_parts(folder):
            found.wrong("log", "its log is gone", f"lading collection rebuild {folder}")
        else:
            found.note("log", "never run", f"lading run {found.table}")
        return None
    try:
        table = Table.open(folder)
    except LadingError as error:
        _log_problem(error, found)
        return None
    problems = list(table.state.base.problems()) if table.state.base is not None else []
    for problem in problems:
        _log_problem(problem, found)
    if problems:
        table.close()
        return None
    found.count("commits", table.state.sequence)
    return table


def _log_problem(error: LadingError, found: Verified) -> None:
    remedy = f"lading repair {found.table}; if that doesn't help: {error.hint}"
    found.wrong("log", error.message, remedy, error.file)


def broken_members(table: Table, members: Iterable[Member]) -> list[tuple[Member, str]]:
    """The members whose file isn't what the log says, and how; opens footers only."""
    place = table.place
    told = in_parallel(lambda member: (member, _broken(place, table.table_id, member)), members)
    return [(member, problem) for member, problem in told if problem is not None]


def _members(table: Table, live: list[Member], found: Verified) -> None:
    found.count("members", len(live))
    for member, problem in broken_members(table, live):
        found.wrong(
            "member",
            f"{member.path} {problem}",
            f"restore the file, or: lading repair {found.table}, then lading run {found.table}",
            member.path,
        )


def _rows_of_sources(table: Table, live: list[Member], found: Verified) -> None:
    """The rows that count in the parts are those that the log says its sources have."""
    held = Counter[int]()
    for member in live:
        held.update({source: rows for source, rows in member.sources if source not in member.minus})
    remedy = f"lading run {found.table} --full"
    for source, _ in table.state.sources_by_key():
        if (rows := held.pop(source.id, 0)) != source.rows:
            told = f"{source.key} has {count_words(rows, 'row')} in the parts, not {source.rows:,}"
            found.wrong("member", told, remedy, source.key)
    del held[NOBODY]  # no source counts these
    if astray := sum(held.values()):
        told = f"{count_words(astray, 'row')} in the parts are of no source that the log knows"
        found.wrong("member", told, remedy)


def _broken(where: Place, table_id: str, member: Member) -> str | None:
    outside = storage_of(where).folder is None and os.path.isabs(member.path)
    if outside or ".." in member.path.split("/"):
        return "points outside the table's folder"
    try:
        footer = footer_of(where, member.path)
    except FileNotFoundError:
        return "is missing"
    except PartError as error:
        return f"can't be read: {error.message}"
    if footer.bytes != member.bytes:
        return f"has {footer.bytes:,} bytes, not {member.bytes:,}"
    if footer.metadata.num_rows != member.rows:
        return f"has {count_words(footer.metadata.num_rows, 'row')}, not {member.rows:,}"
    wrote = footer.said("table_id")
    if wrote is not None and wrote != table_id and not os.path.isabs(member.path):
        return "belongs to another table"
    return None


def _table_manifest(table: Table, found: Verified) -> None:
    state = table.state
    if state.meta.data_sequence == 0:
        return
    remedy = f"lading repair {found.table}"
    try:
        manifest = load_manifest(table.place)
    except LadingError as error:
        found.wrong("manifest", error.message, remedy, TABLE_MANIFEST)
        return
    told = _difference(table, manifest)
    if told is not None and state.count() > SMALL:
        told += ": that of a large table is written when somebody asks for it"
        found.note("manifest", told, f"lading manifest write {found.table}")
    elif told is not None:
        found.wrong("manifest", told, remedy, TABLE_MANIFEST)


def _difference(table: Table, manifest: TableManifest | None) -> str | None:
    if manifest is None:
        return f"{TABLE_MANIFEST} is missing"
    rows = sum(bucket.row_count for bucket in manifest.partitions.values())
    parts = sum(len(bucket.parts) for bucket in manifest.partitions.values())
    state = table.state
    if parts != state.count() or rows != sum(member.rows for member in state.candidates(None)):
        return f"{TABLE_MANIFEST} doesn't match the log"
    return None


def _snapshot(config: Config, table: Table, live: set[str], found: Verified) -> None:
    remedy = f"lading repair {found.table}"
    store = store_of(config, found.table)
    try:
        current = store.load_current()
        if current is None:
            if table.state.meta.data_sequence:
                found.wrong("snapshot", "nothing is published", f"lading run {found.table}")
            return
        members = _members_shown(store, current, table, found)
    except LadingError as error:
        found.wrong("snapshot", error.message, remedy, error.file)
        return
    try:
        if members is not None:
            _published(table, members, live, current, found)
            _iceberg(config, table, current, found)
        beside = beside_the_data(config, found.table)
        _shards((table.place, *([beside] if beside else [])), store, current, found)
    except LadingError as error:
        found.wrong("snapshot", error.message, remedy, error.file or current.ref)
    finally:
        if members is not None:
            members.close()


def _members_shown(
    store: ManifestStore, current: SnapshotRef, table: Table, found: Verified
) -> MemberStore | None:
    """None for a snapshot that another writer made: it has shards only."""
    try:
        return open_members(store, current.ref, table.place, check=True)
    except ManifestGone:
        raise
    except NotFound:
        found.count("snapshots", 1)
        found.note(
            "snapshot",
            f"readers see run {current.run_id}, which lading did not write",
            f"lading history {found.table}, lading publish {found.table} --run RUN",
            current.ref,
        )
        return None


def _published(
    table: Table, members: MemberStore, live: set[str], current: SnapshotRef, found: Verified
) -> None:
    members.check()
    found.count("snapshots", 1)
    name, state = found.table, table.state
    if members.meta.table_id != table.table_id:
        found.wrong(
            "snapshot", "readers see a snapshot of another table", f"lading repair {name}", current.ref
        )
        return
    if current.held:
        found.note("snapshot", f"held at run {current.run_id}", f"lading publish {name} --release")
    elif members.meta.sequence < state.meta.data_sequence:
        found.note(
            "snapshot", "readers don't see the newest commit", f"lading run {name}, lading history {name}"
        )
    listed = members.members(None)
    older = [member for member in listed if member.path not in live]
    found.count("members", len(older))
    for member, problem in broken_members(table, older):
        found.wrong(
            "snapshot",
            f"readers see {member.path}, which {problem}",
            f"restore the file, or show another snapshot: lading rollback {name} --offset 1",
            member.path,
        )
    same = members.meta.sequence == state.sequence
    if same and {member.path for member in listed} != live:
        found.wrong("snapshot", "the snapshot doesn't match the log", f"lading repair {name}")


def _iceberg(config: Config, table: Table, current: SnapshotRef, found: Verified) -> None:
    name = found.table
    if name not in config.tables or not config.tables[name].iceberg:
        return
    for one in problems(store_of(config, name), table.place, current):
        if one.waits:
            found.note("iceberg", f"{one.file} {one.what}", f"lading run {name}", one.file)
        else:
            found.wrong("iceberg", f"{one.file} {one.what}", f"lading iceberg {name} --rewrite", one.file)


def _shards(places: tuple[Place, ...], store: ManifestStore, current: SnapshotRef, found: Verified) -> None:
    connection = open_manifest(store, current.ref)
    try:
        parsed = read_snapshot(connection)
    finally:
        connection.close()
    shards = [one for one in parsed.shards if one.db_url is not None]
    found.count("shards", len(shards))
    # A table that was copied out of its bucket: its manifests name the bucket, and readers look here.
    copied_from = parsed.meta.s3_prefix.rstrip("/") if storage_of(places[0]).folder is not None else ""
    told = in_parallel(lambda shard: (shard, _broken_shard(places, shard, copied_from)), shards)
    for shard, problem in told:
        if problem is not None:
            found.wrong(
                "shard",
                f"shard {shard.db_id} {problem}",
                f"restore the file, or build everything again: lading run {found.table} --full",
                shard.db_url,
            )


def _broken_shard(places: tuple[Place, ...], shard: ShardMeta, copied_from: str) -> str | None:
    url = shard.db_url or ""
    lies = lies_below(places, url)
    if lies is None and copied_from:
        lies = lies_below(places, url.removeprefix(f"{copied_from}/"))
    if lies is None:
        return f"points outside the table's folder: {shard.db_url}"
    try:
        size, digest = storage_of(lies[0]).sha256(f"{lies[1]}/{SHARD}")
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"can't be read: {error.strerror}"
    if shard.db_bytes is not None and size != shard.db_bytes:
        return f"has {size:,} bytes, not {shard.db_bytes:,}"
    if shard.db_bytes is not None and shard.checkpoint_id and digest != shard.checkpoint_id:
        return "has different content than was published"
    return None


def _runs(folder: Place, found: Verified) -> None:
    records, unknown = list_runs(folder)
    found.count("runs", len(records))
    for one in records:
        if one.record.status == "running" and not one.record.alive():
            found.note(
                "run",
                f"run {one.record.run_id} on {one.record.host} died: its lease expired at "
                f"{one.record.lease_until}",
                f"nothing is lost; lading run {found.table} completes it, lading clean removes its files",
            )
    if unknown:
        found.note(
            "run",
            f"{count_words(len(unknown), 'folder in runs/ holds', 'folders in runs/ hold')} no record",
            "delete what holds none: runs/ is only for reports",
        )
