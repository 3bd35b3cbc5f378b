"""Each table at a glance, from its log, its pointer and its folder; starts no JVM and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lading.config.derived import in_order
from lading.config.project import Config
from lading.errors import LadingError, NotReady
from lading.ingest.behind import moved_by_others
from lading.ingest.look import look
from lading.layout.project import source_manifest
from lading.log.table import Table
from lading.model import SnapshotRef
from lading.snapshots.history import gate_failures, refused_newer
from lading.snapshots.opening import build_meta
from lading.snapshots.runs import last_run
from lading.snapshots.stores.by_url import store_of
from lading.storage.place import storage_of
from lading.watch import Watch


@dataclass(frozen=True, slots=True)
class MadeOf:
    """An input of a table made of tables: the sequence that it was made from, and what readers see now."""

    name: str
    sequence: int | None  # None: it was never made
    current: int | None  # None: nothing is published
    behind: bool
    stopped: str | None = None  # why a run would stop there, so that the table waits for it
    has_work: bool = False  # a run would change it first


@dataclass(frozen=True, slots=True)
class TableStatus:
    table: str
    rows: int = 0
    parts: int = 0
    buckets: int = 0
    sources: int = 0
    sequence: int = 0
    current: SnapshotRef | None = None
    last_run: dict[str, Any] | None = None
    pending: dict[str, int] | None = None  # verdicts that a run would act on; None when it can't be told
    note: str | None = None
    refused: tuple[str, ...] = ()  # why the gate refused what the log holds
    checks: tuple[dict[str, Any], ...] = ()  # how the checks went in the last run that made any
    rows_rejected: int = 0  # rows set aside
    files_rejected: int = 0  # files set aside whole
    inputs: tuple[MadeOf, ...] = ()  # of a table made of tables
    manifest_sequence: int | None = None  # that manifest/<table>.json shows; None if lading didn't write it
    stopped: str | None = None  # why what is made of it waits: it failed, was refused, or waits itself

    @property
    def has_work(self) -> bool:
        """Whether a run would do something, here or in a table that this one is made of."""
        return any((self.pending or {}).values()) or any(of.behind or of.has_work for of in self.inputs)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        current = self.current and {
            "run_id": self.current.run_id,
            "published_at": self.current.published_at.isoformat(),
            "manifest_ref": self.current.ref,
            "sequence": self.current.sequence,
            "held": self.current.held,
        }
        return {
            "table": self.table,
            "rows": self.rows,
            "parts": self.parts,
            "buckets": self.buckets,
            "sources": self.sources,
            "sequence": self.sequence,
            "current": current,
            "last_run": self.last_run,
            "pending": self.pending,
            "note": self.note,
            "refused": list(self.refused),
            "checks": list(self.checks),
            "rows_rejected": self.rows_rejected,
            "files_rejected": self.files_rejected,
            "inputs": [
                {
                    "name": of.name,
                    "sequence": of.sequence,
                    "current": of.current,
                    "behind": of.behind,
                    "stopped": of.stopped,
                    "has_work": of.has_work,
                }
                for of in self.inputs
            ],
            "manifest_sequence": self.manifest_sequence,
        }


def status(config: Config, names: Sequence[str] = (), *, files: bool = True) -> list[TableStatus]:
    """The selected tables; without a selection all of them, those that the config dropped included. Without
    `files` none are listed: what depends on them is not told, and takes no time."""
    wanted = [config.table(name).name for name in names] or list(config.tables)
    order = in_order(config.graph, wanted)  # what a table is made of is looked at first
    known: dict[str, TableStatus] = {}
    for name in order:
        known[name] = _status(config, name, files, known)
    dropped = [] if names else [_status(config, name, files, known) for name in dropped_tables(config)]
    return [known[name] for name in wanted] + dropped


def _status(config: Config, name: str, files: bool, known: Mapping[str, TableStatus]) -> TableStatus:
    """`known` has the tables that it is made of."""
    folder = config.place(name)
    seen = _seen(config, name) if files or name not in config.tables else _Seen()
    found = TableStatus(
        name,
        pending=seen.pending,
        note=seen.why_not,
        rows_rejected=seen.rows_rejected,
        files_rejected=seen.files_rejected,
        inputs=_inputs(config, name, known),
        manifest_sequence=seen.manifest_sequence,
        stopped="failed" if seen.failed else None,
    )
    if not Table.exists(folder):
        return replace(found, note=found.note or "never run", stopped=found.stopped or _waits(found))
    table = Table.open(folder)
    state = table.state
    current, unreadable = _current(config, name)
    note = found.note or unreadable
    published = current.sequence if current is not None else 0
    if note is None and published < state.meta.data_sequence:
        note = _why_behind(config, name, table, current)
    refused = _refused(config, name, current) if published < state.meta.data_sequence else ()
    if refused and (current is None or not current.held):
        note = f"refused by the gate: {'; '.join(refused)}"
    last = last_run(folder)
    found = replace(
        found,
        rows=state.row_count(),
        parts=state.count(),
        buckets=state.bucket_count(),
        sources=state.source_count(),
        sequence=state.sequence,
        current=current,
        last_run=last,
        note=note or next(iter(seen.notes), None),
        refused=refused,
        checks=tuple((last or {}).get("checks") or ()),
    )
    settled = found.pending == {} and published >= state.meta.data_sequence
    if found.stopped is None and (last or {}).get("state") == "failed" and not settled:
        found = replace(found, stopped="failed")
    return replace(found, stopped="was refused by its gate" if refused else found.stopped or _waits(found))


def _waits(one: TableStatus) -> str | None:
    return next((f"waits for {of.name}" for of in one.inputs if of.stopped), None)


def _inputs(config: Config, name: str, known: Mapping[str, TableStatus]) -> tuple[MadeOf, ...]:
    """What a table is made of, and what of that it doesn't show yet."""
    derived = config.tables[name].derived if name in config.tables else None
    if derived is None:
        return ()
    from lading.ingest.derived.inputs import pins_of, place_and_store  # late: few tables have any

    place = config.place(name)
    log = Table.open(place) if Table.exists(place) else None
    pins = pins_of(log.state.meta.inputs) if log is not None else {}
    found = []
    for one in derived.inputs:
        pin = pins.get(one.name)
        try:
            current = place_and_store(config, one)[1].load_current()
        except LadingError:
            current = None  # its own line says what is wrong
        behind = current is not None and (pin is None or pin.ref != current.ref)
        made_from = pin.sequence if pin is not None else None
        shown = current.sequence if current is not None else None
        found.append(MadeOf(one.name, made_from, shown, behind))
        if one.path is None:
            of = known[one.name]
            has_work = of.stopped is None and of.has_work
            found[-1] = replace(found[-1], stopped=of.stopped, has_work=has_work)
    return tuple(found)


def _why_behind(config: Config, name: str, table: Table, current: SnapshotRef | None) -> str:
    """Why readers see less than the log holds."""
    again = "committed but not published: run again"
    if current is None:
        return again
    if current.held:
        return "held: rolled back"
    try:
        return moved_by_others(config, name, table, current) or again
    except LadingError as error:
        return error.message


def _refused(config: Config, name: str, current: SnapshotRef | None) -> tuple[str, ...]:
    """Why the gate refused the newest snapshot, if it did."""
    store = store_of(config, name)
    try:
        waiting = refused_newer(store, current)
        return gate_failures(build_meta(store, waiting.ref).custom) if waiting is not None else ()
    except LadingError:
        return ()  # `_current` has told what is wrong with the store


def _current(config: Config, name: str) -> tuple[SnapshotRef | None, str | None]:
    """What readers see, or why that can't be told: a store that is away hides nothing else."""
    try:
        return store_of(config, name).load_current(), None
    except LadingError as error:
        return None, error.message


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a look at a table's files, or at its inputs, tells."""

    pending: dict[str, int] | None = None  # what a run would act on
    why_not: str | None = None  # why that can't be told
    failed: bool = False  # whether a run would fail by the same
    notes: tuple[str, ...] = ()  # what is worth one otherwise
    rows_rejected: int = 0  # set aside
    files_rejected: int = 0
    manifest_sequence: int | None = None


def _seen(config: Config, name: str) -> _Seen:
    if name not in config.tables:
        return _Seen(why_not="not in lading.yaml: left alone")
    try:
        run = look(config, name, watch=Watch())
    except LadingError as error:
        return _Seen(why_not=error.message, failed=not isinstance(error, NotReady))
    at_rest = ("unchanged", "quarantined")
    sources = [known.source for known in run.known.values() if known.source is not None]
    manifest = run.manifest
    shown = manifest.base.sequence if manifest is not None and manifest.table_id is not None else None
    notes = run.plan.notes
    if manifest is not None and manifest.since.last is not None:
        lags = f"{source_manifest(name)} is of sequence {shown}: `lading manifest write {name}` brings it up"
        notes = (*notes, f"{lags} to {manifest.sequence}")
    return _Seen(
        pending={verdict: n for verdict, n in run.plan.verdicts.items() if n and verdict not in at_rest},
        notes=notes,
        rows_rejected=sum(one.rejected for one in sources),
        files_rejected=sum(one.aside is not None for one in sources),
        manifest_sequence=shown,
    )


def dropped_tables(config: Config) -> list[str]:
    """Those that lading.yaml no longer has, and that still lie in the warehouse."""
    names = [name for name in storage_of(config.warehouse).folders() if name not in config.tables]
    return [name for name in names if Table.exists(config.place(name))]
