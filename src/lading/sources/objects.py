"""Source files that are objects in a bucket: listed there, copied here when they have to be read.

Spark has no S3 client of its own here, so what it reads are copies, under names that we choose: an
object's key is somebody else's word. A copy lives as long as the run that needs it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from lading.config.archives import ArchiveLimits
from lading.errors import SourceError
from lading.formats.source_file import SourceFile
from lading.model import FoundFile, Place
from lading.sources.fingerprint import FIRST_NS, LAST_NS, place_spot
from lading.sources.glob import compile_glob
from lading.storage.folder import make_dirs
from lading.storage.place import storage_of
from lading.storage.protocol import Named

_THREADS = 4
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Objects:
    """The objects of one table. `folder` is where their copies go."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._storage = storage_of(place)
        self._folder = folder
        self._etags: dict[str, str] = {}  # by key, as they were listed

    @property
    def url(self) -> str:
        return self._storage.url

    def discover(self, pattern: str) -> list[FoundFile]:
        """Every object whose key matches the glob, sorted by key. Nothing is fetched."""
        matches = compile_glob(pattern).match
        found = []
        spot = place_spot(self.url)
        for one in self._listed():
            if not matches(one.name):
                continue
            modified = (one.modified - _EPOCH).total_seconds()
            self._etags[one.name] = one.etag
            mark = f"etag:{one.etag.strip(chr(34))}_size:{one.size}"
            found.append(
                FoundFile(
                    one.name,
                    self._copy_of(one.name, mark),
                    one.size,
                    min(max(round(modified * 1_000_000_000), FIRST_NS), LAST_NS),
                    False,
                    fingerprint=mark,
                    spot=spot,
                )
            )
        return found

    def _listed(self) -> list[Named]:
        try:
            return list(self._storage.list())
        except FileNotFoundError:
            raise SourceError(
                f"the root {self.url} does not exist",
                hint="check `root` in lading.yaml and the bucket name; no rows were retracted",
                file=self.url,
            ) from None

    def fetch(self, files: Sequence[FoundFile], tick: Callable[[int], None] | None = None) -> None:
        """Copy those that aren't here yet. A copy is named after its ETag, so it never is an old one."""
        wanted = [file for file in files if not os.path.exists(file.path)]
        if not wanted:
            return
        make_dirs(self._folder)
        with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="lading-fetch") as pool:
            for file, _ in zip(wanted, pool.map(self._fetch, wanted), strict=True):
                if tick is not None:
                    tick(file.size)

    def source_file(self, found: FoundFile, limits: ArchiveLimits) -> SourceFile:
        """An object as a task opens it: by ranges, and only if it is still the one that was found."""
        return SourceFile(found.key, found.key, found.size, self._place, self._etags[found.key], limits)

    def unmoved(self, found: FoundFile) -> bool:
        """Whether the object still is what discovery saw."""
        try:
            head = self._storage.head(found.key)
        except FileNotFoundError:
            return False
        return f"etag:{head.etag.strip(chr(34))}_size:{head.size}" == found.fingerprint

    def drop(self) -> None:
        """Remove all copies: they have been read."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _fetch(self, found: FoundFile) -> None:
        copy = Path(found.path)
        try:
            self._storage.download(found.key, copy)
        except FileNotFoundError:
            raise self._moved(found) from None
        except OSError as error:
            raise SourceError(
                f"{found.key} can't be copied to {self._folder}: {error.strerror or error}",
                hint="check the cache folder's free space and permissions, then run again",
                file=found.key,
            ) from error
        if not self.unmoved(found):
            copy.unlink(missing_ok=True)
            raise self._moved(found)

    def _moved(self, found: FoundFile) -> SourceError:
        return SourceError(
            f"{self.url}/{found.key} changed while it was being copied",
            hint="run again; nothing was committed",
            file=found.key,
        )

    def _copy_of(self, key: str, mark: str) -> str:
        suffix = os.path.splitext(key)[1]
        name = hashlib.sha256(f"{key}\0{mark}".encode()).hexdigest()[:32]
        return f"{self._folder}/{name}{suffix if _SUFFIX.fullmatch(suffix) else ''}"
