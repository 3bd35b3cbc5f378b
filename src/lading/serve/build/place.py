"""Where a run's shards go: `<prefix>/run_id=<run>/db=00003/attempt=00/shard.db`, on disk or in a bucket.

Every attempt has a folder of its own, claimed before anything is written, so two tasks that build the
same shard never touch the same file, and what lost is told by not being listed anywhere.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lading.layout.table import (
    ANY_ATTEMPT,
    SHARD,
    SHARD_TEMPLATE,
    SHARD_TEMPORARY,
    SHARDS,
    attempt_folder,
    shards_of_run,
)
from lading.snapshots.manifest import ShardMeta
from lading.storage.bucket import ObjectStorage
from lading.storage.folder import fsync_dir, make_dirs
from lading.storage.temporary import temporary_folder

_ASKING = 16  # questions to a bucket at a time


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt's place: build the file at `path`, then `keep` it."""

    db_url: str
    attempt: int
    path: Path


@dataclass(frozen=True)
class ShardPlace:
    """Below the table's own folder, or below `url` (s3://…) when its manifests lie there."""

    table_dir: str
    run_id: str
    prefix: str = SHARDS
    template: str = SHARD_TEMPLATE
    url: str | None = None
    options: dict[str, str] = field(default_factory=dict, repr=False)  # may hold keys: never shown

    def claim(self, db_id: int, attempt: int) -> Claim:
        """A folder that nobody has: numbered by Spark's attempt, or the next number that is free."""
        while True:
            name = attempt_folder(f"{self._run}/{self.template.format(db_id=db_id)}", attempt)
            if self.url is not None:
                folder = Path(tempfile.mkdtemp(prefix="lading-shard-", dir=temporary_folder()))
                return Claim(name, attempt, folder / SHARD)
            folder = Path(self.table_dir, name)
            make_dirs(folder.parent)
            try:
                folder.mkdir()
            except FileExistsError:
                attempt += 1
                continue
            fsync_dir(folder.parent)
            return Claim(name, attempt, folder / SHARD_TEMPORARY)

    def keep(self, claim: Claim) -> tuple[str, int]:
        """Give a finished, durable file its name; the shard's db_url and attempt."""
        if self.url is None:
            os.rename(claim.path, claim.path.with_name(SHARD))
            fsync_dir(claim.path.parent)
            return claim.db_url, claim.attempt
        storage, attempt = ObjectStorage(self.url, self.options), claim.attempt
        try:
            while True:
                name = attempt_folder(claim.db_url.rpartition("/")[0], attempt)
                try:
                    storage.upload(f"{name}/{SHARD}", claim.path)
                    return f"{storage.url}/{name}", attempt
                except FileExistsError:
                    attempt += 1
        finally:
            shutil.rmtree(claim.path.parent, ignore_errors=True)

    def give_up(self, claim: Claim) -> None:
        shutil.rmtree(claim.path.parent, ignore_errors=True)

    def existing(self, shards: Sequence[ShardMeta]) -> tuple[ShardMeta, ...]:
        """Those of an older snapshot's shards that are still there, as long as they were."""
        storage = ObjectStorage(self.url, self.options) if self.url is not None else None

        def is_there(shard: ShardMeta) -> bool:
            url = shard.db_url or ""
            try:
                if "://" not in url:
                    return Path(self.table_dir, url, SHARD).stat().st_size == shard.db_bytes
                if storage is None or not url.startswith(f"{storage.url}/"):
                    return False
                name = url.removeprefix(f"{storage.url}/")
                return storage.head(f"{name}/{SHARD}").size == shard.db_bytes
            except FileNotFoundError:
                return False

        with ThreadPoolExecutor(_ASKING) as pool:
            return tuple(one for one, there in zip(shards, pool.map(is_there, shards), strict=True) if there)

    def drop_losers(self, winners: Collection[str]) -> int:
        """Delete what this run wrote and none of its manifests lists: `winners` are the db_urls that one
        does."""
        return self._drop_objects(winners) if self.url is not None else self._drop_folders(winners)

    @property
    def _run(self) -> str:
        return shards_of_run(self.prefix, self.run_id)

    def _drop_folders(self, winners: Collection[str]) -> int:
        root, dropped = Path(self.table_dir), 0
        for folder in sorted((root / self._run).glob(ANY_ATTEMPT)):
            if folder.relative_to(root).as_posix() not in winners:
                shutil.rmtree(folder, ignore_errors=True)
                dropped += 1
        for folder in (*(root / self._run).glob("*/"), root / self._run):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        return dropped

    def _drop_objects(self, winners: Collection[str]) -> int:
        storage, dropped = ObjectStorage(self.url or "", self.options), 0
        for found in storage.list(f"{self._run}/"):
            if f"{storage.url}/{found.name.rpartition('/')[0]}" not in winners:
                storage.delete(found.name)
                dropped += 1
        return dropped
