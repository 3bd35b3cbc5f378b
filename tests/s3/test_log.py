"""A table's log in a bucket: the promises of a log on disk, kept by conditional writes alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support.faults import FaultyHttp
from support.servers import S3Server

from lading.errors import CommitUnknown, Conflict, LogCorrupt, NotFound
from lading.log.table import Table
from lading.model import Commit, Member, Place, Zone
from lading.storage.place import place, storage_of

FIRST = "log/00000000000000000001"


def member(path: str, low: int = 0, high: int = 9) -> Member:
    zones = {"id": Zone(low, high, 0)}
    return Member(path, 10, 100, 0, low, high, low, high, "2024-01-01", zones, ((1, 10),))


def add(path: str, **fields: object) -> Commit:
    return Commit(f"c-{path}", f"r-{path}", "2024-01-01", "", add=(member(path),), **fields)  # type: ignore[arg-type]


def held(table: Table) -> list[str]:
    return [one.path for one in table.state.in_order_added()]


def through(there: Place, faulty: FaultyHttp) -> Place:
    options = dict(there.options) | {"endpoint": faulty.endpoint}
    return dataclasses.replace(there, options=tuple(sorted(options.items())))


def test_what_one_commits_another_opens(there: Place) -> None:
    assert not Table.exists(there)
    table = Table.create(there, "t")
    done = table.commit(add("a"))
    assert (done.sequence, held(table)) == (1, ["a"])
    other = Table.open(there)
    assert held(other) == ["a"] and other.table_id == table.table_id
    assert [one.name for one in storage_of(there).list("log")] == ["log/00000000000000000000", FIRST]


def test_creating_a_table_that_is_there_opens_it(there: Place) -> None:
    table = Table.create(there, "t")
    assert Table.create(there, "t").table_id == table.table_id


def test_a_place_without_a_log_is_not_found(there: Place) -> None:
    with pytest.raises(NotFound, match="has no log"):
        Table.open(there)


def test_disjoint_commits_are_rebased(there: Place) -> None:
    one = Table.create(there, "t")
    two = Table.open(there)
    assert one.commit(add("a")).sequence == 1
    assert two.commit(add("b")).sequence == 2
    assert one.commit(add("c")).sequence == 3
    assert held(one) == held(Table.open(there)) == ["a", "b", "c"]


def test_commits_on_the_same_member_conflict(there: Place) -> None:
    one = Table.create(there, "t")
    one.commit(add("a"))
    two = Table.open(there)
    one.commit(Commit("x", "x", "2024-01-01", "", remove=("a",)))
    with pytest.raises(Conflict):
        two.commit(Commit("y", "y", "2024-01-01", "", tier=(("a", 2),)))
    assert held(Table.open(there)) == []


def test_a_run_that_was_given_up_can_not_commit(there: Place) -> None:
    one = Table.create(there, "t")
    two = Table.open(there)
    two.refuse_expired("r-b")
    one.commit(Commit("x", "cleaner", "2024-01-01", "", expire=("r-b",)))
    with pytest.raises(Conflict, match="declared dead"):
        two.refuse_expired("r-b")
    with pytest.raises(Conflict, match="declared dead"):
        two.commit(add("b"))


def test_a_table_opens_from_its_newest_checkpoint_and_what_is_behind_it(there: Place, tmp_path: Path) -> None:
    table = Table.create(there, "t")
    for name in "abc":
        table.commit(add(name))
    table.checkpoint()
    table.commit(Commit("x", "x", "2024-01-01", "", remove=("a",), add=(member("d", 20, 29),)))
    fresh = Table.open(there)
    assert fresh.checkpoint_sequence == 3 and held(fresh) == ["b", "c", "d"]
    assert [one.path for one in fresh.state.holding(25)] == ["d"]
    fresh.compact()
    assert fresh.checkpoint_sequence == 4 and held(Table.open(there)) == ["b", "c", "d"]
    copies = list((tmp_path / "cache").rglob("*.db"))
    assert len(copies) == 1  # older ones went


def test_a_checkpoint_is_fetched_once(there: Place, faulty: FaultyHttp) -> None:
    table = Table.create(there, "t")
    table.commit(add("a"))
    table.checkpoint()
    for path in Path(there.cache or "").rglob("*.db"):
        path.unlink()
    for _ in range(3):
        Table.open(through(there, faulty)).close()
    got = [path for method, path in faulty.requests if method == "GET" and "?" not in path]
    assert sum("/checkpoint/" in path for path in got) == 1
    assert not any(path.endswith(FIRST) for path in got)


def test_without_a_cache_a_checkpoint_is_read_in_memory(there: Place) -> None:
    table = Table.create(there, "t")
    table.commit(add("a"))
    table.checkpoint()
    bare = dataclasses.replace(there, cache=None)
    assert held(Table.open(bare)) == ["a"]


def test_a_table_made_anew_is_not_read_from_the_copy_of_the_old_one(there: Place) -> None:
    table = Table.create(there, "t")
    table.commit(add("a"))
    table.checkpoint()
    for one in storage_of(there).list():
        storage_of(there).delete(one.name)
    again = Table.create(there, "t")
    again.commit(add("b"))
    again.checkpoint()
    assert held(Table.open(there)) == ["b"]
    with pytest.raises(LogCorrupt, match="created again"):
        table.commit(add("c"))


def test_old_log_objects_may_go_once_a_checkpoint_has_them(there: Place) -> None:
    table = Table.create(there, "t")
    late = Table.open(there)
    for name in "abc":
        table.commit(add(name))
    table.checkpoint()
    for number in (1, 2):
        storage_of(there).delete(f"log/{number:020}")
    assert held(Table.open(there)) == ["a", "b", "c"]
    with pytest.raises(Conflict, match="compacted in between"):
        late.commit(add("d"))  # its number is free again, and must not be taken
    assert Table.open(there).commit(add("d")).sequence == 4


def test_a_missing_commit_is_an_error_and_not_an_older_state(there: Place) -> None:
    table = Table.create(there, "t")
    for name in "abc":
        table.commit(add(name))
    storage_of(there).delete("log/00000000000000000002")
    with pytest.raises(LogCorrupt, match="no checkpoint for it"):
        Table.open(there)


@pytest.mark.parametrize("damage", [b"", b"LDGF", b"\0" * 100])
def test_a_damaged_commit_is_an_error(there: Place, damage: bytes) -> None:
    table = Table.create(there, "t")
    table.commit(add("a"))
    storage_of(there).put(FIRST, damage)
    with pytest.raises(LogCorrupt, match=FIRST):
        Table.open(there)


def test_a_damaged_checkpoint_is_an_error(there: Place) -> None:
    table = Table.create(there, "t")
    table.commit(add("a"))
    storage_of(there).put("checkpoint/00000000000000000001", b"not SQLite")
    with pytest.raises(LogCorrupt, match="not a checkpoint"):
        Table.open(there)


@pytest.mark.parametrize("fault", ["409", "412", "503", "lost", "cut", "slow"])
def test_a_commit_is_made_once_whatever_befalls_its_request(
    there: Place, faulty: FaultyHttp, fault: str
) -> None:
    table = Table.create(through(there, faulty), "t")
    left = [fault, fault]
    faulty.plan = lambda method, path: left.pop() if left and method == "PUT" and "/log/" in path else None
    assert table.commit(add("a")).sequence == 1
    assert len(left) < 2 and held(Table.open(there)) == ["a"]
    assert table.commit(add("b")).sequence == 2
    assert held(table) == held(Table.open(there)) == ["a", "b"]


def test_a_lost_answer_is_told_from_a_lost_race(there: Place, faulty: FaultyHttp) -> None:
    mine, theirs = Table.create(through(there, faulty), "t"), Table.open(there)
    theirs_first = []

    def plan(method: str, path: str) -> str | None:
        if method == "PUT" and path.endswith(FIRST) and not theirs_first:
            theirs_first.append(theirs.commit(add("theirs")))
            return "lost"
        return None

    faulty.plan = plan
    assert mine.commit(add("mine")).sequence == 2
    assert held(Table.open(there)) == ["theirs", "mine"]


def test_a_commit_whose_fate_is_unknown_says_so(
    there: Place, faulty: FaultyHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lading.storage import bucket as objects

    monkeypatch.setitem(objects.RETRY, "max_retries", 0)
    table = Table.create(through(there, faulty), "t")
    gone = []

    def plan(method: str, path: str) -> str | None:
        if method == "PUT" and "/log/" in path:
            gone.append(path)
            return "lost"
        return "cut" if gone else None

    faulty.plan = plan
    with pytest.raises(CommitUnknown, match="no telling whether"):
        table.commit(add("a"))
    assert held(Table.open(there)) == ["a"]


def test_credentials_are_in_no_text_of_a_place(s3_server: S3Server, url: str) -> None:
    somewhere = place(url, s3_server.options())
    for text in (repr(somewhere), str(somewhere), repr(Table.create(somewhere, "t").place)):
        assert s3_server.secret_key not in text and s3_server.access_key not in text
