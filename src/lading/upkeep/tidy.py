"""Tidying up after a run: what it wrote itself and nothing took up.

A part's name is given once, by one run, so what this run wrote and neither committed nor published nobody
else can know: it may go at once. All that it did commit is left to cleaning, however soon others replace
it: a snapshot, a checkpoint or a run under way may still have it, and the log can't tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lading.layout.table import QUARANTINE, bucket_folder, is_part_of
from lading.log.table import Table
from lading.upkeep.clean.files import delete, files_of


def tidy(table: Table, run_id: str, kept: Collection[str], buckets: Iterable[int] | None) -> int:
    """Delete what a run wrote into `buckets` (None: into any) and set aside, and did not keep: lost attempts,
    parts of moved files, and all of them when it failed before its commit. How many files that were."""
    folders = [""]
    if buckets is not None:
        folders = [*map(bucket_folder, sorted(buckets)), QUARANTINE]

    def lost(path: str) -> bool:
        return is_part_of(path, run_id) and path not in kept

    return sum(delete(file) for folder in folders for file in files_of(table.place, folder, named=lost))
