"""Incremental equals rebuild, for shards: whatever happens to the files, run by run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.served import SERVE, ServedProject, Ship

from lading.serve.routing import Router

pytestmark = pytest.mark.usefixtures("spark")

NAMES = [f"{letter}.csv" for letter in "abcdef"]


def some_ships(rng: random.Random) -> list[Ship]:
    return [(rng.randrange(40), rng.randint(1, 3), rng.choice("xyzä")) for _ in range(rng.randint(1, 6))]


def change(project: ServedProject, rng: random.Random) -> set[int]:
    """One to three changes; the keys of the files they touch, before and after."""
    touched: set[int] = set()
    for name in rng.sample(NAMES, rng.randint(1, 3)):
        touched |= keys_in(project, name)
        if (project.data / name).exists() and rng.random() < 0.3:
            (project.data / name).unlink()
        else:
            project.put(name, some_ships(rng))
        touched |= keys_in(project, name)
    return touched


def keys_in(project: ServedProject, name: str) -> set[int]:
    return {imo for imo, rows in project.rows().items() if any(file == name for _, file, _ in rows)}


@pytest.mark.parametrize("seed", [1, 2])
def test_shards_after_any_changes_are_those_of_a_rebuild(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    project = ServedProject(
        tmp_path / "p", SERVE.replace("shards: 4", "shards: 16"), replace=("auto", "minus")[seed % 2]
    )
    change(project, rng)
    project.run()
    for _ in range(4):
        before = project.urls()
        touched = change(project, rng)
        project.run()
        assert project.shards() == project.expected()
        router = Router.of_manifest(project.snapshot().meta)
        dirty = {router.route(imo) for imo in touched}
        after = project.urls()
        assert {db_id: url for db_id, url in after.items() if db_id not in dirty} == {
            db_id: url for db_id, url in before.items() if db_id not in dirty
        }
    fresh = project.rebuilt(tmp_path / "fresh")
    fresh.run()
    assert fresh.shards() == project.shards()
    assert [one.checkpoint_id for one in fresh.snapshot().shards] == [
        one.checkpoint_id for one in project.snapshot().shards
    ]
