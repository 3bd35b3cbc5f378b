"""Invariant 12: whatever happens to source files, inputs and runs, a table made of tables equals its query
evaluated over the snapshots of its inputs that it names, and each row of it says which slot it is in.

Runs, merges and cleanings are killed at the start of a phase, and between any two effects on the disk.
Without Spark, so that there can be hundreds of histories (support/chains.py); real Spark has its turn at the
end. LADING_SEED=<n> repeats a run.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import xxhash
from support.chains import Chain, Dying, Moment, without_spark
from support.machines import SEED, SOAK, Killed

from lading.errors import LadingError, NotFound
from lading.ingest.derived import changed
from lading.snapshots.history import Wanted
from lading.upkeep.clean.apply import clean_tables
from lading.upkeep.clean.survey import Rules
from lading.upkeep.merge import merge_table
from lading.upkeep.rollback import release_hold, roll_back
from lading.watch import Watch

PHASES = ["discover", "plan", "prepare", "ingest", "commit", "record", "publish", "clean", "done"]
PORTS = ["hh", "ro", "si", "sa", "", "du", "an"]
KEYS = ["m1.csv", "m2.csv", "m3.csv", "p1.csv", "p2.csv"]
HISTORIES, STEPS = (3000, 12) if SOAK else (300, 6)
ON_SPARK = 100 if SOAK else 2
PORTIONS = 60 if SOAK else 6  # a test each: none takes minutes
MOST_EFFECTS = 250  # of a run that makes all tables


class KillAt(Watch):
    """Ends a run at the start of a phase of one table."""

    def __init__(self, table: str, phase: str) -> None:
        self._at = (table, phase)

    def phase(self, table: str, name: str) -> None:
        if (table, name) == self._at:
            raise Killed(name)


class History:
    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.chain = Chain(folder, self.chance)
        self.put("m1.csv")
        self.put("p1.csv")

    def put(self, key: str) -> None:
        chance = self.chance
        if key[0] == "m":
            rows = [
                (chance.choice(PORTS), chance.randint(-12, 12), chance.randint(0, 5))
                for _ in range(chance.randint(0, 6))
            ]
        else:
            rows = [(chance.choice(PORTS), chance.choice(["de", "nl"])) for _ in range(chance.randint(0, 3))]
        self.chain.put(key, rows)

    def step(self) -> None:
        doing = [
            self.edit, self.edit, self.edit, self.delete, self.rename, self.merge, self.clean, self.roll_back,
            self.release, self.run, self.killed, self.dies, self.dies, self.dies, self.forget, self.reslot,
        ]  # fmt: skip
        self.chance.choice(doing)()

    def edit(self) -> None:
        self.put(self.chance.choice(KEYS))

    def files(self) -> list[Path]:
        return sorted(self.chain.data.glob("*.csv"))

    def delete(self) -> None:
        if self.files():
            self.chance.choice(self.files()).unlink()

    def rename(self) -> None:
        if self.files():
            one = self.chance.choice(self.files())
            one.rename(one.with_name(f"{one.name[0]}9.csv"))

    def any(self) -> str:
        return self.chance.choice(["moves", "ports", *self.chain.tables])

    def merge(self) -> None:
        with suppress(LadingError):
            merge_table(self.chain.config, self.any())

    def clean(self) -> None:
        """Of all tables, or of one alone, as `lading clean` does."""
        names = ["moves", "ports", *self.chain.tables] if self.chance.random() < 0.8 else [self.any()]
        rules = Rules(self.chance.choice([1, 1, 2]), timedelta(0))
        for report in clean_tables(self.chain.config, names, rules, apply=True):
            if report.error is not None:
                raise report.error

    def roll_back(self) -> None:
        with suppress(LadingError):
            roll_back(self.chain.config, self.any(), Wanted(offset=1))

    def release(self) -> None:
        for name in ("moves", "ports", *self.chain.tables):
            with suppress(LadingError):
                release_hold(self.chain.config, name)

    def forget(self) -> None:
        """Somebody removes a manifest: everything of that table is made again."""
        (self.chain.folder / "manifest" / f"{self.any()}.json").unlink(missing_ok=True)

    def reslot(self) -> None:
        self.chain.slots = self.chance.choice([1, 3, 8, 64])
        self.chain.write_config()

    def killed(self) -> None:
        with suppress(Killed):
            self.chain.run(watch=KillAt(self.any(), self.chance.choice(PHASES)))
        self.check()

    def dies(self) -> None:
        """Between two effects, most often of a run that has something to do."""
        doing = self.chance.choice([self.chain.run, self.chain.run, self.chain.run, self.merge, self.clean])
        if doing == self.chain.run:
            self.edit()
        at = self.chance.randint(1, self.chance.choice([20, MOST_EFFECTS]))
        with suppress(Killed), pytest.MonkeyPatch.context() as patch:
            Dying(patch, self.chain.folder, at, behind=self.chance.random() < 0.5)
            doing()
        self.check()

    def run(self) -> None:
        """A whole run leaves each table as what readers see of its inputs makes it."""
        report = self.chain.run(jobs=self.chance.choice([1, 1, 1, 3]))
        for table in report.tables:
            if table.error is not None:
                assert type(table.error).__name__ == "NotReady", table.error
        moment = self.check()
        for name in self.chain.tables:
            if self.chain.is_published(name) and not self.chain.is_held(name):
                assert moment.seen(name) == moment.evaluated(name, now=True), name
        if self.chance.random() < 0.3:
            again = self.chain.run()
            assert not again.spark_started and not any(table.rows_added for table in again.tables)

    def check(self) -> Moment:
        """At any moment what readers see is what the query gives over what it names."""
        moment = Moment(self.chain)
        for name in self.chain.tables:
            if not self.chain.is_published(name):
                continue
            assert moment.seen(name) == moment.evaluated(name), name
            self.check_slots(name, moment)
        return moment

    def check_slots(self, name: str, moment: Moment) -> None:
        inputs, _ = self.chain.tables[name]
        if "by: port" not in inputs:
            return
        with self.chain.open(name) as reader:
            told = {source.id: source.key for source in reader.sources()}
        slots, rows = len(told), moment.rows(name)
        for port, source in zip(rows["port"].to_pylist(), rows["_source"].to_pylist(), strict=True):
            slot = 0 if port is None else xxhash.xxh3_64_intdigest(port.encode()) % slots
            assert told[source] == f"slot={slot:05d}"


@pytest.fixture(autouse=True)
def few_rows_compared() -> Iterator[None]:
    """Sometimes there are too many rows to be compared, or the parts they are in are too large."""
    before = changed.EXACT_ROWS, changed.LARGE, changed.FEW
    yield
    changed.EXACT_ROWS, changed.LARGE, changed.FEW = before


def lived(folder: Path, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    changed.EXACT_ROWS = chance.choice([0, 4, 2_000_000])
    changed.LARGE, changed.FEW = chance.choice([0, 32 << 20]), chance.choice([0, 2])
    history = History(folder, seed)
    try:
        history.run()
        for _ in range(steps):
            history.step()
        history.run()
    except NotFound:
        raise
    except BaseException as error:
        error.add_note(f"seed {seed}: {history.chain.tables}, in {folder}")
        raise
    shutil.rmtree(folder)


def test_derived_equals_evaluated_on_spark(tmp_path, spark):
    print(f"LADING_SEED={SEED}")
    for number in range(ON_SPARK):
        lived(tmp_path / str(number), SEED + number, 3)


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_derived_equals_evaluated(tmp_path, monkeypatch, portion):
    without_spark(monkeypatch)
    print(f"LADING_SEED={SEED}")
    for number in range(portion, HISTORIES, PORTIONS):
        lived(tmp_path / str(number), SEED + number, STEPS)
