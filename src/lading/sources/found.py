"""The files of one listing, as columns.

A table may have a million files, of which one changes. As objects they would take 350 bytes each; here a
file is the text of its key and 25 bytes of numbers, and becomes a `FoundFile` when somebody asks for it. They
are in the order of their keys, as the log's sources and the entries of a source manifest are: the three are
walked side by side, and none is held whole.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import overload

from lading.model import FoundFile

_CHUNK = 8_192  # keys that are kept, and made into texts, together

Row = tuple[str, int, int, bool, int]  # key, size, mtime_ns, racy, spot


class Keys:
    """From the first one for each who asks."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(chunk.decode().split("\0") for chunk in self._chunks)


class FoundFiles(Sequence[FoundFile]):
    """Plain files below the folder `top`. Filled by `add`, in the order of the keys."""

    def __init__(self, top: str) -> None:
        self._top = top if top.endswith("/") else top + "/"
        self._chunks: list[bytes] = []  # keys, with a NUL between two of them: a name holds none
        self._starts: list[int] = []  # how many keys come before each chunk
        self._firsts: list[str] = []  # the first key of each
        self._fresh: list[str] = []  # keys that are in no chunk yet
        self.sizes, self.times = array("q"), array("q")
        self.racy, self.spots = bytearray(), array("Q")
        self._opened: tuple[int, list[str]] = (-1, [])  # the chunk that was asked for last
        self.combined_hash: str | None = None  # of all fingerprints, once somebody has worked it out

    def add(self, prefix: str, rows: Sequence[Row]) -> None:
        """Files of one folder, whose keys begin with `prefix` and come after all that are here."""
        names, sizes, times, racy, spots = zip(*rows, strict=True)
        self._fresh += [prefix + name for name in names] if prefix else names
        # By way of arrays: one that is extended by anything else takes three times as long.
        self.sizes += array("q", sizes)
        self.times += array("q", times)
        self.racy += bytes(racy)
        self.spots += array("Q", spots)
        while len(self._fresh) >= _CHUNK:
            self._close(self._fresh[:_CHUNK])

    def complete(self) -> FoundFiles:
        """When the last one is in."""
        if self._fresh:
            self._close(self._fresh)
        return self

    def _close(self, keys: list[str]) -> None:
        self._starts.append(len(self._chunks) * _CHUNK)
        self._firsts.append(keys[0])
        self._chunks.append("\0".join(keys).encode())
        self._fresh = self._fresh[len(keys) :]

    def texts(self) -> Iterator[bytes]:
        """All keys as one text, with a NUL between two of them, in pieces."""
        for number, chunk in enumerate(self._chunks):
            yield b"\0" + chunk if number else chunk

    def keys(self) -> Keys:
        return Keys(self._chunks)

    def key(self, at: int) -> str:
        number = bisect_right(self._starts, at) - 1
        return self._chunk(number)[at - self._starts[number]]

    def _chunk(self, number: int) -> list[str]:
        if self._opened[0] != number:
            self._opened = (number, self._chunks[number].decode().split("\0"))
        return self._opened[1]

    def find(self, key: str) -> int | None:
        """Where the file with that key is."""
        at = self.insertion(key)
        return at if at < len(self) and self.key(at) == key else None

    def insertion(self, key: str) -> int:
        """How many files come before that key. Asked in the order of the keys, a chunk is opened once."""
        number = max(bisect_right(self._firsts, key) - 1, 0)
        return self._starts[number] + bisect_left(self._chunk(number), key) if self._chunks else 0

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[FoundFile]:
        top = self._top
        rows = zip(self.keys(), self.sizes, self.times, self.racy, self.spots, strict=True)
        return (
            FoundFile(key, top + key, size, at, racy == 1, None, None, spot)
            for key, size, at, racy, spot in rows
        )

    @overload
    def __getitem__(self, at: int) -> FoundFile: ...
    @overload
    def __getitem__(self, at: slice) -> list[FoundFile]: ...
    def __getitem__(self, at: int | slice) -> FoundFile | list[FoundFile]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        key = self.key(at)
        racy = bool(self.racy[at])
        return FoundFile(
            key, self._top + key, self.sizes[at], self.times[at], racy, None, None, self.spots[at]
        )


class Picked(Sequence[FoundFile]):
    """Some of the files that were found, in their order."""

    def __init__(self, found: Sequence[FoundFile], places: Sequence[int]) -> None:
        self._found, self._places = found, places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[FoundFile]:
        if len(self._places) == len(self._found):
            return iter(self._found)
        return (self._found[at] for at in self._places)

    @overload
    def __getitem__(self, at: int) -> FoundFile: ...
    @overload
    def __getitem__(self, at: slice) -> Picked: ...
    def __getitem__(self, at: int | slice) -> FoundFile | Picked:
        if isinstance(at, slice):
            return Picked(self._found, self._places[at])
        return self._found[self._places[at]]


def keys_of(found: Sequence[FoundFile]) -> Iterable[str]:
    """Without making files of them where they are columns. Can be walked more than once."""
    return found.keys() if isinstance(found, FoundFiles) else [file.key for file in found]


def rows_of(found: Sequence[FoundFile]) -> Iterator[tuple[str, int, int, int, str | None]]:
    """Key, size, time, spot and fingerprint of each, likewise."""
    if isinstance(found, FoundFiles):
        return zip(found.keys(), found.sizes, found.times, found.spots, repeat(None), strict=False)
    return ((file.key, file.size, file.mtime_ns, file.spot, file.fingerprint) for file in found)


def find(found: Sequence[FoundFile], keys: Collection[str]) -> dict[str, FoundFile]:
    """Those of some keys, by key, as far as they were found."""
    if not isinstance(found, FoundFiles):
        return {file.key: file for file in found if file.key in keys} if keys else {}
    places = ((key, found.find(key)) for key in sorted(keys))
    return {key: found[at] for key, at in places if at is not None}


def all_placed(found: Sequence[FoundFile]) -> bool:
    """Whether it is known of each where it lies."""
    return 0 not in (found.spots if isinstance(found, FoundFiles) else [file.spot for file in found])


def insertion(found: Sequence[FoundFile], key: str) -> int:
    """How many files come before a key."""
    if isinstance(found, FoundFiles):
        return found.insertion(key)
    return bisect_left(found, key, key=lambda file: file.key)
