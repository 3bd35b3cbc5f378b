"""One snapshot as Iceberg's files: a manifest a page, one of deletes where it has any, and their list.

All of it is named by what it says (and by where the table lies: Iceberg's paths are absolute), so that what
the snapshot before has is used again and no content is ever replaced by another. Nobody reads these files
before some metadata names the list.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import xxhash

from lading.iceberg.avro import checksum, keys_of
from lading.iceberg.deletes import dead_rows, positions_file
from lading.iceberg.manifests import (
    Entries,
    Files,
    Former,
    Listed,
    manifest,
    manifest_list,
    paths_in,
    read_list,
)
from lading.iceberg.pages import Page
from lading.iceberg.types import schema_of, sort_order
from lading.layout.table import iceberg_list, iceberg_manifest, parse_iceberg, positions_path
from lading.log.table import log_of
from lading.model import Member, Place
from lading.parts.field_ids import of_log
from lading.storage.place import storage_of

_TOGETHER = 8 << 20  # bytes of files that are written at once
_READ_AGAIN = 8  # former manifests that are worth reading for each that is written anew


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot manifest says of its Iceberg twin."""

    snapshot: int
    location: str  # where the table lay
    list: str  # relative to it


def record_in(custom: dict[str, Any]) -> Record | None:
    """What a manifest says; None if it says nothing, or nothing that can be understood."""
    try:
        return msgspec.convert(custom.get("iceberg"), Record)
    except msgspec.ValidationError:
        return None


def location_of(place: Place) -> str:
    """The table's root as Iceberg names it, by a URL: some engines take no path for one."""
    return place.url.rstrip("/") if "://" in place.url else f"file://{os.path.abspath(place.url)}"


def snapshot_id(table_id: str, sequence: int, run_id: str) -> int:
    return int(xxhash.xxh3_64_intdigest(f"{table_id}/{sequence}/{run_id}".encode()) >> 1) or 1


@dataclass(frozen=True, slots=True)
class Shown:
    """A state that is to be shown."""

    place: Place
    table_id: str
    run_id: str
    sequence: int
    schema: bytes  # as the log carries it
    order_by: str | None
    pages: Sequence[Page]

    @property
    def snapshot(self) -> int:
        return snapshot_id(self.table_id, self.sequence, self.run_id)


def write_snapshot(shown: Shown, before: Record | None = None, *, anew: bool = False) -> Record:
    """All files of a snapshot. What `before`, a snapshot that was written earlier, has is used again; `anew`
    writes everything, whatever is there. NotShown if Iceberg has no word for a column."""
    writing = _Writing(shown)
    writing.remember(None if anew else before)
    data = manifest_list(list(writing.manifests()), shown.snapshot, shown.sequence)
    name = iceberg_list(shown.snapshot, checksum(data))
    writing.put(name, data)
    writing.flush()
    return Record(snapshot=shown.snapshot, location=writing.location, list=name)


def whole(place: Place, name: str) -> bytes | None:
    """The content of a list, a manifest or a file of positions; None unless it is there and what its name
    says."""
    told = parse_iceberg(name)
    try:
        data = storage_of(place).get(name)
    except OSError:
        return None
    return data if told is not None and checksum(data) == told.check else None


def damaged(place: Place, lists: Iterable[str]) -> Iterator[str]:
    """Of these lists of manifests and all files that they lead to, those that aren't what their names say.
    What several lead to is looked at once."""
    location, looked = location_of(place), set[str]()

    def once(paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            if path not in looked:
                looked.add(path)
                yield path

    for name in lists:
        data = whole(place, name)
        listed = None if data is None else read_list(data)
        if listed is None:
            yield name
        for path in once(one.path.removeprefix(f"{location}/") for one in listed or ()):
            content = whole(place, path)
            if content is None:
                yield path
            elif is_of_deletes(path):
                files = once(file.removeprefix(f"{location}/") for file in paths_in(content) or ())
                yield from (file for file in files if whole(place, file) is None)


def is_of_deletes(path: str) -> bool:
    """Whether it is a manifest of position deletes."""
    told = parse_iceberg(path)
    return told is not None and told.is_of_deletes


@dataclass(slots=True)
class _Writing:
    shown: Shown
    location: str = ""
    schema: pa.Schema = None
    entries: Entries = field(init=False)
    data: dict[str, Listed] = field(default_factory=dict)  # by page: manifests that are there
    deletes: dict[str, Listed] = field(default_factory=dict)
    former: Former = field(default_factory=Former)
    waiting: dict[str, bytes] = field(default_factory=dict)  # files to write

    def __post_init__(self) -> None:
        self.location = location_of(self.shown.place)
        self.schema = of_log(self.shown.schema) if self.shown.schema else pa.schema([])
        schema_of(self.schema)  # what Iceberg has no word for is told before anything is written
        order = sort_order(self.schema, self.shown.order_by)
        self.entries = Entries(self.schema, order["order-id"] if order is not None else None)

    def remember(self, before: Record | None) -> None:
        """What the snapshot `before` has, if it is whole and speaks of this place."""
        if before is None or before.location != self.location:
            return
        data = whole(self.shown.place, before.list)
        for one in (data is not None and read_list(data)) or ():
            told = parse_iceberg(one.path)
            if told is not None and one.path.startswith(f"{self.location}/"):
                (self.deletes if told.is_of_deletes else self.data)[told.of] = one

    def manifests(self) -> Iterable[Listed]:
        pages = [(page, _digest(self.location, page.name)) for page in self.shown.pages]
        wanted = {digest for _, digest in pages}
        new = len(wanted - self.data.keys())
        gone = [one for of in (self.data, self.deletes) for name, one in of.items() if name not in wanted]
        for one in gone[: new * _READ_AGAIN]:
            self._read_former(one)
        for page, digest in pages:
            yield from self._of_page(page, digest)

    def put(self, name: str, data: bytes) -> None:
        """A name says what the content is. One that is taken is written again, or made to look new: nobody
        refers to it, so cleaning may be about to take the old one away. Several are written together: they
        lie in one folder, which is then synced once, and nobody knows of any before `write_snapshot` ends."""
        self.waiting[name] = data
        if sum(map(len, self.waiting.values())) > _TOGETHER:
            self.flush()

    def flush(self) -> None:
        with log_of(self.shown.place).lock():  # or cleaning could take one away that was just found there
            storage_of(self.shown.place).put_same(self.waiting)
        self.waiting.clear()

    def _of_page(self, page: Page, digest: str) -> Iterable[Listed]:
        if (known := self.data.get(digest)) is not None:
            yield known
            if (more := self.deletes.get(digest)) is not None:
                yield more
            return
        yield self._written(digest, self._parts(page), deletes=False)
        minus = page.with_minus()
        if minus:
            yield self._written(digest, self._minus(page, [page.one(at) for at in minus]), deletes=True)

    def _written(self, digest: str, files: Files, *, deletes: bool) -> Listed:
        data = manifest(self.schema, files, self.former, deletes=deletes)
        name = iceberg_manifest(digest, checksum(data), deletes=deletes)
        self.put(name, data)
        return Listed.of(self._path(name), len(data), files, deletes=deletes)

    def _parts(self, page: Page) -> Files:
        def record(number: int) -> bytes:
            member = page.one(number)
            return self.entries.part(self._path(member.path), member)

        return Files(page.keys(), page.rows, record)

    def _minus(self, page: Page, members: Sequence[Member]) -> Files:
        names = [_digest(self._path(one.path), ",".join(map(str, one.minus))) for one in members]

        def record(number: int) -> bytes:
            part = self._path(members[number].path)
            positions = dead_rows(self.shown.place, members[number])
            data = positions_file(part, positions)
            name = positions_path(_digest(names[number], page.name), checksum(data))  # as fresh as the page
            self.put(name, data)
            return self.entries.deletes(self._path(name), len(positions), len(data), part)

        return Files(keys_of(names), sum(one.rows - one.live_rows for one in members), record)

    def _read_former(self, listed: Listed) -> None:
        """A manifest that no page has any more: most of its entries stand in those that took its place."""
        data = whole(self.shown.place, listed.path.removeprefix(f"{self.location}/"))
        if data is not None:
            self.former.add(data)

    def _path(self, path: str) -> str:
        """Absolute, as a part from elsewhere is already."""
        if path.startswith("/"):
            return f"file://{path}"
        return path if "://" in path else f"{self.location}/{path}"


def _digest(*told: str) -> str:
    return xxhash.xxh3_128_hexdigest("\0".join(told).encode("utf-8", "surrogateescape"))
