"""The files below a table's root that lading itself wrote, on disk or in a bucket, and taking one away.

On disk only regular files count that are reached from the root without a link. So no manifest, whatever
paths it names, can lead cleaning anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from lading.layout.table import CLEANED, MANIFESTS, RUNS, SHARD_TEMPORARY, Kind, kind_of, number_of
from lading.parts.footer import noted
from lading.parts.open import open_parquet
from lading.serve.shard_file import DDL
from lading.state.sqlite import MAGIC
from lading.storage.place import Where, storage_of
from lading.storage.protocol import Named

_FIRST_PAGE = 65_536  # bytes at most: it holds the schema


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that lading may have written: its name says so."""

    where: Where  # the root that it lies below
    path: str  # relative to it, with "/"
    kind: Kind
    bytes: int
    modified: datetime
    identity: str  # another one under the same name has another: an inode, an etag
    run_id: str | None = None  # by its folder, where that says so

    @property
    def number(self) -> int:
        """Of a log object or a checkpoint: its sequence."""
        number = number_of(self.path)
        assert number is not None  # of no other kind
        return number


def files_of(
    where: Where, folder: str = "", *, named: Callable[[str], bool] = lambda path: True
) -> Iterator[TableFile]:
    """Every candidate below `where`, in order of their names; with `folder`, only those below that. Only
    files that `named` takes by their paths are looked at."""
    storage = storage_of(where)

    def kind(path: str) -> tuple[Kind, str | None] | None:
        found = kind_of(path, in_bucket=storage.folder is None)
        return found if found is not None and found[0] in CLEANED else None

    for one in storage.list(folder, wanted=lambda path: kind(path) is not None and named(path)):
        found = kind(one.name)
        if found is not None:
            yield TableFile(where, one.name, found[0], one.size, one.modified, one.etag, found[1])


def delete(file: TableFile) -> bool:
    """Remove `file` if it still is the one that was found, and a folder of lading's that it leaves empty."""
    storage = storage_of(file.where)
    if not storage.delete_found(Named(file.path, file.bytes, file.identity, file.modified)):
        return False
    steps = file.path.split("/")[:-1]
    if file.kind in ("shard", "record") or steps[:1] in ([MANIFESTS], [RUNS]):
        while len(steps) > 1 and storage.drop_empty("/".join(steps)):
            steps.pop()
    return True


def is_shard_file(file: TableFile) -> bool:
    """Whether it is, once it is whole, the SQLite file that lading makes of a shard; anything else below a
    folder of shards is somebody else's."""
    if file.path.endswith(f"/{SHARD_TEMPORARY}"):
        return True
    try:
        first = (
            storage_of(file.where).get_range(file.path, 0, min(file.bytes, _FIRST_PAGE))
            if file.bytes
            else b""
        )
    except OSError:
        return False
    return first.startswith(MAGIC) and DDL.encode() in first


def part_origin(file: TableFile) -> tuple[str, str] | None:
    """Table id and run id from a Parquet file's footer; None if it has none or can't be read."""
    import pyarrow as pa

    try:
        with open_parquet(file.where, file.path, file.bytes) as opened:
            table_id, run_id = noted(opened.metadata, "table_id"), noted(opened.metadata, "run_id")
    except (pa.ArrowException, OSError):
        return None
    return None if table_id is None or run_id is None else (table_id, run_id)
