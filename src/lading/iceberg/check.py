"""What Iceberg readers are pointed at, looked at: is it what lading's readers see, and is it whole?

Every list of manifests notes their checksums, and every snapshot manifest that of its list, so nothing has
to be made anew to tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lading.iceberg.avro import checksum, read_blocks
from lading.iceberg.deletes import dead_rows
from lading.iceberg.follow import where
from lading.iceberg.manifests import Listed, paths_in, read_list
from lading.iceberg.metadata import Twin, twins_in
from lading.iceberg.snapshot import location_of, positions_name, record_in
from lading.layout.table import VERSION_HINT
from lading.model import Member, Place, SnapshotRef
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.place import storage_of
from lading.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class Problem:
    file: str
    what: str


def problems(
    store: ManifestStore, place: Place, current: SnapshotRef, members: Sequence[Member]
) -> Iterator[Problem]:
    """All that keeps Iceberg readers from seeing the snapshot `current`, whose members these are."""
    at = where(place)
    if at is None:
        yield Problem(VERSION_HINT, "is missing: Iceberg readers see nothing")
        return
    location, storage = location_of(place), storage_of(place)
    found = _twins(storage, at.path, location)
    if found is None:
        yield Problem(at.path, "is missing, damaged, or written by someone else")
        return
    twins, shown = found
    main = next((one for one in twins if one.number == shown), None)
    if main is None or main.ref != current.ref:
        yield Problem(at.path, "shows another snapshot than readers see")
        return
    record = record_in(build_meta(store, current.ref).custom)
    name = str(main.snapshot["manifest-list"]).removeprefix(f"{location}/")
    data = _content(storage, name)
    noted = record.check if record is not None and record.list == name else None
    if data is None or (noted is not None and checksum(data) != noted):
        yield Problem(name, "is missing or damaged")
        return
    for listed in read_list(data):
        path = listed.path.removeprefix(f"{location}/")
        if not _is_whole(storage, path, listed):
            yield Problem(path, "is missing or damaged")
    for member in members:
        if member.minus and not _hides(storage, place, member):
            yield Problem(positions_name(location, member), "is missing or damaged")


def needed(place: Place, lists: Sequence[str]) -> set[str] | None:
    """Every file that these lists of manifests lead to, themselves included. None if one can't be read:
    then nobody can tell what is needed."""
    location, storage = location_of(place), storage_of(place)
    found = set(lists)
    for name in lists:
        data = _content(storage, name)
        if data is None:
            continue  # it leads nowhere any more
        listed = read_list(data)
        if not listed and read_blocks(data) is None:
            return None
        for one in listed:
            path = one.path.removeprefix(f"{location}/")
            found.add(path)
            if one.is_of_deletes:
                manifest = _content(storage, path)
                deletes = None if manifest is None or checksum(manifest) != one.check else paths_in(manifest)
                if deletes is None:
                    return None
                found |= {file.removeprefix(f"{location}/") for file in deletes}
    return found


def shown_lists(place: Place, refs: Collection[str]) -> list[str]:
    """The lists of manifests that the metadata of today names for these snapshots, and for what it shows."""
    at = where(place)
    found = None if at is None else _twins(storage_of(place), at.path, location_of(place))
    if found is None:
        return []
    location = location_of(place)
    twins = [one for one in found[0] if one.ref in refs or one.number == found[1]]
    return [str(one.snapshot["manifest-list"]).removeprefix(f"{location}/") for one in twins]


def _twins(storage: Storage, path: str, location: str) -> tuple[list[Twin], int] | None:
    data = _content(storage, path)
    return None if data is None else twins_in(data, location)


def _content(storage: Storage, name: str) -> bytes | None:
    try:
        return storage.get(name)
    except OSError:
        return None


def _is_whole(storage: Storage, path: str, listed: Listed) -> bool:
    data = _content(storage, path)
    return data is not None and checksum(data) == listed.check


def _hides(storage: Storage, place: Place, member: Member) -> bool:
    """Whether the part's file of positions names its dead rows."""
    location = location_of(place)
    data = _content(storage, positions_name(location, member))
    if data is None:
        return False
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError):
        return False
    return bool(table.column("pos").combine_chunks().equals(dead_rows(place, member)))
