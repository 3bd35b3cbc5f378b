"""A case is a history that can be told in a few lines of JSON: who does what, which faults, and a seed.

`play` replays it exactly and says what is wrong with what happened; `smaller` makes of a case that fails one
that fails with less.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
from psycopg import IsolationLevel

from simulation import machine
from simulation.kernel import Faults, Killed, Process, Stuck, World, current_task
from simulation.linear import FOREVER, Operation
from simulation.objects import Bucket
from simulation.postgres import Server

Op = list[Any]  # its kind, then what it needs


@dataclass(frozen=True)
class Case:
    story: str  # which of STORIES
    storage: str  # folder, bucket or postgres
    seed: int
    actors: tuple[tuple[Op, ...], ...]
    faults: Faults
    setting: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(asdict(self)), indent=1)

    @staticmethod
    def of_json(data: bytes) -> Case:
        told = msgspec.json.decode(data)
        told["faults"] = Faults(**told["faults"])
        told["actors"] = tuple(tuple(one) for one in told["actors"])
        return Case(**told)

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {rate:g}" for name, rate in asdict(self.faults).items() if rate)
        lines = [
            f"{self.story} in a {self.storage}, seed {self.seed}; {faults or 'no faults'}; {self.setting}"
        ]
        for number, ops in enumerate(self.actors):
            lines.append(f"  actor {number}: " + "; ".join(" ".join(map(str, op)) for op in ops))
        return "\n".join(lines)


class Wrong(AssertionError):
    """A promise that was broken; `kind` names it."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


class Story(Protocol):
    """What can be done in a world of one kind, and what has to hold there."""

    def __init__(self, world: World, case: Case, place: str) -> None: ...

    def prepare(self) -> None:
        """Before anybody is at work."""
        ...

    def do(self, actor: Any, op: Op, note: Operation) -> Any:
        """One operation; its answer. What it raises is an answer too, see `answer_to`."""
        ...

    def answer_to(self, error: Exception) -> Any:
        """What an error says; None if nobody knows whether it was done; Wrong if it must not be."""
        ...

    def check(self, history: list[Operation]) -> None:
        """When all are done and no fault happens any more."""
        ...


@dataclass
class Outcome:
    steps: int
    wrong: Wrong | None = None
    trace: list[str] = field(default_factory=list)
    history: list[Operation] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)


class Actor:
    """Does its operations one after the other, in a new process after a death."""

    def __init__(
        self, number: int, ops: tuple[Op, ...], story: Story, world: World, history: list[Operation]
    ) -> None:
        self.name = f"actor{number}"
        self.held: dict[str, Any] = {}  # what its process has open
        self._left = list(ops)
        self._story, self._world, self._history = story, world, history
        self._lives = 0
        self._op: Operation | None = None
        self.start()

    def start(self) -> None:
        self._lives += 1
        self.held.clear()
        process = Process(f"{self.name}.{self._lives}", on_death=[self._died])
        self._world.spawn(process, process.name, self._work)

    def _died(self) -> None:
        if self._op is not None:
            self._op.answered = self._world.steps if not self._world.faults.late else FOREVER
            self._op = None
        self._world.after_death.append(self)

    def _work(self) -> None:
        while self._left:
            kind, *asked = op = self._left.pop(0)
            if kind == "wait":
                self._world.sleep(asked[0])
                continue
            if kind == "doze":
                current_task().process.doze = asked[0]  # type: ignore[union-attr]
                continue
            if kind == "strike":
                current_task().process.strike = tuple(asked)  # type: ignore[union-attr]
                continue
            note = self._op = Operation(self.name, kind, asked, self._world.steps)
            self._history.append(note)
            self._world.tell(self.name, "ASKS", f"{kind} {asked}")
            try:
                note.answer, note.known = self._story.do(self, op, note), True
            except Exception as error:
                note.answer = self._story.answer_to(error)
                note.known = note.answer is not None
                note.answer = note.answer or f"{type(error).__name__}: {error}"
            note.answered = self._world.steps if note.known or not self._world.faults.late else FOREVER
            self._op = None
            self._world.tell(self.name, "ANSWER", note.answer)


PLACES = {"bucket": "s3://sim/place", "postgres": "postgresql://sim/place"}
STORIES: dict[str, Callable[..., Story]] = {}
SCRATCH = Path("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir())


def play(case: Case, *, trace: bool = False) -> Outcome:
    """The history, and what is wrong with it."""
    world = World(case.seed, case.faults, limit=case.setting.get("limit", 100_000))
    world.trace = [] if trace else None
    folder = SCRATCH / f"lading-simulation-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    root = folder / "root"
    root.mkdir(parents=True)
    tempfile.tempdir = str(folder)
    os.environ["LADING_CACHE"] = str(folder / "cache")  # copies of objects outlive no history
    history: list[Operation] = []
    outcome = Outcome(0, history=history)
    bucket = Bucket(world) if case.storage == "bucket" else None
    level = IsolationLevel[case.setting.get("level", "READ_COMMITTED")]
    gc.disable()
    try:
        with machine.running(world, root=root, bucket=bucket, postgres=Server(world, level)):
            place = PLACES.get(case.storage, str(root / "place"))
            story = STORIES[case.story](world, _in_folder(case, root), place)
            story.prepare()
            machine.disk.settled()
            _play(case, world, story, history)
    except Wrong as wrong:
        outcome.wrong = wrong
    except Stuck as stuck:
        outcome.wrong = Wrong("stuck", str(stuck))
    finally:
        gc.enable()
        shutil.rmtree(folder, ignore_errors=True)
    outcome.steps, outcome.trace, outcome.faults = world.steps, world.trace or [], world.count
    return outcome


def _in_folder(case: Case, root: Path) -> Case:
    return replace(case, setting={**case.setting, "folder": str(root)})


def _play(case: Case, world: World, story: Story, history: list[Operation]) -> None:
    world.after_death = []
    for number, ops in enumerate(case.actors):
        Actor(number, ops, story, world, history)
    while True:
        world.run()
        dead, world.after_death = world.after_death, []
        for actor in dead:
            actor.start()
        if not world.tasks:
            break
    world.calm = True
    world.tell("world", "CALM")
    story.check(history)


def in_process(world: World, work: Callable[[], Any], *, die: int = 0) -> Any:
    """`work` as a process of its own, to its end, with nobody else at work; None if it dies after `die`
    steps."""
    result: list[Any] = []
    world.spawn(Process("check", die=die), "check", lambda: result.append(work()))
    world.run()
    return result[0] if result else None


def smaller(case: Case, kind: str, *, tries: int = 12, budget: int = 400) -> Case:
    """A case that breaks the same promise with fewer actors, operations and kinds of faults."""
    spent = 0

    def fails(one: Case) -> Case | None:
        nonlocal spent
        for seed in (one.seed, *range(1, tries)):
            spent += 1
            if spent > budget:
                return None
            tried = replace(one, seed=seed)
            wrong = play(tried).wrong
            if wrong is not None and wrong.kind == kind:
                return tried
        return None

    again = True
    while again and spent < budget:
        again = False
        for one in _reductions(case):
            found = fails(one)
            if found is not None:
                case, again = found, True
                break
    return case


def _reductions(case: Case) -> Iterator[Case]:
    for number in range(len(case.actors)):
        if len(case.actors) > 1:
            yield replace(case, actors=case.actors[:number] + case.actors[number + 1 :])
    for name, rate in asdict(case.faults).items():
        if rate and name != "sticky":
            yield replace(case, faults=case.faults.without(name))
    for number, ops in enumerate(case.actors):
        for at in range(len(ops)):
            fewer = ops[:at] + ops[at + 1 :]
            actors = case.actors[:number] + ((fewer,) if fewer else ()) + case.actors[number + 1 :]
            if actors:
                yield replace(case, actors=actors)


__all__ = [
    "Actor",
    "Case",
    "Killed",
    "Outcome",
    "Story",
    "Wrong",
    "current_task",
    "in_process",
    "play",
    "smaller",
]
