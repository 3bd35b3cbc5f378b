"""Tidying up after a run: what it wrote itself and nothing took up.

A part's name is given once, by one run, so what this run wrote and neither committed nor published nobody
else can know: it may go at once. All that it did commit is left to cleaning, however soon others replace
it: a snapshot, a checkpoint or a run under way may still have it, and the log can't tell.
"""

from __future__ import annotations

from collections.abc import Iterable

from lading.ingest.work import Read, Work
from lading.layout.table import QUARANTINE, bucket_folder, is_part_of
from lading.model import Commit
from lading.upkeep.clean.files import delete, files_of


def tidy(work: Work, buckets: Iterable[int] | None) -> int:
    """Delete what this run wrote into `buckets` (None: into any) and set aside, and did not keep; how many
    files that were."""
    folders = [""]
    if buckets is not None:
        folders = [*map(bucket_folder, sorted(buckets)), QUARANTINE]

    def lost(path: str) -> bool:
        return is_part_of(path, work.run_id) and path not in work.kept

    return sum(delete(file) for folder in folders for file in files_of(work.table.place, folder, named=lost))


def drop_losers(work: Work, commit: Commit | None, read: Read | None = None) -> None:
    """Parts that this run wrote and no commit took up: lost attempts, parts of moved files, and all of
    them when the run failed before its commit."""
    buckets = {member.bucket for member in commit.add} if commit is not None else None
    if buckets is not None and read is not None:
        buckets |= read.buckets
    tidy(work, buckets)
