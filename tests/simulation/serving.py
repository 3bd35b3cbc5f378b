"""The story of a table that is served by key: the same files, runs and upkeep as in `tabling`, with shards
that are built by tasks (which fail, run twice, and go on after their driver died), and readers that hold a
snapshot and ask it for keys while shards are built and cleaned away.

What holds: every answer is that of the snapshot that the reader opened, worked out from its rows; a key is
looked for where plain arithmetic says it is; of rows with one key the one counts that the policy says; and in
the end there is a shard for each that has rows, and none that no snapshot names.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from functools import cache
from typing import Any

import xxhash

import lading
from lading.errors import GateFailed, LadingError
from lading.snapshots.opening import Mentioned, references
from lading.snapshots.stores.by_url import store_of
from lading.storage.place import storage_of
from lading.upkeep.clean.apply import cleanup_losers, cleanup_old_runs, cleanup_stale_attempts
from lading.upkeep.clean.files import files_of
from simulation import executors
from simulation.case import STORIES, Actor, Case, Op, Wrong
from simulation.faults import some_faults
from simulation.kernel import World
from simulation.linear import Operation
from simulation.tabling import CONFIG, GRACE, Tabling

IDS = 9
SERVE = """\
    serve:
      key: id
      value: [day, note]
      shards: {shards}
      duplicates: {duplicates}
"""
Values = dict[int, bytes]


class Serving(Tabling):
    header = "id,day,note"
    schema = """\
columns:
  - {name: id, type: bigint}
  - {name: day, type: bigint}
  - {name: note, type: string}
"""

    def __init__(self, world: World, case: Case, place: str) -> None:
        super().__init__(world, case, place)
        executors.install()
        self.shards = case.setting["shards"]
        # Of this machine's processes, like the files: whoever fetches a shard waits for whoever does already.
        os.environ["LADING_CACHE"] = f"{case.setting['folder']}/cache"

    @property
    def _latest(self) -> bool:
        return bool(self.case.setting["duplicates"] == "latest")

    def config_text(self) -> str:
        setting = self.case.setting
        text = CONFIG.format(
            warehouse=self.warehouse,
            bucket_size=setting.get("bucket_size", 100),
            replace=setting.get("replace", "auto"),
        )
        serve = SERVE.format(shards=self.shards, duplicates=setting["duplicates"])
        return text.replace("order_by: id", "order_by: day") + serve

    def line(self, number: int, version: int, row: int) -> str:
        """Keys that files share, or, where that is refused, mostly not."""
        key = (number * 2 + row * 3) % IDS if self._latest or version % 5 == 4 else number * 2 + row * 10
        return f"{key},{(version + row) % 3 * 60}"

    def do(self, actor: Actor, op: Op, note: Operation) -> Any:
        kind, *asked = op
        if kind == "get":
            return self._get(*asked)
        if kind == "reshard":
            self.shards = asked[0]
            self.configure()
            return ("configured",)
        if kind == "losers":
            return ("cleaned", len(cleanup_losers(self.config, "t", grace=GRACE).deleted))
        if kind == "stale":
            return ("cleaned", len(cleanup_stale_attempts(self.config, "t", grace=GRACE).deleted))
        if kind == "old":
            return ("cleaned", len(cleanup_old_runs(self.config, "t", keep_runs=1, grace=GRACE).deleted))
        return super().do(actor, op, note)

    def answer_to(self, error: Exception) -> Any:
        if isinstance(error, GateFailed) and not self._latest:
            return ("refused",)
        return super().answer_to(error)

    # Readers.

    def _get(self, hours: float, offset: int | None = None) -> Any:
        """What the snapshot says at once, and what it says after a while, key by key and all together."""
        began = self.world.now

        def is_late() -> bool:
            return self.world.now - began > GRACE.total_seconds() * 1e9 * 0.95

        with lading.open(self.table, offset=offset or None) as reader:
            try:
                expected = self._expected(reader)
                first = self._some(reader)
                if hours:
                    self.world.sleep(hours * 3600)
                if is_late():
                    return ("too late",)
                found = reader.multi_get(range(IDS + 40))
                one_by_one = self._some(reader)
            except (LadingError, OSError) as error:
                if is_late() or self._shaky(error):
                    return ("too late",)
                raise Wrong("a hole", f"{type(error).__name__}: {error}") from error
            self._compare({key: value for key, value in found.items() if value is not None}, expected)
            for some in (first, one_by_one):
                wrong = {key: value for key, value in some.items() if expected.get(key) != value}
                if wrong:
                    raise Wrong("another answer", f"get said {wrong}; the snapshot has {expected}")
        return ("got", len(expected))

    def _some(self, reader: lading.Reader) -> dict[int, bytes | None]:
        return {key: reader.get(key) for key in (0, 3, 4, IDS - 1)}

    def _expected(self, reader: lading.Reader) -> Values:
        """By key, worked out from the rows of the same snapshot; and where it has to be looked for."""
        sources = {one.id: one.key for one in reader.sources()}
        rows = reader.scan(columns=["id", "day", "note", "_source"]).to_table().to_pylist()
        found = _values((row["id"], row["day"], row["note"], sources[row["_source"]]) for row in rows)
        count = reader.info()["serve"]["num_dbs"]
        for key in found:
            told = xxhash.xxh3_64_intdigest(key.to_bytes(8, "little", signed=True))
            if reader.route(key) != told % count:
                raise Wrong("routed elsewhere", f"{key} to {reader.route(key)} of {count}")
        if not self._latest and len(found) != len(rows):
            raise Wrong("one key twice", f"{rows}")
        return found

    @staticmethod
    def _compare(found: Values, expected: Values) -> None:
        if found != expected:
            wrong = {key: (found.get(key), expected.get(key)) for key in found.keys() | expected.keys()}
            shown = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
            raise Wrong("another answer", f"key: (answer, in the snapshot): {shown}")

    # The end.

    def _converges(self) -> None:
        self._drop_torn()
        if not self._latest:
            self._drop_twice()
        super()._converges()
        self._serves_all()

    def _drop_twice(self) -> None:
        """Files are taken away until no key is there twice, as somebody would whom the gate refused."""
        seen: set[int] = set()
        for path in sorted((self.folder / "data").glob("*.csv")):
            keys = [int(line.split(",")[0]) for line in path.read_text().splitlines()[1:]]
            if len(set(keys)) < len(keys) or seen.intersection(keys):
                path.unlink()
            else:
                seen.update(keys)

    def _serves_all(self) -> None:
        rows = []
        for path in sorted((self.folder / "data").glob("*.csv")):
            for line in path.read_text().splitlines()[1:]:
                key, day, note = line.split(",")
                rows.append((int(key), int(day), note, path.name))
        with lading.open(self.table) as reader:
            found = reader.multi_get(range(IDS + 40))
            self._compare({key: value for key, value in found.items() if value is not None}, _values(rows))
            for shard in reader.shards():
                if not shard.row_count:
                    raise Wrong("coverage", f"shard {shard.db_id} is listed and has no rows")

    def _holds(self) -> None:
        if self._latest:
            super()._holds()

    def _keeps_nothing(self) -> None:
        super()._keeps_nothing()
        self._serves_all()
        store = store_of(self.config, "t")
        mentioned: dict[str, Mentioned] = {}
        kept = [
            references(store, one.ref, self.config.place("t"), mentioned) for one in store.list_manifests()
        ]
        named = {url for one in kept for url in one.shards if url.startswith("shards/")}
        files = [one.path for one in files_of(self.config.place("t")) if one.kind == "shard"]
        left = [path for path in files if path.rpartition("/")[0] not in named]
        if left:
            raise Wrong("kept for ever", f"{left}")
        storage = storage_of(self.config.place("t"))
        missing = [url for url in named if not storage.has(f"{url}/shard.db")]
        if missing:
            raise Wrong("cleaned away", f"{missing}")


def _values(rows: Iterable[tuple[int, int, str, str]]) -> Values:
    """Of equal keys the greatest (order value, source key, value)."""
    best: dict[int, tuple[int, str, bytes]] = {}
    for key, day, note, source in rows:
        value = json.dumps({"day": day, "note": note}, separators=(",", ":")).encode()
        best[key] = max(best.get(key, (day, source, value)), (day, source, value))
    return {key: value for key, (_, _, value) in best.items()}


STORIES["serving"] = Serving


def make(seed: int) -> Case:
    chance = random.Random(seed)
    storage = chance.choice(("folder", "bucket"))
    faults = some_faults(chance, storage, less=0.2, also=("jump", "freeze"))
    actors = []
    for _ in range(chance.randint(2, 4)):
        actors.append(tuple(_op(chance) for _ in range(chance.randint(2, 4))))
    if chance.random() < 0.3:  # a reader that holds its snapshot while shards are built anew and cleaned
        actors[0] = (["get", 20, 0], ["get", 0, 0])
        actors[1] = (["edit", 2, 3], ["run"], ["edit", 0, 1], ["run"], ["wait", 3 * 3600], ["clean", 1])
    if storage == "bucket" and chance.random() < 0.3:  # one falls asleep over a download, others fetch on
        asleep = [
            "strike",
            "nap",
            *chance.choice((("create", "cache/."), ("get", "shard.db"), ("rename", "cache/"))),
        ]
        actors[0] = (asleep, ["get", 0, 0], ["get", 0, 0])
        actors[1] = (["wait", 600], ["edit", 0, 4], ["run"], ["get", 0, 0], *actors[1][:2])
    setting = {
        "checkpoint": chance.choice((1000, 3)),
        "bucket_size": chance.choice((50, 1000)),
        "held": chance.random() < 0.2,
        "replace": chance.choice(("auto", "rewrite", "minus")),
        "shards": chance.choice((1, 2, 3, 5)),
        "duplicates": chance.choice(("latest", "latest", "error")),
    }
    return Case("serving", storage, chance.getrandbits(48), tuple(actors), faults, setting)


@cache
def _kinds() -> tuple[tuple[str, ...], tuple[float, ...]]:
    rates = {
        "edit": 8, "run": 8, "merge": 1.5, "clean": 2, "losers": 0.7, "stale": 0.7, "old": 0.7,
        "rollback": 1.5, "release": 1, "get": 6, "reshard": 0.7, "repair": 0.4, "full": 0.3, "wait": 2,
    }  # fmt: skip
    return tuple(rates), tuple(rates.values())


def _op(chance: random.Random) -> Op:
    kind = chance.choices(*_kinds())[0]
    if kind == "edit":
        return [kind, chance.randrange(4), chance.choice((0, 1, 2, 3, 5))]
    if kind in ("clean", "rollback"):
        return [kind, chance.choice((1, 1, 2))]
    if kind == "get":
        return [kind, chance.choice((0, 0, 1, 20)), chance.choice((0, 0, 1))]
    if kind == "reshard":
        return [kind, chance.choice((1, 2, 4))]
    if kind == "wait":
        return [kind, chance.choice((1, 600, 30 * 3600))]
    return [kind]
