"""A source file as whoever reads it opens it: a path, an object in a bucket, or a member of an archive that
has to be unpacked first. Travels to Spark's workers.

Bytes are digested on their way: a reader that goes through the file from its start to its end, as most do,
has paid for the SHA-256 along with it.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any, cast

from lading.config.archives import ArchiveLimits
from lading.errors import SourceError
from lading.formats.opening import BLOCK, compression, unpacked
from lading.model import Place
from lading.storage.place import storage_of
from lading.storage.protocol import Replaced
from lading.storage.ranged import RangedFile


class Gone(SourceError):
    """The file is not where it was found, or not on this machine: only who found it can tell."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{key} vanished while the table was being read",
            hint="run again; nothing was committed",
            file=key,
        )


@dataclass(slots=True)
class SourceFile:
    """One file of a table. `path` is a file's, or the name of an object below `place`; of a file that is
    `made` when it is needed, it says what the file would be called."""

    key: str
    path: str
    size: int
    place: Place | None = None
    etag: str | None = None
    limits: ArchiveLimits = field(default_factory=ArchiveLimits)
    # Makes the file, and says its path on this machine. May hold a password: never shown.
    made: Callable[[], str] | None = field(default=None, repr=False)
    sha256: str | None = None  # once a stream has gone through all of its bytes

    @property
    def compression(self) -> str | None:
        return compression(self.path)

    @property
    def local(self) -> str | None:
        """Where the file lies on this machine; None for an object."""
        if self.made is not None:
            return self.made()
        return self.path if self.place is None else None

    def open(self, start: int = 0) -> IO[bytes]:
        """Its content from byte `start` on, decompressed when its suffix says so (then `start` must be 0)."""
        if self.compression is not None:
            assert start == 0, "a compressed file is read from its start"
            return unpacked(self.open_raw(), self.compression, self.size, self.limits)
        return self.open_raw(start)

    def open_raw(self, start: int = 0) -> IO[bytes]:
        """Its bytes as they are, one after the other."""
        return cast(IO[bytes], io.BufferedReader(_Digesting(self, self._raw(), start), BLOCK))

    def seekable(self) -> IO[bytes]:
        """Its bytes as they are, for readers that jump about in them."""
        return cast(IO[bytes], self._raw())

    def on_disk(self) -> str | None:
        """Where it lies on this machine, and really does; None for an object."""
        path = self.local
        if path is not None and not os.path.exists(path):
            raise Gone(self.key)
        return path

    def digest(self) -> str:
        """The SHA-256 of its bytes, which are read (again) if no stream went through them."""
        if self.sha256 is None:
            with self.open_raw() as raw:
                while raw.read(BLOCK):
                    pass
        assert self.sha256 is not None
        return self.sha256

    def _raw(self) -> Any:
        path = self.local
        if path is None:
            return _Object(self)
        try:
            return open(path, "rb", buffering=0)
        except FileNotFoundError:
            raise Gone(self.key) from None


class _Object(RangedFile):
    """Bytes of an object, as long as it is the one that was found."""

    def __init__(self, file: SourceFile) -> None:
        assert file.place is not None
        super().__init__(storage_of(file.place), file.path, file.size, etag=file.etag)
        self._key = file.key

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except FileNotFoundError:
            raise Gone(self._key) from None
        except Replaced:
            raise SourceError(
                f"{self._key} changed while it was being read",
                hint="run again; nothing was committed",
                file=self._key,
            ) from None


class _Digesting(io.RawIOBase):
    """Bytes of a file; tells it their SHA-256 when all of them went by."""

    def __init__(self, file: SourceFile, raw: Any, start: int) -> None:
        super().__init__()
        self._file = file
        self._raw = raw
        self._sha256 = hashlib.sha256() if start == 0 and file.sha256 is None else None
        if start:
            raw.seek(start, os.SEEK_SET)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = int(self._raw.readinto(buffer))
        if self._sha256 is not None:
            if count:
                self._sha256.update(memoryview(buffer)[:count])
            elif len(buffer):
                self._file.sha256, self._sha256 = self._sha256.hexdigest(), None
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
