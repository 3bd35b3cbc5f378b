"""An object as a file that can be read and sought."""

from __future__ import annotations

import io
import os
from typing import Any

from lading.storage.protocol import Storage


class RangedFile(io.RawIOBase):
    """Every read is one request; with `etag`, of that very object only."""

    def __init__(
        self, storage: Storage, name: str, size: int | None = None, *, etag: str | None = None
    ) -> None:
        self._storage = storage
        self._name = name
        self._size = storage.head(name).size if size is None else size
        self._etag = etag
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if length == 0:
            return b""
        data = self._storage.get_range(self._name, self._at, length, etag=self._etag)
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
