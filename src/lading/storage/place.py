"""From a place to its storage: the one file that knows which kind of storage a place has.

A place is a plain value; what is done there goes through one connection a process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from lading.errors import ConfigError
from lading.model import Place
from lading.storage.folder import FolderStorage
from lading.storage.protocol import Storage

Where = Place | str | os.PathLike[str]  # a place, as a caller may name it


def place(url: str, options: Mapping[str, str] | None = None, cache: Path | None = None) -> Place:
    """The place that a URL names; `options` are those of S3, and count only there."""
    given = tuple(sorted((options or {}).items())) if url.startswith("s3://") else ()
    return Place(url.rstrip("/"), given, None if cache is None else str(cache))


def place_of(where: Where) -> Place:
    """The place that a path names; a place is one already. A URL is one in a bucket, and never a folder
    called `s3:`."""
    if isinstance(where, Place):
        return where
    path = os.fspath(where)
    return place(path) if "://" in path else Place(path)


def storage_of(where: Where) -> Storage:
    at = place_of(where)
    return _connected(at.url, at.options)


def located(where: Where, path: str) -> tuple[Storage, str]:
    """Where a member's file is: below the place, or at the path or URL that it was added under, reached with
    the same credentials."""
    storage = storage_of(where)
    if storage.folder is not None or "://" not in path:
        return storage, path
    scheme, _, rest = path.partition("://")
    bucket, _, name = rest.partition("/")
    return _connected(f"{scheme}://{bucket}", place_of(where).options), name


def folder_of(where: Where) -> Path:
    """For what only a table in a folder can have done to it."""
    folder = storage_of(where).folder
    if folder is None:
        raise ConfigError(
            f"{where} is in a bucket: this works only on a table in a folder",
            hint="copy the table to a folder and do it there",
        )
    return folder


def last_step(place: Place) -> str:
    """What a table or collection there is called."""
    path = place.url if "://" in place.url else os.path.abspath(place.url)
    return path.rsplit("/", 1)[-1]


@lru_cache(maxsize=64)
def _connected(url: str, options: tuple[tuple[str, str], ...]) -> Storage:
    if "://" not in url:
        return FolderStorage(url)
    from lading.storage.bucket import ObjectStorage  # late: most places are folders

    return ObjectStorage(url, dict(options))
