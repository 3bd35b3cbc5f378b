"""Telling whether a file changed: by its metadata, which is free, or by its bytes, which is certain.

The fast fingerprint is the seed's: `mtime:<st_mtime>_size:<bytes>` exactly as `os.stat` gives them.
The digest is taken of every file that is read, in one pass that also finds bytes which are not
UTF-8: Spark would quietly read those as replacement characters.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import xxhash

from lading.errors import SourceError
from lading.formats.opening import READ_ERRORS, compression, open_plain, unreadable
from lading.model import Digest, FoundFile

CHUNK = 1 << 20

# Futures are made for so many files at a time, so that memory doesn't grow with the table.
_BATCH = 2_048


# The first and the last moment that the log can hold, in nanoseconds: in the years 1677 and 2262.
FIRST_NS, LAST_NS = -(2**63), 2**63 - 1


def time_ns(st: os.stat_result) -> int:
    """A file's time. File systems know times that 64 bits of nanoseconds don't: such a file counts as of
    the first or the last moment, and since its time tells nothing, as racy."""
    return min(max(st.st_mtime_ns, FIRST_NS), LAST_NS)


def fast_fingerprint(st: os.stat_result) -> str:
    return f"mtime:{st.st_mtime}_size:{st.st_size}"


def digest(path: str, *, utf8: bool, text: bool = False) -> Digest:
    """SHA-256 of the file's bytes and, on request, the line of the first byte that isn't UTF-8.

    A compressed file is hashed as it lies there and, if it is `text`, read to its end: whether it can be,
    and within bounds, is known before Spark tries.
    """
    try:
        packed = compression(path) is not None
        with open(path, "rb", buffering=0) as file:
            sha256, size, bad = _hashed(file, utf8=utf8 and not packed)
        if packed and (utf8 or text):
            with open_plain(path) as plain:
                bad = _first_bad_byte(plain) if utf8 else None
                while plain.read(CHUNK):
                    pass
        line = None if bad is None else _line_of(path, bad)
    except READ_ERRORS as error:
        raise unreadable(path, error) from error
    return Digest(sha256=sha256, size=size, bad_utf8_line=line)


def digest_all(
    files: Sequence[FoundFile],
    *,
    utf8: bool,
    text: bool = False,
    threads: int = 4,
    tick: Callable[[int], None] | None = None,
) -> dict[str, Digest]:
    """Digests by key. `tick` gets the bytes of each finished file, in the caller's thread."""
    digests: dict[str, Digest] = {}
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="lading-digest") as pool:
        for start in range(0, len(files), _BATCH):
            batch = files[start : start + _BATCH]
            values = pool.map(lambda f: digest(f.path, utf8=utf8, text=text), batch)
            for found, value in zip(batch, values, strict=True):
                digests[found.key] = value
                if tick is not None:
                    tick(value.size)
    return digests


def unmoved(found: FoundFile) -> bool:
    """Whether the file still has the size and mtime that discovery saw."""
    try:
        stat = os.stat(found.path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise SourceError(
            f"{found.path} can't be checked again: {error.strerror}",
            hint="make it readable, then run again",
            file=found.key,
        ) from error
    return stat.st_size == found.size and time_ns(stat) == found.mtime_ns


def _hashed(file: IO[bytes], *, utf8: bool) -> tuple[str, int, int | None]:
    """SHA-256, size and offset of the first byte that isn't UTF-8."""
    sha = hashlib.sha256()
    check = _Utf8Check() if utf8 else None
    size = 0
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        sha.update(view[:count])
        size += count
        if check is not None and check.bad is None:
            check.feed(bytes(view[:count]))
    return sha.hexdigest(), size, check.finish() if check is not None else None


def _first_bad_byte(plain: IO[bytes]) -> int | None:
    check = _Utf8Check()
    while check.bad is None and (chunk := plain.read(CHUNK)):
        check.feed(chunk)
    return check.finish()


class _Utf8Check:
    """Incremental validation; `bad` is the offset of the first byte that doesn't decode."""

    def __init__(self) -> None:
        self.bad: int | None = None
        self._seen = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, chunk: bytes) -> None:
        pending: bytes = self._decoder.getstate()[0]
        if pending or not chunk.isascii():
            self._decode(chunk, pending, final=False)
        self._seen += len(chunk)

    def finish(self) -> int | None:
        if self.bad is None:
            self._decode(b"", self._decoder.getstate()[0], final=True)
        return self.bad

    def _decode(self, chunk: bytes, pending: bytes, *, final: bool) -> None:
        try:
            self._decoder.decode(chunk, final)
        except UnicodeDecodeError as error:
            self.bad = self._seen - len(pending) + error.start


def _line_of(path: str, offset: int) -> int:
    """1-based line of a byte; a line ends with LF, CR LF or CR, as in Spark's reader."""
    lines, left, last = 1, offset, b""
    with open_plain(path) as plain:
        while left > 0 and (chunk := plain.read(min(CHUNK, left))):
            lines += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n")
            if last == b"\r" and chunk[:1] == b"\n":
                lines -= 1
            last = chunk[-1:]
            left -= len(chunk)
    return lines


# By what /proc/self/mountinfo calls them.
_NO_INODES = ("fuse", "cifs", "smb", "9p", "vfat", "exfat", "msdos")


class Spots:
    """For one listing: file systems are asked about once."""

    def __init__(self) -> None:
        self._types: dict[str, str] | None = None
        self._devices: dict[int, tuple[str, bool]] = {}

    def folder(self, real: str, device: int) -> tuple[int, bool]:
        """The spot of a folder, and whether those of its files are told apart by it ^ inode."""
        known = self._devices.get(device)
        if known is None:
            known = self._devices[device] = self._device(device)
        shown, inodes = known
        return xxhash.xxh3_64_intdigest(f"{real}\0{shown}".encode("utf-8", "surrogateescape")), inodes

    def file(self, real: str, stat: os.stat_result) -> int:
        """The spot of a single file."""
        folder, inodes = self.folder(os.path.dirname(real), stat.st_dev)
        return folder ^ stat.st_ino if inodes else folder

    def _device(self, device: int) -> tuple[str, bool]:
        """What a spot says of it, which is nothing when it is numbered by mount; whether its inodes count."""
        if self._types is None:
            self._types = _file_systems()
        shown = f"{os.major(device)}:{os.minor(device)}"
        inodes = not self._types.get(shown, "").startswith(_NO_INODES)
        return shown if os.major(device) else "", inodes


def place_spot(url: str) -> int:
    """Of objects in a bucket: all of a table's have the same, since their ETags tell them apart."""
    return xxhash.xxh3_64_intdigest(url.encode())


def joined_spot(spots: Sequence[int]) -> int:
    """Of several files together; not known unless each of them is."""
    return xxhash.xxh3_64_intdigest(array("Q", spots).tobytes()) if all(spots) else 0


def is_elsewhere(spot: int, before: int) -> bool:
    """Whether both are known, and differ."""
    return spot != before and spot != 0 and before != 0


def _file_systems() -> dict[str, str]:
    """Types by device, as Linux tells them; none elsewhere."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            lines = [line.split() for line in mounts]
    except OSError:
        return {}
    return {words[2]: words[words.index("-") + 1] for words in lines if "-" in words[6:-1]}


def source_id(key: str) -> int:
    """xxh3_64 of the key's UTF-8 bytes, seed 0, as a signed 64-bit integer."""
    unsigned = xxhash.xxh3_64_intdigest(key.encode())
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned


def check_collisions(keys: Iterable[str]) -> None:
    """Refuse two files with one key, and two keys with one id."""
    holders: dict[int, str] = {}
    for key in keys:
        source = source_id(key)
        other = holders.setdefault(source, key)
        if other is key:
            continue
        if other == key:
            raise SourceError(
                f"two source files have the key {key!r}",
                hint="a key is the path below the table's root; let only one root contain each file",
                file=key,
            )
        raise SourceError(
            f"the keys {other!r} and {key!r} have the same source id {source}",
            hint="rename one of the two files: the id is a hash of the key",
            file=key,
        )
