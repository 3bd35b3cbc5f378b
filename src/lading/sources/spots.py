"""Where a file lies, as one number: its folder, resolved, with its device, and its inode.

A file that has the key, the size and the time of one that was read may still be another one: `root` was
changed, a link was swapped, a file was moved into its place. Its spot then differs, and its content is
compared. Like everything else in manifest/<table>.json a spot can only ask for more reading, never for less.

What means nothing is left out, or files would be compared again and again for nothing: the number of a
device that is given out anew with each mount (network file systems, overlays), and inodes on file systems
that make them up as they go.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence

import xxhash

# By what /proc/self/mountinfo calls them.
_NO_INODES = ("fuse", "cifs", "smb", "9p", "vfat", "exfat", "msdos")


class Spots:
    """For one listing: file systems are asked about once."""

    def __init__(self) -> None:
        self._types: dict[str, str] | None = None

    def folder(self, real: str, device: int) -> tuple[int, bool]:
        """The spot of a folder, and whether those of its files are told apart by it ^ inode."""
        mounted = os.major(device) != 0
        shown = f"{os.major(device)}:{os.minor(device)}"
        folder = xxhash.xxh3_64_intdigest(
            f"{real}\0{shown if mounted else ''}".encode(errors="surrogateescape")
        )
        return folder, not self._type(shown).startswith(_NO_INODES)

    def file(self, real: str, stat: os.stat_result) -> int:
        """The spot of a single file."""
        folder, inodes = self.folder(os.path.dirname(real), stat.st_dev)
        return folder ^ stat.st_ino if inodes else folder

    def _type(self, device: str) -> str:
        if self._types is None:
            self._types = _file_systems()
        return self._types.get(device, "")


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
