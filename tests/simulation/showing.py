"""The story of a table that Iceberg readers follow by hand while it is written to, merged, rolled back,
released and cleaned, and while its columns come, go and change their type.

What holds: such a reader sees one whole snapshot that lading's readers see or saw; nothing that its metadata
leads to is deleted for the grace period; and the next run brings the hint to where the pointer is.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache
from typing import Any

import lading
from lading.errors import LadingError, ManifestGone, NotFound
from lading.layout.table import version_of
from lading.run import run
from lading.snapshots.stores.by_url import store_of
from lading.storage.place import storage_of
from simulation.case import STORIES, Actor, Case, Op, Wrong, in_process
from simulation.faults import some_faults
from simulation.iceberg_by_hand import Broken, ByHand, Shown
from simulation.kernel import Faults
from simulation.linear import Operation
from simulation.machine import location_of
from simulation.tabling import CONFIG, GRACE, KEYS, Tabling

HEADERS = ("id,note", "id,a,note", "id,b,note", "id,b,a,note")
KINDS = ("{n}", "{n}.5", "x{n}")  # what a column's values look like: whole, decimal, text


class Showing(Tabling):
    schema = ""

    def config_text(self) -> str:
        text = CONFIG.format(
            warehouse=self.warehouse,
            bucket_size=self.case.setting.get("bucket_size", 100),
            replace=self.case.setting.get("replace", "auto"),
        )
        return f"{text}    drift: evolve\nclean: {{keep_runs: {self.case.setting['keep_runs']}}}\n"

    def _edit(self, number: int, rows: int, header: str = "id,note", kind: str = "{n}") -> Any:
        """As `tabling` does, with columns that differ from version to version."""
        if rows == 0:
            return super()._edit(number, rows)
        key = f"f{number}.csv"
        path = self.folder / "data" / key
        version = len(self.versions[key])
        notes = tuple(f"{number}.{version}.{row}" for row in range(rows))
        self.versions[key].append(notes)
        more = header.count(",") - 1
        lines = "".join(
            ",".join((self.line(number, version, row), *[kind.format(n=row)] * more, note)) + "\n"
            for row, note in enumerate(notes)
        )
        return self.lay(path, version, f"{header}\n{lines}".encode())

    def do(self, actor: Actor, op: Op, note: Operation) -> Any:
        kind, *asked = op
        return self._follow(*asked) if kind == "follow" else super().do(actor, op, note)

    # Readers.

    def _by_hand(self, pause: Any = lambda step: None) -> ByHand:
        place = self.config.place("t")
        return ByHand(storage_of(place).get, location_of(place), pause)

    def _follow(self, hours: float, before: str, ahead: bool) -> Any:
        began = self.world.now

        def is_late() -> bool:
            return self.world.now - began > GRACE.total_seconds() * 1e9 * 0.95

        def pause(step: str) -> None:
            if step == before and hours:
                self.world.sleep(hours * 3600)

        try:
            shown = self._by_hand(pause).read(ahead=ahead)
        except Broken as error:
            if is_late():
                return ("too late",)
            raise Wrong("a hole for Iceberg readers", str(error)) from error
        except FileNotFoundError as error:
            if "version-hint" in str(error) or "version-hint" in str(error.filename):
                raise Wrong("no hint", str(error)) from error
            raise
        if is_late():
            return ("too late",)
        self._is_whole_snapshot(shown)
        return ("followed", shown.version, len(shown.rows))

    def _is_whole_snapshot(self, shown: Shown) -> None:
        if len(shown.rows) != shown.promised:
            raise Wrong("half shown", f"{shown.promised} rows were promised: {shown.rows}")
        notes = Counter(str(row.get("note")) for row in shown.rows)
        for number in range(KEYS):
            mine = tuple(sorted(note for note in notes.elements() if note.startswith(f"{number}.")))
            known = {tuple(sorted(one)) for one in self.versions[f"f{number}.csv"] if one is not None}
            if mine and mine not in known:
                raise Wrong("half shown", f"f{number}.csv was never {mine}; it was {known}")
        try:
            with lading.open(self.table, ref=shown.ref) as reader:
                rows = reader.scan().to_table().drop_columns(["_source"]).to_pylist()
        except (ManifestGone, NotFound):
            return  # cleaned away since
        except (LadingError, OSError) as error:
            if self._shaky(error):
                return
            raise
        if _counted(rows) != _counted(shown.rows):
            raise Wrong("another table", f"lading: {rows}\nIceberg: {shown.rows}")

    # The end.

    def check(self, history: list[Operation]) -> None:
        in_process(self.world, self._never_goes_back)
        super().check(history)
        in_process(self.world, self._is_shown)

    def _never_goes_back(self) -> None:
        """Each version shows a snapshot that is no older than that of the version before, unless somebody
        moved the pointer back: some readers take up the newest version, whatever the hint says."""
        if any(op[0] in ("rollback", "repair") for ops in self.case.actors for op in ops):
            return
        storage = storage_of(self.config.place("t"))
        versions = {version_of(one.name): one.name for one in storage.list("metadata")}
        shown = []
        for name in (versions[number] for number in sorted(filter(None, versions))):
            told = json.loads(storage.get(name))
            sequences = {one["snapshot-id"]: one["sequence-number"] for one in told["snapshots"]}
            shown.append(sequences[told["current-snapshot-id"]])
        if shown != sorted(shown):
            raise Wrong("went back", f"the versions show the sequences {shown}")

    def _converges(self) -> None:
        super()._converges()
        self._is_shown()

    def _is_shown(self) -> None:
        """The pointer's snapshot, in every row and value."""
        current = store_of(self.config, "t").load_current()
        try:
            shown = self._by_hand().read()
            ahead = self._by_hand().read(ahead=True)
        except (Broken, FileNotFoundError) as error:
            raise Wrong("a hole for Iceberg readers", f"in the end: {error}") from error
        for one in (shown, ahead):
            if current is None or one.ref != current.ref:
                raise Wrong("left behind", f"Iceberg readers see {one.ref}, lading's {current}")
            self._is_whole_snapshot(one)

    def _keeps_nothing(self) -> None:
        run(self.config, allow_vanish=True)
        super()._keeps_nothing()
        place = self.config.place("t")
        names = [one.name for one in storage_of(place).list("metadata")]
        versions = [name for name in names if name.endswith(".metadata.json")]
        if len(versions) > 2:
            raise Wrong("kept for ever", f"{versions}")
        lists = [name for name in names if "/snap-" in name]
        if len(lists) > 1 + len(store_of(self.config, "t").list_manifests()):
            raise Wrong("kept for ever", f"{lists}")


def _counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


STORIES["showing"] = Showing


def make(seed: int) -> Case:
    chance = random.Random(seed)
    storage = chance.choice(("folder", "bucket"))
    faults = some_faults(chance, storage, less=0.25, also=("jump", "freeze"))
    actors = []
    for _ in range(chance.randint(2, 4)):
        actors.append(tuple(_op(chance) for _ in range(chance.randint(2, 4))))
    if chance.random() < 0.35:  # a reader that is slow to follow what is replaced and cleaned meanwhile
        actors[0] = (["wait", chance.choice((1, 26 * 3600, 80 * 3600))], _follow(chance), _follow(chance))
        actors[1] = (["wait", 80 * 3600], ["edit", 2, 3], ["run"], ["clean", 1], ["wait", 3600], ["clean", 1])
    if chance.random() < 0.12:  # a column becomes of another type while requests and writes fail
        other = chance.choice(KINDS[1:])
        actors = [
            (
                ["edit", 0, 3, "id,a,note", "{n}"],
                ["run"],
                ["edit", 1, 2, "id,a,note", other],
                ["run"],
                ["run"],
            )
        ]
        faults = Faults(disk=0.02) if storage == "folder" else Faults(refused=0.02)
    if chance.random() < 0.08:  # publishers at once, of whom none moves the pointer back
        actors = [(["edit", key, 2], ["run"], ["edit", key, 3], ["run"]) for key in range(3)]
        faults = Faults(sticky=0.97)
    setting = {
        "checkpoint": chance.choice((1000, 3)),
        "bucket_size": chance.choice((100, 1000)),
        "held": chance.random() < 0.2,
        "replace": chance.choice(("auto", "rewrite", "minus", "minus")),
        "keep_runs": chance.choice((1, 2, 10)),
    }
    return Case("showing", storage, chance.getrandbits(48), tuple(actors), faults, setting)


@cache
def _kinds() -> tuple[tuple[str, ...], tuple[float, ...]]:
    rates = {
        "edit": 8, "run": 8, "merge": 2, "clean": 3, "rollback": 1.5, "release": 1.5, "follow": 7,
        "repair": 0.5, "full": 0.3, "wait": 2,
    }  # fmt: skip
    return tuple(rates), tuple(rates.values())


def _follow(chance: random.Random) -> Op:
    step = chance.choice(("metadata", "list", "manifest", "parts"))
    return ["follow", chance.choice((0, 0, 1, 20)), step, chance.random() < 0.3]


def _op(chance: random.Random) -> Op:
    kind = chance.choices(*_kinds())[0]
    if kind == "edit":
        rows = chance.choice((0, 1, 2, 3, 5))
        return [kind, chance.randrange(KEYS), rows, chance.choice(HEADERS), chance.choice(KINDS)]
    if kind in ("clean", "rollback"):
        return [kind, chance.choice((1, 1, 2))]
    if kind == "follow":
        return _follow(chance)
    if kind == "wait":
        return [kind, chance.choice((1, 600, 30 * 3600))]
    return [kind]
