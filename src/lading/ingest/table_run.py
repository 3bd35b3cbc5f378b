"""One table's run: what all of its steps share, from the look at its files to the last part tidied up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lading import clock, ids
from lading.config.project import Config, TableConfig
from lading.ingest.compare import Compared
from lading.ingest.ledger import Ledger
from lading.ingest.plan import TablePlan
from lading.ingest.verdict import Known
from lading.layout.beside import lock_of
from lading.layout.project import AT_WORK, work_folder
from lading.log.table import Table
from lading.model import Column, Commit, FoundFile, StartSpark
from lading.sources.fingerprint import unmoved
from lading.sources.manifest import SourceManifest
from lading.storage.folder import is_locked, locked
from lading.watch import Watch

if TYPE_CHECKING:
    from lading.formats.source_file import SourceFile
    from lading.ingest.derived.look import DerivedLook
    from lading.ingest.schema import Followed
    from lading.sources.archives.scratch import Apart
    from lading.sources.objects import Objects


def new_id() -> str:
    return ids.fresh()


def new_run_id() -> str:
    """Sorts by time, and is short enough to be typed."""
    return f"{clock.now():%Y%m%d-%H%M%S}-{ids.random_bytes(4).hex()}"


def now_text() -> str:
    return clock.now().isoformat()


@contextmanager
def at_work(run: TableRun) -> Iterator[None]:
    """Others can tell meanwhile that copies of this table's files in the cache are being read."""
    folder = run.config.cache / AT_WORK
    lock = folder / lock_of(work_folder(run.run_id, run.name))
    for left in folder.glob(lock_of(work_folder("*", run.name))):  # by runs that were killed
        if not is_locked(left):
            left.unlink(missing_ok=True)
    try:
        with locked(lock):
            yield
    finally:
        lock.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Refused:
    """An archive that was set aside."""

    key: str
    reason: str
    fresh: bool  # found out by this look; if not, it is as it was then


@dataclass(frozen=True, slots=True)
class TableRun:
    """One table in one run, or as a run would find it: without `start_spark` it is looked at and nothing is
    done."""

    config: Config
    cfg: TableConfig
    watch: Watch
    objects: Objects | None = None  # where the files are, when they are in a bucket
    start_spark: StartSpark | None = None
    replay: Collection[str] | None = None  # keys that are tried again, empty for all; None: none is
    run_id: str = field(default_factory=new_run_id)
    commit_id: str = field(default_factory=new_id)
    # What commits and manifests of this run refer to, by path or db_url: tidying leaves it alone.
    kept: set[str] = field(default_factory=set)
    commits: list[Commit] = field(default_factory=list)  # that this run has made

    # From here on, what the look found.
    opened: Table | None = None  # None before the first run
    manifest: SourceManifest | None = None
    ledger: Ledger = field(default_factory=Ledger)
    # Of the files that are not simply as they were, and of those that vanished; all is `ledger.known`.
    known: Mapping[str, Known] = field(default_factory=dict)
    found: Sequence[FoundFile] = ()
    compared: Compared | None = None  # None: all of them are as they were
    columns: tuple[Column, ...] | None = None  # None: no schema yet and nothing committed under one
    recipe: str | None = None
    plan: TablePlan = field(default_factory=lambda: TablePlan("", ()))
    preprocessing: dict[str, Any] = field(default_factory=dict)  # for manifest/<table>.json
    made: bool = False  # whether archives were extracted or scripts run for this look
    refused: tuple[Refused, ...] = ()  # archives that are set aside
    apart: Mapping[str, Apart] = field(default_factory=dict)  # by the key of the input: what only tasks make
    followed: Followed | None = None  # what the files make of `columns`, which a run then writes down
    near: bool = False  # whether only some files were looked at, those of `found` and `ledger`
    stale: bool = False  # whether the schema is, though there is nothing to read
    derived: DerivedLook | None = None  # of a table made of tables: what it is made from

    @property
    def name(self) -> str:
        return self.cfg.name

    @property
    def table(self) -> Table:
        """As a run has it, which begins by making one."""
        assert self.opened is not None, f"{self.name} was never run"
        return self.opened

    @property
    def full(self) -> bool:
        return self.cfg.fingerprint == "full"

    def spark(self) -> Any:
        assert self.start_spark is not None, "a look starts nothing"
        return self.start_spark()

    def fetch(self, files: Sequence[FoundFile], tick: Callable[[int], None] | None = None) -> None:
        """Objects are copied here before this machine opens them as files."""
        if self.objects is not None:
            self.objects.fetch([file for file in files if file.archive is None], tick)

    def source_file(self, file: FoundFile) -> SourceFile:
        """A file as tasks open it."""
        from lading.formats.source_file import SourceFile  # late: a look opens none

        limits = self.config.archives
        apart = self.apart.get(file.archive) if file.archive is not None else None
        if apart is not None:
            return apart.source_file(file, limits)
        if self.objects is not None and file.archive is None:
            return self.objects.source_file(file, limits)
        return SourceFile(file.key, file.path, file.size, limits=limits)

    def together(self, file: FoundFile) -> str | None:
        """A name for all files that whoever makes this one makes with it; None if it is there by itself."""
        apart = self.apart.get(file.archive) if file.archive is not None else None
        return apart.together if apart is not None else None

    def unmoved(self, file: FoundFile) -> bool:
        """Whether a file still is what discovery saw. Members are lading's own copies of what it was, or were
        made of an object whose ETag was the same."""
        if file.archive in self.apart or self.cfg.derived is not None:
            return True  # a slot is made of snapshots, which never change
        if self.objects is not None and file.archive is None:
            return self.objects.unmoved(file)
        return unmoved(file)
