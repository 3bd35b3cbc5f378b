"""The two phases on a shelf that fails on demand."""

from __future__ import annotations

from datetime import datetime

import pytest

from lading.errors import ManifestStoreError, PublishCurrentError, PublishManifestError
from lading.model import SnapshotRef
from lading.snapshots.publish import publish_in_two_phases
from lading.snapshots.stores.files import MemoryStore


class LostAnswer(MemoryStore):
    """The swap succeeds, but the answer says it didn't: what a dropped connection looks like."""

    def swap_current(self, expected: SnapshotRef | None, to: SnapshotRef) -> bool:
        super().swap_current(expected, to)
        return False


class AlwaysMoving(MemoryStore):
    def swap_current(self, expected: SnapshotRef | None, to: SnapshotRef) -> bool:
        return False


class Unwritable(MemoryStore):
    def put_manifest(self, payload: bytes, run_id: str, now: datetime | None) -> tuple[str, datetime]:
        raise OSError("disk on fire")


class Unreadable(MemoryStore):
    def load_current(self) -> SnapshotRef | None:
        raise ManifestStoreError("the pointer can't be read", hint="look")


def test_own_write_is_recognised_after_a_lost_answer() -> None:
    store = LostAnswer()
    published = publish_in_two_phases(store, b"x", "r1", sequence=1)
    assert published.outcome == "current" and store.load_current() == published.current


def test_a_pointer_that_never_stands_still_is_given_up_on() -> None:
    store = AlwaysMoving()
    with pytest.raises(PublishCurrentError, match="moved"):
        publish_in_two_phases(store, b"x", "r1", sequence=1)
    assert len(store.list_manifests()) == 1


def test_a_failed_first_write_says_that_nothing_is_visible() -> None:
    with pytest.raises(PublishManifestError, match="disk on fire") as caught:
        publish_in_two_phases(Unwritable(), b"x", "r1", sequence=1)
    assert "lading run" in caught.value.hint and isinstance(caught.value.__cause__, OSError)


def test_a_pointer_that_can_not_be_read_is_a_failed_second_phase() -> None:
    store = Unreadable()
    with pytest.raises(PublishCurrentError, match="can't be read"):
        publish_in_two_phases(store, b"x", "r1", sequence=1)
    assert len(store.list_manifests()) == 1
