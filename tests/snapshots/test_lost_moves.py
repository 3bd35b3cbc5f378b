"""A move of the pointer whose answer got lost, in a bucket, while others moved it on: it was made once, and
its answer says so. Found by the simulation."""

from __future__ import annotations

import pytest
from support.memory_bucket import MemoryBucket, no_answer, once

from lading.model import SnapshotRef
from lading.snapshots.stores.files import FileStore
from lading.storage.protocol import SwapLost


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket()


@pytest.fixture
def refs(bucket: MemoryBucket) -> list[str]:
    """Two snapshots; readers see the second."""
    store = FileStore(bucket)
    return [
        store.publish(run.encode(), run, sequence=number).ref for number, run in enumerate(("r1", "r2"), 1)
    ]


def _lost() -> None:
    raise SwapLost("_CURRENT")  # what the client library makes of its second try


def _now(bucket: MemoryBucket) -> SnapshotRef:
    current = FileStore(bucket).load_current()
    assert current is not None
    return current


def _moved_on(bucket: MemoryBucket, refs: list[str], times: int, then: object) -> None:
    def others() -> None:
        for number in range(times):
            FileStore(bucket).set_current(refs[number % 2], hold=True)
        assert callable(then)
        then()

    bucket.after = once("swap", "_CURRENT", others)


@pytest.mark.parametrize("times", [1, 2, 15])
@pytest.mark.parametrize("then", [_lost, no_answer])
@pytest.mark.parametrize("expecting", [True, False])
def test_a_rollback_that_others_moved_on_from_was_made_once(
    bucket: MemoryBucket, refs: list[str], times: int, then: object, expecting: bool
) -> None:
    expected = _now(bucket) if expecting else None
    _moved_on(bucket, refs, times, then)
    moved = FileStore(bucket).set_current(refs[0], hold=False, sequence=9, expected=expected)
    assert (moved.ref, moved.sequence, moved.held) == (refs[0], 9, False)
    assert _now(bucket).held and _now(bucket).swap_id != moved.swap_id  # the others' move stands


@pytest.mark.parametrize("times", [1, 15])
@pytest.mark.parametrize("then", [_lost, no_answer])
def test_a_publish_that_others_moved_on_from_was_seen(
    bucket: MemoryBucket, refs: list[str], times: int, then: object
) -> None:
    _moved_on(bucket, refs, times, then)
    done = FileStore(bucket).publish(b"r3", "r3", sequence=3)
    assert (done.outcome, done.current.ref) == ("current", done.ref)
    assert _now(bucket).held


def test_a_pointer_remembers_its_last_moves_and_no_more(bucket: MemoryBucket, refs: list[str]) -> None:
    moves = [FileStore(bucket).set_current(refs[number % 2]).swap_id for number in range(40)]
    assert _now(bucket).before == tuple(reversed(moves[-17:-1]))
