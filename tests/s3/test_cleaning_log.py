"""Cleaning a log in a bucket: old commits and checkpoints go, and no number that was given is free again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.servers import S3Server
from support.world import BucketWorld

from lading.errors import Conflict, LadingError
from lading.log.objects import ObjectLog
from lading.model import Commit
from lading.state.log_frames import encode_commit
from lading.upkeep.clean import apply as step
from lading.upkeep.clean.apply import CleanReport, clean
from lading.upkeep.clean.files import TableFile, files_of
from lading.upkeep.clean.rules import LogReach
from lading.upkeep.clean.survey import Rules


@pytest.fixture
def there(s3_server: S3Server, url: str, tmp_path: Path) -> Iterator[BucketWorld]:
    made = BucketWorld(tmp_path / "project", url, s3_server)
    yield made
    made.close()


def cleaned(world: BucketWorld, keep_runs: int = 9) -> CleanReport:
    return clean(world.config, "t", Rules(keep_runs, timedelta(hours=24), now=world.now), apply=True)


def log_objects(world: BucketWorld) -> tuple[list[int], list[int]]:
    """The numbers of commits and of checkpoints."""
    names = sorted(world.names())
    commits = [int(one[4:]) for one in names if one.startswith("log/")]
    return commits, [int(one[11:]) for one in names if one.startswith("checkpoint/")]


def checkpoint(world: BucketWorld) -> None:
    table = world.table()
    table.checkpoint()
    table.close()


def test_old_commits_and_checkpoints_go_and_the_last_two_checkpoints_stay(there: BucketWorld) -> None:
    for _ in range(3):
        there.run()
        there.run()
        checkpoint(there)
    assert log_objects(there) == ([0, 1, 2, 3, 4, 5, 6], [2, 4, 6])
    assert cleaned(there).garbage == (), "they have to be old"
    there.pass_time(days=2)
    report = cleaned(there)
    assert {one.kind for one in report.deleted} == {"old log"} and len(report.deleted) == 5
    assert log_objects(there) == ([0, 5, 6], [4, 6])
    assert {member.path for member in there.table().state.candidates(None)} == there.live
    there.run()
    assert cleaned(there).garbage == ()


def test_old_commits_stay_as_long_as_the_checkpoints_that_have_them_are_new(there: BucketWorld) -> None:
    """Whoever opened the table before them goes by those commits."""
    there.run()
    there.run()
    there.pass_time(days=2)
    checkpoint(there)
    there.run()
    checkpoint(there)
    assert cleaned(there).garbage == () and log_objects(there) == ([0, 1, 2, 3], [2, 3])
    there.pass_time(days=2)
    cleaned(there)
    assert log_objects(there) == ([0, 3], [2, 3])


def test_the_newest_commit_stays_although_two_checkpoints_have_it(there: BucketWorld) -> None:
    there.run()
    checkpoint(there)
    noted = there.begin(parts=0)
    there.commit(noted)
    there.finish(noted)
    checkpoint(there)
    for name in [one for one in there.names() if one.startswith("checkpoint/")]:
        there.write(f"checkpoint/{int(name[11:]) + 100:020}", b"")  # as if there were later ones
    there.pass_time(days=2)
    files = list(files_of(there.where))
    reach = LogReach.of(files, there.now)
    assert reach.base > reach.newest == 2
    assert [one.number for one in files if one.kind == "log" and reach.needs(one)] == [2]


def test_a_writer_that_fell_behind_what_was_cleaned_plans_again(there: BucketWorld) -> None:
    """Also one that had looked for a free number, slept for days, and found it free because it was cleaned
    away: what it created lies where no reader looks, so it must not think that it has committed."""
    asleep = [there.begin() for _ in range(2)]
    for _ in range(2):
        there.run()
        there.run()
        checkpoint(there)
    there.pass_time(days=2)
    for run in asleep:
        run.handle.finish("failed", now=there.now)  # not given up, so nothing else stops it
    cleaned(there)
    assert log_objects(there) == ([0, 3, 4], [2, 4])
    with pytest.raises(Conflict):
        there.commit(asleep[0])
    with pytest.raises(Conflict, match="others committed past"):
        ObjectLog(there.where).append(encode_commit(Commit("c", "r", "now", "recipe", sequence=1)), 0)
    assert {member.path for member in there.table().state.candidates(None)} == there.live


def test_old_commits_stay_when_the_checkpoint_that_has_them_is_damaged(there: BucketWorld) -> None:
    for _ in range(2):
        there.run()
        checkpoint(there)
    name = max(one for one in there.names() if one.startswith("checkpoint/"))
    data = bytearray(there.read(name))
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    there.write(name, bytes(data))
    there.pass_time(days=2)
    before = there.names()
    with pytest.raises(LadingError):
        cleaned(there)
    assert there.names() == before


def test_before_each_file_goes_the_bucket_is_asked_whether_somebody_committed(there: BucketWorld) -> None:
    there.run()
    loser = there.begin(parts=2)
    loser.handle.finish("failed", now=there.now)
    there.pass_time(days=2)
    real, deleted = step.delete, []

    def committing(file: TableFile) -> bool:
        if not deleted:  # the first one goes; the other is taken up just before it would
            rest = [part for part in loser.parts if part.path != file.path]
            loser.parts = rest
            loser.table.refresh()
            there.commit(loser)
        deleted.append(file.path)
        return real(file)

    step.delete = committing
    try:
        cleaned(there)
    finally:
        step.delete = real
    assert len(deleted) == 1 and loser.parts[0].path in there.names()
