"""Cleaning, kind by kind: what goes, what stays, and what a run that was given up for dead can still do."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from support.servers import S3Server
from support.world import BucketWorld, InFlight, World

from lading.errors import ConfigError, Conflict, ManifestParseError
from lading.model import Commit, SnapshotRef
from lading.snapshots.history import Wanted
from lading.snapshots.manifest import ShardMeta
from lading.snapshots.runs import list_runs
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.files import BucketStore
from lading.storage.bucket import ObjectStorage
from lading.upkeep.clean.apply import (
    CleanReport,
    clean,
    cleanup_losers,
    cleanup_old_runs,
    cleanup_stale_attempts,
)
from lading.upkeep.clean.rules import ListedManifest, Runs, split_manifests
from lading.upkeep.clean.survey import Rules
from lading.upkeep.rollback import roll_back

NO_GRACE = timedelta(0)


@pytest.fixture
def here(tmp_path: Path) -> World:
    return World(tmp_path / "project")


def cleaned(world: World, keep_runs: int = 1, *, apply: bool = True, hours: float = 24) -> CleanReport:
    return clean(world.config, "t", Rules(keep_runs, timedelta(hours=hours), now=world.now), apply=apply)


def kinds(report: CleanReport) -> dict[str, str]:
    return {one.path: one.kind for one in report.garbage}


def dead_run(world: World) -> InFlight:
    """Wrote a part and died; its lease has lapsed long ago."""
    run = world.begin()
    world.pass_time(days=2)
    return run


def test_nothing_to_clean_is_nothing_and_a_table_never_run_is_no_error(world: World, tmp_path: Path) -> None:
    assert cleaned(world).garbage == ()
    assert cleaned(World(tmp_path / "other")).garbage == ()


def test_a_dry_run_says_what_why_and_how_much_and_touches_nothing(world: World) -> None:
    world.run()
    world.run(replace=1)
    world.pass_time(days=2)
    before = {name: world.read(name) for name in world.names()}
    report = cleaned(world, apply=False)
    assert {name: world.read(name) for name in world.names()} == before
    assert {"old run", "replaced part"} <= set(kinds(report).values())
    assert report.bytes == sum(one.bytes for one in report.garbage) > 0
    assert all(one.why for one in report.garbage) and not report.deleted


def test_a_replaced_part_stays_while_a_kept_snapshot_has_it(world: World) -> None:
    world.run()
    world.run(replace=1)
    world.pass_time(days=2)
    assert cleaned(world, keep_runs=2).deleted == []
    report = cleaned(world, keep_runs=1)
    assert [one.kind for one in report.deleted if one.path.startswith("bucket")] == ["replaced part"]
    assert len(world.parts_on_disk()) == 1


def test_a_replaced_part_stays_for_the_grace_period_whatever_its_age(world: World) -> None:
    world.run()
    world.pass_time(days=30)  # the part is old, and readers see it until this very moment
    world.run(replace=1)
    world.pass_time(hours=23)
    assert cleaned(world).deleted == []
    world.pass_time(hours=2)
    assert [one.kind for one in cleaned(world).deleted if "bucket" in one.path] == ["replaced part"]


def test_what_readers_saw_until_a_rollback_ended_stays_for_the_grace_period(world: World) -> None:
    first = world.run()
    world.run(replace=1)
    world.pass_time(days=3)
    roll_back(world.config, "t", Wanted(ref=first.ref))
    world.pass_time(days=30)
    assert cleaned(world).deleted == []  # it is current
    # Records of moves bear the real clock's time: set by hand, the pointer leaves no other trace.
    world.store.set_current(world.store.list_manifests()[0].ref, hold=False, sequence=2, now=world.now)
    world.pass_time(hours=1)
    assert not [one for one in cleaned(world).deleted if "bucket" in one.path or "manifests" in one.path]
    world.pass_time(hours=24)
    assert [one.kind for one in cleaned(world).deleted if "bucket" in one.path] == ["replaced part"]


def test_a_live_run_keeps_what_it_wrote_and_what_it_saw(world: World) -> None:
    world.run()
    run = world.begin(replace=0)
    world.run(replace=1)
    world.pass_time(days=3)
    run.handle.heartbeat(world.now)
    assert cleaned(world).deleted == []
    world.commit(run)
    world.publish(run)
    assert {part.path for part in run.parts} <= world.parts_on_disk()


def test_a_dead_run_is_given_up_before_its_files_go_and_can_not_commit_any_more(world: World) -> None:
    world.run()
    run = dead_run(world)
    report = cleaned(world)
    assert kinds(report)[run.parts[0].path] == "stale attempt"
    assert report.gave_up == (run.run_id,)
    assert run.parts[0].path not in world.parts_on_disk()
    [record] = [one.record for one in list_runs(world.where)[0] if one.record.run_id == run.run_id]
    assert (record.status, record.given_up) == ("failed", True)
    with pytest.raises(Conflict, match="declared dead"):
        world.commit(run)


def test_a_dead_run_that_had_committed_can_not_publish_what_it_remembers(world: World) -> None:
    world.run()
    run = world.begin()
    world.commit(run)
    world.run(replace=2)  # others went on meanwhile
    world.pass_time(days=2)
    cleaned(world)
    with pytest.raises(Conflict, match="declared dead"):
        world.publish(run)


def test_a_run_that_was_given_up_may_plan_again_from_there(world: World) -> None:
    run = dead_run(world)
    cleaned(world)
    run.table.refresh()
    run.parts = [world.write_part(run, 3)]
    world.commit(run)
    assert run.parts[0].path in world.parts_on_disk()


def test_giving_up_a_run_conflicts_with_nobody_else(world: World) -> None:
    world.run()
    dead_run(world)
    other = world.begin()
    cleaned(world)
    world.commit(other)


def test_what_a_run_that_ended_left_lost(world: World) -> None:
    world.run()
    run = world.begin()
    run.handle.finish("failed", error="x", now=world.now)
    world.pass_time(days=2)
    report = cleaned(world)
    assert kinds(report)[run.parts[0].path] == "losing attempt"
    assert report.gave_up == ()
    assert run.parts[0].path not in world.parts_on_disk()


def test_a_part_of_another_table_is_not_ours(world: World) -> None:
    run = world.begin(parts=0)
    foreign = world.write_part(run, 2, table_id="another")
    run.handle.finish("failed", now=world.now)
    world.pass_time(days=2)
    assert cleaned(world).garbage == ()
    assert foreign.path in world.parts_on_disk()


def test_half_written_files_go(here: World) -> None:
    here.run()
    hexes = "0123456789abcdef" * 2
    left = [
        here.root / f".manifest.db.{hexes}.tmp",
        here.root / "manifest.json.tmp",
        here.root / "bucket=000000" / ".part-12345678-1234-8234-8234-123456789012.parquet.tmp",
        here.root / "bucket=000000" / ".part-12345678-1234-8234-8234-123456789012.arrow.tmp",
    ]
    mine = [here.root / ".mine.tmp", here.root / "bucket=000000" / ".draft.tmp"]
    for path in (*left, *mine):
        path.write_bytes(b"half")
        here.age(path)
    here.pass_time(days=2)
    assert {"temporary file"} == {
        kind for path, kind in kinds(cleaned(here)).items() if path.endswith(".tmp")
    }
    assert not any(path.exists() for path in left) and all(path.exists() for path in mine)


def test_a_kept_manifest_that_can_not_be_read_stops_all_cleaning(world: World) -> None:
    published = world.run()
    world.run(replace=1)
    name = published.ref.removeprefix(f"{world.where}/")
    world.write(name, b"SQLite format 3\0 and nothing else")
    world.pass_time(days=2)
    with pytest.raises(ManifestParseError):
        cleaned(world, keep_runs=2)
    report = cleaned(world, keep_runs=1)  # past keep_runs it goes like any other
    assert published.ref in {one.path for one in report.deleted}


def test_who_deletes_a_manifest_that_can_not_be_read_can_clean_again(world: World) -> None:
    """`lading repair` looks at what readers see, so the hint must not promise more."""
    published = world.run()
    world.run(replace=1)
    name = published.ref.removeprefix(f"{world.where}/")
    world.write(name, b"SQLite format 3\0 and nothing else")
    world.pass_time(days=2)
    with pytest.raises(ManifestParseError) as caught:
        cleaned(world, keep_runs=2)
    assert caught.value.file == published.ref and "or delete it" in caught.value.hint
    world.remove(name)
    assert "replaced part" in kinds(cleaned(world, keep_runs=2)).values()


def test_a_part_committed_after_the_survey_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run()
    run = world.begin()
    run.handle.finish("failed", now=world.now)  # it looks like a loser, and commits all the same
    world.pass_time(days=2)
    from lading.upkeep.clean import apply as step

    real = step.delete

    def late(file: object) -> bool:
        raise AssertionError("deleted what was committed meanwhile")

    def commits_first(around: object, report: object) -> None:
        world.commit(run)
        monkeypatch.setattr(step, "delete", late)
        applied(around, report)

    applied = step._apply
    monkeypatch.setattr(step, "_apply", commits_first)
    cleaned(world, keep_runs=5)
    monkeypatch.setattr(step, "delete", real)
    assert run.parts[0].path in world.parts_on_disk()


def test_each_function_deletes_its_own_kind_only(world: World) -> None:
    world.run()
    world.run(replace=1)
    loser = world.begin()
    loser.handle.finish("failed", now=world.now)
    stale = world.begin()
    world.pass_time(days=2)
    stale.handle._write(stale.handle.record.__class__(**{**_fields(stale), "lease_until": "2001-01-01"}))
    everything = world.parts_on_disk()
    cleanup_losers(world.config, "t", grace=NO_GRACE)
    assert everything - world.parts_on_disk() == {loser.parts[0].path}
    cleanup_stale_attempts(world.config, "t", grace=NO_GRACE)
    assert everything - world.parts_on_disk() == {loser.parts[0].path, stale.parts[0].path}
    before = world.parts_on_disk()
    assert len(world.store.list_manifests()) == 2
    cleanup_old_runs(world.config, "t", keep_runs=1, grace=NO_GRACE)
    assert len(world.store.list_manifests()) == 1 and world.parts_on_disk() == before


def _fields(run: InFlight) -> dict[str, object]:
    return {one.name: getattr(run.handle.record, one.name) for one in dataclasses.fields(run.handle.record)}


def test_cleaning_keeps_at_least_one_run(world: World) -> None:
    with pytest.raises(ConfigError):
        Rules(0)
    world.run()
    world.pass_time(days=900)
    cleaned(world)
    assert len(world.store.list_manifests()) == 1 and len(world.parts_on_disk()) == 1


def test_refused_snapshots_do_not_push_out_good_ones(world: World) -> None:
    world.run()
    world.run()
    for _ in range(3):
        run = world.begin()
        world.commit(run)
        payload = world.payload(run.table, run.run_id, gate={"failures": ["no"]})
        world.store.put_manifest(payload, run.run_id, world.now)
        world.finish(run)
    world.pass_time(days=2)
    cleaned(world, keep_runs=2)
    assert len(world.store.list_manifests()) == 5


def test_records_of_runs_long_gone_go_and_the_newest_stay(world: World) -> None:
    for _ in range(4):
        world.run(replace=1)
    world.pass_time(days=2)
    cleaned(world, keep_runs=2)
    assert len(list_runs(world.where)[0]) == 2
    if not isinstance(world, BucketWorld):
        assert len(list((world.root / "runs").iterdir())) == 2, "emptied folders go too"


def test_rows_set_aside_stay_as_long_as_a_source_or_a_snapshot_refers_to_them(world: World) -> None:
    run = world.begin()
    kept, dropped = (aside(world, run) for _ in range(2))
    [source] = world.commit(run).sources
    world.finish(run, world.publish(run))
    table = world.table()
    told = msgspec.structs.replace(source, quarantine=kept)
    table.commit(Commit("n", "r", world.now.isoformat(), table.state.meta.recipe, sources=(told,)))
    table.close()
    world.write("quarantine/mine.parquet", b"mine")
    world.pass_time(days=2)
    report = cleaned(world)
    assert kinds(report) == {dropped: "quarantine"}
    assert kept in world.names() and dropped not in world.names()
    assert "quarantine/mine.parquet" in world.names()


def aside(world: World, run: InFlight) -> str:
    part = world.write_part(run, 1)
    path = f"quarantine/{Path(part.path).name}"
    world.write(path, world.read(part.path))
    world.remove(part.path)
    return path


@pytest.mark.parametrize("prefix", ["shards", "kv/by-key"])
def test_shards_go_whatever_prefix_they_lie_below_and_whoever_names_it(world: World, prefix: str) -> None:
    """What a dead run left is found below a prefix that no manifest has named yet, what an old snapshot had
    below one that none names any more, and what is shared stays below either."""
    first = world.begin()
    world.commit(first)
    shared, alone = world.write_shard(first, 0, 0, "before"), world.write_shard(first, 1, 0, "before")
    world.finish(first, world.publish(first, shards=[shared, alone]))
    dead = world.begin(parts=0)
    left = world.write_shard(dead, 0, 0, prefix)
    second = world.begin()
    world.commit(second)
    own = world.write_shard(second, 1, 0, prefix)
    world.finish(second, world.publish(second, shards=[shared, own]))
    world.pass_time(days=2)
    report = cleaned(world)

    def there(shard: ShardMeta) -> bool:
        return f"{(shard.db_url or '').removeprefix(f'{world.where}/')}/shard.db" in world.names()

    assert [there(one) for one in (shared, alone, left, own)] == [True, False, False, True]
    told = {one.path.split("/run_id=")[0]: one.kind for one in report.deleted if "shard.db" in one.path}
    assert told == {"before": "old run", prefix: "stale attempt"}


def test_a_file_below_the_shards_that_is_no_shard_of_ladings_stays(world: World) -> None:
    world.run()
    mine = {
        "shards/run_id=x/db=00000/attempt=00/shard.db": b"SQLite format 3\0 of somebody else's",
        "shards/run_id=x/db=00000/attempt=00/notes.txt": b"mine",
        "shards/mine.db": b"mine",
    }
    for name, data in mine.items():
        world.write(name, data)
    world.pass_time(days=2)
    assert cleaned(world).garbage == ()
    assert {name: world.read(name) for name in mine} == mine


def test_each_manifest_is_fetched_once_for_a_cleaning(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{s3_server.bucket('clean')}/{uuid.uuid4().hex}"
    world = BucketWorld(tmp_path / "project", url, s3_server)
    refs = [world.run(replace=1).ref for _ in range(4)]
    world.pass_time(days=2)
    fetched: list[str] = []
    real = BucketStore.load_manifest

    def counted(self: BucketStore, ref: str) -> bytes:
        fetched.append(ref)
        return real(self, ref)

    monkeypatch.setattr(BucketStore, "load_manifest", counted)
    cleaned(world, keep_runs=2)
    world.close()
    assert sorted(fetched) == sorted(refs) and len(world.store.list_manifests()) == 2


def test_shards_in_the_stores_bucket_are_cleaned_there(here: World, s3_server: S3Server) -> None:
    """Data in a folder, manifests and shards in a bucket."""
    server = s3_server
    url = f"{server.bucket('beside')}/{uuid.uuid4().hex}"
    here.config = dataclasses.replace(here.config, store=url, s3=server.options())
    here.store = store_of(here.config, "t")
    storage = ObjectStorage(f"{url}/t", server.options())
    server.set_clock(here.now)
    metas = []
    for _ in range(2):
        run = here.begin()
        here.commit(run)
        meta = here.write_shard(run, 0, 0)
        storage.put(f"{meta.db_url}/shard.db", here.read(f"{meta.db_url}/shard.db"))
        here.remove(f"{meta.db_url}/shard.db")
        metas.append(meta)
        told = msgspec.structs.replace(meta, db_url=f"{storage.url}/{meta.db_url}")
        here.finish(run, here.publish(run, shards=[told]))
    here.pass_time(days=2)
    server.set_clock(None)
    cleaned(here)
    shards = [one.name for one in storage.list("shards")]
    assert shards == [f"{metas[1].db_url}/shard.db"]
    assert len(here.store.list_manifests()) == 1


def test_a_dead_run_is_given_up_even_when_nothing_else_may_go(world: World) -> None:
    """It had noted what readers saw, which stays for its sake; found by the simulation."""
    world.commit(world.begin())
    dead = world.begin()
    world.pass_time(days=3)
    rules = Rules(keep_runs=10, grace=timedelta(days=30), now=world.now)
    report = clean(world.config, "t", rules, apply=True)
    assert report.garbage == () and dead.run_id in report.gave_up
    assert clean(world.config, "t", rules, apply=True).gave_up == ()


def test_a_run_that_published_twice_keeps_nothing_between_its_snapshots() -> None:
    """As one that slept, was given up and went on under its name: only its later snapshot is among the
    newest."""
    now = datetime(2030, 1, 9, tzinfo=UTC)
    listed = [
        ListedManifest(SnapshotRef(f"m{day}", run, datetime(2030, 1, day, tzinfo=UTC)))
        for day, run in ((4, "sleeper"), (3, "other"), (2, "sleeper"))
    ]
    kept, old = split_manifests(listed, None, Runs([], now), keep_runs=1, grace=timedelta(hours=24))
    assert [one.ref for one in kept] == ["m4"] and [one.ref for one in old] == ["m3", "m2"]
