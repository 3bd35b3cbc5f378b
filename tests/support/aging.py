"""A table whose columns change while its parts stay: a real log, real parts and snapshots, no Spark and no run
around them. What a run would decide (which files are read again) is decided by the test."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from lading.log.table import Table
from lading.model import Commit, Member, Source
from lading.parts.fold import Fold, FoldSpec, fold_parts
from lading.parts.footer import Origin
from lading.parts.write import PartWriter
from lading.snapshots.publish import snapshot_payload
from lading.snapshots.stores.files import LocalStore
from lading.storage.place import place_of


def columns(**types: pa.DataType) -> pa.Schema:
    """Of a table ordered by `k`."""
    return pa.schema([("k", pa.int64()), *types.items(), ("_source", pa.int64())])


class Aging:
    """The table `t` in `folder`/t, under one schema after the other."""

    def __init__(self, folder: Path, **types: pa.DataType) -> None:
        self.folder = folder / "t"
        self.schema = columns(**types)
        self.table = Table.create(self.folder, "t")
        self._commit(schema=self.schema.serialize().to_pybytes(), order_by="k")

    def part(self, source: int | Sequence[int], k: Sequence[int], **values: Sequence[Any]) -> Member:
        """Rows of one source, or of a source a row, written under the columns of now."""
        numbers = [source] * len(k) if isinstance(source, int) else list(source)
        given: Mapping[str, Sequence[Any]] = {"k": k, "_source": numbers, **values}
        rows = {name: given.get(name, [None] * len(k)) for name in self.schema.names}
        writer = PartWriter(str(self.folder), 0, self.schema, self.origin(), path=None)
        writer.write(pa.table(rows, schema=self.schema))
        return writer.close()

    def add(self, *members: Member, remove: Sequence[str] = ()) -> None:
        read = {number: rows for member in members for number, rows in member.sources}
        self._commit(add=members, remove=tuple(remove), sources=tuple(map(_source, read.items())))

    def turn(self, *members: Member, minus: Sequence[tuple[str, Sequence[int]]] = (), **types: Any) -> None:
        """Other columns from now on; `members` were read again under them (`turned`)."""
        self.schema = columns(**types)
        schema = self.schema.serialize().to_pybytes()
        gone = tuple((path, tuple(numbers)) for path, numbers in minus)
        self._commit(add=members, minus=gone, schema=schema, order_by="k")

    def minus(self, *pairs: tuple[str, Sequence[int]]) -> None:
        self._commit(minus=tuple((path, tuple(numbers)) for path, numbers in pairs))

    def merge(self) -> None:
        """All parts as few, under the columns of now."""
        members = tuple(self.table.state.candidates(None))
        spec = FoldSpec(place_of(self.folder), self.origin(), self.table.state.schema)
        folded = fold_parts(Fold(0, members), spec)
        self._commit(add=tuple(folded), remove=tuple(member.path for member in members))

    def publish(self) -> str:
        """A snapshot of what the log holds; its run."""
        run_id = uuid.uuid4().hex
        payload = snapshot_payload("t", self.table, run_id)
        LocalStore(self.folder).publish(payload, run_id, sequence=self.table.state.sequence)
        return run_id

    def opened(self) -> Table:
        """As somebody else opens it."""
        return Table.open(self.folder)

    def origin(self) -> Origin:
        return Origin(self.table.table_id, uuid.uuid4().hex, "c", "k")

    def _commit(self, **edits: Any) -> None:
        now = datetime.now(UTC).isoformat()
        self.table.commit(Commit(uuid.uuid4().hex, uuid.uuid4().hex, now, "recipe", **edits))


def _source(read: tuple[int, int]) -> Source:
    number, rows = read
    return Source(number, f"{number}.csv", "h", "s", 1, 1, rows, False, uuid.uuid4().hex)
