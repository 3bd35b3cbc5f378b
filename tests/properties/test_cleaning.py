"""Invariant 7: cleaning deletes only the unreachable, all of it eventually, and nothing outside the root.

Runs, crashes, rollbacks, readers and runs that sleep past their lease, in any order, on a clock of its
own; a model keeps the books about what may not go."""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.machines import run_machine
from support.servers import S3Server
from support.world import SCHEMA, BucketWorld, InFlight, World

from lading.errors import Conflict, NotFound
from lading.snapshots.history import Wanted
from lading.snapshots.manifest import read_snapshot
from lading.snapshots.opening import Mentioned, open_manifest, references
from lading.state import edit, tables
from lading.storage.bucket import ObjectStorage
from lading.upkeep.clean.apply import clean
from lading.upkeep.clean.survey import Rules, named_pages
from lading.upkeep.rollback import release_hold, roll_back

GRACE = timedelta(hours=24)


@pytest.fixture(autouse=True)
def many_small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them outside of the roots."""
    monkeypatch.setattr(edit, "PAGE", 2)
    monkeypatch.setattr(tables, "INLINE", 0)


class Cleaning(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="lading-clean-"))
        self.world = self.make_world()
        self.at_work: list[InFlight] = []
        self.asleep: list[InFlight] = []
        self.readers: list[tuple[datetime, frozenset[str]]] = []
        self.strangers = self.plant_strangers()

    def teardown(self) -> None:
        try:
            self.everything_unreachable_goes()
        finally:
            shutil.rmtree(self.top)

    def make_world(self) -> World:
        return World(self.top / "project")

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
        (root / "served").symlink_to(outside)
        (root / "shards" / "run_id=mine" / "db=0" / "attempt=0").mkdir(parents=True)
        looks_like = root / "shards" / "run_id=mine" / "db=0" / "attempt=0" / "shard.db"
        looks_like.write_bytes(b"SQLite format 3\0 of somebody else's")
        mine.append(looks_like)
        (root / "bucket=000000" / f"part-12345678-1234-8234-8234-{'0' * 12}.parquet").symlink_to(mine[2])
        planted = [*mine, root / "bucket=000000" / name]
        for path in planted:
            os.utime(path, (1, 1))
        return {path: path.read_bytes() for path in planted}

    @rule(parts=st.integers(1, 2), replace=st.integers(0, 2))
    def a_run(self, parts: int, replace: int) -> None:
        self.world.run(parts, replace=replace)

    @rule(prefix=st.sampled_from(["shards", "kv/by key"]), attempts=st.integers(1, 2), share=st.booleans())
    def a_run_that_serves(self, prefix: str, attempts: int, share: bool) -> None:
        """Several attempts at its shard, of which one wins; the snapshot may share one that readers see."""
        current = self.world.store.load_current()
        run = self.world.begin(1)
        try:
            self.world.commit(run)
        except Conflict:
            return
        built = [self.world.write_shard(run, 0, attempt, prefix) for attempt in range(attempts)]
        seen = read_snapshot(open_manifest(self.world.store, current.ref)).shards if current else ()
        shared = [one for one in seen if one.db_id == 1 and share] or [self.world.write_shard(run, 1, 0)]
        self.world.finish(run, self.world.publish(run, shards=[built[0], *shared]))

    @rule()
    def somebody_writes_a_checkpoint(self) -> None:
        table = self.world.table()
        table.checkpoint()
        table.close()
        self.world.date_pages()

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
        self.world.write_shard(run, 0, 0, "kv")
        self.leave_half(f"bucket=000000/.{Path(run.parts[0].path).name}.tmp")

    def leave_half(self, path: str) -> None:
        self.world.write(path, b"half")

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
            self.readers.append((self.world.now, self.files_of(current.ref)))

    @rule()
    def a_manifest_names_files_elsewhere(self) -> None:
        table = self.world.table()
        outside = f"../../../outside/{next(iter(self.strangers)).name}"
        state = table.state
        member = msgspec.structs.replace(self.world_member(), path=outside)
        state.added[outside] = (10_000, member)
        state.added["/etc/hostname"] = (10_001, msgspec.structs.replace(member, path="/etc/hostname"))
        store = state.settled()
        with patch.object(self.world, "settled", lambda table: store.save()):
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
        before = self.world.names()
        assert not told.deleted and self.world.names() == before, "a dry run deletes nothing"
        report = clean(self.world.config, "t", rules, apply=True)
        assert {one.path for one in report.deleted} <= {one.path for one in report.garbage}

    @invariant()
    def nothing_reachable_is_gone(self) -> None:
        there = self.world.names()
        table = self.world.table()
        live = {member.path for member in table.state.candidates(None)}
        self.pages = (
            {f"pages/{name}" for name in table.state.base.page_names()} if table.state.base else set()
        )
        table.close()
        assert self.pages <= there, "the checkpoint"
        assert live == self.world.live, "what was committed is held"
        assert live <= there, "the log"
        for listed in self.world.store.list_manifests():
            assert self.files_of(listed.ref) <= there, f"the snapshot {listed.ref}"
        for opened, files in self.readers:
            if self.world.now - opened < GRACE:
                assert files <= there, "a reader"
        for run in self.at_work:
            assert {part.path for part in run.parts} <= there, "what a run at work wrote"
            assert run.saw <= there, "what a run at work saw"

    def files_of(self, ref: str) -> frozenset[str]:
        """What a manifest names below the root."""
        mentioned: dict[str, Mentioned] = {}
        found = references(self.world.store, ref, self.world.where, mentioned)
        shards = {one.partition(f"{self.world.where}/")[2] or one for one in found.shards}
        shards = {one for one in shards if one.split("/")[0] in ("shards", "kv") and "/run_id=" in one}
        parts = {path for one in mentioned.values() for path in one.members if path.startswith("bucket=")}
        pages = {f"pages/{name}" for name in found.pages}
        return frozenset(parts | pages | {f"{one}/shard.db" for one in shards})

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
        reachable = self.world.live.union(
            *(self.files_of(listed.ref) for listed in self.world.store.list_manifests())
        )
        left = {
            path for path in self.world.names()
            if path.startswith(("bucket=", "shards/", "kv/", "pages/")) and not self.is_theirs(path)
        }  # fmt: skip
        assert left - reachable - self.named_by_checkpoints() == set()
        self.nothing_reachable_is_gone()

    def named_by_checkpoints(self) -> set[str]:
        table = self.world.table()
        found = {f"pages/{name}" for some in named_pages(table) for name in some}
        table.close()
        return found

    def is_theirs(self, path: str) -> bool:
        own = self.world.root / path
        return own in self.strangers or own.is_symlink() or own.resolve() != own


class CleaningABucket(Cleaning):
    """The same table in a bucket, where the log is one object a commit."""

    server: S3Server

    def make_world(self) -> World:
        url = f"{self.server.bucket('cleaning')}/{uuid.uuid4().hex}"
        return BucketWorld(self.top / "project", url, self.server)

    def teardown(self) -> None:
        assert isinstance(self.world, BucketWorld)
        try:
            super().teardown()
        finally:
            self.world.close()

    def plant_strangers(self) -> dict[Path, bytes]:
        buffer = io.BytesIO()
        pq.write_table(SCHEMA.empty_table(), buffer)  # no footer of lading's
        name = "part-12345678-1234-8234-8234-123456789012.parquet"
        self.theirs = {
            "notes.txt": b"mine", "log/notes": b"mine", "bucket=000000/mine.parquet": b"mine",
            f"../{name}": b"mine", f"bucket=000000/{name}": buffer.getvalue(),
            "shards/run_id=mine/db=0/attempt=0/shard.db": b"SQLite format 3\0 of somebody else's",
        }  # fmt: skip
        above = ObjectStorage(self.world.url, self.server.options())  # type: ignore[attr-defined]
        self.server.set_clock(datetime(2001, 1, 1, tzinfo=UTC))
        for path, data in self.theirs.items():
            above.put(os.path.normpath(f"t/{path}"), data)
        self.server.set_clock(self.world.now)
        self.above = above
        return {Path(path): data for path, data in self.theirs.items()}

    def leave_half(self, path: str) -> None:
        pass  # an object is whole or not there

    def is_theirs(self, path: str) -> bool:
        return path in self.theirs

    @invariant()
    def what_others_own_is_untouched(self) -> None:
        for path, data in self.theirs.items():
            assert self.above.get(os.path.normpath(f"t/{path}")) == data

    @invariant()
    def the_newest_commit_is_never_gone(self) -> None:
        table = self.world.table()
        numbers = [int(one[4:]) for one in self.world.names() if re.fullmatch(r"log/\d{20}", one)]
        assert max(numbers) == table.state.sequence and 0 in numbers
        table.close()

    def everything_unreachable_goes(self) -> None:
        for _ in range(3):
            self.world.run()
            self.somebody_writes_a_checkpoint()
        super().everything_unreachable_goes()
        names = self.world.names()
        checkpoints = sorted(int(one[11:]) for one in names if one.startswith("checkpoint/"))
        commits = {int(one[4:]) for one in names if re.fullmatch(r"log/\d{20}", one)} - {0}
        assert len(checkpoints) == 2
        assert min(commits) == min(checkpoints[0] + 1, max(commits))


def cleaned_at_random(machine: type[Cleaning], examples: int, steps: int) -> None:
    run_machine(machine, examples=examples, steps=steps, soak=(25 * examples, 2 * steps), shrink=False)


def test_cleaning_deletes_the_unreachable_and_nothing_else():
    cleaned_at_random(Cleaning, 10, 20)


def test_cleaning_a_bucket_deletes_the_unreachable_and_nothing_else(s3_server: S3Server):
    CleaningABucket.server = s3_server
    cleaned_at_random(CleaningABucket, 2, 15)
