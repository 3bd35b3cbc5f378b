"""Parts that a run wrote and no commit took up. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lading.format.table_manifest import bucket_key
from lading.model import Place
from lading.pipeline.parts import is_part_of
from lading.storage.place import Where, storage_of


def drop_orphans(
    table_dir: Where, run_id: str, buckets: Iterable[int] | None, *, is_live: Callable[[str], bool]
) -> int:
    """Delete this run's parts in `buckets` (None: in all) that aren't live; returns how many."""
    if isinstance(table_dir, Place):
        return _drop_objects(table_dir, run_id, buckets, is_live)
    dropped = 0
    folders = (
        table_dir.glob("bucket=*/")
        if buckets is None
        else (table_dir / f"bucket={bucket_key(bucket)}" for bucket in buckets)
    )
    for folder in folders:
        for file in folder.iterdir() if folder.is_dir() else ():
            if is_part_of(file.name, run_id) and not is_live(f"{folder.name}/{file.name}"):
                file.unlink(missing_ok=True)
                dropped += 1
    return dropped


def _drop_objects(
    place: Place, run_id: str, buckets: Iterable[int] | None, is_live: Callable[[str], bool]
) -> int:
    storage = storage_of(place)
    folders = (
        [name for name in storage.folders() if name.startswith("bucket=")]
        if buckets is None
        else [f"bucket={bucket_key(bucket)}" for bucket in buckets]
    )
    dropped = 0
    for folder in folders:
        for found in storage.list(folder):
            if is_part_of(found.name, run_id) and not is_live(found.name):
                storage.delete(found.name)
                dropped += 1
    return dropped
