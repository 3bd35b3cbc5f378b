"""The story of one pointer: snapshots are published, rolled back to, released and deleted by several
processes, and readers load what it names.

What holds: moves of the pointer happen one after the other, a rollback holds, and what the pointer names is
there at every moment.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from lading.errors import (
    Conflict,
    LadingError,
    ManifestGone,
    ManifestStoreError,
    PublishCurrentError,
    PublishManifestError,
    StorageError,
)
from lading.snapshots.stores.files import FileStore
from lading.snapshots.stores.postgres.store import PostgresStore
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.place import storage_of
from simulation.case import STORIES, Actor, Case, Op, Wrong, in_process
from simulation.faults import some_faults
from simulation.kernel import World
from simulation.linear import Operation, explained, without_dirty

# What a state is: (what the pointer names, its sequence, held), and the manifests that were deleted.
Pointer = tuple[str, int, bool] | None
State = tuple[Pointer, frozenset[str]]


class Noting(FileStore):
    """Knows what the manifest that is being published is called."""

    note: Operation

    def put_manifest(self, payload: bytes, run_id: str, now: datetime | None) -> tuple[str, datetime]:
        ref, at = super().put_manifest(payload, run_id, now)
        self.note.asked = [ref, *self.note.asked]
        return ref, at


class NotingPostgres(PostgresStore):
    """A reference is the run: it is known before the publish."""

    note: Operation

    def publish(self, payload: bytes, run_id: str, **more: Any) -> Any:
        self.note.asked = [run_id, *self.note.asked]
        return super().publish(payload, run_id, **more)


class Pointing:
    def __init__(self, world: World, case: Case, place: str) -> None:
        self.world, self.place, self.case = world, place, case

    def prepare(self) -> None:
        store = self._store()
        store.note = Operation("first", "publish", [1], 0)
        done = store.publish(b"first", "first", sequence=1)
        self.first: State = (_told(done.current), frozenset())

    def _store(self) -> Any:
        if self.case.storage == "postgres":
            return NotingPostgres(self.place, "t")
        return Noting(storage_of(self.place))

    def do(self, actor: Actor, op: Op, note: Operation) -> Any:
        kind, *asked = op
        store = actor.held.setdefault("store", self._store())
        if kind == "publish":
            run = f"{actor.name}-{note.called}"
            store.note = note
            done = store.publish(run.encode(), run, sequence=asked[0])
            return "published", done.outcome, _told(done.current)
        if kind == "read":
            current = store.load_current()
            return "current", self._whole(store, current)
        if kind == "expect":  # as a person does: look, decide, move
            current = store.load_current()
            ref = self._some(store, asked[0])
            note.asked = [*asked, ref.ref]
            moved = store.set_current(ref.ref, hold=asked[1], sequence=5, expected=current)
            return "moved", _told(current), _told(moved)
        if kind == "set":
            ref = self._some(store, asked[0])
            note.asked = [ref.ref, asked[1]]
            return "set", _told(store.set_current(ref.ref, hold=asked[1], sequence=5))
        if kind == "delete":
            ref = self._some(store, asked[0])
            note.asked = [ref.ref]
            return "deleted", store.delete_manifest(ref.ref)
        raise AssertionError(kind)

    @staticmethod
    def _some(store: ManifestStore, number: int) -> Any:
        listed = store.list_manifests()
        if not listed:
            raise ManifestGone("there is none")
        return listed[number % len(listed)]

    def _whole(self, store: ManifestStore, current: Any) -> Pointer:
        """What a reader gets: the pointer, and then what it names, if that isn't cleaned away meanwhile."""
        for _ in range(50):
            try:
                data = store.load_manifest(current.ref)
                break
            except ManifestGone:
                self.world.sleep(0.1)  # in a bucket, who deletes it sees that it is wanted, and puts it back
                current = store.load_current()
        else:
            raise Wrong("a hole", f"the pointer names {current.ref}, which is not there")
        if data != current.run_id.encode():
            raise Wrong("half seen", f"{current.ref} holds {data!r}")
        return _told(current)

    def answer_to(self, error: Exception) -> Any:
        if isinstance(error, Wrong):
            raise error
        if isinstance(error, ManifestGone):
            return ("gone",)
        if isinstance(error, Conflict):
            return ("conflict",)
        faults = self.case.faults
        shaky = faults.disk or faults.refused or faults.lost or faults.late or faults.doubled
        if self.case.storage == "postgres":  # a session that slept is dead: once is made good
            shaky = shaky or faults.restart or faults.stall or self.world.count.get("freeze", 0) > 1
        gone = (ManifestGone, FileNotFoundError)
        if isinstance(error, (PublishManifestError, PublishCurrentError)) and isinstance(
            error.__cause__, gone
        ):
            return ("gone",)
        if shaky and isinstance(
            error, (PublishManifestError, PublishCurrentError, ManifestStoreError, StorageError, OSError)
        ):
            return None
        if isinstance(error, (LadingError, OSError, ValueError, AttributeError, TypeError, KeyError)):
            raise Wrong("unexpected error", f"{type(error).__name__}: {error}") from error
        raise error

    def check(self, history: list[Operation]) -> None:
        def look() -> Any:
            store = self._store()
            return "current", self._whole(store, store.load_current())

        self.world.sleep(60)  # until a server that was restarted is back
        at = self.world.steps
        try:
            answer = in_process(self.world, look)
        except LadingError as error:
            raise Wrong("unreadable", f"{type(error).__name__}: {error}") from error
        told = [*history, Operation("check", "read", [], at, at + 1, answer, known=True)]
        told = without_dirty(told, self.world.cuts, _changes)
        tried_again = self.case.storage != "folder"
        if not explained(told, self.first, lambda state, op: _step(state, op, told, tried_again)):
            raise Wrong("not linearizable", "\n".join(map(str, told)))


def _told(current: Any) -> Pointer:
    return (current.ref, current.sequence, current.held)


def _changes(op: Operation) -> bool:
    """Whether it did anything itself, as far as anybody knows."""
    if op.kind == "publish":
        return bool(op.answer[:2] == ("published", "current"))
    return op.kind != "read" and op.answer[0] not in ("conflict", "gone") and op.answer[-1] is not False


def _step(state: State, op: Operation, told: list[Operation], tried_again: bool) -> Iterable[State]:
    """`tried_again`: a publish may ask for the same thing twice, and so bring back its manifest if that was
    deleted in between."""
    pointer, gone = state
    said = op.answer if op.known else None
    if said is not None and said[0] in ("conflict", "gone"):
        return [state]
    if op.kind == "read":
        return [state] if said is None or said[1] == pointer else []
    if op.kind == "publish":
        return _publish(pointer, gone, op, said)
    if op.kind == "expect":
        if said is None:
            return [state, *(((run, 5, op.asked[1]), gone) for run in op.asked[2:] if run not in gone)]
        return [(said[2], gone)] if said[1] == pointer and said[2][0] not in gone else []
    if op.kind == "set":
        run, hold = op.asked if isinstance(op.asked[0], str) else (None, False)
        if run is None:
            return [state]
        after: State = ((run, 5, hold), gone)
        return [after] if (said is None or said[1] == after[0]) and run not in gone else []
    if op.kind == "delete":
        run = op.asked[0]
        if not isinstance(run, str):
            return [state]
        if pointer is not None and pointer[0] == run:
            others = any(one is not op and one.kind == "delete" and one.asked == op.asked for one in told)
            return [state] if said is None or said[1] is False or others else []
        if said is not None and said[1] is not True:
            return []
        again = tried_again and any(
            one.kind == "publish" and one.asked[0] == run and _meet(one, op) for one in told
        )
        return [(pointer, gone | {run}), *([(pointer, gone)] if again else [])]
    raise AssertionError(op.kind)


def _meet(one: Operation, other: Operation) -> bool:
    return one.called < other.answered and other.called < one.answered


def _publish(pointer: Pointer, gone: frozenset[str], op: Operation, said: Any) -> list[State]:
    run, sequence = op.asked if len(op.asked) == 2 else (None, 0)
    if run is None:
        return [(pointer, gone)]
    mine = (run, sequence, False)
    if said is None:  # the manifest, and maybe the pointer
        held = pointer is not None and (pointer[2] or pointer[1] > sequence)
        return [(pointer, gone)] if held else [(pointer, gone), (mine, gone)]
    if said[1] == "held":
        return [(pointer, gone)] if pointer is not None and pointer[2] and said[2] == pointer else []
    if said[1] == "superseded":
        newer = pointer is not None and pointer[1] >= sequence and not pointer[2]
        return [(pointer, gone)] if newer and said[2] == pointer else []
    free = run not in gone and (pointer is None or (not pointer[2] and pointer[1] <= sequence))
    if said[2] == pointer and pointer is not None and pointer[0] == run:
        return [(pointer, gone)]  # somebody else pointed at it in between
    return [(mine, gone)] if free and said[2] == mine else []


STORIES["pointing"] = Pointing


def make(seed: int) -> Case:
    chance = random.Random(seed)
    storage = chance.choice(("folder", "bucket", "postgres"))
    actors = []
    for _ in range(chance.randint(2, 4)):
        actors.append(tuple(_op(chance) for _ in range(chance.randint(2, 5))))
    number, faults = chance.getrandbits(48), some_faults(chance, storage)
    setting = {"level": chance.choice(("READ_COMMITTED", "REPEATABLE_READ"))} if storage == "postgres" else {}
    return Case("pointing", storage, number, tuple(actors), faults, setting)


def _op(chance: random.Random) -> Op:
    kind = chance.choices(("publish", "read", "set", "expect", "delete"), (6, 4, 2, 2, 3))[0]
    if kind == "publish":
        return [kind, chance.randint(1, 8)]
    if kind in ("set", "expect"):
        return [kind, chance.randrange(4), chance.random() < 0.5]
    return [kind] if kind == "read" else [kind, chance.randrange(4)]
