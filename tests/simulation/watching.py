"""The story of a table that is watched: hints of what happens to files get lost, doubled, late and out of
order, files are put in place or written bit by bit, watchers die, sleep past their lease and take over from
each other, and somebody runs by hand beside them.

What holds: whatever was heard, a watcher that is left alone makes the table what its files say, and a plain
run finds nothing to do then; nobody gives up a lease that is theirs, and nobody is kept out by one that has
lapsed.
"""

from __future__ import annotations

import os
import random
from contextlib import nullcontext
from datetime import datetime
from functools import cache
from typing import Any

import lading.watcher.lease as lease
import lading.watcher.loop as loop
from lading.config.project import Config
from lading.errors import Conflict
from lading.run import run
from lading.watcher.hints import Hint, Silence
from lading.watcher.loop import Options, Watcher
from simulation import disk
from simulation.case import STORIES, Actor, Case, Op, Wrong
from simulation.faults import some_faults
from simulation.kernel import Process, World
from simulation.linear import Operation
from simulation.machine import Threading
from simulation.tabling import KEYS, Tabling

EVERY = 60.0


class Heard(Silence):
    """Hints that the world delivers; the watcher ends when its time is over."""

    def __init__(self, world: World, seconds: float) -> None:
        super().__init__()
        self._world = world
        self.end = world.now + int(seconds * 1e9)
        self.waiting: list[list[Hint]] = []
        self.watcher: Watcher | None = None

    def wait(self, seconds: float) -> list[Hint]:
        if self._world.now >= self.end and self.watcher is not None:
            self.watcher.stop()
            return []
        self._world.wait(lambda: bool(self.waiting), max(0.001, min(seconds, EVERY)))
        return self.waiting.pop(0) if self.waiting else []

    def wake(self) -> None:
        self.waiting.append([])

    def tell(self, hints: list[Hint]) -> None:
        self.waiting.append(hints)


class Watching(Tabling):
    def __init__(self, world: World, case: Case, place: str) -> None:
        super().__init__(world, case, place)
        self.listeners: list[Heard] = []
        lease.threading = Threading()  # type: ignore[assignment]
        loop.is_possible = lambda: bool(case.setting["told"])
        loop.listening = lambda watched, heard: nullcontext()  # type: ignore[assignment]

    def do(self, actor: Actor, op: Op, note: Operation) -> Any:
        kind, *asked = op
        if kind == "watch":
            return self._watch(asked[0])
        if kind == "write":
            return self._write(*asked)
        return super().do(actor, op, note)

    # Watchers.

    def _watch(self, seconds: float) -> Any:
        heard = Heard(self.world, seconds)
        watcher = Watcher(
            self.config, options=Options(every=EVERY, settle=self.case.setting["settle"], allow_vanish=True),
            heard=heard, runs=self._one_run,
        )  # fmt: skip
        heard.watcher = watcher
        asked = self.world.time()
        self.listeners.append(heard)
        try:
            watcher.watch()
        except Conflict as error:
            if "is being watched already" not in str(error):
                raise
            self._may_refuse(asked)
            return ("refused",)
        finally:
            self.listeners.remove(heard)
        if self.world.now < heard.end:
            if not self._others_watch:
                raise Wrong("gave up", "nobody else ever watched")
            return ("gave up",)
        return ("watched",)

    def _may_refuse(self, asked: datetime) -> None:
        """Whoever asks may sleep before it hears the answer, but no lease holds that had lapsed by then."""
        held, _ = lease._read(self.config.warehouse)
        if held is not None and not self.listeners[:-1] and not held.is_alive(asked):
            raise Wrong("kept out", f"by {held}, which has lapsed")

    @property
    def _others_watch(self) -> bool:
        return sum(any(op[0] == "watch" for op in ops) for ops in self.case.actors) > 1

    @staticmethod
    def _one_run(config: Config, names: Any, **more: Any) -> Any:
        return run(config, names, **more)

    # Files, and what is heard of them.

    def _edit(self, number: int, rows: int) -> Any:
        done = super()._edit(number, rows)
        self._hint(f"f{number}.csv", fresh=rows > 0)
        return done

    def _write(self, number: int, rows: int, seconds: float) -> Any:
        """Where it lies, in two goes."""
        key = f"f{number}.csv"
        path = self.folder / "data" / key
        version = len(self.versions[key])
        notes = tuple(f"{number}.{version}.{row}" for row in range(rows))
        self.versions[key] += [notes[: rows // 2], notes]
        lines = [f"{self.line(number, version, row)},{note}\n" for row, note in enumerate(notes)]
        for text, mode in (
            (f"{self.header}\n" + "".join(lines[: rows // 2]), "w"),
            ("".join(lines[rows // 2 :]), "r+"),
        ):
            try:
                with open(path, mode) as file:
                    file.seek(0, os.SEEK_END)
                    file.write(text)
            except FileNotFoundError:  # removed meanwhile
                return ("removed",)
            self.written.add((key, disk.content(str(path))))
            os.utime(path, ns=(self.world.now, self.world.now))
            self._hint(key, fresh=False)
            self.world.sleep(seconds)
        return ("written",)

    def _hint(self, key: str, *, fresh: bool) -> None:
        """To everybody who watches: at once, later, twice, of a folder, or not at all."""
        if not self.case.setting["told"]:
            return
        chance = self.world.chance
        for heard in list(self.listeners):
            fate = 1.0 if self.world.calm else chance.random()
            hint = Hint("t", key, fresh)
            if fate < 0.2:
                continue
            if fate < 0.3:
                hint = Hint("t", None)
            if fate < 0.55:
                self._later(heard, hint, chance.choice((0.05, 1, 70)))
            if fate >= 0.45:
                heard.tell([hint])

    def _later(self, heard: Heard, hint: Hint, seconds: float) -> None:
        def deliver() -> None:
            self.world.sleep(seconds)
            heard.tell([hint])

        self.world.spawn(Process("hints"), "hints", deliver)

    # The end.

    def _converges(self) -> None:
        """By a watcher alone, before `tabling` looks whether a run has anything left to do."""
        self._drop_torn()
        self.world.sleep(lease.LEASE.total_seconds() + 1)  # of one that was killed
        self.world.spawn(Process("editor"), "editor", self._edit_unheard)
        told = self._watch(4 * EVERY)
        if told != ("watched",):
            raise Wrong("does not converge", f"the watcher: {told}")
        current = self._now()
        if current != (truth := self.truth()):
            raise Wrong("not what the files say", f"more: {current - truth}; less: {truth - current}")
        super()._converges()

    def _edit_unheard(self) -> None:
        """While the watcher is at work, and nobody tells it."""
        self.world.sleep(1.2 * EVERY)
        super()._edit(0, 2)


STORIES["watching"] = Watching


def make(seed: int) -> Case:
    chance = random.Random(seed)
    storage = chance.choice(("folder", "bucket"))
    faults = some_faults(chance, storage, less=0.15, also=("jump", "freeze", "freeze"))
    actors: list[tuple[Op, ...]] = [(["watch", chance.choice((90, 200, 400))], ["watch", 100])]
    if chance.random() < 0.5:
        actors.append((["wait", chance.choice((1, 30, 100))], ["watch", chance.choice((90, 300))]))
    actors.append(tuple(_op(chance) for _ in range(chance.randint(3, 7))))
    if chance.random() < 0.3:
        actors.append(tuple(_op(chance) for _ in range(chance.randint(1, 3))))
    setting = {
        "checkpoint": chance.choice((1000, 3)),
        "bucket_size": chance.choice((100, 1000)),
        "replace": chance.choice(("auto", "minus")),
        "told": chance.random() < 0.75,
        "settle": chance.choice((0.2, 5.0)),
    }
    return Case("watching", storage, chance.getrandbits(48), tuple(actors), faults, setting)


@cache
def _kinds() -> tuple[tuple[str, ...], tuple[float, ...]]:
    rates = {"edit": 8, "write": 3, "wait": 6, "run": 1.5, "merge": 0.5, "reset": 0.3, "clean": 0.3}
    return tuple(rates), tuple(rates.values())


def _op(chance: random.Random) -> Op:
    kind = chance.choices(*_kinds())[0]
    if kind == "edit":
        return [kind, chance.randrange(KEYS), chance.choice((0, 1, 2, 3))]
    if kind == "write":
        return [kind, chance.randrange(KEYS), chance.choice((1, 3, 4)), chance.choice((0.01, 0.5, 7))]
    if kind == "clean":
        return [kind, 1]
    if kind == "wait":
        return [kind, chance.choice((0.05, 1, 20, 70))]
    return [kind]
