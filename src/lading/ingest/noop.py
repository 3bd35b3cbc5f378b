"""The shortest way to "nothing to do", which is what most looks come to.

When the source manifest is written and nothing is left to be done about any file in it, it is given a
seal: a hash of all keys, sizes, times and spots. A look that finds files with the same seal, under the same
recipe and at the same sequence of the log, knows its plan without decoding a single entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import xxhash

from lading.config.project import TableConfig
from lading.ingest.ledger import is_of
from lading.ingest.plan import TablePlan
from lading.ingest.verdicts import AllUnchanged
from lading.log.table import Table
from lading.model import FoundFile, Source
from lading.sources.found import FoundFiles
from lading.sources.manifest import SourceManifest

SEAL = "seal"  # in `lading` of manifest/<table>.json

_WITH_SPOTS = "spots-"


class Seal:
    """Over files in the order of their keys, one after the other: of a million, 24 MB are held."""

    def __init__(self) -> None:
        self._seal = xxhash.xxh3_128()
        self._sizes, self._times, self._spots = array("q"), array("q"), array("Q")

    def add(self, source: Source, spot: int) -> None:
        self._seal.update((f"\0{source.key}" if self._sizes else source.key).encode())
        self._sizes.append(source.size)
        self._times.append(source.mtime_ns)
        self._spots.append(spot)

    def text(self) -> str:
        return _text(self._seal, self._sizes, self._times, self._spots)


def is_sealable(source: Source) -> bool:
    """Whether nothing is left to be done about a file, and its fingerprint is its time and size."""
    if source.racy or source.rejected or not source.hash.startswith("mtime:"):
        return False
    return source.archive is None and source.quarantine is None and source.aside is None


def seal_of(found: Sequence[FoundFile], *, spots: bool = True) -> str:
    """Of files as they were found."""
    if isinstance(found, FoundFiles):
        return _text(_of_texts(found.texts()), found.sizes, found.times, found.spots if spots else None)
    seal = _of_texts(["\0".join([file.key for file in found]).encode()])
    sizes, times = (array("q", [file.size for file in found]), array("q", [file.mtime_ns for file in found]))
    return _text(seal, sizes, times, array("Q", [file.spot for file in found]) if spots else None)


def is_quiet(
    cfg: TableConfig, table: Table | None, manifest: SourceManifest | None, found: Sequence[FoundFile]
) -> bool:
    """Whether the files are exactly those that the manifest and the log have, with nothing left to do."""
    if table is None or manifest is None or not are_plain_files(cfg) or manifest.preprocessing:
        return False
    seal = manifest.lading.get(SEAL)
    if not isinstance(seal, str) or not is_of(manifest, table.state):
        return False
    if found and _youngest(found).racy:  # others are racy only if it is
        return False
    # lading 0.1 did not know where files lay. Its seal is believed until the manifest is written next.
    return seal == seal_of(found, spots=seal.startswith(_WITH_SPOTS))


def _youngest(found: Sequence[FoundFile]) -> FoundFile:
    if isinstance(found, FoundFiles):
        return found[found.times.index(max(found.times))]
    return max(found, key=lambda file: file.mtime_ns)


def are_plain_files(cfg: TableConfig) -> bool:
    """Whether files are read as they lie there, and told by time and size. Whatever stands between a file
    and its rows has to be asked too, and it may be new: the recipe doesn't say what is an archive."""
    return cfg.fingerprint == "fast" and cfg.url is None and cfg.inside is None and cfg.preprocess is None


def quiet_plan(cfg: TableConfig, found: Sequence[FoundFile]) -> TablePlan:
    return TablePlan(cfg.name, AllUnchanged(found), sources=len(found))


def _of_texts(texts: Iterable[bytes]) -> xxhash.xxh3_128:
    seal = xxhash.xxh3_128()
    for text in texts:
        seal.update(text)
    return seal


def _text(seal: xxhash.xxh3_128, sizes: array[int], times: array[int], spots: array[int] | None) -> str:
    """Whole columns at a time: a text for each file would cost as much as its stat. A key holds no NUL."""
    for numbers in (sizes, times):
        seal.update(numbers)
    if spots is None:
        return f"{len(sizes)}-{seal.hexdigest()}"
    seal.update(spots)
    return f"{_WITH_SPOTS}{len(sizes)}-{seal.hexdigest()}"
