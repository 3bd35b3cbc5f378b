"""What Iceberg readers are pointed at, looked at: is it what lading's readers see, and is it whole?

Metadata has a seal, and every other file its checksum in its name, so nothing has to be made anew to tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lading.iceberg.follow import where
from lading.iceberg.manifests import paths_in, read_list
from lading.iceberg.metadata import Twin, twins_in
from lading.iceberg.snapshot import damaged, is_of_deletes, location_of, record_in, whole
from lading.layout.table import VERSION_HINT
from lading.model import Place, SnapshotRef
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.place import storage_of


@dataclass(frozen=True, slots=True)
class Problem:
    file: str
    what: str
    waits: bool = False  # nothing is damaged: the next run mends it


def problems(store: ManifestStore, place: Place, current: SnapshotRef) -> Iterator[Problem]:
    """All that keeps Iceberg readers from seeing the snapshot `current`, or another that is a tag, unless
    none was ever shown."""
    at = where(place)
    if at is None:
        if record_in(build_meta(store, current.ref).custom) is not None:
            yield Problem(VERSION_HINT, "is missing: Iceberg readers see nothing", waits=True)
        return
    location = location_of(place)
    found = _twins(place, at.path)
    if found is None:
        if _twins(place, at.path, anywhere=True) is not None:
            yield Problem(at.path, "names the place where the table lay before it was moved", waits=True)
        else:
            yield Problem(at.path, "is missing, damaged, or written by someone else")
        return
    twins, shown = found
    main = next((one for one in twins if one.number == shown), None)
    if main is None or main.ref != current.ref:
        yield Problem(at.path, "shows another snapshot than readers see", waits=True)
        return
    lists = (one.list_in(location) for one in twins)
    yield from (Problem(file, "is missing or damaged") for file in damaged(place, lists))


def needed(place: Place, lists: Sequence[str]) -> set[str] | None:
    """Every file that these lists of manifests lead to, themselves included. None if one that is there can't
    be read: then nobody can tell what is needed."""
    location, storage = location_of(place), storage_of(place)
    found = set(lists)
    for name in lists:
        if not storage.has(name):
            continue  # it leads nowhere any more
        data = whole(place, name)
        listed = None if data is None else read_list(data)
        if listed is None:
            return None
        paths = [one.path.removeprefix(f"{location}/") for one in listed]
        found.update(paths)
        for path in filter(is_of_deletes, paths):
            manifest = whole(place, path)
            files = None if manifest is None else paths_in(manifest)
            if files is None:
                return None
            found |= {file.removeprefix(f"{location}/") for file in files}
    return found


def shown_lists(place: Place, refs: Collection[str]) -> list[str]:
    """The lists of manifests that the metadata of today names for these snapshots, and for what it shows."""
    at = where(place)
    found = None if at is None else _twins(place, at.path)
    if found is None:
        return []
    twins = [one for one in found[0] if one.ref in refs or one.number == found[1]]
    return [one.list_in(location_of(place)) for one in twins]


def shown_schemas(place: Place) -> list[Mapping[str, Any]]:
    """The schemas of all snapshots in the metadata of today."""
    at = where(place)
    found = None if at is None else _twins(place, at.path)
    return [] if found is None else [one.schema for one in found[0]]


def _twins(place: Place, path: str, *, anywhere: bool = False) -> tuple[Sequence[Twin], int] | None:
    try:
        return twins_in(storage_of(place).get(path), None if anywhere else location_of(place))
    except OSError:
        return None
