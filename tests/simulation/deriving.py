"""The story of a chain of tables made of tables: source files come, change and vanish, inputs are merged,
cleaned, rolled back and released, runs of all tables or of one go on beside each other and die anywhere.

What holds (invariant 12): at every moment a derived table's rows are its query over the snapshots of its
inputs that it names; when the faults end, one run makes each the query over what readers see of its inputs,
and the next one changes nothing.

DuckDB evaluates the queries in place of Spark, as in `tests/properties/test_derived_equals_evaluated.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from functools import cache
from typing import Any

from support.chains import BUCKET, FIRST, NEXT, SCHEMAS, SOURCES, by_duckdb, counted, over

import lading
from lading.config.file import load as load_config
from lading.errors import Conflict, LadingError, ManifestGone, NotFound, NotReady
from lading.ingest.derived import changed, count, evaluate
from lading.ingest.derived.inputs import pins_in
from lading.run import run
from lading.snapshots.history import Wanted
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.by_url import store_of
from lading.upkeep.clean.apply import CleanReport, clean_tables
from lading.upkeep.clean.survey import Rules
from lading.upkeep.merge import merge_table
from lading.upkeep.rollback import release_hold, roll_back
from lading.upkeep.verify import verify
from simulation.case import STORIES, Actor, Case, Op, Wrong
from simulation.faults import some_faults
from simulation.kernel import World
from simulation.linear import Operation
from simulation.tabling import GRACE, SILENT, Tabling

PORTS = ("hh", "ro", "si", "sa", "", "du", "an")
FILES = ("m1.csv", "m2.csv", "m3.csv", "p1.csv", "p2.csv")
HEADERS = {"m": "port,day,tonnes", "p": "port,country"}
Rows = Counter[tuple[Any, ...]]


class Deriving(Tabling):
    def __init__(self, world: World, case: Case, place: str) -> None:
        super().__init__(world, case, place)
        evaluate.through_spark = by_duckdb
        count.HERE = count.HERE_BY_COLUMNS = 1 << 60
        changed.EXACT_ROWS = case.setting["exact"]
        self.tables: dict[str, list[str]] = case.setting["tables"]
        self.number = 0

    def config_text(self) -> str:
        replace, slots = self.case.setting["replace"], self.case.setting["slots"]
        text = (SOURCES % {"replace": replace, "iceberg": "false"}).replace(
            "warehouse: warehouse", f"warehouse: {self.warehouse}"
        )
        for name, (inputs, sql) in self.tables.items():
            more = f"\n    slots: {slots}" if "by: port" in inputs or "by: [" in inputs else ""
            text += f"  {name}:\n    from: {inputs}\n    sql: {sql!r}\n    replace: {replace}{more}\n"
        return text

    def prepare(self) -> None:
        (self.folder / "data").mkdir(parents=True)
        (self.folder / "schema").mkdir()
        for name, text in SCHEMAS.items():
            (self.folder / "schema" / f"{name}.yaml").write_text(text)
        (self.folder / "lading.yaml").write_text(self.config_text())
        self.config = load_config(self.folder)
        self._put("m1.csv", [["hh", 1, 4], ["ro", 2, 5], ["hh", 7, 1]])
        self._put("p1.csv", [["hh", "de"], ["ro", "nl"]])
        self.world.now += 3600 * 10**9
        self._ran(run(self.config))

    def do(self, actor: Actor, op: Op, note: Operation) -> Any:
        kind, *asked = op
        if kind == "put":
            return self._put(*asked)
        if kind == "run":
            return self._ran(run(self.config, asked[0], allow_vanish=True, only=bool(asked[0])))
        if kind == "merge":
            return ("merged", merge_table(self.config, asked[0]).parts_removed)
        if kind == "clean":
            self._clean()
            return ("cleaned",)
        if kind == "rollback":
            return ("moved", roll_back(self.config, asked[0], Wanted(offset=1)).now.sequence)
        if kind == "release":
            return ("moved", release_hold(self.config, asked[0]).now.sequence)
        if kind == "compare":
            return self._compare(asked[0])
        raise AssertionError(kind)

    def answer_to(self, error: Exception) -> Any:
        if isinstance(error, NotReady):
            return ("not ready",)
        return super().answer_to(error)

    def _put(self, key: str, rows: list[list[Any]] | None) -> Any:
        path = self.folder / "data" / key
        if rows is None:
            path.unlink(missing_ok=True)
            return ("removed",)
        self.number += 1
        lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
        return self.lay(path, self.number, f"{HEADERS[key[0]]}\n{lines}".encode())

    def _clean(self) -> list[CleanReport]:
        done = clean_tables(self.config, ("moves", "ports", *self.tables), Rules(1, GRACE), apply=True)
        for report in done:
            if report.error is not None:
                raise report.error
        return done

    @staticmethod
    def _ran(report: Any) -> Any:
        if report.error is not None:
            raise report.error
        return ("ran", [(one.table, one.sequence) for one in report.tables])

    # Readers.

    def _open(self, name: str, ref: str | None = None) -> lading.Reader:
        return lading.open(f"{self.warehouse}/{name}", ref=ref)

    @staticmethod
    def _rows(reader: lading.Reader) -> Any:
        return reader.to_arrow().read_all().drop_columns(["_source"])

    def _compare(self, name: str) -> Any:
        """What readers see of a derived table, beside its query over what it names."""
        began = self.world.now
        try:
            self._has_inputs(name)
            with self._open(name) as reader:
                found = counted(self._rows(reader))
                refs = {one["name"]: one["ref"] for one in reader.info()["inputs"]}
            inputs = {}
            for one, ref in refs.items():
                with self._open(one, ref) as reader:
                    inputs[one] = self._rows(reader)
        except (NotFound, ManifestGone):
            return ("not there",)  # a table without rows, or one that moved on days ago
        except (LadingError, OSError) as error:
            if self._shaky(error) or self.world.now - began > GRACE.total_seconds() * 1e9 * 0.95:
                return None
            raise Wrong("a hole", f"{type(error).__name__}: {error}") from error
        wanted = counted(over(inputs, self.tables[name][1]))
        if found != wanted:
            raise Wrong("not what is evaluated", f"{name} more: {found - wanted}; less: {wanted - found}")
        return ("equal", sum(found.values()))

    def _has_inputs(self, name: str) -> None:
        """Readers can be led back to any snapshot, so what each was made from is there as long as it is."""
        store = store_of(self.config, name)
        for snapshot in store.list_manifests():
            with suppress(ManifestGone):
                for pin in pins_in(build_meta(store, snapshot.ref).custom).values():
                    if not self._is_there(pin.name, pin.ref) and self._is_there(name, snapshot.ref):
                        raise Wrong("made from what is gone", f"{name} {snapshot.ref}: {pin}")

    def _is_there(self, name: str, ref: str) -> bool:
        try:
            build_meta(store_of(self.config, name), ref)
        except ManifestGone:
            return False
        return True

    # The end.

    def _converges(self) -> None:
        self.world.sleep(60)
        self._drop_torn()
        for name in ("moves", "ports", *self.tables):
            with suppress(Conflict, NotFound):
                release_hold(self.config, name)
        first = run(self.config, allow_vanish=True)
        if first.error is not None:
            raise Wrong("does not converge", f"{first.error}")
        self._is_evaluated()
        told = [_told(first)]
        for _ in range(3):  # a file that was racy is compared once
            self.world.sleep(60)
            again = run(self.config, allow_vanish=True)
            told.append(_told(again))
            if any(one.rows_added for one in again.tables):
                raise Wrong("never rests", f"{told}")
            if told[-1] == told[-2]:
                return
        raise Wrong("never rests", f"{told}")

    def _is_evaluated(self) -> None:
        if (found := self._seen_now("moves")) != (truth := self._truth("m")):
            raise Wrong("not what the files say", f"more: {found - truth}; less: {truth - found}")
        for name, (_, sql) in self.tables.items():
            inputs = {}
            for one in self._inputs(name):
                with suppress(NotFound), self._open(one) as reader:
                    inputs[one] = self._rows(reader)
            if len(inputs) < len(self._inputs(name)):
                continue  # of an input that never had a row
            wanted = counted(over(inputs, sql))
            found = self._seen_now(name)
            if found != wanted:
                raise Wrong("not what is evaluated", f"{name} more: {found - wanted}; less: {wanted - found}")
            self._compare(name)

    def _inputs(self, name: str) -> list[str]:
        derived = self.config.table(name).derived
        assert derived is not None
        return list(derived.tables)

    def _seen_now(self, name: str) -> Rows:
        try:
            with self._open(name) as reader:
                return counted(self._rows(reader))
        except NotFound:
            return Counter()

    def _truth(self, first: str) -> Rows:
        found: Rows = Counter()
        for path in sorted((self.folder / "data").glob(f"{first}*.csv")):
            for line in path.read_text().splitlines()[1:]:
                port, day, tonnes = line.split(",")
                found[int(day), port or None, int(tonnes)] += 1
        return found

    def _is_whole(self) -> None:
        for name in ("moves", "ports", *self.tables):
            found, _ = verify(self.config, name, watch=SILENT)
            wrong = [one for one in found.findings if one.level == "error"]
            if wrong:
                raise Wrong("verify", f"{wrong}")

    def _holds(self) -> None:
        """An input that is rolled back is what others are made of, for days of cleaning."""
        self._put("m1.csv", [["hh", 3, 9], ["du", -4, 2]])
        self.world.sleep(60)
        self._ran(run(self.config, allow_vanish=True))
        with suppress(NotFound):
            roll_back(self.config, "moves", Wanted(offset=1))
        self._put("m2.csv", [["si", 3, 3]])
        for _ in range(2):
            self.world.sleep(3 * 24 * 3600)
            self._ran(run(self.config, allow_vanish=True))
            self._clean()
            for name in self.tables:
                self._compare(name)
        with suppress(Conflict, NotFound):
            release_hold(self.config, "moves")
        self._ran(run(self.config, allow_vanish=True))
        self._is_evaluated()

    def _keeps_nothing(self) -> None:
        for _ in range(3):
            self.world.sleep(10 * 24 * 3600)
            if not any(one.deleted or one.gave_up for one in self._clean()):
                break
        self._is_evaluated()
        for name in ("moves", "ports", *self.tables):
            kept = store_of(self.config, name).list_manifests()
            if len(kept) > 2 + len(self.tables):
                raise Wrong("kept for ever", f"{[one.ref for one in kept]}")


def _told(report: Any) -> list[Any]:
    return [(one.table, one.sequence, one.error) for one in report.tables]


STORIES["deriving"] = Deriving


def make(seed: int) -> Case:
    chance = random.Random(seed)
    storage = chance.choice(("folder", "bucket"))
    faults = some_faults(chance, storage, less=0.12, also=("jump", "freeze"))
    tables = _tables(chance)
    actors = []
    for _ in range(chance.randint(2, 3)):
        actors.append(tuple(_op(chance, list(tables)) for _ in range(chance.randint(2, 5))))
    setting = {
        "tables": tables,
        "slots": chance.choice((1, 3, 8)),
        "replace": chance.choice(("auto", "rewrite", "minus")),
        "checkpoint": chance.choice((1000, 3)),
        "exact": chance.choice((0, 4, 2_000_000)),
        "held": chance.random() < 0.3,
    }
    return Case("deriving", storage, chance.getrandbits(48), tuple(actors), faults, setting)


def _tables(chance: random.Random) -> dict[str, list[str]]:
    tables = {"one": list((FIRST | BUCKET)[chance.choice([*FIRST, *BUCKET])])}
    if chance.random() < 0.6:
        inputs, sql = NEXT[chance.choice([*NEXT])]
        tables["two"] = [inputs % {"below": "one"}, sql % {"below": "one"}]
    return tables


@cache
def _kinds() -> tuple[tuple[str, ...], tuple[float, ...]]:
    rates = {
        "put": 8, "run": 8, "merge": 2, "clean": 2, "rollback": 1.5, "release": 1.5, "compare": 3, "wait": 2,
    }  # fmt: skip
    return tuple(rates), tuple(rates.values())


def _op(chance: random.Random, derived: list[str]) -> Op:
    kind = chance.choices(*_kinds())[0]
    if kind == "put":
        key = chance.choice(FILES)
        return [kind, key, None if chance.random() < 0.2 else _some(chance, key)]
    if kind == "run":
        return [kind, [] if chance.random() < 0.7 else [chance.choice(("moves", "ports", *derived))]]
    if kind == "merge":
        return [kind, chance.choice(("moves", "ports", *derived))]
    if kind in ("rollback", "release"):
        return [kind, chance.choice(("moves", "moves", "ports", *derived))]
    if kind == "compare":
        return [kind, chance.choice(derived)]
    if kind == "wait":
        return [kind, chance.choice((1, 600, 30 * 3600))]
    return [kind]


def _some(chance: random.Random, key: str) -> list[list[Any]]:
    if key[0] == "p":
        return [[chance.choice(PORTS), chance.choice(("de", "nl"))] for _ in range(chance.randint(1, 3))]
    return [
        [chance.choice(PORTS), chance.randint(-12, 12), chance.randint(0, 5)]
        for _ in range(chance.randint(1, 5))
    ]
