"""Invariant 7: cleaning deletes only the unreachable, all of it eventually, and nothing outside the root.

Runs, crashes, rollbacks, readers and runs that sleep past their lease, in any order, on a clock of its
own; a model keeps the books about what may not go."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import uuid
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import hypothesis
import msgspec
import pyarrow.parquet as pq
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from support.world import SCHEMA, InFlight, World

from lading.errors import Conflict, NotFound
from lading.snapshots.history import Wanted
from lading.snapshots.opening import references
from lading.steps.clean import Rules, clean
from lading.steps.pointer import release_hold, roll_back

SOAK = bool(os.environ.get("LADING_SOAK"))
SEED = int(os.environ.get("LADING_SEED") or random.SystemRandom().randrange(2**32))
GRACE = timedelta(hours=24)


class Cleaning(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="lading-clean-"))
        self.world = World(self.top / "project")
        self.at_work: list[InFlight] = []
        self.asleep: list[InFlight] = []
        self.readers: list[tuple[datetime, frozenset[str]]] = []
        self.strangers = self.plant_strangers()

    def teardown(self) -> None:
        try:
            self.everything_unreachable_goes()
        finally:
            shutil.rmtree(self.top)

    def plant_strangers(self) -> dict[Path, bytes]:
        """Files that aren't lading's, some under names that look like it, some beyond the root."""
        root, outside = self.world.root, self.top / "outside"
        (root / "bucket=000000").mkdir()
        outside.mkdir()
        name = f"part-12345678-1234-8234-8234-{uuid.uuid4().hex[:12]}.parquet"
        mine = [root / "notes.txt", root / "bucket=000000" / "mine.parquet", outside / name]
        for path in mine:
            path.write_bytes(b"mine")
        pq.write_table(SCHEMA.empty_table(), root / "bucket=000000" / name)  # no footer of lading's
        (root / "bucket=000777").symlink_to(outside)
        (root / "shards").symlink_to(outside)
        (root / "bucket=000000" / f"part-12345678-1234-8234-8234-{'0' * 12}.parquet").symlink_to(mine[2])
        planted = [*mine, root / "bucket=000000" / name]
        for path in planted:
            os.utime(path, (1, 1))
        return {path: path.read_bytes() for path in planted}

    @rule(parts=st.integers(1, 2), replace=st.integers(0, 2))
    def a_run(self, parts: int, replace: int) -> None:
        self.world.run(parts, replace=replace)

    @rule(parts=st.integers(0, 2), replace=st.integers(0, 2))
    def a_run_that_the_gate_refuses(self, parts: int, replace: int) -> None:
        run = self.world.begin(parts, replace=replace)
        self.world.commit(run)
        payload = self.world.payload(run.table, run.run_id, gate={"failures": ["no"]})
        self.world.store.put_manifest(payload, run.run_id, self.world.now)
        self.world.finish(run)

    @rule(parts=st.integers(1, 2), replace=st.integers(0, 2))
    def a_run_begins(self, parts: int, replace: int) -> None:
        self.at_work.append(self.world.begin(parts, replace=replace))

    @rule(at=st.integers(0, 9))
    def a_run_ends(self, at: int) -> None:
        if self.at_work:
            self.complete(self.at_work.pop(at % len(self.at_work)))

    @rule(at=st.integers(0, 9))
    def a_run_falls_asleep(self, at: int) -> None:
        if self.at_work:
            self.asleep.append(self.at_work.pop(at % len(self.at_work)))

    @rule(at=st.integers(0, 9))
    def a_sleeping_run_wakes_up_and_goes_on(self, at: int) -> None:
        if self.asleep:
            self.complete(self.asleep.pop(at % len(self.asleep)))

    def complete(self, run: InFlight) -> None:
        try:
            self.world.commit(run)
            published = self.world.publish(run)
        except Conflict:
            run.handle.finish("failed", error="conflict", now=self.world.now)
            return
        self.world.finish(run, published)

    @rule(at=st.integers(0, 9), where=st.sampled_from(["before commit", "before manifest", "before pointer"]))
    def a_run_is_killed(self, at: int, where: str) -> None:
        run = self.world.begin(1, replace=1)
        with suppress(Conflict):
            if where != "before commit":
                self.world.commit(run)
            if where == "before pointer":
                payload = self.world.payload(run.table, run.run_id)
                self.world.store.put_manifest(payload, run.run_id, self.world.now)
        half = self.world.root / "bucket=000000" / f".{Path(run.parts[0].path).name}.tmp"
        half.write_bytes(b"half")
        self.world.age(half)

    @rule(hours=st.integers(1, 40))
    def time_passes(self, hours: int) -> None:
        self.world.pass_time(hours=hours)
        for run in self.at_work:
            run.handle.heartbeat(self.world.now)

    @rule(offset=st.integers(1, 3))
    def somebody_rolls_back(self, offset: int) -> None:
        with suppress(NotFound):
            roll_back(self.world.config, "t", Wanted(offset=offset), now=self.world.now)

    @rule()
    def somebody_releases(self) -> None:
        with suppress(NotFound, Conflict):
            release_hold(self.world.config, "t", now=self.world.now)

    @rule()
    def a_reader_opens(self) -> None:
        current = self.world.store.load_current()
        if current is not None:
            self.readers.append((self.world.now, references(self.world.store, current.ref).members))

    @rule()
    def a_manifest_names_files_elsewhere(self) -> None:
        table = self.world.table()
        outside = f"../../../outside/{next(iter(self.strangers)).name}"
        state = table.state
        member = msgspec.structs.replace(self.world_member(), path=outside)
        state.added[outside] = (10_000, member)
        state.added["/etc/hostname"] = (10_001, msgspec.structs.replace(member, path="/etc/hostname"))
        payload = self.world.payload(table, "hostile")
        self.world.store.put_manifest(payload, "hostile", self.world.now)
        table.close()

    def world_member(self):
        from lading.model import Member

        return Member("x", 1, 1, 0, 0, 0, None, None, "now", {})

    @rule(replace=st.integers(0, 2))
    def a_run_sleeps_through_a_cleaning(self, replace: int) -> None:
        self.everybody_finishes()
        run = self.world.begin(1, replace=replace)
        self.world.run()
        self.time_passes(30)
        self.somebody_cleans(1)
        self.complete(run)

    @rule(runs=st.integers(1, 2))
    def a_slow_run_works_through_a_cleaning(self, runs: int) -> None:
        self.at_work.append(self.world.begin(1))
        for _ in range(runs):
            self.time_passes(26)
            self.world.run(replace=1)
        self.time_passes(26)
        self.somebody_cleans(1)

    def everybody_finishes(self) -> None:
        for run in self.at_work:
            self.complete(run)
        self.at_work = []
        self.world.run()

    @rule(after=st.integers(1, 40))
    def a_long_rollback_ends_before_a_cleaning(self, after: int) -> None:
        self.everybody_finishes()
        self.world.run(replace=2)
        self.somebody_rolls_back(1)
        self.world.run(replace=1)
        self.time_passes(40)
        self.a_reader_opens()
        self.somebody_releases()
        self.time_passes(after)
        self.somebody_cleans(1)

    @rule()
    def what_was_refused_for_long_is_replaced_before_a_cleaning(self) -> None:
        self.somebody_releases()
        self.everybody_finishes()
        self.a_run_that_the_gate_refuses(1, 2)
        self.time_passes(40)
        self.a_reader_opens()
        self.world.run(replace=1)
        self.time_passes(2)
        self.somebody_cleans(1)

    @rule(keep=st.integers(1, 3))
    def somebody_cleans(self, keep: int) -> None:
        rules = Rules(keep, GRACE, now=self.world.now)
        told = clean(self.world.config, "t", rules)
        before = self.world.parts_on_disk()
        assert not told.deleted and self.world.parts_on_disk() == before, "a dry run deletes nothing"
        report = clean(self.world.config, "t", rules, apply=True)
        assert {one.path for one in report.deleted} <= {one.path for one in report.garbage}

    @invariant()
    def nothing_reachable_is_gone(self) -> None:
        on_disk = self.world.parts_on_disk()
        table = self.world.table()
        live = {member.path for member in table.state.candidates(None)}
        table.close()
        assert live <= on_disk, "the log"
        for listed in self.world.store.list_manifests():
            members = references(self.world.store, listed.ref).members
            inside = {path for path in members if path.startswith("bucket=")}
            assert inside <= on_disk, f"the snapshot {listed.ref}"
        for opened, members in self.readers:
            if self.world.now - opened < GRACE:
                assert {path for path in members if path.startswith("bucket=")} <= on_disk, "a reader"
        for run in self.at_work:
            assert {part.path for part in run.parts} <= on_disk, "what a run at work wrote"
            assert run.saw <= on_disk, "what a run at work saw"

    @invariant()
    def what_others_own_is_untouched(self) -> None:
        assert {path: path.read_bytes() for path in self.strangers} == self.strangers
        assert (self.world.root / "bucket=000777").is_symlink()

    def everything_unreachable_goes(self) -> None:
        for run in [*self.at_work, *self.asleep]:
            self.complete(run)
        self.at_work, self.asleep = [], []
        with suppress(NotFound, Conflict):
            release_hold(self.world.config, "t", now=self.world.now)
        for _ in range(2):
            self.world.pass_time(days=30)
            clean(self.world.config, "t", Rules(1, GRACE, now=self.world.now), apply=True)
        table = self.world.table()
        reachable = {member.path for member in table.state.candidates(None)}
        table.close()
        for listed in self.world.store.list_manifests():
            reachable |= references(self.world.store, listed.ref).members
        theirs = {str(path.relative_to(self.world.root)) for path in self.strangers if self.is_inside(path)}
        left = {path for path in self.world.parts_on_disk() if not (self.world.root / path).is_symlink()}
        assert left - theirs - reachable == set()
        assert not list(self.world.root.glob("bucket=000000/.part-*"))
        self.nothing_reachable_is_gone()

    def is_inside(self, path: Path) -> bool:
        return path.is_relative_to(self.world.root)


def test_cleaning_deletes_the_unreachable_and_nothing_else():
    print(f"LADING_SEED={SEED}")
    machine = hypothesis.seed(SEED)(Cleaning)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=300 if SOAK else 20,
            stateful_step_count=40 if SOAK else 20,
            deadline=None,
            print_blob=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
