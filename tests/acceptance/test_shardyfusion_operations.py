"""What shardyfusion promises of operating a store: rolling back, cleaning, and healing after a kill."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.handmade import shard_bytes
from support.world import InFlight, World

import lading
from lading.snapshots.history import Wanted, history
from lading.snapshots.manifest import ShardMeta
from lading.snapshots.runs import list_runs
from lading.upkeep.clean.apply import clean, cleanup_losers, cleanup_old_runs, cleanup_stale_attempts
from lading.upkeep.clean.survey import Rules
from lading.upkeep.rollback import release_hold, roll_back

NO_GRACE = timedelta(0)
SHARD = shard_bytes({b"k": b"v"})

_listeners: list[list[tuple[str, str]]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _listeners and event in ("open", "os.remove", "os.rename", "os.link", "os.truncate"):
        paths = [str(path) for path in arguments if isinstance(path, (str, os.PathLike))]
        for listener in _listeners:
            listener.extend((event, path) for path in paths)


sys.addaudithook(_audit)  # can't be taken away again, so it only listens inside touched()


@contextmanager
def touched() -> Iterator[list[tuple[str, str]]]:
    seen: list[tuple[str, str]] = []
    _listeners.append(seen)
    try:
        yield seen
    finally:
        _listeners.remove(seen)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "project")


def shard_file(world: World, run_id: str, db_id: int, attempt: int) -> Path:
    path = world.root / f"shards/run_id={run_id}/db={db_id:05d}/attempt={attempt:02d}/shard.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(SHARD)
    return path


def served_run(world: World) -> tuple[str, Path, Path]:
    """A run with one shard that two attempts wrote: its id, the winner's file and the loser's."""
    run = world.begin()
    world.commit(run)
    winner, loser = (shard_file(world, run.run_id, 0, attempt) for attempt in (0, 1))
    url = str(winner.parent.relative_to(world.root))
    meta = ShardMeta(db_id=0, db_url=url, attempt=0, row_count=1, min_key=1, max_key=1, db_bytes=len(SHARD))
    world.finish(run, world.publish(run, shards=[meta]))
    return run.run_id, winner, loser


def dead_run(world: World) -> tuple[InFlight, Path]:
    run = world.begin(parts=0)
    file = shard_file(world, run.run_id, 3, 0)
    lapsed = world.now - timedelta(days=2)
    run.handle.heartbeat(lapsed)
    return run, file


@pytest.mark.acceptance("M21")
def test_old_manifests_stay_until_old_runs_are_cleaned_up_and_keep_runs_are_kept(world: World) -> None:
    refs = [world.run(replace=1).ref for _ in range(5)]
    world.pass_time(days=365)
    old = [world.root / ref for ref in refs]
    cleanup_losers(world.config, "t", grace=NO_GRACE)
    cleanup_stale_attempts(world.config, "t", grace=NO_GRACE)
    assert all(path.is_file() for path in old)
    clean(world.config, "t", Rules(keep_runs=3, now=world.now))  # a dry run
    assert all(path.is_file() for path in old)
    cleanup_old_runs(world.config, "t", keep_runs=3, grace=NO_GRACE)
    assert [path.is_file() for path in old] == [False, False, True, True, True]


@pytest.mark.acceptance("M22")
def test_after_a_rollback_the_next_open_gives_the_older_rows_and_no_data_is_rewritten(world: World) -> None:
    world.run(rows=5)
    world.run(rows=2, replace=1)
    before = {path: path.read_bytes() for path in world.root.glob("bucket=*/*")}
    roll_back(world.config, "t", Wanted(offset=1))
    with lading.open(world.root) as reader:
        assert reader.scan().to_table().num_rows == 5
    release_hold(world.config, "t")
    with lading.open(world.root) as reader:
        assert reader.scan().to_table().num_rows == 2
    assert {path: path.read_bytes() for path in world.root.glob("bucket=*/*")} == before


@pytest.mark.acceptance("S2")
def test_rolling_back_and_history_never_touch_a_data_file(world: World) -> None:
    _, winner, loser = served_run(world)
    world.run()
    with touched() as seen:
        history(world.store)
        roll_back(world.config, "t", Wanted(offset=1))
        release_hold(world.config, "t")
    assert any(path.endswith("_CURRENT") for _, path in seen)
    assert not [path for _, path in seen if "bucket=" in path or "shards" in path]
    assert winner.is_file() and loser.is_file()


@pytest.mark.acceptance("S19")
def test_losers_stale_attempts_and_old_runs_are_cleaned_each_by_its_own_function(world: World) -> None:
    old_run, old_winner, old_loser = served_run(world)
    _, winner, loser = served_run(world)
    _, stale = dead_run(world)
    shards = (old_winner, old_loser, winner, loser, stale)

    def there() -> list[bool]:
        return [path.is_file() for path in shards]

    clean(world.config, "t", Rules(1, NO_GRACE))
    assert there() == [True] * 5
    cleanup_losers(world.config, "t", grace=NO_GRACE)
    assert there() == [True, False, True, False, True]
    cleanup_stale_attempts(world.config, "t", grace=NO_GRACE)
    assert there() == [True, False, True, False, False]
    assert len(world.store.list_manifests()) == 2
    cleanup_old_runs(world.config, "t", keep_runs=1, grace=NO_GRACE)
    assert there() == [False, False, True, False, False]
    assert len(world.store.list_manifests()) == 1
    assert old_run not in {one.record.run_id for one in list_runs(world.root)[0]}
    assert not old_winner.parents[2].exists(), "emptied folders go too"
