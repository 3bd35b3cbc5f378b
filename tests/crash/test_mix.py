"""Everybody at once, for a while: runs in two processes, merge, clean, rollback, release and readers.

A reader never meets a part that is missing, a run never fails for what others do, and in the end the table is
what its files say and every snapshot that is left is whole. Cleaning keeps nothing for longer than it has to:
a grace of a few seconds, which no reader here needs. Runs dawdle between their steps, so that others get
between them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.bucket_project import BucketProject
from support.machines import SEED
from support.project import Project
from support.servers import S3Server

from lading.config.file import load as load_config
from lading.config.project import Config
from lading.errors import Conflict, NotFound
from lading.run import run
from lading.snapshots.history import Wanted
from lading.snapshots.stores.by_url import store_of
from lading.upkeep.clean.apply import clean
from lading.upkeep.clean.survey import Rules
from lading.upkeep.merge import merge_table
from lading.upkeep.rollback import release_hold, roll_back
from lading.watch import Watch

SECONDS = 120 if os.environ.get("LADING_SOAK") else 20
RUNS = 8
GRACE = timedelta(seconds=10)

CHILD = """
import random, sys, time
from pathlib import Path
from lading.config.file import load as load_config
from lading.run import run
from lading.watch import Watch

class Dawdling(Watch):
    def phase(self, table, name):
        time.sleep(random.random() / 2)

folder, stop = Path(sys.argv[1]), Path(sys.argv[2])
done = 0
while not stop.exists():
    error = run(load_config(folder), allow_vanish=True, watch=Dawdling()).error
    moved = error is not None and ("changed while" in error.message or "/data/" in error.message)
    if error is not None and error.kind != "Conflict" and not moved:
        sys.exit(f"{error.kind}: {error}")
    done += 1
print(done)
"""


class Dawdling(Watch):
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def phase(self, table: str, name: str) -> None:
        time.sleep(self._chance.random() / 2)


class Mix:
    """Threads that do something again and again, until the time is over or one of them fails."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self._began = time.monotonic()
        self._threads: list[threading.Thread] = []

    def going_on(self) -> bool:
        """For a while, and on a busy machine longer: until everybody has had a turn, and runs enough."""
        short = self.done["run"] < RUNS or not all(self.done[name] for name in ("read", "merge", "clean"))
        return not self.failed and (time.monotonic() - self._began < SECONDS or short)

    def again_and_again(self, name: str, do: Callable[[random.Random], None], pause: float = 0.0) -> None:
        def loop() -> None:
            chance = random.Random(f"{SEED}-{name}-{len(self._threads)}")
            while self.going_on():
                try:
                    do(chance)
                    self.done[name] += 1
                except Conflict:
                    self.done[f"{name}, a conflict"] += 1
                except Exception as error:
                    self.failed.append(f"{name}: {type(error).__name__}: {error}")
                time.sleep(pause * chance.random())

        self._threads.append(threading.Thread(target=loop, name=name))

    def rage(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        print(dict(self.done))


@pytest.fixture(params=["folder", "bucket"])
def project(request: pytest.FixtureRequest, spark: object, tmp_path: Path) -> Project:
    if request.param == "folder":
        made = Project(tmp_path / "project")
    else:
        server: S3Server = request.getfixturevalue("s3_server")
        url = f"{server.bucket('mix')}/{uuid.uuid4().hex}"
        made = BucketProject(tmp_path / "project", url, server.options())
    for number in range(6):
        made.put(f"f{number}.csv", [(i, 1 + number, "x") for i in range(number, 40, 5)], age=1000)
    made.run()
    return made


def test_everybody_at_once_and_no_reader_sees_a_hole(project: Project, tmp_path: Path) -> None:
    config, mix, stop = load_config(project.folder), Mix(), tmp_path / "stop"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(project.folder), str(stop)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        mix.again_and_again("run", lambda chance: run_once(config, chance))
        mix.again_and_again("edit", lambda chance: edit(project, chance), pause=0.4)
        mix.again_and_again("merge", lambda chance: merge(config), pause=0.5)
        mix.again_and_again("clean", lambda chance: clean_up(config), pause=1.0)
        mix.again_and_again("move", lambda chance: move(config, chance), pause=0.5)
        for _ in range(3):
            mix.again_and_again("read", lambda chance: read(project, config, chance))
        mix.rage()
    finally:
        stop.touch()
        out, err = child.communicate(timeout=300)
    assert not mix.failed
    assert child.returncode == 0, err[-2000:]
    assert int(out)
    with suppress(Conflict):
        release_hold(config, "events")
    project.run()
    assert project.seen() == project.truth()
    for snapshot in store_of(config, "events").list_manifests():
        with project.open(ref=snapshot.ref) as reader:
            assert reader.scan().to_table().num_rows == reader.rows


def run_once(config: Config, chance: random.Random) -> None:
    """A source file that is edited or vanishes while being read may fail a run: nobody else is at fault."""
    error = run(config, allow_vanish=True, watch=Dawdling(chance)).error
    if error is not None and "changed while" not in error.message and "/data/" not in error.message:
        raise error


def edit(project: Project, chance: random.Random) -> None:
    """A file appears, changes or vanishes."""
    key = f"f{chance.randrange(8)}.csv"
    if chance.random() < 0.2:
        (project.data / key).unlink(missing_ok=True)
        return
    rows = [
        (i, 1 + chance.randrange(20), "y") for i in range(chance.randrange(5), 40, 1 + chance.randrange(6))
    ]
    beside = project.put("beside.tmp", rows, age=10 + chance.random() * 1000)
    os.replace(beside, project.data / key)


def merge(config: Config) -> None:
    merge_table(config, "events")


def clean_up(config: Config) -> None:
    clean(config, "events", Rules(2, GRACE), apply=True)


def move(config: Config, chance: random.Random) -> None:
    """Back to any snapshot, and forward again."""
    store = store_of(config, "events")
    snapshot = chance.choice(store.list_manifests())
    with suppress(NotFound):
        roll_back(config, "events", Wanted(ref=snapshot.ref))
    time.sleep(chance.random())
    with suppress(Conflict):
        release_hold(config, "events")


def read(project: Project, config: Config, chance: random.Random) -> None:
    """All of a snapshot, at once or after a while: the one that is shown, or any that is too young to be
    cleaned, whether it was ever shown or not."""
    young = datetime.now(UTC) - GRACE / 2
    listed = [one.ref for one in store_of(config, "events").list_manifests() if one.published_at > young]
    with project.open(ref=chance.choice([None, *listed])) as reader:
        rows = reader.rows
        time.sleep(chance.random() * chance.choice([0, 0, 1]))
        table = reader.scan(columns=["id", "_source"]).to_table()
        assert table.num_rows == rows
