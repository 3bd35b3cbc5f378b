"""Moves of the pointer by hand, with somebody else moving it between the decision and the move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.world import World

from lading.errors import Conflict
from lading.model import SnapshotRef
from lading.snapshots.history import Wanted
from lading.snapshots.stores.files import LocalStore
from lading.upkeep.rollback import publish_run, release_hold, roll_back


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "project")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Have something happen once, just before the pointer is set."""

    def arrange(do: Callable[[], object]) -> None:
        real = LocalStore.set_current
        waiting = [do]

        def set_current(self: LocalStore, ref: str, **more: object) -> SnapshotRef:
            if waiting:
                waiting.pop()()
            return real(self, ref, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(LocalStore, "set_current", set_current)

    return arrange


def seen(world: World) -> tuple[str, bool]:
    current = world.store.load_current()
    assert current is not None
    return current.ref, current.held


def test_a_release_never_undoes_a_rollback_that_came_in_between_and_was_released(
    world: World, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    """Somebody else released it first: nothing is held any more, so there is nothing to release."""
    first = world.run()
    world.run()
    roll_back(world.config, "t", Wanted(ref=first.ref))
    meanwhile(lambda: release_hold(world.config, "t"))
    with pytest.raises(Conflict, match="is not held"):
        release_hold(world.config, "t")


def test_publishing_by_hand_never_lets_go_of_a_rollback_that_came_in_between(
    world: World, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    first, second = world.run(), world.run()
    world.store.set_current(first.ref, hold=False, sequence=1)
    newest = world.store.list_manifests()[0]
    assert newest.ref == second.ref
    meanwhile(lambda: roll_back(world.config, "t", Wanted(ref=first.ref)))
    with pytest.raises(Conflict, match="someone rolled it back"):
        publish_run(world.config, "t", newest.run_id)
    assert seen(world) == (first.ref, True)


def test_publishing_by_hand_never_hides_a_newer_snapshot_that_came_in_between(
    world: World, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    first, second = world.run(), world.run()
    world.store.set_current(first.ref, hold=False, sequence=1)
    run_id = world.store.list_manifests()[0].run_id
    assert second.ref == world.store.list_manifests()[0].ref
    third: list[str] = []
    meanwhile(lambda: third.append(world.run().ref))
    with pytest.raises(Conflict, match="see a newer snapshot"):
        publish_run(world.config, "t", run_id)
    assert seen(world) == (third[0], False)


def test_a_rollback_goes_ahead_whatever_was_published_in_between(
    world: World, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    first = world.run()
    world.run()
    later: list[str] = []
    meanwhile(lambda: later.append(world.run().ref))
    moved = roll_back(world.config, "t", Wanted(ref=first.ref))
    assert moved.before is not None and moved.before.ref == later[0]
    assert seen(world) == (first.ref, True)
