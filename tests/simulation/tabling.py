"""The story of one table and all that is done to it: source files come, change and vanish while runs read
them; merge, clean, rollback, release, compact and repair go on beside; readers hold what they opened.

What holds: a reader sees each file in one of its versions, whole; what it opened it can read for the grace
period; when the faults end, one run makes the table what its files say, the next one changes nothing,
`verify` finds nothing, and after some days cleaning has left nothing that nobody needs.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import lading
from lading.config.file import load as load_config
from lading.errors import (
    Conflict,
    LadingError,
    ManifestGone,
    ManifestStoreError,
    NotFound,
    PublishCurrentError,
    PublishManifestError,
    SourceError,
    StorageError,
)
from lading.log.table import Table
from lading.run import run
from lading.snapshots.history import Wanted
from lading.snapshots.opening import Mentioned, references
from lading.snapshots.runs import list_runs
from lading.snapshots.stores.by_url import store_of
from lading.storage.place import storage_of
from lading.upkeep.clean.apply import clean
from lading.upkeep.clean.files import files_of
from lading.upkeep.clean.rules import Runs
from lading.upkeep.clean.survey import Rules
from lading.upkeep.merge import merge_table
from lading.upkeep.repair import repair
from lading.upkeep.rollback import release_hold, roll_back
from lading.upkeep.verify import verify
from lading.watch import Watch
from simulation import disk, machine
from simulation.case import PLACES, STORIES, Actor, Case, Op, Wrong, in_process
from simulation.faults import some_faults
from simulation.kernel import World
from simulation.linear import Operation
from simulation.sizes import set_sizes

KEYS = 4
GRACE = timedelta(hours=24)
CONFIG = """\
warehouse: {warehouse}
spark: {{in_process_below: 1GB}}
tables:
  t:
    root: data
    path: "*.csv"
    format: csv
    order_by: id
    bucket_size: {bucket_size}
    replace: {replace}
"""
SCHEMA = """\
columns:
  - {name: id, type: bigint}
  - {name: note, type: string}
"""
SILENT = Watch()


Ops = tuple[Op, ...]


class Tabling:
    header = "id,note"
    schema = SCHEMA
    sources = "*.csv"

    def __init__(self, world: World, case: Case, place: str) -> None:
        self.world, self.case = world, case
        self.warehouse = place if "://" in place else f"{place}/warehouse"
        self.folder = Path(case.setting["folder"]) / "project"
        # What each file has been, None when it was not there; the last is what it is.
        self.versions: dict[str, list[tuple[str, ...] | None]] = {f"f{n}.csv": [None] for n in range(KEYS)}
        self.written: set[tuple[str, bytes]] = set()  # all that any source file ever was
        self._manifest = b""  # manifest.json, as it lies in the bucket
        self._went_back: list[str] = []
        set_sizes(case.setting)

    def prepare(self) -> None:
        data = self.folder / "data"
        data.mkdir(parents=True)
        (self.folder / "schema").mkdir()
        if self.schema:
            (self.folder / "schema" / "t.yaml").write_text(self.schema)
        self.configure()
        self.table = f"{self.warehouse}/t"
        for number in range(2):
            self._edit(number, 3)
        self.world.now += 3600 * 10**9
        _done(run(self.config))
        if not (self.case.faults.disk and any(op[0] == "repair" for ops in self.case.actors for op in ops)):
            self._watch_manifest()
        self._watch_power()

    def configure(self) -> None:
        (self.folder / "lading.yaml").write_text(self.config_text())
        self.config = load_config(self.folder)

    def config_text(self) -> str:
        store = self.case.setting.get("store")
        return (f"store: {store}\n" if store else "") + CONFIG.format(
            warehouse=self.warehouse,
            bucket_size=self.case.setting.get("bucket_size", 100),
            replace=self.case.setting.get("replace", "auto"),
        )

    def do(self, actor: Actor, op: Op, note: Operation) -> Any:
        kind, *asked = op
        if kind == "edit":
            return self._edit(*asked)
        if kind == "sync":
            return self._sync()
        if kind == "run":
            return _done(run(self.config, allow_vanish=True))
        if kind == "full":
            return _done(run(self.config, allow_vanish=True, full=True))
        if kind == "merge":
            return ("merged", merge_table(self.config, "t").parts_removed)
        if kind == "clean":
            gone = clean(self.config, "t", Rules(asked[0], GRACE), apply=True).deleted
            return ("cleaned", len(gone))
        if kind == "rollback":
            return ("moved", roll_back(self.config, "t", Wanted(offset=asked[0])).now.sequence)
        if kind == "release":
            return ("moved", release_hold(self.config, "t").now.sequence)
        if kind == "compact":
            table = Table.open(self.config.place("t"))
            table.compact()
            table.close()
            return ("compacted",)
        if kind == "repair":
            done = repair(self.config, "t", watch=SILENT)
            # Edited meanwhile, or silence of the bucket: both are told as they are.
            told = ("is gone: it was there", "(no answer)" if self.case.faults.refused else "is gone")
            left = [one for one in done.left if not any(text in one for text in told)]
            if left:
                raise Wrong("beyond repair", f"{left}")
            return ("repaired", tuple(done.done))
        if kind == "reset":
            (self.folder / "manifest" / "t.json").unlink(missing_ok=True)
            return ("reset",)
        if kind == "read":
            return self._read(*asked)
        raise AssertionError(kind)

    def _watch_manifest(self) -> None:
        """Of several that write manifest.json the newest state wins, also beside somebody who mends it: what
        was written as it should be isn't theirs to replace. A disk that fails may take a frame back that
        manifest.json has, which only they put right."""
        bucket = self.table.removeprefix("s3://sim/")

        def renamed(new: str, old: str) -> None:
            if old == f"{self.table}/manifest.json" and os.path.lexists(old):
                self._manifest_only_grows(disk.content(old), disk.content(new))

        def put(name: str, data: bytes) -> None:
            if name == f"{bucket}/manifest.json":
                self._manifest_only_grows(self._manifest, data)
                self._manifest = data

        disk.before_rename(renamed)
        machine.before_write(put)

    def _watch_power(self) -> None:
        """Whoever edits the files looks at them when power is back."""
        cut = self.world.power_cut
        if cut is not None:
            self.world.power_cut = lambda: (cut(), self._drop_torn())[0]

    def _manifest_only_grows(self, old: bytes, new: bytes) -> None:
        before, after = (re.search(rb'"sequence": (\d+)', one) for one in (old, new))
        if before and after and int(after[1]) < int(before[1]):
            self._went_back.append(f"that of {before[1]!r} replaced by that of {after[1]!r}")

    def _edit(self, number: int, rows: int) -> Any:
        key = f"f{number}.csv"
        path = self.folder / "data" / key
        version = len(self.versions[key])
        if rows == 0:
            self.versions[key].append(None)
            path.unlink(missing_ok=True)
            return ("removed",)
        notes = tuple(f"{number}.{version}.{row}" for row in range(rows))
        self.versions[key].append(notes)
        lines = "".join(f"{self.line(number, version, row)},{note}\n" for row, note in enumerate(notes))
        return self.lay(path, version, f"{self.header}\n{lines}".encode())

    def lay(self, path: Path, version: int, data: bytes) -> Any:
        """As a careful program does: beside, and renamed. Nothing is synced: it isn't lading's file."""
        self.written.add((path.name, data))
        beside = path.with_name(f"{path.name}.{version}.new")
        beside.write_bytes(data)
        at = self.world.now - 60 * 10**9 * (version % 3)
        os.replace(beside, path)
        os.utime(path, ns=(at, at))
        return ("written",)

    def _sync(self) -> Any:
        """What was edited a while ago has reached the disk."""
        data = self.folder / "data"
        for path in (*sorted(data.glob("*.csv")), data):
            try:
                fd = os.open(path, os.O_RDONLY)
            except FileNotFoundError:  # removed meanwhile
                continue
            try:
                at = os.fstat(fd).st_mtime_ns
                os.fsync(fd)
                os.utime(fd, ns=(at, at))  # the disk of the simulation dates what is synced
            finally:
                os.close(fd)
        return ("synced",)

    def line(self, number: int, version: int, row: int) -> str:
        """What stands before the note."""
        return str(number * 7 + row * 50)

    def _read(self, hours: float, offset: int | None = None) -> Any:
        began = self.world.now
        with lading.open(self.table, self.config.store, offset=offset or None) as reader:
            rows = reader.rows
            if hours:
                self.world.sleep(hours * 3600)
            if self._is_late(began):
                return ("too late",)
            try:
                seen = self._seen(reader)
            except (LadingError, OSError) as error:
                if self._is_late(began) or self._shaky(error) or (offset and self._was_left_long_ago()):
                    return ("too late",)
                raise Wrong("a hole", f"{type(error).__name__}: {error}") from error
        if sum(seen.values()) != rows:
            raise Wrong("half seen", f"{rows} rows were promised: {dict(seen)}")
        self._are_whole_files(seen)
        return ("seen", rows)

    def _is_late(self, began: int) -> bool:
        return self.world.now - began > GRACE.total_seconds() * 1e9 * 0.95

    def _was_left_long_ago(self) -> bool:
        """Whether readers see another snapshot for the grace period: one from before had no promise."""
        current = store_of(self.config, "t").load_current()
        return current is not None and current.published_at < self._long_ago()

    def _are_whole_files(self, seen: Counter[str]) -> None:
        for number in range(KEYS):
            mine = tuple(sorted(note for note in seen.elements() if note.startswith(f"{number}.")))
            known = {tuple(sorted(one)) for one in self.versions[f"f{number}.csv"] if one is not None}
            if mine and mine not in known:
                raise Wrong("half seen", f"f{number}.csv was never {mine}; it was {known}")

    @staticmethod
    def _seen(reader: lading.Reader) -> Counter[str]:
        return Counter(reader.scan(columns=["note"]).to_table().column(0).to_pylist())

    def _shaky(self, error: Exception) -> bool:
        faults = self.case.faults
        silent = faults.refused or faults.lost or faults.late or faults.doubled
        slept = "store" in self.case.setting and (faults.freeze or faults.restart or faults.stall)
        if not (faults.disk or silent or slept):
            return False
        return isinstance(
            error, (StorageError, ManifestStoreError, PublishManifestError, PublishCurrentError)
        ) or (isinstance(error, OSError) and not isinstance(error, FileNotFoundError))

    def answer_to(self, error: Exception) -> Any:
        if isinstance(error, Wrong):
            raise error
        if isinstance(error, Conflict):
            return ("conflict",)
        if isinstance(error, (ManifestGone, NotFound)):
            return ("not found",)
        if isinstance(error, SourceError) or self._shaky(error):
            return None
        if isinstance(error, FileNotFoundError) and "/data/" in str(error):
            return None
        if isinstance(error, Exception):
            raise Wrong("unexpected error", f"{type(error).__name__}: {error}") from error
        raise error

    # The end.

    def truth(self) -> Counter[str]:
        """What the files hold: a power cut may have brought an older version back."""
        found: Counter[str] = Counter()
        for path in sorted((self.folder / "data").glob("*.csv")):
            lines = path.read_text().splitlines()[1:]
            found.update(line.rpartition(",")[2] for line in lines)
        return found

    def check(self, history: list[Operation]) -> None:
        if self._went_back:
            raise Wrong("manifest.json", "; ".join(self._went_back))
        try:
            in_process(self.world, self._converges)
            in_process(self.world, self._is_whole)
            if self.case.setting.get("held"):
                in_process(self.world, self._holds)
            in_process(self.world, self._keeps_nothing)
            if steps := self.case.setting.get("dies", 0):
                self._edit(3, 2)
                in_process(self.world, lambda: run(self.config, allow_vanish=True), die=steps)
                in_process(self.world, self._gives_up)
        except (LadingError, OSError) as error:
            raise Wrong("does not converge", f"{type(error).__name__}: {error}") from error

    def _converges(self) -> None:
        self.world.sleep(60)
        self._drop_torn()
        with suppress(Conflict, NotFound):
            release_hold(self.config, "t")
        first = run(self.config, allow_vanish=True)
        if first.error is not None:
            raise Wrong("does not converge", f"{first.error}")
        if (seen := self._now()) != (truth := self.truth()):
            raise Wrong("not what the files say", f"more: {seen - truth}; less: {truth - seen}")
        before = store_of(self.config, "t").load_current()
        self.world.sleep(60)
        second = run(self.config, allow_vanish=True)
        if second.error is not None or second.tables[0].sequence != first.tables[0].sequence:
            self.world.sleep(60)
            third = run(self.config, allow_vanish=True)  # a file that was racy is compared once
            if third.error is not None or third.tables[0].sequence != second.tables[0].sequence:
                raise Wrong("never rests", f"{first.tables}\n{second.tables}\n{third.tables}")
        after = store_of(self.config, "t").load_current()
        if before is None or after is None or before.ref != after.ref:
            raise Wrong("never rests", f"{before} {after}")

    def _drop_torn(self) -> None:
        """What a power cut tore is not lading's to mend."""
        for path in sorted((self.folder / "data").glob(self.sources)):
            if (path.name, path.read_bytes()) not in self.written:
                path.unlink()

    def _now(self) -> Counter[str]:
        with lading.open(self.table, self.config.store) as reader:
            return self._seen(reader)

    def _is_whole(self) -> None:
        found, _ = verify(self.config, "t", watch=SILENT)
        wrong = [one for one in found.findings if one.level == "error"]
        if wrong:
            raise Wrong("verify", f"{wrong}")
        store = store_of(self.config, "t")
        current = store.load_current()
        for one in store.list_manifests():
            if current is not None and one.ref != current.ref and one.published_at < self._long_ago():
                continue
            with lading.open(self.table, self.config.store, ref=one.ref) as reader:
                if sum(self._seen(reader).values()) != reader.rows:
                    raise Wrong("half kept", one.ref)

    def _long_ago(self) -> Any:
        return self.world.time() - GRACE

    def _holds(self) -> None:
        """A rollback holds for days while runs commit and cleaning goes on: neither the snapshot that is
        shown nor what was committed since loses anything."""
        store = store_of(self.config, "t")
        self._edit(0, 2)
        self.world.sleep(60)
        _done(run(self.config, allow_vanish=True))
        shown = roll_back(self.config, "t", Wanted(offset=1)).now
        before = self._now()
        self._edit(1, 4)
        self.world.sleep(60)
        _done(run(self.config, allow_vanish=True))
        for _ in range(2):
            self.world.sleep(3 * 24 * 3600)
            clean(self.config, "t", Rules(1, GRACE), apply=True)
        current = store.load_current()
        if current is None or current.ref != shown.ref or not current.held:
            raise Wrong("a rollback that does not hold", f"{shown} -> {current}")
        if self._now() != before:
            raise Wrong("cleaned away", f"{before - self._now()}")
        release_hold(self.config, "t")
        _done(run(self.config, allow_vanish=True))
        if (seen := self._now()) != (truth := self.truth()):
            raise Wrong("not what the files say", f"more: {seen - truth}; less: {truth - seen}")

    def _gives_up(self) -> None:
        """A run that died is given up by the next cleaning, also when nothing else may go."""
        self.world.sleep(3 * 24 * 3600)
        clean(self.config, "t", Rules(1, GRACE), apply=True)
        dead = Runs(list_runs(self.config.place("t"))[0], self.world.time()).dead
        if dead:
            raise Wrong("kept for ever", f"{[one.record.run_id for one in dead]}")

    def _keeps_nothing(self) -> None:
        truth = self.truth()
        for _ in range(3):
            self.world.sleep(10 * 24 * 3600)
            done = clean(self.config, "t", Rules(1, GRACE), apply=True)
            if not done.deleted and not done.gave_up:
                break
        if self._now() != truth:
            raise Wrong("cleaned away", f"{truth - self._now()}")
        store = store_of(self.config, "t")
        table = Table.open(self.config.place("t"))
        needed = {member.path for member in table.state.candidates(None)}
        kept = store.list_manifests()
        mentioned: dict[str, Mentioned] = {}
        for one in kept:
            references(store, one.ref, self.config.place("t"), mentioned)
        needed = needed.union(*(page.members for page in mentioned.values()))
        files = list(files_of(self.config.place("t")))
        left = [one.path for one in files if one.kind == "part" and one.path not in needed]
        left += [one.path for one in files if one.kind == "temporary"]
        if left:
            raise Wrong("kept for ever", f"{left}")
        if len(kept) > 2:
            raise Wrong("kept for ever", f"{[one.ref for one in kept]}")
        storage = storage_of(self.config.place("t"))
        missing = [path for path in needed if not storage.has(path)]
        if missing:
            raise Wrong("cleaned away", f"{missing}")


def _done(report: Any) -> Any:
    if report.error is not None:
        raise report.error
    return ("ran", report.tables[0].sequence, report.tables[0].published)


STORIES["tabling"] = Tabling


def make(seed: int) -> Case:
    chance = random.Random(seed)
    storage = chance.choice(("folder", "bucket"))
    faults = some_faults(chance, storage, less=0.25, also=("jump", "freeze"))
    actors = []
    for _ in range(chance.randint(2, 4)):
        actors.append(tuple(_op(chance) for _ in range(chance.randint(2, 4))))
    if chance.random() < 0.3:  # one that falls asleep at its work, and one that cleans meanwhile
        sleepy = chance.choice((["run"], ["run"], ["merge"], ["rollback", 1]))
        actors[0] = (["edit", 2, 3], ["doze", chance.randint(5, 200)], sleepy, ["read", 0, 0])
        actors[1] = (["wait", 26 * 3600], ["clean", 1], *actors[1][:2])
    if chance.random() < 0.35:
        struck = chance.choice(_STRUCK[storage])(chance, storage, actors[1][:2])
        actors[: len(struck)] = struck
    number = chance.getrandbits(48)
    setting = {
        "checkpoint": chance.choice((1000, 2, 3)),
        "since": chance.random() < 0.3,  # changes beside the source manifest, as of a large one
        "pages": chance.random() < 0.3,
        "overlay": chance.choice((64, 1)),
        "bucket_size": chance.choice((100, 1000)),
        "held": chance.random() < 0.3,
        "dies": chance.choice((0, chance.randint(10, 80))),
        "replace": chance.choice(("auto", "rewrite", "minus")),
    }
    if any(op[0] == "strike" and op[1] == "late" for ops in actors for op in ops):
        faults = replace(faults, late=max(faults.late, 0.001))  # and nobody may rely on any answer
    elif chance.random() < 0.2:
        setting["store"] = PLACES["postgres"]
        faults = some_faults(
            chance, "postgres", less=0.5, also=("jump", "power") if storage == "folder" else ()
        )
    return Case("tabling", storage, number, tuple(actors), faults, setting)


# What goes wrong where it matters most. Each gives what two or three do: something happens to one at a chosen
# point, and the last, who also has some `more` to do, comes upon what is left.


def _unsynced(chance: random.Random, storage: str, more: Ops) -> list[Ops]:
    """Stopped before it made durable what it did, and the power goes when another has built on it. Of a frame
    that was lost nothing is heard again if its file is gone by the next run."""
    at, then = chance.choice(_UNSYNCED)
    gone: Ops = (["edit", 2, 0], ["run"]) if at[0] == "write" else ()
    power = ["strike", "power", *chance.choice(then)]
    stopped = ["strike", chance.choice(("kill", "freeze")), *at]
    return [
        (["edit", 2, 5], ["sync"], stopped, ["run"], ["read", 0, 0]),
        (["wait", 60], power, ["run"], *gone, *more[:1]),
    ]


def _half_written(chance: random.Random, storage: str, more: Ops) -> list[Ops]:
    """Asleep between a file and its name, and what lies there without a name is cleaned away."""
    asleep = ["strike", "doze", "fsync", chance.choice(_NAMED_LATER)]
    what = chance.choice((["run"], ["merge"], ["rollback", 1], ["release"], ["compact"], ["clean", 1]))
    return [
        (["edit", 2, 3], ["run"], asleep, what, ["read", 0, 0]),
        (["wait", 27 * 3600], ["clean", 1], *more),
    ]


def _left_alone(chance: random.Random, storage: str, more: Ops) -> list[Ops]:
    """Killed on its way, and a day later somebody cleans before anybody else runs."""
    killed = ["strike", "kill", *chance.choice(_WAYSTONES[storage])]
    return [
        (["edit", 2, 5], killed, ["run"], ["wait", 30 * 3600], ["clean", 1], ["read", 0, 0]),
        (["wait", 29 * 3600], *more),
    ]


def _late(chance: random.Random, storage: str, more: Ops) -> list[Ops]:
    """A request arrives when others have gone on."""
    late = ["strike", "late", "put", chance.choice(("/manifest.json", "/manifest.json", "_CURRENT", "hint"))]
    return [
        (["edit", 2, 5], late, ["run"], ["read", 0, 0]),
        (["edit", 3, 2], ["run"], ["edit", 3, 1], ["run"], *more),
    ]


def _mended_asleep(chance: random.Random, storage: str, more: Ops) -> list[Ops]:
    """Killed before it wrote down what it did; who mends that falls asleep over it, and others go on."""
    committed, asleep = _AT_MANIFEST_JSON[storage]
    return [
        (["edit", 2, 5], ["strike", "kill", *committed], ["run"]),
        (["wait", 20], ["strike", *chance.choice(asleep)], ["repair"]),
        (["wait", 40], ["edit", 3, 2], ["run"], *more),
    ]


_STRUCK = {
    "folder": (_unsynced, _unsynced, _half_written, _left_alone, _mended_asleep),
    "bucket": (_late, _left_alone, _mended_asleep),
}
_AT_MANIFEST_JSON: Any = {  # what comes before it is written, and what may come in between when it is mended
    "folder": (
        ("fsync", "manifest.log"),
        (
            ("freeze", "read", "/manifest.json"),
            ("freeze", "fsync", "manifest.log"),
            ("freeze", "open", "json.lock"),
        ),
    ),
    "bucket": (
        ("get", "/manifest.json"),
        (("freeze", "get", "/manifest.json"), ("freeze", "get", "/log/"), ("late", "put", "/manifest.json")),
    ),
}
_NAMED_LATER = ("run.yaml", "run.yaml", "_CURRENT", "manifest.db", "metadata.json", "hint")
_WAYSTONES = {
    "folder": (
        ("rename", "manifest.db"), ("fsync", "manifest.log"), ("link", "/manifests/"), ("rename", "_CURRENT"),
        ("rename", "manifest.json"), ("link", "part-"),
    ),
    "bucket": (
        ("put", "/checkpoint/"), ("put", "/log/"), ("put", "/manifests/"), ("put", "_CURRENT"),
        ("put", "part-"),
    ),
}  # fmt: skip
_SYNCED = (
    ("fsync", "manifest.log"), ("rename", "_CURRENT"), ("link", "/manifests/"), ("rename", "manifest.json"),
    ("rename", "manifest.db"), ("fsync", "version-hint"),
)  # fmt: skip
_BY_A_RUN = (("fsync", "manifest.log"), ("rename", "_CURRENT"), ("fsync", "version-hint"))
_OF_A_FRAME = (("fsync", "version-hint"), ("fsync", "version-hint"), ("rename", "_CURRENT"))
_UNSYNCED = (  # what was made, and what others make durable that builds on it
    (("mkdir", "bucket="), _BY_A_RUN),
    (("mkdir", "manifests"), _BY_A_RUN),
    (("mkdir", "pages"), _SYNCED),
    (("write", "manifest.log"), _OF_A_FRAME),
    (("write", "manifest.log"), _OF_A_FRAME),
    (("link", "part-"), _SYNCED),
    (("link", "/manifests/"), _SYNCED),
    (("rename", "_CURRENT"), _SYNCED),
    (("rename", "manifest.db"), _SYNCED),
)


@cache
def _kinds() -> tuple[tuple[str, ...], tuple[float, ...]]:
    rates = {
        "edit": 8, "run": 8, "merge": 2, "clean": 3, "rollback": 1.5, "release": 1.5, "read": 4,
        "compact": 1, "repair": 0.7, "reset": 0.4, "full": 0.3, "wait": 2,
    }  # fmt: skip
    return tuple(rates), tuple(rates.values())


def _op(chance: random.Random) -> Op:
    kind = chance.choices(*_kinds())[0]
    if kind == "edit":
        return [kind, chance.randrange(KEYS), chance.choice((0, 1, 2, 3, 5))]
    if kind == "clean":
        return [kind, chance.choice((1, 1, 2))]
    if kind == "rollback":
        return [kind, chance.choice((1, 1, 2))]
    if kind == "read":
        return [kind, chance.choice((0, 0, 1, 20)), chance.choice((0, 0, 1))]
    if kind == "wait":
        return [kind, chance.choice((1, 600, 30 * 3600))]
    return [kind]
