"""Manifests that go while others point at them, where there is no lock; found by the simulation."""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.memory_bucket import MemoryBucket, no_answer, once

from lading.errors import ManifestGone, ManifestStoreError, PublishCurrentError
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


def _is_whole(bucket: MemoryBucket) -> bool:
    current = FileStore(bucket).load_current()
    return current is not None and bucket.has(current.ref.removeprefix(bucket.prefix))


def test_a_deletion_whose_answer_is_lost_leaves_no_pointer_to_nothing(
    bucket: MemoryBucket, refs: list[str]
) -> None:
    """Somebody rolls back in the very moment of the deletion."""
    bucket.before = once("delete", "manifest", lambda: _rolled_back(bucket, refs[0]))
    bucket.after = once("delete", "manifest", no_answer)
    with pytest.raises(ManifestStoreError):
        FileStore(bucket).delete_manifest(refs[0])
    assert _is_whole(bucket)


def _rolled_back(bucket: MemoryBucket, ref: str) -> None:
    with pytest.raises((ManifestGone, PublishCurrentError)):
        FileStore(bucket).set_current(ref)


@pytest.mark.parametrize("kind", ["get", "swap", "delete"])
def test_whoever_rolls_back_between_any_two_steps_of_a_deletion_gets_it_whole_or_not_at_all(
    bucket: MemoryBucket, refs: list[str], kind: str
) -> None:
    def roll_back() -> None:
        with suppress(ManifestGone, PublishCurrentError):
            FileStore(bucket).set_current(refs[0])

    for hook in ("before", "after"):
        setattr(bucket, hook, once(kind, "manifest" if kind == "delete" else "_CURRENT", roll_back))
        FileStore(bucket).delete_manifest(refs[0])
        assert _is_whole(bucket)


def test_a_publisher_whose_manifest_was_deleted_while_it_slept_points_at_nothing(
    bucket: MemoryBucket, refs: list[str]
) -> None:
    def delete() -> None:
        newest = FileStore(bucket).list_manifests()[0].ref
        assert newest not in refs and FileStore(bucket).delete_manifest(newest)

    bucket.after = once("put_new", "manifest", delete)
    with pytest.raises(PublishCurrentError):
        FileStore(bucket).publish(b"r3", "r3", sequence=3)
    assert _is_whole(bucket)


def test_what_was_retired_and_is_gone_is_soon_forgotten(bucket: MemoryBucket, refs: list[str]) -> None:
    assert FileStore(bucket).delete_manifest(refs[0])
    current = FileStore(bucket).load_current()
    assert current is not None and current.ref == refs[1] and current.retired == ()


def test_one_who_is_killed_before_the_deletion_leaves_a_mark_that_the_next_one_clears(
    bucket: MemoryBucket, refs: list[str]
) -> None:
    bucket.before = once("delete", "manifest", no_answer)
    with pytest.raises(ManifestStoreError):
        FileStore(bucket).delete_manifest(refs[0])
    published = FileStore(bucket).publish(b"r3", "r3", sequence=3)
    assert published.current.retired == (refs[0],)  # carried on by whoever moves the pointer
    assert FileStore(bucket).delete_manifest(refs[0])
    current = FileStore(bucket).load_current()
    assert current is not None and current.retired == ()


def _lost() -> None:
    raise SwapLost("_CURRENT")  # what the client library makes of its second try


def test_a_publish_whose_answer_is_lost_is_not_superseded_by_itself(
    bucket: MemoryBucket, refs: list[str]
) -> None:
    """Meanwhile a deletion renewed the pointer, which still names it."""

    def renewed() -> None:
        assert FileStore(bucket).delete_manifest(refs[0])
        _lost()

    bucket.after = once("swap", "_CURRENT", renewed)
    done = FileStore(bucket).publish(b"r3", "r3", sequence=3)
    assert done.outcome == "current" and done.current.ref == done.ref
