"""Iceberg's `main` follows the pointer: a version of the metadata for each move, then `version-hint.text`.

Both come after the pointer has moved, never before: some engines take up the next version as soon as it is
there, whatever the hint says. So an Iceberg reader sees a whole snapshot that lading's readers see, or saw a
moment ago. Whoever moves the pointer calls `follow`; so does every run, and mends what a kill left behind.

Any number may do so at once. A version is created only if it isn't there, the hint moves by compare-and-swap,
and both were read before the pointer: if that has moved on since, whoever moved it has taken the next version
already, or finds ours and puts another one behind it. Everybody looks again after they wrote the hint: the
last one to do so has seen where the pointer is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass

from lading import clock
from lading.errors import Conflict, LadingError, ManifestGone, ManifestParseError, NotShown
from lading.iceberg.metadata import Shelf, Twin, metadata_file, twin, twins_in
from lading.iceberg.pages import pages_of
from lading.iceberg.settled import count_unsettled
from lading.iceberg.snapshot import Record, Shown, damaged, location_of, record_in, write_snapshot
from lading.iceberg.types import schema_of
from lading.layout.table import METADATA, VERSION_HINT, version_of, version_path
from lading.model import Place, SnapshotRef
from lading.parts.field_ids import of_log
from lading.snapshots.history import gate_failures
from lading.snapshots.manifest import BuildMeta, load_build_meta
from lading.snapshots.opening import build_meta_and_schema, members_in, open_manifest
from lading.snapshots.publish import same_pointer
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.members import MemberStore
from lading.storage.place import storage_of
from lading.storage.protocol import SwapLost
from lading.words import count_words

_ATTEMPTS = 100  # each lost race means that another one got through
_HINT_LIMIT = 64  # bytes
_LOOKS, _PAUSE = 25, 0.02  # at metadata that is about to follow the pointer; seconds between two


@dataclass(frozen=True, slots=True)
class At:
    """Where Iceberg readers are pointed at."""

    version: int
    path: str  # of the metadata, relative to the table


def follow(
    store: ManifestStore,
    place: Place,
    *,
    keep: int,
    going: Collection[str] | None = None,
    anew: bool = False,
) -> At | None:
    """Make Iceberg's metadata say what the pointer says, and no more than the newest `keep` snapshots; where
    readers are pointed at then. None if lading has nothing to show. With `going` these snapshots, and those
    that are gone, are left out at once; with `anew` all files of what readers see are written again, and
    damaged ones of other snapshots."""
    tidy = going is not None
    following = _Following(store, place, keep, frozenset(going or ()))
    for _ in range(_ATTEMPTS):
        hint, etag = following.hint()
        version, twins, shown = following.newest(hint)
        current = store.load_current()
        if current is None:
            return None
        if anew or not _is_shown(twins, shown, current) or (tidy and following.lists_gone(twins, current)):
            version += 1
            try:
                data = following.composed(current, twins or (), hint, anew=anew)
            except NotShown:
                stop_following(place)  # or it would lead to another snapshot than what readers see
                raise
            if data is None:
                stop_following(place)
                return None
            try:
                storage_of(place).put_new(version_path(version), data)
            except FileExistsError:
                continue
            anew = tidy = False
        if hint != version:
            try:
                storage_of(place).swap(VERSION_HINT, str(version).encode(), etag)
            except SwapLost:
                continue
            if not same_pointer(store.load_current(), current):
                continue
        return At(version, version_path(version))
    raise Conflict(
        f"{VERSION_HINT} moved {_ATTEMPTS} times while it was being brought up to date",
        hint="run again when fewer publishers are active",
    )


def stop_following(place: Place) -> None:
    """For a table that is no longer shown, or can't be. Whoever goes by the hint finds nothing then. Whoever
    lists the versions, or has the path of one, sees the last that was shown, until cleaning takes it away."""
    storage_of(place).delete(VERSION_HINT)


def is_followed(store: ManifestStore, place: Place, current: SnapshotRef) -> bool:
    """Whether Iceberg readers are led to what the pointer names."""
    following = _Following(store, place, keep=0)
    hint, _ = following.hint()
    if not hint:
        return False
    _, twins, shown = following.newest(hint)
    return _is_shown(twins, shown, current)


def where(place: Place) -> At | None:
    """Where Iceberg readers are pointed at now."""
    hint, _ = _hint(place)
    return At(hint, version_path(hint)) if hint else None


def shown_now(store: ManifestStore, place: Place) -> tuple[At, bytes] | None:
    """The metadata of what the pointer names, and where it is; None for a table that isn't shown. Writes
    nothing: NotShown if the metadata has yet to follow and nobody brings it up to date meanwhile."""
    for look in range(_LOOKS):
        if look:
            clock.sleep(_PAUSE)
        at, current = where(place), store.load_current()
        if at is None or current is None:
            return None
        try:
            data = storage_of(place).get(at.path)
        except FileNotFoundError:
            continue  # cleaned away meanwhile: the hint names another by now
        found = twins_in(data, location_of(place))
        if found is not None and _is_shown(*found, current):
            return at, data
    raise NotShown(
        f"the Iceberg metadata in {place} is not that of the snapshot that readers see",
        hint="lading run brings it up to date; after a move or damage: lading iceberg TABLE --rewrite",
    )


def _is_shown(twins: Sequence[Twin] | None, shown: int, current: SnapshotRef) -> bool:
    return any(one.number == shown and one.ref == current.ref for one in twins or ())


def _hint(place: Place) -> tuple[int, str | None]:
    """The version that the hint names, 0 for none that can be read, and its etag."""
    try:
        text, etag = storage_of(place).get_with_etag(VERSION_HINT)
    except FileNotFoundError:
        return 0, None
    told = text[:_HINT_LIMIT].strip()
    return int(told) if told.isdigit() else 0, etag


@dataclass(slots=True)
class _Following:
    store: ManifestStore
    place: Place
    keep: int
    going: frozenset[str] = frozenset()  # snapshots that are left out, although they are there

    def hint(self) -> tuple[int, str | None]:
        return _hint(self.place)

    def newest(self, hint: int) -> tuple[int, Sequence[Twin] | None, int]:
        """The newest version that is there, what it has, and which snapshot it shows. None: it has nothing
        that could be believed."""
        storage = storage_of(self.place)
        if not hint:
            listed = (version_of(one.name) for one in storage.list(METADATA))
            hint = max([0, *(number for number in listed if number is not None)])
        while storage.has(version_path(hint + 1)):
            hint += 1
        try:
            found = twins_in(storage.get(version_path(hint)), location_of(self.place)) if hint else None
        except FileNotFoundError:
            found = None
        return (hint, None, 0) if found is None else (hint, *found)

    def lists_gone(self, twins: Sequence[Twin] | None, current: SnapshotRef) -> bool:
        kept = self._kept(twins or (), current) | {current.ref}
        return any(one.ref not in kept for one in twins or ())

    def composed(self, current: SnapshotRef, known: Sequence[Twin], hint: int, *, anew: bool) -> bytes | None:
        """The next version; None if the snapshot is none that has parts."""
        connection = open_manifest(self.store, current.ref)
        try:
            members = members_in(connection, self.place)
            if members is None or not members.schema:  # nothing was ever committed
                return None
            shown = None if anew else next((one for one in known if one.ref == current.ref), None)
            meta, state = load_build_meta(connection), members.meta
            if shown is None and record_in(meta.custom) is None:
                self._refuse_unsettled(current, members)  # one that was shown before, wherever, was settled
            shown = shown or self._twin(current.ref, meta, members, anew=anew)
        finally:
            connection.close()
        kept = self._kept(known, current)
        twins = [one for one in known if one.ref in kept] if known else self._others(current)
        if anew:
            twins = [
                one for old in twins if old.ref != current.ref and (one := self._mended(old)) is not None
            ]
        return metadata_file(
            Shelf(
                state.table_id,
                location_of(self.place),
                [*(one for one in twins if one.number != shown.number), shown],
                shown.number,
                int(current.published_at.timestamp() * 1000),
                of_log(state.schema),
                state.order_by,
                hint,
            )
        )

    def _kept(self, known: Sequence[Twin], current: SnapshotRef) -> frozenset[str]:
        """Of these the newest whose manifests are there. A manifest that was never shown, since its gate
        refused it, for instance, takes nobody's place."""
        wanted = {current.ref, *(one.ref for one in known)} - self.going
        limit = self.keep
        while True:
            listed = [one.ref for one in self.store.list_manifests(limit=limit)]
            found = [ref for ref in listed if ref in wanted]
            if len(found) >= min(self.keep, len(wanted)) or len(listed) < limit:
                return frozenset(found[: self.keep])
            limit *= 2

    def _others(self, current: SnapshotRef) -> Sequence[Twin]:
        """Snapshots that were shown before, told by their manifests."""
        found: list[Twin] = []
        room = self.keep
        for ref in (one.ref for one in self.store.list_manifests()):
            if len(found) >= room:
                break
            if ref == current.ref:
                room -= 1
            if ref == current.ref or ref in self.going:
                continue
            try:
                meta, schema = build_meta_and_schema(self.store, ref)
            except (ManifestParseError, ManifestGone):
                continue
            record = record_in(meta.custom)
            if schema and record is not None and self._is_there(record) and not gate_failures(meta.custom):
                found.append(self._told(ref, meta, schema, record))
        return found[::-1]

    def _mended(self, one: Twin) -> Twin | None:
        """A snapshot that was shown before, and is whole or written again; None for one that can't be: it
        leads nowhere, so it is no tag."""
        if not any(damaged(self.place, [one.list_in(location_of(self.place))])):
            return one
        try:
            with closing(open_manifest(self.store, one.ref)) as connection:
                members = members_in(connection, self.place)
                meta = load_build_meta(connection)
                return None if members is None else self._twin(one.ref, meta, members, anew=True)
        except (LadingError, OSError):
            return None

    def _twin(self, ref: str, meta: BuildMeta, members: MemberStore, *, anew: bool) -> Twin:
        record = record_in(meta.custom)
        if anew or record is None or not self._is_there(record):
            record = self._written(meta, members, anew=anew)
        return self._told(ref, meta, members.schema, record)

    def _told(self, ref: str, meta: BuildMeta, schema: bytes, record: Record) -> Twin:
        path = f"{location_of(self.place)}/{record.list}"
        return twin(ref, meta, of_log(schema), record.snapshot, path)

    def _is_there(self, record: Record) -> bool:
        return record.location == location_of(self.place) and storage_of(self.place).has(record.list)

    def _written(self, meta: BuildMeta, members: MemberStore, *, anew: bool) -> Record:
        """The files of a snapshot that has none, or none here."""
        state, pages = members.meta, pages_of(members)
        shown = Shown(
            self.place, state.table_id, meta.run_id, state.sequence, state.schema, state.order_by, pages
        )
        return write_snapshot(shown, anew=anew)

    def _refuse_unsettled(self, current: SnapshotRef, members: MemberStore) -> None:
        schema_of(of_log(members.schema))  # what Iceberg has no word for is told before any part is opened
        wrong = count_unsettled(self.place, current.ref, members)
        if wrong:
            raise NotShown(
                f"{count_words(wrong, 'part')} of it hold columns in older types than the table's",
                hint=f"lading publish {members.meta.table} --release lets the next run write them again"
                if current.held
                else "the next publish writes them again",
            )
