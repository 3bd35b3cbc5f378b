"""Where a table lies: a folder, or a place in a bucket.

A folder stays a path, so that nothing changes for tables on disk; a bucket is a `Place`, a plain value
that travels to Spark's workers. What is done in a place goes through one connection a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from lading.errors import ConfigError
from lading.model import Place, Root
from lading.storage.bucket import ObjectStorage

Where = Path | Place


def place(url: str, options: Mapping[str, str] | None = None, cache: Path | None = None) -> Place:
    """The place that a URL names; `options` as for ObjectStorage."""
    given = tuple(sorted((options or {}).items()))
    return Place(url.rstrip("/"), given, None if cache is None else str(cache))


def storage_of(place: Place) -> ObjectStorage:
    return _connected(place.url, place.options)


def located(place: Place, path: str) -> tuple[ObjectStorage, str]:
    """Where a member's file is: below the place, or at the URL that it was added under, reached with the
    same credentials."""
    if "://" not in path:
        return storage_of(place), path
    bucket, _, name = path.partition("://")[2].partition("/")
    return _connected(f"s3://{bucket}", place.options), name


def root_of(where: Where) -> Root:
    """What members' paths start from."""
    return where if isinstance(where, Place) else str(where)


def folder_of(where: Where) -> Path:
    """For what only a table in a folder can have done to it."""
    if isinstance(where, Place):
        raise ConfigError(
            f"{where.url} is in a bucket: this works on a table in a folder only",
            hint="copy the table to a folder and do it there",
        )
    return where


@lru_cache(maxsize=64)
def _connected(url: str, options: tuple[tuple[str, str], ...]) -> ObjectStorage:
    return ObjectStorage(url, dict(options))


def has_file(where: Where, path: str) -> bool:
    """Whether there is a file at `path`, relative to `where`."""
    if not isinstance(where, Place):
        return (where / path).exists()
    try:
        storage_of(where).head(path)
    except FileNotFoundError:
        return False
    return True


def drop_file(where: Where, path: str) -> None:
    """Remove the file at `path`, relative to `where`; one that isn't there is gone."""
    if isinstance(where, Place):
        storage_of(where).delete(path)
    else:
        (where / path).unlink(missing_ok=True)
