"""On every store: a manifest can be kept without being shown, and deleted unless it is what readers see."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from support.places import Place

from lading.errors import ManifestStoreError, PublishCurrentError
from lading.snapshots.publish import keep_manifest
from lading.snapshots.stores.protocol import ManifestStore


def test_a_manifest_that_is_kept_is_listed_and_nothing_points_at_it(store: ManifestStore) -> None:
    first = store.publish(b"first", "r1", sequence=1)
    ref, _ = keep_manifest(store, b"refused", "r2")
    current = store.load_current()
    assert current is not None and current.ref == first.ref
    assert [one.run_id for one in store.list_manifests()] == ["r2", "r1"]
    assert store.load_manifest(ref) == b"refused"
    store.set_current(ref, hold=False, sequence=2)
    current = store.load_current()
    assert current is not None and (current.ref, current.sequence, current.held) == (ref, 2, False)


def test_a_manifest_is_deleted_for_good_and_deleting_it_again_is_no_error(store: ManifestStore) -> None:
    first = store.publish(b"first", "r1", sequence=1)
    store.publish(b"second", "r2", sequence=2)
    assert store.delete_manifest(first.ref) and store.delete_manifest(first.ref)
    assert [one.run_id for one in store.list_manifests()] == ["r2"]
    with pytest.raises(ManifestStoreError):
        store.load_manifest(first.ref)
    with pytest.raises(ManifestStoreError):
        store.set_current(first.ref)


def test_what_readers_see_is_never_deleted(store: ManifestStore) -> None:
    first = store.publish(b"first", "r1", sequence=1)
    assert not store.delete_manifest(first.ref)
    store.publish(b"second", "r2", sequence=2)
    store.set_current(first.ref)
    assert not store.delete_manifest(first.ref)
    assert store.load_manifest(first.ref) == b"first"


@pytest.mark.parametrize(
    "ref", ["", "../../elsewhere/manifest", "/etc/hostname", "manifests/x/manifest", "_CURRENT"]
)
def test_a_reference_to_anything_else_deletes_nothing(store: ManifestStore, place: Place, ref: str) -> None:
    first = store.publish(b"first", "r1", sequence=1)
    try:
        store.delete_manifest(ref)
    except ManifestStoreError as error:
        assert error.hint
    current = place.open().load_current()
    assert current is not None and current.ref == first.ref
    assert store.load_manifest(first.ref) == b"first"


def test_a_rollback_and_a_deletion_at_once_leave_no_pointer_to_nothing(place: Place) -> None:
    for number in range(8):
        store, other = place.open(), place.open()
        old = store.publish(b"old", f"old{number}", sequence=2 * number + 1)
        store.publish(b"new", f"new{number}", sequence=2 * number + 2)
        begun = threading.Barrier(2)

        def roll_back(
            begun: threading.Barrier = begun, other: ManifestStore = other, ref: str = old.ref
        ) -> None:
            begun.wait()
            with suppress(ManifestStoreError, PublishCurrentError):  # it was gone already
                other.set_current(ref, hold=False, sequence=0)

        thread = threading.Thread(target=roll_back)
        thread.start()
        begun.wait()
        store.delete_manifest(old.ref)
        thread.join()
        current = store.load_current()
        assert current is not None and store.load_manifest(current.ref) in (b"old", b"new")
