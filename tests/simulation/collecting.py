"""The story of one collection: files are added, removed, merged, moved between tiers, the log is compacted
and restored, by several processes at once, and readers open it anew or refresh what they have.

What holds: every answer and every reading can be explained by changes made one after the other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lading.collection import Collection
from lading.errors import (
    CommitUnknown,
    ConfigError,
    Conflict,
    LadingError,
    NotFound,
    StorageError,
    StoreUnreachable,
)
from lading.model import Place
from lading.storage.place import storage_of
from simulation.case import STORIES, Actor, Case, Op, Wrong, in_process
from simulation.faults import some_faults
from simulation.kernel import Faults, World
from simulation.linear import Operation, explained, without_dirty
from simulation.sizes import set_sizes

FILES = 5


@cache
def _parquet(number: int, count: int = 3) -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.table({"id": list(range(number * 10, number * 10 + count)), "note": ["x"] * count})
    pq.write_table(rows, sink, compression="none")
    return sink.getvalue().to_pybytes()


def _name(number: int) -> str:
    return f"f{number}.parquet"


class Collections:
    def __init__(self, world: World, case: Case, place: str) -> None:
        self.world, self.place, self.case = world, place, case
        set_sizes(case.setting)

    def prepare(self) -> None:
        storage = storage_of(Place(self.place))
        for number in range(FILES):
            storage.put(_name(number), _parquet(number))
        Collection(self.place).add(self._path(0))
        self.first = frozenset({(_name(0), 0)})

    def _path(self, number: int) -> str:
        return f"{self.place}/{_name(number)}"

    def _mine(self, actor: Actor) -> Collection:
        if "collection" not in actor.held:
            actor.held["collection"] = Collection(self.place)
        found: Collection = actor.held["collection"]
        return found

    def do(self, actor: Actor, op: Op, note: Operation) -> Any:
        kind, *asked = op
        if kind == "read":
            return self._listed(Collection(self.place))
        mine = self._mine(actor)
        if kind == "add":
            done = mine.add(*map(self._path, asked[0]))
            return "added", frozenset(done.added), frozenset(done.unchanged), frozenset(done.changed)
        if kind == "remove":
            return "removed", frozenset(mine.remove(*map(_name, asked[0])))
        if kind == "tier":
            return "tiered", mine.tier(_name(asked[0]), asked[1])
        if kind == "merge":
            return "merged", mine.merge(*map(_name, asked[0]), into=f"m{note.called}.parquet")
        if kind == "refresh":
            mine.refresh()
            return self._listed(mine)
        if kind == "compact":
            mine.compact()
            return "compacted"
        if kind == "rebuild":
            restored = Collection.rebuild(self.place)
            if restored.written:
                raise Wrong("whole log rebuilt", f"{restored}")
            return "rebuilt"
        if kind == "check":
            _, damage = mine.check()
            if damage:
                raise Wrong("damage", f"{damage}")
            return "checked"
        raise AssertionError(kind)

    @staticmethod
    def _listed(collection: Collection) -> Any:
        return "members", frozenset((one.path, one.tier) for one in collection.members())

    def answer_to(self, error: Exception) -> Any:
        if isinstance(error, Wrong):
            raise error
        if isinstance(error, NotFound):
            return ("not found",)
        if isinstance(error, Conflict):
            return ("conflict",)
        if isinstance(error, ConfigError):
            return ("refused",)
        faults = self.case.faults
        shaky = faults.disk or faults.refused or faults.lost or faults.late or faults.doubled
        if shaky and isinstance(error, CommitUnknown):
            return None
        if shaky and (isinstance(error, (StorageError, StoreUnreachable)) or type(error) is OSError):
            return ("failed",)  # nothing was committed: where that isn't sure, it is a CommitUnknown
        if isinstance(error, (LadingError, OSError, ValueError, KeyError, AttributeError, TypeError)):
            raise Wrong("unexpected error", f"{type(error).__name__}: {error}") from error
        raise error

    def check(self, history: list[Operation]) -> None:
        def look() -> Any:
            found = Collection(self.place)
            _, damage = found.check()
            if damage:
                raise Wrong("damage", f"{damage}")
            if Collection.rebuild(self.place).written:
                raise Wrong("whole log rebuilt", "in the end")
            return self._listed(found)

        at = self.world.steps
        try:
            answer = in_process(self.world, look)
        except LadingError as error:
            raise Wrong("unreadable", f"{type(error).__name__}: {error}") from error
        told = [*history, Operation("check", "read", [], at, at + 1, answer, known=True)]
        told = without_dirty(told, self._undone(told), _changes)
        if not explained(told, self.first, lambda state, op: self._step(state, op, told)):
            raise Wrong("not linearizable", "\n".join(map(str, told)))

    def _undone(self, told: list[Operation]) -> list[int]:
        """When something that readers without a lock may have seen was taken back: by a cut, or after a
        write or a sync that failed."""
        failed = self.case.storage == "folder" and self.case.faults.disk
        return self.world.cuts + [
            one.answered for one in told if failed and (not one.known or one.answer == ("failed",))
        ]

    def _step(self, state: frozenset[tuple[str, int]], op: Operation, told: list[Operation]) -> Iterable[Any]:
        live = dict(state)
        kind = op.kind
        said = op.answer if op.known else None
        if said is not None and said[0] == "failed":
            return [state]
        if said is not None and said[0] == "conflict":
            return [state] if kind in ("merge", "rebuild") else []
        if kind in ("compact", "rebuild", "check"):
            return [state]
        if kind in ("read", "refresh"):
            return [state] if said is None or said[1] == state else []
        if kind == "add":
            return self._add(state, live, [_name(one) for one in op.asked[0]], said)
        if kind == "remove":
            return self._remove(state, live, [_name(one) for one in op.asked[0]], op, said, told)
        if kind == "tier":
            name = _name(op.asked[0])
            if said is not None and said[0] == "not found":
                return [state] if name not in live else []
            return [frozenset({**live, name: op.asked[1]}.items())] if name in live else []
        if kind == "merge":
            names = [_name(one) for one in op.asked[0]]
            if said is not None and said[0] in ("not found", "refused"):
                return [state] if not live.keys() >= set(names) or len(set(names)) < 2 else []
            if not live.keys() >= set(names):
                return []
            left = {path: tier for path, tier in live.items() if path not in names}
            return [frozenset({**left, f"m{op.called}.parquet": max(live[one] for one in names)}.items())]
        raise AssertionError(kind)

    @staticmethod
    def _add(state: Any, live: dict[str, int], names: list[str], said: Any) -> Iterable[Any]:
        fresh = frozenset(names) - live.keys()
        if said is not None and (
            said[0] != "added" or said[1] != fresh or said[2] != frozenset(names) - fresh
        ):
            return []
        return [frozenset({**dict.fromkeys(fresh, 0), **live}.items())]

    @staticmethod
    def _remove(
        state: Any, live: dict[str, int], names: list[str], op: Operation, said: Any, told: list[Operation]
    ) -> Iterable[Any]:
        if said is not None and said[0] == "not found":
            return [state] if not live.keys() >= set(names) else []
        gone = set(names) - live.keys()
        if gone and said is not None:  # removed by somebody else at the same time: it is removed
            others = [
                one
                for one in told
                if one is not op
                and one.kind in ("remove", "merge")
                and one.called <= op.answered
                and one.answered >= op.called
            ]
            if not gone <= {_name(number) for one in others for number in one.asked[0]}:
                return []
        elif gone:
            return []
        return [frozenset((path, tier) for path, tier in live.items() if path not in names)]


def _changes(op: Operation) -> bool:
    if op.kind == "add":
        return bool(op.answer[0] == "added" and (op.answer[1] or op.answer[3]))
    return op.kind in ("remove", "tier", "merge") and op.answer[0] in ("removed", "tiered", "merged")


STORIES["collecting"] = Collections


def make(seed: int) -> Case:
    chance = random.Random(seed)
    storage = chance.choice(("folder", "bucket"))
    actors = []
    for _ in range(chance.randint(2, 4)):
        ops: list[Op] = []
        for _ in range(chance.randint(2, 5)):
            ops.append(_op(chance))
        actors.append(tuple(ops))
    setting = {
        "checkpoint": chance.choice((1000, 2, 3, 5)),
        "pages": chance.random() < 0.3,
        "overlay": chance.choice((64, 1, 2)),
    }
    number, faults = chance.getrandbits(48), some_faults(chance, storage)
    if (
        storage == "folder" and chance.random() < 0.15
    ):  # a disk that fails often, and all look before they write
        actors = [tuple(one for op in ops for one in (["refresh"], op)) for ops in actors]
        faults = Faults(disk=0.08)
    return Case("collecting", storage, number, tuple(actors), faults, setting)


def _op(chance: random.Random) -> Op:
    some = chance.sample(range(FILES), chance.choice((1, 1, 2)))
    kind = chance.choices(
        ("add", "remove", "tier", "merge", "read", "refresh", "compact", "rebuild", "check"),
        (8, 6, 3, 2, 5, 2, 2, 0.5, 0.5),
    )[0]
    if kind in ("add", "remove"):
        return [kind, some]
    if kind == "tier":
        return [kind, some[0], chance.randint(1, 3)]
    if kind == "merge":
        return [kind, chance.sample(range(FILES), 2)]
    return [kind]
