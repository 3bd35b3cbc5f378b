"""One contract for every store: what publishing, reading, listing and rolling back promise anywhere.

A store joins in tests/support/places.py. Where a store can fail halfway, its own tests say how.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.places import Place, poll

from lading.errors import Conflict, ManifestStoreError, PublishManifestError
from lading.model import SnapshotRef
from lading.snapshots.stores.protocol import ManifestStore

NOW = datetime(2026, 4, 20, 15, 23, 1, 123456, tzinfo=UTC)


@pytest.mark.acceptance("S1")
def test_a_new_store_has_no_pointer_and_no_manifest(store: ManifestStore) -> None:
    assert store.load_current() is None
    assert store.list_manifests() == []


@pytest.mark.acceptance("S1")
def test_what_is_published_is_current_listed_and_loaded_byte_for_byte(store: ManifestStore) -> None:
    published = store.publish(b"payload \0\xff", "r1", sequence=3, now=NOW)
    current = store.load_current()
    assert published.outcome == "current" and current == published.current
    assert current is not None
    assert (current.ref, current.run_id, current.published_at) == (published.ref, "r1", NOW)
    assert (current.sequence, current.held) == (3, False) and current.swap_id
    assert store.load_manifest(published.ref) == b"payload \0\xff"
    assert store.list_manifests() == [SnapshotRef(published.ref, "r1", NOW)]


def test_manifests_are_listed_newest_first_up_to_the_limit(store: ManifestStore) -> None:
    refs = [store.publish(b"%d" % n, f"r{9 - n}", sequence=n).ref for n in range(1, 6)]
    assert [listed.ref for listed in store.list_manifests()] == refs[::-1]
    assert [listed.ref for listed in store.list_manifests(limit=2)] == refs[:-3:-1]
    assert store.list_manifests(limit=0) == []


def test_publishes_in_one_microsecond_get_distinct_increasing_names(store: ManifestStore) -> None:
    refs = [store.publish(b"%d" % n, f"r{n}", sequence=n, now=NOW).ref for n in range(5)]
    assert len(set(refs)) == 5 and refs == sorted(refs)
    assert [store.load_manifest(ref) for ref in refs] == [b"0", b"1", b"2", b"3", b"4"]
    current = store.load_current()
    assert current is not None and current.published_at == NOW + timedelta(microseconds=4)


def test_a_clock_that_goes_back_does_not_reorder_history(store: ManifestStore) -> None:
    first = store.publish(b"1", "r1", sequence=1, now=NOW)
    second = store.publish(b"2", "r2", sequence=2, now=NOW - timedelta(days=1))
    assert second.current.published_at > first.current.published_at
    assert [listed.run_id for listed in store.list_manifests()] == ["r2", "r1"]


@pytest.mark.acceptance("S9")
@pytest.mark.parametrize(
    "place", ["local", "memory", "s3"], indirect=True
)  # Postgres: a run has one manifest
def test_publishing_a_run_again_adds_a_later_manifest_and_both_load(store: ManifestStore) -> None:
    first = store.publish(b"one", "r1", sequence=1, now=NOW)
    again = store.publish(b"two", "r1", sequence=1, now=NOW + timedelta(hours=1))
    assert again.outcome == "current"
    listed = store.list_manifests()
    assert [entry.run_id for entry in listed] == ["r1", "r1"]
    assert listed[0].published_at > listed[1].published_at
    assert store.load_manifest(first.ref) == b"one" and store.load_manifest(again.ref) == b"two"


def test_an_older_state_never_replaces_a_newer_one(store: ManifestStore) -> None:
    newer = store.publish(b"new", "r2", sequence=8)
    older = store.publish(b"old", "r1", sequence=7)
    assert older.outcome == "superseded" and older.current == newer.current
    assert store.load_current() == newer.current
    assert store.load_manifest(older.ref) == b"old"


def test_after_a_lost_race_an_equal_state_is_left_alone(store: ManifestStore) -> None:
    base = store.publish(b"base", "r0", sequence=1).current
    theirs = store.publish(b"theirs", "r1", sequence=2)
    mine = store.publish(b"mine", "r2", sequence=2, expected=base)
    assert mine.outcome == "superseded" and mine.current == theirs.current
    newer = store.publish(b"newer", "r3", sequence=3, expected=base)
    assert newer.outcome == "current" and store.load_current() == newer.current


def test_a_rollback_holds_the_pointer_until_it_is_released(store: ManifestStore) -> None:
    first = store.publish(b"1", "r1", sequence=1)
    store.publish(b"2", "r2", sequence=2)
    back = store.set_current(first.ref)
    assert store.load_current() == back
    assert (back.ref, back.run_id, back.held) == (first.ref, "r1", True)
    held = store.publish(b"3", "r3", sequence=3)
    assert held.outcome == "held" and held.current == back
    assert store.load_current() == back
    assert store.load_manifest(held.ref) == b"3"
    released = store.set_current(held.ref, hold=False, sequence=3)
    assert store.load_current() == released and not released.held
    assert store.publish(b"4", "r4", sequence=4).outcome == "current"


def test_a_move_decided_by_a_pointer_that_has_moved_since_is_a_conflict(store: ManifestStore) -> None:
    first = store.publish(b"1", "r1", sequence=1, now=NOW)
    second = store.publish(b"2", "r2", sequence=2, now=NOW)
    with pytest.raises(Conflict, match="the pointer moved meanwhile"):
        store.set_current(first.ref, expected=first.current)
    assert store.load_current() == second.current
    moved = store.set_current(first.ref, expected=second.current, sequence=1)
    assert store.load_current() == moved and moved.ref == first.ref


def test_every_move_of_the_pointer_is_later_and_has_its_own_name(store: ManifestStore) -> None:
    first = store.publish(b"1", "r1", sequence=1, now=NOW)
    moves = [first.current] + [store.set_current(first.ref, hold=False, now=NOW) for _ in range(3)]
    times = [move.published_at for move in moves]
    assert times == sorted(set(times))
    assert len({move.swap_id for move in moves}) == 4


@pytest.mark.parametrize(
    "ref", ["manifests/absent/manifest", "", "/etc/hostname", "../x", "a/../../x", "manifests/\0", "\ud800"]
)
def test_a_reference_to_nothing_is_a_store_error_and_moves_nothing(store: ManifestStore, ref: str) -> None:
    current = store.publish(b"1", "r1", sequence=1).current
    for attempt in (store.load_manifest, store.set_current):
        with pytest.raises(ManifestStoreError) as caught:
            attempt(ref)
        assert caught.value.hint
    assert store.load_current() == current


@pytest.mark.parametrize("run_id", ["", "a/b", "../x", "a\0b", "a\nb", "\ud800", "x" * 151])
def test_a_run_id_that_is_no_name_is_refused(store: ManifestStore, run_id: str) -> None:
    with pytest.raises(PublishManifestError):
        store.publish(b"1", run_id, sequence=1)
    assert store.load_current() is None and store.list_manifests() == []


@pytest.mark.acceptance("S21")
def test_a_payload_is_opaque_to_the_store(store: ManifestStore) -> None:
    for payload in (b"", b"not sqlite", b"SQLite format 3\0" + bytes(range(256))):
        run_id = f"r{len(payload)}"
        assert store.load_manifest(store.publish(payload, run_id, sequence=1).ref) == payload


@pytest.mark.acceptance("S3")
def test_racing_publishers_end_at_the_newest_state_and_readers_see_only_whole_ones(place: Place) -> None:
    store = place.open()
    store.publish(b"0", "r0", sequence=0)
    done = threading.Event()
    seen: list[int] = []
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> threading.Thread:
        def body() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        return thread

    def read() -> None:
        store = place.open()
        while not done.is_set():
            current = store.load_current()
            assert current is not None
            assert store.load_manifest(current.ref) == b"%d" % current.sequence
            seen.append(current.sequence)

    def publish(first: int) -> None:
        store = place.open()
        for sequence in range(first, 61, 3):
            store.publish(b"%d" % sequence, f"r{sequence}", sequence=sequence)

    reader = guarded(read)
    writers = [guarded(lambda first=first: publish(first)) for first in (1, 2, 3)]
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    assert failures == []
    assert seen == sorted(seen) and seen
    current = store.load_current()
    assert current is not None and current.sequence == 60
    assert len(store.list_manifests()) == 61


def test_a_rollback_is_never_undone_by_a_publisher_in_flight(place: Place) -> None:
    store = place.open()
    first = store.publish(b"0", "r0", sequence=1)
    failures: list[BaseException] = []

    def publish() -> None:
        try:
            other = place.open()
            for sequence in range(2, 60):
                other.publish(b"%d" % sequence, f"r{sequence}", sequence=sequence)
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=publish)
    writer.start()
    back = store.set_current(first.ref)
    writer.join()
    assert failures == []
    assert store.load_current() == back


def test_two_publishers_and_a_roller_back_make_one_history(place: Place) -> None:
    """Everybody's moves, told by their own answers, are one line of times; nothing acknowledged is lost."""
    store = place.open()
    base = store.publish(b"0", "r0", sequence=0)
    moves = {base.current.swap_id: base.current}
    kept: dict[str, bytes] = {base.ref: b"0"}
    failures: list[BaseException] = []

    def publish(first: int) -> None:
        mine = place.open()
        for sequence in range(first, 41, 2):
            payload = b"%d" % sequence
            done = mine.publish(payload, f"r{sequence}", sequence=sequence)
            kept[done.ref] = payload
            if done.outcome == "current":
                moves[done.current.swap_id] = done.current  # or whoever pointed at it first

    def roll_back() -> None:
        mine = place.open()
        for _ in range(5):
            held = mine.set_current(base.ref)
            assert mine.load_current() == held  # nobody moves what is held
            moves[held.swap_id] = held
            newest = mine.list_manifests(limit=1)[0]
            let_go = mine.set_current(newest.ref, hold=False)
            moves[let_go.swap_id] = let_go

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=guarded, args=(work,))
        for work in (lambda: publish(1), lambda: publish(2), roll_back)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len({move.published_at for move in moves.values()}) == len(moves)
    last = max(moves.values(), key=lambda move: move.published_at)
    assert store.load_current() == last
    assert {listed.ref for listed in store.list_manifests()} == set(kept)
    assert {ref: store.load_manifest(ref) for ref in kept} == kept


_POLL = """
import sys
sys.path.insert(0, sys.argv[1])
from support.places import opened, poll

print("polling", flush=True)
print(poll(opened(sys.argv[2]), 1000))
"""


@pytest.mark.acceptance("M19", "S3")
@pytest.mark.parametrize("place", ["local", "postgres", "s3"], indirect=True)
def test_readers_that_poll_during_a_thousand_publishes_get_old_or_new(place: Place) -> None:
    store = place.open()
    store.publish(b"0" * 50, "r0", sequence=0)
    command = [sys.executable, "-c", _POLL, str(Path(__file__).parents[1]), place.argument()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert reader.stdout is not None and reader.stdout.readline() == "polling\n"
            for n in range(1, 1001):
                assert store.publish(b"%d" % n * 50, f"r{n}", sequence=n).outcome == "current"
            distinct, _ = reader.communicate(timeout=60)
        finally:
            reader.kill()
    assert reader.returncode == 0
    assert int(distinct) > 10


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_threads_that_poll_during_a_thousand_publishes_get_old_or_new(place: Place) -> None:
    store = place.open()
    store.publish(b"0" * 50, "r0", sequence=0)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(poll, place.open(), 1000)
        for n in range(1, 1001):
            assert store.publish(b"%d" % n * 50, f"r{n}", sequence=n).outcome == "current"
        assert reader.result(60) > 1
