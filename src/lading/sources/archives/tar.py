"""Tar files, packed with gzip or not, and single files packed with gzip.

Python's tarfile takes a damaged header in the middle for the end. Here an archive has to end with its
end mark and with nothing behind it, or it is refused: members that nobody saw would be rows that nobody
misses.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from lading.words import count_words

if TYPE_CHECKING:
    from lading.sources.archives.extract import Extraction

_HEADER = 1 << 20  # bytes that tarfile may ask for at once: headers with long names are far smaller
_KINDS = {
    tarfile.SYMTYPE: "a link",
    tarfile.LNKTYPE: "a link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
}


def unpack_tar(job: Extraction, archive: Path, kind: str, below: str, depth: int) -> None:
    with open(archive, "rb") as file:
        plain = cast(IO[bytes], gzip.GzipFile(fileobj=file) if kind == "tar.gz" else file)
        blocks = _Blocks(job, plain)
        with tarfile.open(fileobj=cast(IO[bytes], blocks), mode="r:") as opened:
            for info in opened:
                _unpack_member(job, opened, info, below, depth)
        blocks.check_end()


def unpack_gz(job: Extraction, archive: Path, below: str, depth: int) -> None:
    name = job.shown.rpartition("/")[2]
    name = job.entry(name[:-3] if name.lower().endswith(".gz") else name)
    with gzip.open(archive, "rb") as source:
        job.file(name, cast(IO[bytes], source), below, depth)


def _unpack_member(
    job: Extraction, opened: tarfile.TarFile, info: tarfile.TarInfo, below: str, depth: int
) -> None:
    name = job.entry(info.name)
    if info.isdir():
        return
    source = opened.extractfile(info) if info.isreg() else None
    if source is None:
        raise job.refused(f"is {_KINDS.get(info.type, 'of an unknown kind')}, not a file")
    if not name:
        raise job.refused("has no name")
    with source:
        size = job.file(name, source, below, depth)
    if size != info.size:
        raise job.refused(f"claims {count_words(info.size, 'byte')} but has {size:,}")


class _Blocks(io.RawIOBase):
    """The stream under tarfile: remembers its last block, and refuses to swallow a huge header."""

    def __init__(self, job: Extraction, stream: IO[bytes]) -> None:
        super().__init__()
        self._job = job
        self._stream = stream
        self._last = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _HEADER:
            raise self._job.refused(f"has a header of {size:,} bytes")
        self._last = self._stream.read(size)
        return self._last

    def check_end(self) -> None:
        if self._last != bytes(tarfile.BLOCKSIZE):
            raise self._job.refused("is cut off or damaged: the end marker of the archive is missing")
        while rest := self._stream.read(_HEADER):
            self._job.add_bytes(len(rest))
            if rest.strip(b"\0"):
                raise self._job.refused("is followed by data after the end of the archive")
