"""Telling whether a file changed: by its metadata, which is free, or by its bytes, which is certain.

The fast fingerprint is the seed's: `mtime:<st_mtime>_size:<bytes>` exactly as `os.stat` gives them.
The digest is taken of every file that is read, by the task that reads it; here only of files whose content
decides whether they have to be.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import xxhash

from lading.errors import SourceError
from lading.formats.opening import unreadable
from lading.late import np
from lading.model import Digest, FoundFile

EMPTY_SHA256 = hashlib.sha256().hexdigest()  # of a file without a byte

# Futures are made for so many files at a time, so that memory doesn't grow with the table.
_BATCH = 2_048


# The first and the last moment that the log can hold, in nanoseconds: in the years 1677 and 2262.
FIRST_NS, LAST_NS = -(2**63), 2**63 - 1


def time_ns(st: os.stat_result) -> int:
    """A file's time. File systems know times that 64 bits of nanoseconds don't: such a file counts as of
    the first or the last moment, and since its time tells nothing, as racy."""
    return min(max(st.st_mtime_ns, FIRST_NS), LAST_NS)


def digest(path: str) -> Digest:
    """SHA-256 of the file's bytes."""
    try:
        with open(path, "rb", buffering=0) as file:
            found = hashlib.file_digest(file, "sha256")
            return Digest(found.hexdigest(), file.tell())
    except OSError as error:
        raise unreadable(path, error) from error


def digest_all(files: Sequence[FoundFile], *, threads: int = 4) -> dict[str, Digest]:
    """Digests by key."""
    digests: dict[str, Digest] = {}
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="lading-digest") as pool:
        for start in range(0, len(files), _BATCH):
            batch = files[start : start + _BATCH]
            for found, value in zip(batch, pool.map(lambda file: digest(file.path), batch), strict=True):
                digests[found.key] = value
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
    """Refuse two files with one key, and two keys with one id. The keys can be walked twice."""
    ids = np.fromiter(map(source_id, keys), np.int64)
    ids.sort()
    twice = frozenset(ids[1:][ids[1:] == ids[:-1]].tolist())
    holders: dict[int, str] = {}
    for key in keys if twice else ():
        source = source_id(key)
        if source not in twice or source not in holders:
            holders[source] = key
            continue
        other = holders[source]
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
