"""A world with one seed: its clock, its chance, its processes, and who goes next.

A process is one or more tasks (greenlets). Whatever a task does to the outside, such as a write, a rename, a
put or a list, is an *effect*, and before each the scheduler may let others go first, stop the process for
hours, kill it, or cut the power. Nothing here knows lading; see `machine.py` for how its calls get here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from greenlet import getcurrent, greenlet

START = datetime(2030, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000_000
_PACE = 1_500_000  # what a step takes on average
_FATES = ("kill", "power", "freeze", "jump")
_NAP = 2 * 3600 * _SECOND
_DOZE = 30 * 3600 * _SECOND  # longer than the grace period
_SLEEPS = {"nap": _NAP, "doze": _DOZE}
_STRUCK = (*_FATES, *_SLEEPS)  # what a strike may be, besides a fault of the disk or of a request


class Killed(BaseException):
    """The process is gone: nothing that it does from here on has an effect."""


class Stuck(AssertionError):
    """Tasks wait for each other, or for ever."""


@dataclass(frozen=True)
class Faults:
    """How often, per effect, something goes wrong. All zero: the world is kind."""

    kill: float = 0.0
    power: float = 0.0  # a power cut; only what was synced is sure to be there afterwards
    freeze: float = 0.0  # the process sleeps for minutes, hours or days, and wakes up as if nothing were
    jump: float = 0.0  # hours pass for everybody
    disk: float = 0.0  # ENOSPC, EIO
    refused: float = 0.0  # a request that fails and had no effect
    lost: float = 0.0  # a request that had its effect, and fails
    doubled: float = 0.0  # a request whose answer got lost, and that was sent again by the client library
    late: float = 0.0  # a request that fails, and has its effect later
    restart: float = 0.0  # of the database server: sessions end, and it may be away for a while
    serial: float = 0.0  # a transaction that the server wants to be done again
    stall: float = 0.0  # a statement that takes minutes
    sticky: float = 0.0  # how likely the same task goes on

    def without(self, name: str) -> Faults:
        return Faults(**{**self.__dict__, name: 0.0})


@dataclass
class Process:
    name: str
    alive: bool = True
    frozen_until: int = 0
    doze: int = 0  # after so many steps it sleeps for more than a day
    die: int = 0  # after so many steps it is killed
    strike: tuple[str, str, str] | None = None  # what happens, after which kind of effect, on what
    struck: str | None = None  # what happens at its next step
    local: dict[str, Any] = field(default_factory=dict)  # what a real process has to itself
    on_death: list[Callable[[], None]] = field(default_factory=list)


class Task(greenlet):
    """One line of work of a process."""

    def __init__(self, world: World, process: Process, name: str, work: Callable[[], None]) -> None:
        super().__init__(parent=world.hub)
        self.world, self.process, self.name, self._work = world, process, name, work
        self.wake = 0
        self.until: Callable[[], bool] | None = None  # what it waits for
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            if self.process.alive:
                self._work()
        except Killed:
            pass
        except BaseException as error:
            self.error = error

    def ready(self, now: int) -> bool:
        if not self.process.alive:
            return True
        if self.process.frozen_until > now:
            return False
        if self.until is not None and self.until():
            return True
        return self.wake <= now and (self.until is None or self.wake > 0)

    def due(self) -> int | None:
        """When it will be ready by itself."""
        if self.until is not None and self.wake == 0:
            return self.process.frozen_until if self.until() else None
        return max(self.wake, self.process.frozen_until)


class World:
    """Everything that differs between two histories comes out of `seed` and `faults`."""

    def __init__(self, seed: int, faults: Faults, *, limit: int = 200_000) -> None:
        self.chance = random.Random(seed)
        self.names = random.Random(seed ^ 0x5EED)
        self.faults = faults
        self.now = int((START - EPOCH).total_seconds()) * _SECOND
        self.steps = 0
        self.trace: list[str] | None = None
        self.tasks: list[Task] = []
        self.cuts: list[int] = []  # steps before which the power was cut
        self.power_cut: Callable[[], None] | None = None
        self.calm = False  # no more faults: what is left has to converge
        self.hub: greenlet = getcurrent()
        self._limit = limit
        self._last: Task | None = None
        self.count: dict[str, int] = {}
        self.after_death: list[Any] = []  # who starts again, in a new process

    # What the seams ask for.

    def time(self) -> datetime:
        return EPOCH + timedelta(microseconds=self.now // 1000)

    def random_bytes(self, count: int) -> bytes:
        return self.names.randbytes(count)

    def sleep(self, seconds: float) -> None:
        task = current_task()
        if task is None:
            self.now += int(seconds * _SECOND)
            return
        task.wake = self.now + max(1, int(seconds * _SECOND))
        self._switch(task)

    def effect(self, kind: str, what: object = "") -> None:
        """Others may go first, and the process may be gone afterwards. Outside of tasks nothing happens."""
        task = current_task()
        if task is None:
            return
        if not task.process.alive:
            raise Killed
        if self._is_undisturbed(task):
            self.steps += 1
            self.now += _PACE
        else:
            self._switch(task)
        if self.trace is not None:
            self.tell(task.name, kind, what)
        strike = task.process.strike
        if strike is not None and kind.startswith(strike[1]) and strike[2] in str(what):
            task.process.strike, task.process.struck = None, strike[0]

    def _is_undisturbed(self, task: Task) -> bool:
        """Whether it would be this task's turn again, whatever chance says: no fault happens any more, and
        all others wait. Most steps of a history are such, when all is checked in the end."""
        if not self.calm or task.process.doze or task.process.die or self.steps >= self._limit:
            return False
        return not any(one is not task and one.ready(self.now) for one in self.tasks)

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Until that is so, or time is over; whether it is."""
        task = current_task()
        if task is None:
            return until()
        task.until = until
        task.wake = 0 if timeout is None else self.now + max(1, int(timeout * _SECOND))
        try:
            self._switch(task)
        finally:
            task.until = None
        return until()

    def happens(self, fault: str) -> bool:
        task = current_task()
        if task is None or self.calm:
            return False
        if task.process.struck == fault:
            task.process.struck = None
        else:
            rate = getattr(self.faults, fault)
            if not rate or self.chance.random() >= rate:
                return False
        self._count(fault)
        return True

    def tell(self, who: str, kind: str, what: object = "") -> None:
        if self.trace is not None:
            self.trace.append(f"{self.time():%d %H:%M:%S.%f} {self.steps:>5} {who:<12} {kind:<10} {what}")

    # Processes.

    def spawn(self, process: Process, name: str, work: Callable[[], None]) -> Task:
        task = Task(self, process, name, work)
        self.tasks.append(task)
        return task

    def kill(self, process: Process) -> None:
        """Its tasks unwind without any effect before anybody else goes on."""
        process.alive = False
        for done in process.on_death:
            done()
        for task in [one for one in self.tasks if one.process is process]:
            task.switch()
            self._drop(task)

    def run(self) -> None:
        """Until nobody has anything left to do."""
        while self.tasks:
            ready = [task for task in self.tasks if task.ready(self.now)]
            if not ready:
                self._pass_time()
                continue
            self.steps += 1
            if self.steps > self._limit:
                raise Stuck(f"still at work after {self.steps} steps: {[one.name for one in self.tasks]}")
            task = self._next(ready)
            self.now += self.chance.randrange(1_000, 3_000_000)
            if self._strikes(task) or self._dozes(task) or self._dies(task):
                continue
            task.wake = 0
            task.switch()
            self._last = task
            if task.dead:
                self._drop(task)

    def _next(self, ready: list[Task]) -> Task:
        if self._last in ready and self.chance.random() < self.faults.sticky:
            assert self._last is not None
            return self._last
        return ready[self.chance.randrange(len(ready))] if len(ready) > 1 else ready[0]

    def _strikes(self, task: Task) -> bool:
        """Whether something happened instead of the step."""
        what = self._fate(task)
        if what is None:
            return False
        self._count(what)
        if what == "jump":
            self.now += self._span()
            self.tell("world", "TIME", "passed")
            return False
        if what == "kill":
            self.tell(task.name, "KILLED")
            self.kill(task.process)
        elif what == "power":
            self.cuts.append(self.steps)
            self.tell("world", "POWER CUT")
            for process in {id(one.process): one.process for one in self.tasks}.values():
                self.kill(process)
            assert self.power_cut is not None
            self.power_cut()
        else:
            task.process.frozen_until = self.now + (_SLEEPS.get(what) or self._span())
            self.tell(task.name, "FROZEN", f"for {(task.process.frozen_until - self.now) / 3.6e12:.1f} h")
        return True

    def _fate(self, task: Task) -> str | None:
        if self.calm:
            return None
        struck = task.process.struck
        if struck in _STRUCK:
            task.process.struck = None
            return struck
        fate = self.chance.random()
        for name in _FATES:
            rate = getattr(self.faults, name)
            if fate < rate and (name != "power" or self.power_cut is not None):
                return name
            fate -= rate
        return None

    def _dozes(self, task: Task) -> bool:
        if not task.process.doze:
            return False
        task.process.doze -= 1
        if task.process.doze:
            return False
        task.process.frozen_until = self.now + _DOZE
        self.tell(task.name, "DOZES", "for 30 h")
        return True

    def _dies(self, task: Task) -> bool:
        if not task.process.die:
            return False
        task.process.die -= 1
        if task.process.die:
            return False
        self.tell(task.name, "KILLED")
        self.kill(task.process)
        return True

    def _span(self) -> int:
        hours = self.chance.choice((0.02, 0.2, 1.5, 13, 26, 75))
        return int(hours * (0.7 + 0.6 * self.chance.random()) * 3600 * _SECOND)

    def _count(self, fault: str) -> None:
        self.count[fault] = self.count.get(fault, 0) + 1

    def _pass_time(self) -> None:
        due = [at for at in (task.due() for task in self.tasks) if at is not None]
        if not due:
            raise Stuck(f"everybody waits: {[one.name for one in self.tasks]}")
        self.now = max(self.now + 1, min(due))

    def _switch(self, task: Task) -> None:
        if not task.process.alive:
            raise Killed
        self.hub.switch()
        if not task.process.alive:
            raise Killed

    def _drop(self, task: Task) -> None:
        if task in self.tasks:
            self.tasks.remove(task)
        if task.error is not None:
            raise task.error


def current_task() -> Task | None:
    """None in the hub, and in threads of libraries."""
    found = getcurrent()
    return found if isinstance(found, Task) else None
