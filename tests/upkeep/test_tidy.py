"""What a run deletes after itself: its own lost attempts, and never what a snapshot, a reader or another run
may have. Real runs, with somebody else at work between the commit and the tidying."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.project import Project
from support.world import World

import lading
from lading.config.file import load as load_config
from lading.errors import CommitUnknown, PartError
from lading.ingest.commit import commit_keeping
from lading.log.table import Table
from lading.model import Commit
from lading.run import run
from lading.snapshots.history import Wanted
from lading.snapshots.stores.by_url import store_of
from lading.upkeep.merge import merge_table
from lading.upkeep.rollback import release_hold, roll_back
from lading.upkeep.tidy import tidy
from lading.watch import Watch


@pytest.fixture
def project(spark: object, tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    for number, key in enumerate(["a.csv", "b.csv", "c.csv"]):
        made.put(key, [(i + number, 1 + number, "x") for i in range(0, 40, 7)], age=1000)
    made.run()
    return made


@dataclass
class At(Watch):
    """Does something when a phase begins, once."""

    name: str
    do: Callable[[], object]
    done: bool = False

    def phase(self, table: str, name: str) -> None:
        if name == self.name and not self.done:
            self.done = True
            self.do()


class Dies(BaseException):
    """As a kill: nothing catches it."""


def die() -> None:
    raise Dies


@pytest.mark.parametrize("phase", ["record", "publish", "clean"])
def test_a_merge_between_commit_and_tidying_takes_nothing_from_readers(project: Project, phase: str) -> None:
    config = load_config(project.folder)
    project.put("a.csv", [(3, 9, "edited")], age=500)
    held: list[lading.Reader] = []

    def merge() -> None:
        held.append(lading.open(project.table))  # what readers see at this very moment
        assert merge_table(config, "events").parts_removed

    report = run(config, watch=At(phase, merge))
    assert report.error is None
    expected = held[0].scan().to_table().num_rows
    assert expected > 0 and project.seen() == project.truth()
    held[0].close()
    for snapshot in store_of(config, "events").list_manifests():
        roll_back(config, "events", Wanted(run_id=snapshot.run_id))
        assert sum(project.seen().values()) > 0
    release_hold(config, "events")
    assert project.seen() == project.truth()


def test_a_run_that_overtakes_and_dies_takes_nothing_from_current_readers(project: Project) -> None:
    """The first run has published what the log no longer holds; nobody has published what it does."""
    config = load_config(project.folder)
    project.put("a.csv", [(3, 9, "edited")], age=500)

    def overtake() -> None:
        project.put("a.csv", [(4, 9, "again")], age=400)
        with pytest.raises(Dies):
            run(config, watch=At("publish", die))

    report = run(config, watch=At("clean", overtake))
    assert report.error is None
    assert {note for _, _, note, _ in project.seen() if note != "x"} == {"edited"}
    assert run(config).error is None
    assert project.seen() == project.truth()


def test_rows_set_aside_stay_while_a_snapshot_refers_to_them(project: Project) -> None:
    lines = (project.folder / "lading.yaml").read_text()
    (project.folder / "lading.yaml").write_text(lines + "    on_bad: quarantine\n")
    project.run()
    config = load_config(project.folder)
    bad = project.data / "bad.csv"
    bad.write_text("id,day,note\n1,2024-01-01,x\nnone,2024-01-01,x\n")

    def mend() -> None:
        bad.write_text("id,day,note\n1,2024-01-01,x\n2,2024-01-01,x\n")
        with pytest.raises(Dies):
            run(config, watch=At("publish", die))

    assert run(config, watch=At("clean", mend)).error is None
    with lading.open(project.table) as reader:
        [path] = [one.quarantine for one in reader.sources() if one.quarantine]
    assert (project.table / path).is_file(), "the published snapshot refers to it"


@pytest.mark.parametrize("buckets", [None, [0]])
def test_only_a_runs_own_files_that_nothing_took_up_go(world: World, buckets: list[int] | None) -> None:
    world.run()
    before = world.parts_on_disk()
    mine, others = world.begin(parts=2), world.begin()
    table, kept = world.table(), set[str]()
    ours = Commit("c", mine.run_id, "2024-01-01T00:00:00+00:00", "", add=(mine.parts[0],))
    commit_keeping(table, ours, kept)
    world.table().commit(Commit("d", "x", "2024-01-01T00:00:00+00:00", "", remove=(mine.parts[0].path,)))
    assert tidy(table, mine.run_id, kept, buckets) == 1
    assert world.parts_on_disk() == before | {mine.parts[0].path, others.parts[0].path}


def test_a_refused_commit_makes_losers_and_one_that_may_have_been_made_does_not(world: World) -> None:
    run = world.begin(parts=2)
    table, kept = world.table(), set[str]()
    gone = Commit("c", run.run_id, "2024-01-01T00:00:00+00:00", "", add=(run.parts[0],), remove=("nobody",))
    with pytest.raises(lading.LadingError, match="not a live member"):
        commit_keeping(table, gone, kept)

    def unknown(commit: Commit) -> Commit:
        raise CommitUnknown("the answer got lost")

    table.commit = unknown  # type: ignore[method-assign]
    with pytest.raises(CommitUnknown):
        maybe = Commit("d", run.run_id, "2024-01-01T00:00:00+00:00", "", add=(run.parts[1],))
        commit_keeping(table, maybe, kept)
    tidy(table, run.run_id, kept, None)
    assert run.parts[1].path in world.parts_on_disk()
    assert run.parts[0].path not in world.parts_on_disk()


def test_a_frame_that_could_not_be_cut_off_again_may_count_so_its_parts_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails after the frame was written, and once more when it is to be taken back."""
    world = World(tmp_path / "project")
    mine = world.begin()
    table, kept = world.table(), set[str]()
    ours = Commit("c", mine.run_id, "2024-01-01T00:00:00+00:00", "", add=tuple(mine.parts))

    def broken(*args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("lading.log.file.os.fsync", broken)
        patch.setattr("lading.log.file.os.ftruncate", broken)
        with pytest.raises(CommitUnknown):
            commit_keeping(table, ours, kept)
    tidy(table, mine.run_id, kept, None)
    live = {member.path for member in world.table().state.candidates(None)}
    assert live == {mine.parts[0].path} <= world.parts_on_disk()


def test_parts_that_were_cleaned_away_under_a_run_make_it_plan_again(project: Project) -> None:
    project.replace = "rewrite"
    project.write_recipe()
    config = load_config(project.folder)
    project.put("d.csv", [(i, 4, "x") for i in range(0, 40, 9)], age=900)
    project.run()
    project.put("a.csv", [(3, 9, "edited")], age=500)

    def live() -> set[str]:
        return {member.path for member in Table.open(project.table).state.candidates(None)}

    def merge_and_clean() -> None:
        before = live()
        merge_table(config, "events")
        gone = before - live()
        assert gone
        for path in gone:
            (project.table / path).unlink()

    assert run(config, watch=At("commit", merge_and_clean)).error is None
    assert project.seen() == project.truth()


def test_a_part_that_is_listed_and_missing_is_damage_and_says_so(project: Project) -> None:
    project.replace = "rewrite"
    project.write_recipe()
    project.put("a.csv", [(3, 9, "edited")], age=500)
    for part in project.table.glob("bucket=*/part-*.parquet"):
        part.unlink()
    error = run(load_config(project.folder)).error
    assert isinstance(error, PartError) and "part-" in error.message and "lading repair" in error.hint


def test_two_first_runs_of_a_table_never_double_its_rows(spark: object, tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.put("a.csv", [(1, 1, "x"), (2, 1, "y")], age=1000)
    config = load_config(project.folder)
    other = At("plan", lambda: run(config))  # begins, commits and publishes between our look and our commit
    assert run(config, watch=other).error is None
    assert other.done and project.seen() == project.truth()
