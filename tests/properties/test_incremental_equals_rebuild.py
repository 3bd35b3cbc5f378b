"""Invariant 1: whatever happens to the files, and wherever a run is interrupted, the table's rows,
lineage included, equal those of a fresh build. On real Spark, one shared session.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from support.machines import KillAt, Killed, killing, run_machine
from support.project import Project

from lading.config.file import load as load_config
from lading.ingest import plan
from lading.upkeep.merge import merge_table

REWRITE_PART = plan.REWRITE_PART

KEYS = ["a.csv", "b.csv", "sub/c.csv", "sub/[d] 1.csv", "_e.csv"]
PHASES = ["discover", "plan", "prepare", "ingest", "commit", "record", "publish", "clean", "done"]
ROW = st.tuples(st.integers(-25, 25), st.integers(1, 28), st.sampled_from(["x", "y", "", 'q"t', "a,b"]))
ROWS = st.lists(ROW, min_size=0, max_size=6)


class Tables(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="lading-"))
        self.project = Project(self.top / "project")
        self.tick = 0
        self.clean = False  # whether nothing happened since the last whole run

    def teardown(self) -> None:
        plan.REWRITE_PART = REWRITE_PART
        self.project.run()
        fresh = self.project.rebuilt(self.top / "fresh")
        if self.project.keys():
            fresh.run()
            assert self.project.seen() == fresh.seen() == self.project.truth()
        shutil.rmtree(self.top)

    @initialize(rows=ROWS)
    def first_file(self, rows: list) -> None:
        self.write("a.csv", rows)

    def write(self, key: str, rows: list, turned: bool = False) -> None:
        """Every write gets an mtime of its own, as edits by people do."""
        self.tick += 1
        self.project.put(key, rows, turned=turned, age=100_000 - self.tick)
        self.clean = False

    def pick(self, at: int) -> str | None:
        keys = self.project.keys()
        return keys[at % len(keys)] if keys else None

    @rule(key=st.sampled_from(KEYS), rows=ROWS, turned=st.booleans())
    def add_or_edit(self, key: str, rows: list, turned: bool) -> None:
        self.write(key, rows, turned)

    @rule(at=st.integers(0, 9))
    def touch(self, at: int) -> None:
        if key := self.pick(at):
            self.tick += 1
            stamp = (self.project.data / key).stat().st_mtime + 1 + self.tick
            os.utime(self.project.data / key, (stamp, stamp))
            self.clean = False

    @rule(at=st.integers(0, 9))
    def delete(self, at: int) -> None:
        if key := self.pick(at):
            (self.project.data / key).unlink()
            self.clean = False

    @rule(at=st.integers(0, 9), to=st.sampled_from(KEYS))
    def rename(self, at: int, to: str) -> None:
        if key := self.pick(at):
            (self.project.data / to).parent.mkdir(exist_ok=True)
            os.replace(self.project.data / key, self.project.data / to)
            self.clean = False

    @rule(at=st.integers(0, 9), other=st.integers(0, 9))
    def swap_contents(self, at: int, other: int) -> None:
        one, two = self.pick(at), self.pick(other)
        if one and two and one != two:
            a, b = self.project.data / one, self.project.data / two
            aside = self.project.data / "aside"
            a.rename(aside), b.rename(a), aside.rename(b)
            self.clean = False

    @rule()
    def reset(self) -> None:
        (self.project.folder / "manifest" / "events.json").unlink(missing_ok=True)
        self.clean = False

    @rule(at=st.integers(0, 9), how=st.sampled_from(["forget", "hash", "garble sequence", "other table"]))
    def edit_the_source_manifest(self, at: int, how: str) -> None:
        path = self.project.folder / "manifest" / "events.json"
        if not path.exists():
            return
        manifest = json.loads(path.read_text())
        keys = sorted(manifest["files"])
        if how == "garble sequence":
            manifest["lading"]["sequence"] += 1000
        elif how == "other table":
            manifest["lading"]["table_id"] = "somebody else's"
        elif keys and how == "forget":
            del manifest["files"][keys[at % len(keys)]]
        elif keys:
            manifest["files"][keys[at % len(keys)]]["hash"] = "mtime:1.0_size:1"
        path.write_text(json.dumps(manifest, indent=2))
        self.clean = False

    @rule(mark=st.sampled_from(["", "!", "?"]), size=st.sampled_from([10, 7]))
    def change_the_recipe(self, mark: str, size: int) -> None:
        self.project.mark, self.project.bucket_size = mark, size
        self.project.write_recipe()
        self.clean = False

    @rule(how=st.sampled_from(["auto", "rewrite", "minus"]), small=st.integers(0, 3000))
    def change_how_rows_are_replaced(self, how: str, small: int) -> None:
        """No part of the recipe: parts written either way have to live together."""
        self.project.replace = how
        self.project.write_recipe()
        plan.REWRITE_PART = small

    @rule(size=st.sampled_from([1, 5_000, 1 << 27]), phase=st.sampled_from([*PHASES, "merge", "never"]))
    def merge(self, size: int, phase: str) -> None:
        """Sometimes killed; it changes files and no rows."""
        if not self.project.published():
            return
        before = self.project.seen()
        with suppress(Killed):
            merge_table(load_config(self.project.folder), "events", target_size=size, watch=KillAt(phase))
        assert self.project.seen() == before or not self.clean
        self.clean = False

    @rule(phase=st.sampled_from(PHASES), key=st.sampled_from(KEYS), rows=ROWS, again=st.booleans())
    def run_and_be_killed_between_phases(self, phase: str, key: str, rows: list, again: bool) -> None:
        self.write(key, rows)  # so that there is something to be interrupted in
        before = self.project.seen() if self.project.published() else None
        truth = self.project.truth()
        with suppress(Killed):
            self.project.run(watch=KillAt(phase))
        self.readers_saw_all_or_nothing(before, truth)
        if again:
            self.run()

    @rule(call=st.sampled_from(["os.fsync", "os.replace", "os.link", "os.pwrite"]), at=st.integers(1, 12))
    def run_and_be_killed_inside_a_phase(self, call: str, at: int) -> None:
        before = self.project.seen() if self.project.published() else None
        truth = self.project.truth()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(call, killing(eval(call, {"os": os}), at))
            with suppress(Killed):
                self.project.run()
        self.readers_saw_all_or_nothing(before, truth)

    def readers_saw_all_or_nothing(self, before: object, truth: object) -> None:
        self.clean = False
        if self.project.published():
            assert self.project.seen() in (before, truth)

    @rule()
    def run(self) -> None:
        report = self.project.run()
        if self.clean:
            [table] = report.tables
            assert (table.rows_added, table.rows_removed, table.parts_added, table.published) == (
                0,
                0,
                0,
                False,
            )
        self.clean = True

    @invariant()
    @precondition(lambda self: self.clean)
    def the_table_is_what_a_rebuild_gives(self) -> None:
        if self.project.published():
            assert self.project.seen() == self.project.truth()
        else:
            assert not self.project.truth()


def test_incremental_equals_rebuild(spark):
    run_machine(Tables, examples=10, steps=12, soak=(150, 30))
