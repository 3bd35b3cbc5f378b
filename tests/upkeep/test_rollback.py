"""Moving the pointer by hand: back, which holds; forward again; and what history says of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.world import World

import lading
from lading.errors import ConfigError, Conflict, GateFailed, ManifestParseError, ManifestStoreError, NotFound
from lading.snapshots.diff import diff
from lading.snapshots.history import Wanted, find, history, parse_time
from lading.snapshots.opening import open_members
from lading.snapshots.runs import list_runs
from lading.upkeep.clean.apply import clean
from lading.upkeep.clean.survey import Rules
from lading.upkeep.rollback import publish_run, release_hold, roll_back


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "project")


def refused(world: World, rows: int = 3) -> str:
    """A run whose snapshot its gate refused; its id."""
    run = world.begin(rows=rows)
    world.commit(run)
    payload = world.payload(run.table, run.run_id, gate={"failures": ["rows dropped"]})
    world.store.put_manifest(payload, run.run_id, world.now)
    world.finish(run)
    return run.run_id


def runs(world: World) -> list[str]:
    return [one.run_id for one in world.store.list_manifests()]


def current(world: World) -> str:
    ref = world.store.load_current()
    assert ref is not None
    return ref.run_id


def test_history_tells_rows_and_the_difference_to_the_one_before(world: World) -> None:
    world.run(rows=5)
    world.run(rows=2)
    world.run(rows=1, replace=1)
    told = history(world.store)
    assert [(one.rows, one.change) for one in reversed(told)] == [
        (5, None),
        (7, 2),
        (told[0].rows, told[0].change),
    ]
    assert [one.marks for one in told] == [["current"], [], []]
    assert [one.change for one in history(world.store, limit=2)] == [one.change for one in told[:2]]


def test_history_marks_what_is_held_what_failed_and_what_is_damaged(world: World) -> None:
    first = world.run()
    damaged = world.run()
    world.run()
    (world.root / damaged.ref).write_bytes(b"nonsense")
    refused(world)
    roll_back(world.config, "t", Wanted(ref=first.ref))
    assert [one.marks for one in history(world.store)] == [
        ["failed"],
        [],
        ["unreadable"],
        ["current", "held"],
    ]
    (world.root / "_CURRENT").write_text("{")
    assert next(one.marks for one in history(world.store)) == ["failed"], "a broken pointer hides nothing"


def test_a_release_goes_back_to_what_was_published_by_force(world: World) -> None:
    world.run()
    bad = refused(world)
    publish_run(world.config, "t", bad, force=True)
    roll_back(world.config, "t", Wanted(offset=1))
    refused(world)
    release_hold(world.config, "t")
    assert current(world) == bad, "not the one before it, and not one that nobody forced"


def test_who_forced_a_kept_snapshot_stays_known_after_cleaning(world: World) -> None:
    world.run()
    bad = refused(world)
    publish_run(world.config, "t", bad, force=True, now=world.now)
    roll_back(world.config, "t", Wanted(offset=1), now=world.now)
    world.pass_time(days=30)
    clean(world.config, "t", Rules(1, now=world.now), apply=True)
    release_hold(world.config, "t")
    assert current(world) == bad


def test_a_rollback_holds_until_it_is_released(world: World) -> None:
    world.run()
    world.run(rows=9)
    roll_back(world.config, "t", Wanted(offset=1))
    held = world.store.load_current()
    assert held is not None and held.held and held.run_id == runs(world)[1]
    assert world.run().outcome == "held"
    assert current(world) == held.run_id
    moved = release_hold(world.config, "t")
    assert moved.now.run_id == runs(world)[0] and not moved.now.held
    assert world.run().outcome == "current"


def test_releasing_passes_over_what_the_gate_refused(world: World) -> None:
    world.run()
    good = world.run()
    roll_back(world.config, "t", Wanted(offset=1))
    refused(world)
    assert release_hold(world.config, "t").now.ref == good.ref


def test_releasing_what_is_not_held_is_told(world: World) -> None:
    world.run()
    with pytest.raises(Conflict, match="not held"):
        release_hold(world.config, "t")


def test_a_refused_snapshot_is_published_by_force_only(world: World) -> None:
    world.run()
    run_id = refused(world, rows=7)
    with pytest.raises(GateFailed, match="rows dropped") as caught:
        publish_run(world.config, "t", run_id)
    assert f"lading publish t --run {run_id} --force" in caught.value.hint
    publish_run(world.config, "t", run_id, force=True)
    assert current(world) == run_id
    with lading.open(world.root) as reader:
        assert reader.rows == 10


def test_publishing_never_goes_back_and_never_breaks_a_hold(world: World) -> None:
    first = world.run()
    world.run()
    first_run = runs(world)[1]
    with pytest.raises(Conflict, match="newer") as caught:
        publish_run(world.config, "t", first_run, force=True)
    assert "lading rollback" in caught.value.hint
    roll_back(world.config, "t", Wanted(ref=first.ref))
    with pytest.raises(Conflict, match="held"):
        publish_run(world.config, "t", runs(world)[0])


def test_offsets_and_times_pass_over_what_nobody_saw(world: World) -> None:
    first = world.run()
    at = world.now
    world.pass_time(hours=1)
    refused_run = refused(world)
    world.pass_time(hours=1)
    third = world.run()
    assert find(world.store, Wanted(offset=1), world.root).ref == first.ref
    assert find(world.store, Wanted(offset=0), world.root).ref == third.ref
    assert find(world.store, Wanted(as_of=at + timedelta(hours=1.5)), world.root).ref == first.ref
    assert find(world.store, Wanted(run_id=refused_run), world.root).run_id == refused_run
    with pytest.raises(NotFound, match="2 before"):
        find(world.store, Wanted(offset=2), world.root)
    with pytest.raises(NotFound, match="no snapshot published at"):
        find(world.store, Wanted(as_of=at - timedelta(days=1)), world.root)


def test_a_refused_snapshot_that_was_shown_by_hand_counts(world: World) -> None:
    world.run()
    run_id = refused(world)
    publish_run(world.config, "t", run_id, force=True)
    world.run()
    assert find(world.store, Wanted(offset=1), world.root).run_id == run_id


def test_exactly_one_snapshot_is_named(world: World) -> None:
    with pytest.raises(ConfigError, match="one snapshot"):
        Wanted(ref="x", offset=1)
    with pytest.raises(ConfigError, match="negative"):
        Wanted(offset=-1)


def test_an_unknown_run_is_told_with_those_like_it(world: World) -> None:
    world.run()
    [known] = runs(world)
    with pytest.raises(NotFound, match="no snapshot of run") as caught:
        find(world.store, Wanted(run_id=known[:-1] + "z"), world.root)
    assert known in caught.value.hint


def test_an_older_snapshot_is_read_without_moving_anything(world: World) -> None:
    first = world.run(rows=5)
    world.pass_time(hours=1)
    world.run(rows=2)
    before = (world.root / "_CURRENT").read_bytes()
    run_id = runs(world)[1]
    for options in (
        {"offset": 1},
        {"ref": first.ref},
        {"ref": run_id},
        {"as_of": world.now - timedelta(hours=0.5)},
    ):
        with lading.open(world.root, **options) as reader:  # type: ignore[arg-type]
            assert (reader.rows, reader.scan().to_table().num_rows) == (5, 5)
            assert not reader.refresh()
    assert (world.root / "_CURRENT").read_bytes() == before


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert parse_time("2024-03-01") == datetime(2024, 3, 1, tzinfo=UTC)
    assert parse_time("2024-03-01T06:30:00+01:00") == datetime(2024, 3, 1, 5, 30, tzinfo=UTC)
    with pytest.raises(ConfigError, match="not a time"):
        parse_time("yesterday")


def test_nobody_is_rolled_back_to_a_damaged_snapshot(world: World) -> None:
    first = world.run()
    world.run()
    (world.root / first.ref).write_bytes(b"nonsense")
    with pytest.raises(ManifestParseError):
        roll_back(world.config, "t", Wanted(ref=first.ref))
    assert current(world) == runs(world)[0]


def test_every_move_by_hand_is_on_record(world: World) -> None:
    first = world.run()
    second = world.run()
    roll_back(world.config, "t", Wanted(offset=1))
    release_hold(world.config, "t")
    moves = [one.record for one in list_runs(world.root)[0] if one.record.action]
    assert [
        (one.action, one.moved_from, one.manifest_ref)
        for one in sorted(moves, key=lambda one: one.started_at)
    ] == [
        ("rollback", second.ref, first.ref),
        ("release", first.ref, second.ref),
    ]


def test_a_diff_names_sources_parts_and_columns(world: World) -> None:
    first = world.run(rows=5)
    second = world.run(rows=2, replace=1)
    old = open_members(world.store, first.ref, str(world.root))
    new = open_members(world.store, second.ref, str(world.root))
    told = diff(old, new)
    assert (told.rows_before, told.rows_after) == (5, 2)
    moved = [(one.kind, one.rows_before, one.rows_after) for one in told.sources]
    assert moved == [("replaced", 5, 0), ("added", 0, 2)]
    assert (told.parts.added, told.parts.removed, told.parts.kept) == (1, 1, 0)
    assert told.columns == () and not told.recipe_changed
    assert diff(new, new).same and not told.same
    old.close()
    new.close()


def test_a_snapshot_cleaned_away_since_it_was_listed_is_not_found_and_passed_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        world.run()
    listed = world.store.list_manifests()
    shown, gone, oldest = listed
    world.store.delete_manifest(gone.ref)
    monkeypatch.setattr(type(world.store), "list_manifests", lambda self, limit=None: listed[:limit])
    for wanted in (Wanted(ref=gone.ref), Wanted(run_id=gone.run_id)):
        with pytest.raises(NotFound) as caught:
            roll_back(world.config, "t", wanted)
        assert isinstance(caught.value, ManifestStoreError) and "roll back to one" in caught.value.hint
    assert current(world) == shown.run_id
    assert find(world.store, Wanted(offset=1), world.root).run_id == oldest.run_id
