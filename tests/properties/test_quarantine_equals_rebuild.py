"""Invariant 1 with a quarantine: whatever happens to files and rules, and wherever a run is killed, the
table holds the rows that pass, and what is set aside is the rest. On real Spark, one shared session.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.checked import HEADER, Checked
from support.machines import KillAt, Killed, run_machine

from lading.ingest.quarantine import drop_aside, list_aside

KEYS = ["a.csv", "b.csv", "c.csv"]
LINES = st.lists(
    st.sampled_from(["1,1,oslo", "2,5,oslo", "3,9,bergen", "4,12,", "x,1,oslo", "5,1", '6,"7",x', "7,abc,x"]),
    max_size=5,
)
# (least, most, how many may fail)
LIMITS = st.sampled_from([(0, 5, 0), (0, 10, 0), (0, 20, 0), (2, 10, 0), (0, 5, 1)])
PHASES = ["prepare", "ingest", "quarantine", "commit", "record", "publish", "clean"]


class Quarantines(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="lading-"))
        self.ships = Checked(self.top / "ships")
        self.limits = (0, 10, 0)
        self.set_limits((0, 10, 0))

    def teardown(self) -> None:
        self.run_and_compare()
        shutil.rmtree(self.top)

    @initialize(lines=LINES)
    def first_file(self, lines: list[str]) -> None:
        self.ships.put("a.csv", "9,1,first", *lines)
        self.ships.good()  # a table that was never run has no quarantine to ask about

    @rule(key=st.sampled_from(KEYS), lines=LINES)
    def add_or_edit(self, key: str, lines: list[str]) -> None:
        self.ships.put(key, *lines)

    @rule(key=st.sampled_from(KEYS))
    def another_header(self, key: str) -> None:
        self.ships.put(key, "1,2", header="id,tonnes")

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        (self.ships.data / key).unlink(missing_ok=True)

    @rule(limits=LIMITS)
    def set_limits(self, limits: tuple[int, int, int]) -> None:
        self.limits = limits
        least, most, threshold = limits
        self.ships.configure(
            "on_bad: quarantine\nchecks:\n"
            f"  - {{range: {{column: tonnes, min: {least}, max: {most}}}, threshold: {threshold}}}"
        )

    @rule(key=st.sampled_from(KEYS), lines=LINES)
    def loosen(self, key: str, lines: list[str]) -> None:
        """What a check set aside comes back when the check lets it through."""
        self.set_limits((0, 5, 0))
        self.ships.put(key, "8,9,between", *lines)
        self.run_and_compare()
        self.set_limits((0, 10, 0))
        self.run_and_compare()

    @rule(phase=st.sampled_from(PHASES))
    def be_killed(self, phase: str) -> None:
        with suppress(Killed):
            self.ships.run(watch=KillAt(phase))

    @rule()
    def replay(self) -> None:
        self.ships.good(replay=())
        self.compare()

    @rule()
    def drop(self) -> None:
        self.ships.good()
        drop_aside(self.ships.config, "ships")
        assert self.ships.aside() == []
        self.ships.good(replay=())
        self.compare()

    @rule()
    def run_and_compare(self) -> None:
        self.ships.good()
        self.compare()

    def compare(self) -> None:
        rows, bad, whole = self.truth()
        seen = self.ships.rows() if (self.ships.table / "_CURRENT").exists() else Counter()
        assert seen == rows
        listed = list_aside(self.ships.config, "ships")
        assert {one.file for one in listed if one.whole is not None} == whole
        partly = {one.file for one in listed if one.whole is None}
        aside = [row for key in sorted(partly) for row in self.ships.aside(key)]
        assert Counter((row["file"], row["line"], row["text"]) for row in aside) == bad

    def truth(self) -> tuple[Counter, Counter, set[str]]:
        """Which rows are good, which are not and on which line, and which files are not at all."""
        rows: Counter = Counter()
        bad: Counter = Counter()
        whole = set()
        for path in sorted(self.ships.data.iterdir()):
            header, *lines = path.read_text().splitlines()
            if header != HEADER:
                whole.add(path.name)
                continue
            outside = []
            for number, line in enumerate(lines, start=2):
                fields = next(csv.reader([line]))
                try:
                    row = (int(fields[0]), float(fields[1]), fields[2] or None, path.name)
                except (ValueError, IndexError):
                    bad[path.name, number, line] += 1
                    continue
                if self.limits[0] <= row[1] <= self.limits[1]:
                    rows[row] += 1
                else:
                    outside.append((row, number, line))
            for row, number, line in outside:
                if len(outside) > self.limits[2]:
                    bad[path.name, number, line] += 1
                else:
                    rows[row] += 1
        return rows, bad, whole


def test_incremental_equals_rebuild_with_a_quarantine(spark):
    run_machine(Quarantines, examples=6, steps=9, soak=(60, 25))
