"""A log in a bucket while others write and clean; found by the simulation."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from support.memory_bucket import MemoryBucket, connect, once

from lading.errors import CommitUnknown, Conflict
from lading.log.table import Table
from lading.model import Commit


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    made = MemoryBucket()
    connect(made, monkeypatch)
    Table.create(made.url, "t").close()
    return made


def _commit(name: str) -> Commit:
    return Commit(name, name, "2030-01-01T00:00:00+00:00", "recipe")


def _others(bucket: MemoryBucket) -> None:
    """Somebody commits behind the newest commit and writes a checkpoint of both."""
    other = Table.open(bucket.url)
    other.commit(_commit("theirs"))
    other.checkpoint()
    other.close()


def _date_checkpoints(bucket: MemoryBucket, back: timedelta) -> None:
    for name, (data, found) in list(bucket._objects.items()):
        if name.startswith("checkpoint/"):
            bucket._objects[name] = (data, dataclasses.replace(found, modified=found.modified - back))


def test_a_commit_that_somebody_elses_checkpoint_took_in_is_made(bucket: MemoryBucket) -> None:
    """A Conflict here would make a run delete the parts that it had just committed."""
    table = Table.open(bucket.url)
    bucket.after = once("put_new", "1", lambda: _others(bucket))
    assert table.commit(_commit("mine")).sequence == 1
    table.refresh()
    assert table.state.sequence == 2


def test_a_number_that_was_given_before_and_cleaned_away_is_a_conflict(bucket: MemoryBucket) -> None:
    slow = Table.open(bucket.url)

    def clean() -> None:
        _others(bucket)
        _others(bucket)
        bucket._objects.pop("log/00000000000000000001")
        _date_checkpoints(bucket, timedelta(days=2))

    bucket.before = once("put_new", "1", clean)
    with pytest.raises(Conflict, match="committed past sequence 1"):
        slow.commit(_commit("slow"))


def test_where_the_stores_clock_cannot_tell_nobody_claims_to_know(bucket: MemoryBucket) -> None:
    table = Table.open(bucket.url)

    def at_the_same_moment() -> None:
        _others(bucket)
        _date_checkpoints(bucket, timedelta(seconds=1))

    bucket.after = once("put_new", "1", at_the_same_moment)
    with pytest.raises(CommitUnknown):
        table.commit(_commit("mine"))
