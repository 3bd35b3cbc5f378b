"""manifest.json on disk: loaded for inspection, replaced whole, rebuilt from the part files.

The file may be absent or behind: the log is the truth. Loading therefore opens no part and writing is
a plain replacement. Rebuilding trusts only what the part files themselves say, and imports pyarrow
only then, because everything else here must stay quick to import.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lading.errors import ManifestStoreError
from lading.layout.table import (
    PART_SUFFIX,
    TABLE_MANIFEST,
    TABLE_MANIFEST_TEMPORARY,
    bucket_folder,
    bucket_key_of,
)
from lading.log.table_manifest_text import (
    PartMeta,
    TableManifest,
    decode_manifest,
    encode_manifest,
    new_manifest,
    update_with_new_part,
)
from lading.model import Member
from lading.parts.footer import noted
from lading.storage.folder import modified_at
from lading.storage.place import Where, folder_of, storage_of
from lading.storage.protocol import Storage, SwapLost

# Microseconds a unit of a Parquet or Arrow timestamp, as (multiply, divide).
_MICROSECONDS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


def manifest_bytes(place: Where) -> bytes:
    """As it lies there, nothing if it doesn't."""
    return _whole(storage_of(place))[0]


def load_manifest(place: Where) -> TableManifest | None:
    """The manifest of the table at `place`, None when it has none. Opens no part."""
    path = f"{place}/{TABLE_MANIFEST}"
    try:
        data = storage_of(place).get(TABLE_MANIFEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ManifestStoreError(
            f"{path} can't be read: {error.strerror}", hint="check its permissions", file=path
        ) from error
    return decode_manifest(data, path)


def write_manifest(place: Where, manifest: TableManifest, extra: Mapping[str, Any] | None = None) -> None:
    """Replace manifest.json, creating the table's directory if need be; OSError when it can't be.

    The temporary file has one fixed name, as the layout prescribes: one writer a table at a time, see
    `replace_manifest`.
    """
    data = encode_manifest(manifest, extra)
    storage_of(place).put(TABLE_MANIFEST, data, beside=TABLE_MANIFEST_TEMPORARY)


def replace_manifest(
    place: Where, manifest: TableManifest, extra: Mapping[str, Any], *, mending: bytes | None = None
) -> None:
    """As `write_manifest`, while others that write it wait. One of a later sequence stays, unless its bytes
    are `mending`, which somebody found to be wrong: whoever was slower has nothing to add. Where nobody can
    be kept waiting it takes the place of the one that was looked at, and of no other: a request may arrive
    long after it was sent."""
    storage = storage_of(place)
    with storage.lock(TABLE_MANIFEST) as held:
        if held:
            wrong = mending is not None and _whole(storage)[0] == mending
            if wrong or _has_nothing_later(_end_of(storage), extra):
                write_manifest(place, manifest, extra)
            return
        while True:
            there, etag = _whole(storage)
            if there != mending and not _has_nothing_later(there, extra):
                return
            try:
                storage.swap(TABLE_MANIFEST, encode_manifest(manifest, extra), etag)
                return
            except SwapLost:
                continue


_LAST_WORDS = re.compile(rb'"table_id": "([^"]*)",\s*"sequence": (\d+)')
_ENOUGH = 1024  # bytes, for its last words


def _has_nothing_later(there: bytes, extra: Mapping[str, Any]) -> bool:
    """Whether what ends with `there` is of this state or before, of another table, or says nothing."""
    found = _LAST_WORDS.search(there[-_ENOUGH:])
    return found is None or found[1].decode() != extra["table_id"] or int(found[2]) <= extra["sequence"]


def _end_of(storage: Storage) -> bytes:
    """Of manifest.json, which is not read whole: there its last words are."""
    try:
        size = storage.head(TABLE_MANIFEST).size
        return storage.get_range(TABLE_MANIFEST, max(0, size - _ENOUGH), min(size, _ENOUGH)) if size else b""
    except FileNotFoundError:
        return b""


def _whole(storage: Storage) -> tuple[bytes, str | None]:
    try:
        return storage.get_with_etag(TABLE_MANIFEST)
    except FileNotFoundError:
        return b"", None


def manifest_of(table: str, members: Iterable[Member], *, created_at: str, updated_at: str) -> TableManifest:
    """The manifest that describes `members`, which come in the order they were added."""
    manifest = new_manifest(table)
    for member in members:
        part = PartMeta(
            path=_within_bucket(member.path, member.bucket),
            rows=member.rows,
            bytes=member.bytes,
            tick_min=member.tick_min,
            tick_max=member.tick_max,
            created_at=member.created_at,
        )
        update_with_new_part(manifest, member.bucket, part)
    # By bucket, not by history: the same state gives the same file.
    manifest.partitions = dict(sorted(manifest.partitions.items(), key=lambda item: item[1].bucket_id))
    manifest.created_at, manifest.updated_at = created_at, updated_at
    return manifest


def rebuild_manifest(table_dir: str | Path, table: str, order_by: str | None = None) -> TableManifest:
    """What the part files below `table_dir` say, buckets and parts in sorted order. Writes nothing.

    It can't know which parts were replaced: that is the log's to say. Links are not followed. A bucket has
    the key that its directory has, `7` for `bucket=7`: parts are found below `bucket=<key>`.
    """
    manifest = new_manifest(table)
    for bucket_dir in _sorted_entries(folder_of(table_dir)):
        key = bucket_key_of(bucket_dir.name)
        if key is None or not bucket_dir.is_dir(follow_symlinks=False):
            continue
        for file in _sorted_entries(Path(bucket_dir.path)):
            if file.name.endswith(PART_SUFFIX) and file.is_file(follow_symlinks=False):
                part = _part_from_footer(Path(file.path), order_by)
                update_with_new_part(manifest, int(key), part, key=key)
    return manifest


def _within_bucket(path: str, bucket: int) -> str:
    """`path`, which is relative to the table, as seen from the bucket's directory."""
    if posixpath.isabs(path):
        return path
    return posixpath.relpath(path, bucket_folder(bucket))


def _sorted_entries(folder: Path) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _part_from_footer(path: Path, order_by: str | None) -> PartMeta:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            tick_min, tick_max = _ticks(file, order_by)
            rows = file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise ManifestStoreError(
            f"{path} can't be read as Parquet: {error}",
            hint="restore the file or move it out of the bucket, then rebuild again",
            file=str(path),
        ) from error
    stat = path.stat()
    written = modified_at(stat).isoformat(timespec="microseconds")
    return PartMeta(path.name, rows, stat.st_size, tick_min, tick_max, written)


def _ticks(file: Any, order_by: str | None) -> tuple[int, int]:
    """Least and greatest tick: from the statistics, or from the column when they are missing."""
    import pyarrow as pa

    recorded = noted(file.metadata, "order_by")
    # A footer that records "no order column" (an empty text) settles it as well.
    column = recorded if recorded is not None else order_by or "tick"
    index = file.schema_arrow.get_field_index(column)
    if index < 0 or file.metadata.num_rows == 0:
        return 0, 0
    kind = file.schema_arrow.field(index).type
    if not (pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return 0, 0
    ranges = _statistics(file.metadata, column, kind)
    if ranges is None:
        return _scanned(file, column)
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _statistics(metadata: Any, column: str, kind: Any) -> list[tuple[int, int]] | None:
    """The range of each row group that has rows, None unless every one of them is known."""
    import pyarrow as pa

    leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == column]
    if len(leaves) != 1:
        return None
    scale = _parquet_scale(metadata.schema.column(leaves[0]), kind)
    if scale is None:
        return None
    multiply, divide = scale
    ranges = []
    for group in range(metadata.num_row_groups):
        if metadata.row_group(group).num_rows == 0:
            continue
        known = metadata.row_group(group).column(leaves[0]).statistics
        if known is None or not known.has_min_max:
            return None
        # The raw value of an unsigned integer is its signed twin; its logical value is right.
        low, high = (known.min, known.max) if pa.types.is_integer(kind) else (known.min_raw, known.max_raw)
        ranges.append((low * multiply // divide, high * multiply // divide))
    return ranges or None


def _parquet_scale(leaf: Any, kind: Any) -> tuple[int, int] | None:
    """How a stored value becomes a tick; None when its statistics can't be used."""
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return 1, 1
    if pa.types.is_date(kind):
        return (1, 1) if leaf.physical_type == "INT32" else None
    if leaf.physical_type != "INT64":
        return None
    # The file may store another unit than the Arrow schema shows (seconds are stored as milliseconds).
    logical = str(leaf.logical_type)
    for unit, name in (("ms", "milliseconds"), ("us", "microseconds"), ("ns", "nanoseconds")):
        if f"timeUnit={name}" in logical:
            return _MICROSECONDS[unit]
    return None


def _scanned(file: Any, column: str) -> tuple[int, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    least, greatest = None, None
    for batch in file.iter_batches(columns=[column]):
        bounds = pc.min_max(batch.column(batch.schema.get_field_index(column)))
        low, high = _tick(bounds["min"], pa), _tick(bounds["max"], pa)
        if low is not None and high is not None:
            least = low if least is None else min(least, low)
            greatest = high if greatest is None else max(greatest, high)
    return least or 0, greatest or 0


def _tick(scalar: Any, pa: Any) -> int | None:
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(scalar.type):
        multiply, divide = _MICROSECONDS[scalar.type.unit]
        return int(scalar.value * multiply // divide)
    if pa.types.is_date64(scalar.type):
        return int(scalar.value // 86_400_000)
    return int(scalar.value if pa.types.is_date32(scalar.type) else scalar.as_py())
