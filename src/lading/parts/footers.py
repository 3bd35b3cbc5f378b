"""Footers of files on this disk, kept for the next question: parsing one takes longer than finding a row.

A file is known by what the file system says of it (its number, size and time of change), so that one that
was replaced is read anew. What lies in a bucket isn't kept: nothing there tells a replaced object for free.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lading.model import Member, Place
from lading.parts.footer import FooterZones
from lading.parts.open import open_parquet
from lading.state.prune import may_match
from lading.state.zones import ZoneVector
from lading.storage.place import storage_of
from lading.where.bind import Predicate

_MOST = 1 << 16  # column chunks that the kept footers describe, some hundred bytes each

_Identity = tuple[int, int, int]


@dataclass
class OpenPart:
    """What one file says of itself."""

    metadata: pq.FileMetaData
    names: list[str]  # of its columns
    _zones: dict[str, ZoneVector | None] = field(default_factory=dict)
    _schema: pa.Schema | None = None  # the table's, that the zones are in terms of
    _rows: npt.NDArray[np.int64] | None = None

    @property
    def chunks(self) -> int:
        return max(1, int(self.metadata.num_columns * self.metadata.num_row_groups))

    def groups(self, where: Predicate, schema: pa.Schema) -> list[int]:
        """The row groups that a predicate on the table can't rule out."""
        if self._schema is None or not self._schema.equals(schema):
            self._schema, self._zones = schema, {}
        zones, footer = self._zones, None

        def load(column: str) -> ZoneVector | None:
            nonlocal footer
            if column not in zones:
                footer = footer or FooterZones(self.metadata, schema)
                zones[column] = footer.vector(column)
            return zones[column]

        if self._rows is None:
            self._rows = FooterZones(self.metadata, schema).rows
        return np.flatnonzero(may_match(where, load, self._rows)).tolist()


class Footers:
    """The footers read last; safe for many threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[_Identity, OpenPart]] = OrderedDict()
        self._chunks = 0
        self._lock = threading.Lock()

    def open(self, root: Place, member: Member) -> tuple[pq.ParquetFile, OpenPart]:
        folder = storage_of(root).folder
        if folder is None:
            file = open_parquet(root, member.path, member.bytes)
            return file, OpenPart(file.metadata, file.schema_arrow.names)
        path = os.path.join(folder, member.path)
        status = os.stat(path)
        identity = (status.st_ino, status.st_size, status.st_mtime_ns)
        with self._lock:
            kept, part = self._kept.get(path, (None, None))
        if part is not None and kept == identity:
            with self._lock:
                if path in self._kept:
                    self._kept.move_to_end(path)
            return pq.ParquetFile(path, metadata=part.metadata, memory_map=False), part
        file = open_parquet(root, member.path)
        part = OpenPart(file.metadata, file.schema_arrow.names)
        self._keep(path, identity, part)
        return file, part

    def _keep(self, path: str, identity: _Identity, part: OpenPart) -> None:
        with self._lock:
            _, old = self._kept.pop(path, (None, None))
            self._kept[path] = (identity, part)
            self._chunks += part.chunks - (old.chunks if old is not None else 0)
            while self._chunks > self._most and len(self._kept) > 1:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._chunks -= dropped.chunks


FOOTERS = Footers()
