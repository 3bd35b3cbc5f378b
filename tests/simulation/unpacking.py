"""The story of a table out of archives that sets aside what doesn't fit: archives come, change and vanish
while runs extract and read them, the cache is cleared, the check is loosened and tightened, and what was set
aside is replayed.

What holds: a reader sees each member of an archive in one of its versions, whole but for what a check of
that time set aside; in the end the table has every row that passes, and the quarantine has every other,
once.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections import Counter
from functools import cache
from typing import Any

from lading.errors import NotFound
from lading.ingest.quarantine import list_aside, show_aside
from lading.run import run
from lading.sources.archives.cache import cache_contents, clear_cache
from simulation.case import STORIES, Actor, Case, Op, Wrong
from simulation.faults import some_faults
from simulation.kernel import World
from simulation.linear import Operation
from simulation.tabling import CONFIG, Tabling

ARCHIVES = 3
MEMBERS = ("a", "b")
LIMITS = (20, 60, 1000)
Member = tuple[
    tuple[int | None, str], ...
]  # of each row its id, None for one that isn't a number, and its note


class Unpacking(Tabling):
    sources = "*.zip"

    def __init__(self, world: World, case: Case, place: str) -> None:
        super().__init__(world, case, place)
        self.asked = LIMITS[-1]
        self.known: dict[str, list[Member]] = {}  # by "<archive>/<member>": what it has been

    def config_text(self) -> str:
        text = CONFIG.format(
            warehouse=self.warehouse,
            bucket_size=self.case.setting["bucket_size"],
            replace=self.case.setting["replace"],
        )
        text = text.replace('path: "*.csv"', 'path: "*.zip"\n    inside: "*.csv"')
        check = f"    checks:\n      - {{range: {{column: id, max: {self.asked}}}}}\n"
        return f"{text}    on_bad: quarantine\n{check}"

    def prepare(self) -> None:
        (self.folder / "data").mkdir(parents=True)
        (self.folder / "schema").mkdir()
        (self.folder / "schema" / "t.yaml").write_text(self.schema)
        self.configure()
        self.table = f"{self.warehouse}/t"
        self._zip(0, [2, 1], 0)
        self._zip(1, [3, 0], 1)
        self.world.now += 3600 * 10**9
        self._ran(run(self.config))

    def do(self, actor: Actor, op: Op, note: Operation) -> Any:
        kind, *asked = op
        if kind == "zip":
            return self._zip(*asked)
        if kind == "run":
            return self._ran(run(self.config, allow_vanish=True))
        if kind == "limit":
            self.asked = asked[0]
            self.configure()
            return ("configured",)
        if kind == "replay":
            return self._ran(run(self.config, ["t"], allow_vanish=True, replay=()))
        if kind == "cache":
            return ("cleared", len(clear_cache(self.config)))
        return super().do(actor, op, note)

    @property
    def limit(self) -> int:
        """Of two people who edit lading.yaml at once the last to save it wins, not the last to begin."""
        [check] = self.config.table("t").checks
        return int(check.most or 0)

    @staticmethod
    def _ran(report: Any) -> Any:
        if report.error is not None:
            raise report.error
        return ("ran", report.tables[0].sequence, report.tables[0].rows_rejected)

    def _zip(self, number: int, rows: list[int] | None, bad: int) -> Any:
        """Of each member so many rows, the last `bad` of which have no number."""
        path = self.folder / "data" / f"z{number}.zip"
        if rows is None:
            path.unlink(missing_ok=True)
            return ("removed",)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, count in zip(MEMBERS, rows, strict=True):
                if count:
                    key = f"z{number}/{name}"
                    lines = self._rows(key, number, count, bad)
                    archive.writestr(zipfile.ZipInfo(f"{name}.csv"), f"{self.header}\n{lines}")
        version = sum(map(len, self.known.values()))
        return self.lay(path, version, out.getvalue())

    def _rows(self, key: str, number: int, count: int, bad: int) -> str:
        versions = self.known.setdefault(key, [])
        version = len(versions)
        rows = tuple(
            (None if row >= count - bad else number * 7 + row * 25, f"{key.replace('/', '')}.{version}.{row}")
            for row in range(count)
        )
        versions.append(rows)
        return "".join(f"{'none' if at is None else at},{note}\n" for at, note in rows)

    def _are_whole_files(self, seen: Counter[str]) -> None:
        for key, versions in self.known.items():
            mine = sorted(note for note in seen.elements() if note.startswith(key.replace("/", "") + "."))
            allowed = [sorted(_passing(one, limit)) for one in versions for limit in LIMITS]
            if mine and mine not in allowed:
                raise Wrong("half seen", f"{key} was never {mine}; it was {versions}")

    # The end.

    def _lines(self) -> list[tuple[str, str]]:
        found = []
        for path in sorted((self.folder / "data").glob("*.zip")):
            with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
                for name in archive.namelist():
                    for line in archive.read(name).decode().splitlines()[1:]:
                        at, _, note = line.partition(",")
                        found.append((at, note))
        return found

    def truth(self) -> Counter[str]:
        return Counter(note for at, note in self._lines() if at != "none" and int(at) <= self.limit)

    def _converges(self) -> None:
        super()._converges()
        wanted = len(self._lines()) - sum(self.truth().values())
        aside = sum(one.rows for one in list_aside(self.config, "t"))
        if aside != wanted:
            raise Wrong("set aside", f"{aside} rows, not {wanted}: {list_aside(self.config, 't')}")
        clear_cache(self.config)
        left = [one for one in cache_contents(self.config) if not one.needed]
        if left:
            raise Wrong("kept for ever", f"{left}")

    def _now(self) -> Counter[str]:
        try:
            return super()._now()
        except NotFound:
            return Counter()  # no row ever passed

    def _keeps_nothing(self) -> None:
        super()._keeps_nothing()
        wanted = len(self._lines()) - sum(self.truth().values())
        if sum(1 for _ in show_aside(self.config, "t")) != wanted:
            raise Wrong("cleaned away", "what was set aside")


def _passing(rows: Member, limit: int) -> list[str]:
    return [note for at, note in rows if at is not None and at <= limit]


STORIES["unpacking"] = Unpacking


def make(seed: int) -> Case:
    chance = random.Random(seed)
    storage = chance.choice(("folder", "bucket"))
    faults = some_faults(chance, storage, less=0.2, also=("jump", "freeze"))
    actors = []
    for _ in range(chance.randint(2, 3)):
        actors.append(tuple(_op(chance) for _ in range(chance.randint(2, 5))))
    if chance.random() < 0.15:  # two people edit lading.yaml at once
        some = chance.sample(LIMITS, 2)
        actors[:2] = [(["limit", limit], *ops[1:]) for limit, ops in zip(some, actors, strict=False)]
    setting = {
        "checkpoint": chance.choice((1000, 3)),
        "bucket_size": chance.choice((50, 1000)),
        "replace": chance.choice(("auto", "rewrite", "minus")),
    }
    return Case("unpacking", storage, chance.getrandbits(48), tuple(actors), faults, setting)


@cache
def _kinds() -> tuple[tuple[str, ...], tuple[float, ...]]:
    rates = {
        "zip": 8, "run": 8, "limit": 2, "replay": 1.5, "cache": 1.5, "merge": 1, "clean": 1.5, "read": 3,
        "reset": 0.4, "full": 0.3, "wait": 2,
    }  # fmt: skip
    return tuple(rates), tuple(rates.values())


def _op(chance: random.Random) -> Op:
    kind = chance.choices(*_kinds())[0]
    if kind == "zip":
        rows = None if chance.random() < 0.2 else [chance.choice((0, 1, 3)), chance.choice((0, 2, 4))]
        return [kind, chance.randrange(ARCHIVES), rows, chance.choice((0, 0, 1, 2))]
    if kind == "limit":
        return [kind, chance.choice(LIMITS)]
    if kind == "clean":
        return [kind, 1]
    if kind == "read":
        return [kind, chance.choice((0, 0, 1, 20)), chance.choice((0, 0, 1))]
    if kind == "wait":
        return [kind, chance.choice((1, 600, 30 * 3600))]
    return [kind]
