"""A file's size and SHA-256, read where it lies: once through, never whole in memory."""

from __future__ import annotations

import hashlib
import os

from lading.model import Place
from lading.storage.place import Where, storage_of

_CHUNK = 8 << 20


def sha256_of(where: Where, path: str) -> tuple[int, str]:
    """Of the file at `path` below `where`; FileNotFoundError if there is none."""
    if isinstance(where, Place):
        storage = storage_of(where)
        found = storage.head(path)
        digest = hashlib.sha256()
        for start in range(0, found.size, _CHUNK):
            length = min(_CHUNK, found.size - start)
            digest.update(storage.get_range(path, start, length, etag=found.etag))
        return found.size, digest.hexdigest()
    with open(where / path, "rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
