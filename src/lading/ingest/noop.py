"""The shortest way to "nothing to do", which is what most looks come to.

When the source manifest is written and nothing is left to be done about any file in it, it is given a
seal: a hash of all keys, sizes, times and spots. A look that finds files with the same seal, under the same
recipe and at the same sequence of the log, knows its plan without decoding a single entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import xxhash

from lading.config.project import TableConfig
from lading.ingest.ledger import Ledger, is_of, make_ledger
from lading.ingest.plan import FileVerdict, Known, TablePlan
from lading.log.table import Table
from lading.model import FoundFile, Source
from lading.sources.manifest import SourceManifest

SEAL = "seal"  # in `lading` of manifest/<table>.json

_WITH_SPOTS = "spots-"
_WHY = "same size and modification time"


def seal_of(sources: Sequence[Source], spots: Sequence[int]) -> str | None:
    """Of files sorted by key, as they stand in the log. None while something is left to be done about one,
    or its fingerprint is not its time and size, or nobody knows where it lay."""
    if not all(spots):
        return None
    for one in sources:
        if one.racy or one.rejected or not one.hash.startswith("mtime:"):
            return None
        if one.archive is not None or one.quarantine is not None or one.aside is not None:
            return None
    times = [source.mtime_ns for source in sources]
    return _seal([source.key for source in sources], [source.size for source in sources], times, spots)


def is_quiet(
    cfg: TableConfig, table: Table | None, manifest: SourceManifest | None, found: Sequence[FoundFile]
) -> bool:
    """Whether the files are exactly those that the manifest and the log have, with nothing left to do."""
    if table is None or manifest is None or not are_plain_files(cfg) or manifest.preprocessing:
        return False
    seal = manifest.lading.get(SEAL)
    if not isinstance(seal, str) or not is_of(manifest, table.state):
        return False
    times = [file.mtime_ns for file in found]
    if times and found[times.index(max(times))].racy:  # the youngest of all: others are racy only if it is
        return False
    # lading 0.1 did not know where files lay. Its seal is believed until the manifest is written next.
    spots = [file.spot for file in found] if seal.startswith(_WITH_SPOTS) else None
    return seal == _seal([file.key for file in found], [file.size for file in found], times, spots)


def are_plain_files(cfg: TableConfig) -> bool:
    """Whether files are read as they lie there, and told by time and size. Whatever stands between a file
    and its rows has to be asked too, and it may be new: the recipe doesn't say what is an archive."""
    return cfg.fingerprint == "fast" and cfg.url is None and cfg.inside is None and cfg.preprocess is None


def quiet_plan(cfg: TableConfig, found: Sequence[FoundFile]) -> TablePlan:
    return TablePlan(cfg.name, AllUnchanged(found), quiet=True)


def quiet_ledger(manifest: SourceManifest, table: Table, name: str) -> Ledger:
    return Ledger(_LazyKnown(manifest, table, name))


class AllUnchanged(Sequence[FileVerdict]):
    """A verdict for each file, made when somebody asks for it."""

    def __init__(self, found: Sequence[FoundFile]) -> None:
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[FileVerdict]:
        return (FileVerdict(file.key, "unchanged", _WHY) for file in self._found)

    @overload
    def __getitem__(self, at: int) -> FileVerdict: ...
    @overload
    def __getitem__(self, at: slice) -> AllUnchanged: ...
    def __getitem__(self, at: int | slice) -> FileVerdict | AllUnchanged:
        if isinstance(at, slice):
            return AllUnchanged(self._found[at])
        return FileVerdict(self._found[at].key, "unchanged", _WHY)


class _LazyKnown(Mapping[str, Known]):
    """What the ledger knows, decoded when somebody asks for it."""

    def __init__(self, manifest: SourceManifest, table: Table, name: str) -> None:
        self._of = (manifest, table, name)
        self._known: Mapping[str, Known] | None = None

    def _all(self) -> Mapping[str, Known]:
        if self._known is None:
            manifest, table, name = self._of
            self._known = make_ledger(manifest, table.state, name).known
        return self._known

    def __getitem__(self, key: str) -> Known:
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _seal(keys: list[str], sizes: list[int], times: list[int], spots: Sequence[int] | None) -> str:
    # Whole columns at a time: a text for each file would cost as much as its stat. Lists, since an array
    # takes three times as long to be filled by anything else. A key holds no NUL.
    seal = xxhash.xxh3_128("\0".join(keys).encode())
    for numbers in (sizes, times):
        seal.update(array("q", numbers).tobytes())
    if spots is None:
        return f"{len(keys)}-{seal.hexdigest()}"
    seal.update(array("Q", spots).tobytes())
    return f"{_WITH_SPOTS}{len(keys)}-{seal.hexdigest()}"
