"""The log's promises: whole commits only, nothing committed is lost, damage is never passed over."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import Conflict, LogCorrupt
from lading.layout.table import LOG
from lading.log import table as table_module
from lading.log.file import LogFile
from lading.log.table import Table
from lading.model import Commit, Member, Source, Zone
from lading.where.bind import bind, parse


def member(
    name: str, low: int = 0, high: int = 9, *, status: int = 200, sources=((1, 10),), rows=10
) -> Member:
    zones = {"key": Zone(low, high, 0), "status": Zone(status, status, 0)}
    return Member(
        f"bucket=000000/{name}.parquet", rows, 100, 0, low, high, low, high, "2024-01-01", zones, sources
    )


def source(number: int, key: str = "") -> Source:
    return Source(
        number, key or f"f{number}.csv", "mtime:1.0_size:1", "ab", 1, 1, 10, False, "2024-01-01T00:00:00"
    )


def commit(name: str, **edits) -> Commit:
    return Commit(name, "run", "2024-01-01T00:00:00", "recipe", **edits)


def paths(table: Table) -> list[str]:
    return [m.path for m in table.state.in_order_added()]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(tmp_path / "t", "t")


@pytest.mark.acceptance("T2")
def test_every_commit_leaves_the_earlier_bytes_of_the_log_as_they_were(table):
    log = table.folder / LOG
    before = log.read_bytes()
    a, b = member("a"), member("b", 10, 19)
    for edits in ({"add": (a,)}, {"add": (b,)}, {"tier": ((a.path, 2),)}, {"remove": (a.path,)}):
        table.commit(commit("c", **edits))
        after = log.read_bytes()
        assert after.startswith(before) and len(after) > len(before)
        before = after


@pytest.mark.acceptance("T3")
def test_replay_gives_the_live_members_and_their_tiers(table):
    a, b, c = member("a"), member("b", 10, 19), member("c", 20, 29)
    table.commit(commit("1", add=(a, b, c)))
    table.commit(commit("2", tier=((b.path, 3),)))
    table.commit(commit("3", remove=(a.path,)))
    again = Table.open(table.folder)
    assert [(m.path, m.tier) for m in again.state.candidates(None)] == [(b.path, 3), (c.path, 0)]
    assert again.state.count() == 2


def test_an_add_carries_key_range_and_zones(table):
    a = member("a", 5, 7, status=404)
    table.commit(commit("1", add=(a,)))
    found, _ = Table.open(table.folder).state.find(a.path)
    assert (found.key_min, found.key_max, found.zones) == (5, 7, a.zones)


@pytest.mark.acceptance("T5")
def test_one_commit_is_one_write_and_one_fsync(table, monkeypatch):
    calls = []
    real_fsync, real_write = os.fsync, os.pwrite
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), real_fsync(fd))[1])
    monkeypatch.setattr(os, "pwrite", lambda *args: (calls.append("write"), real_write(*args))[1])
    table.commit(commit("1", add=(member("a"), member("b")), sources=(source(1),)))
    assert calls == ["write", "fsync"]


@pytest.mark.acceptance("T6")
def test_a_log_cut_at_any_byte_of_its_last_frame_opens_with_the_state_before_and_takes_commits(table):
    table.commit(commit("1", add=(member("a"),)))
    keep = (table.folder / LOG).read_bytes()
    table.commit(commit("2", add=(member("b"),)))
    whole = (table.folder / LOG).read_bytes()
    for cut in range(len(keep), len(whole)):
        (table.folder / LOG).write_bytes(whole[:cut])
        torn = Table.open(table.folder)
        assert paths(torn) == ["bucket=000000/a.parquet"]
        torn.commit(commit("3", add=(member("c"),)))
        torn.commit(commit("4", add=(member("d"),)))
        names = [p[-9:-8] for p in paths(Table.open(table.folder))]
        assert names == ["a", "c", "d"], f"cut at {cut}"


def test_a_flipped_byte_in_the_middle_is_an_error_with_its_offset(table):
    starts = []
    for name in "abc":
        starts.append((table.folder / LOG).stat().st_size)
        table.commit(commit(name, add=(member(name),)))
    whole = bytearray((table.folder / LOG).read_bytes())
    for at in range(starts[1], starts[2]):
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        (table.folder / LOG).write_bytes(damaged)
        with pytest.raises(LogCorrupt, match=f"offset {starts[1]}"):
            Table.open(table.folder)


def test_zeros_behind_the_log_are_a_torn_tail(table):
    table.commit(commit("1", add=(member("a"),)))
    with open(table.folder / LOG, "ab") as file:
        file.write(b"\0" * 4096)
    table.commit(commit("2", add=(member("b"),)))
    assert len(paths(Table.open(table.folder))) == 2


def test_a_torn_tail_is_cut_off_before_the_next_append(table):
    table.commit(commit("1", add=(member("a"),)))
    with open(table.folder / LOG, "ab") as file:
        file.write(b"LDGF" + b"x" * 10_000)
    table.commit(commit("2", add=(member("b"),)))
    tail = LogFile(table.folder).read()
    assert not tail.frames.torn and tail.frames.end == (table.folder / LOG).stat().st_size


def test_a_full_disk_loses_nothing(table, monkeypatch):
    table.commit(commit("1", add=(member("a"),)))

    def short(fd, data, offset):
        real(fd, bytes(data)[:20], offset)
        raise OSError(28, "No space left on device")

    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(OSError, match="No space"):
        table.commit(commit("2", add=(member("b"),)))
    monkeypatch.undo()
    table.commit(commit("3", add=(member("c"),)))
    assert [p[-9:-8] for p in paths(Table.open(table.folder))] == ["a", "c"]


def test_disjoint_commits_from_one_base_are_both_kept(table):
    table.commit(commit("0", add=(member("a"),), sources=(source(1),)))
    other = Table.open(table.folder)
    other.commit(commit("1", add=(member("b"),), sources=(source(2),)))
    table.commit(commit("2", add=(member("c"),), sources=(source(3),)))
    assert len(paths(Table.open(table.folder))) == 3
    assert Table.open(table.folder).state.sequence == 3


@pytest.mark.parametrize(
    "mine",
    [
        {"sources": (source(1),)},
        {"gone": (1,)},
        {"remove": ("bucket=000000/a.parquet",)},
        {"minus": (("bucket=000000/a.parquet", (1,)),)},
    ],
)
def test_commits_that_touch_the_same_thing_conflict(table, mine):
    table.commit(commit("0", add=(member("a"),), sources=(source(1),)))
    other = Table.open(table.folder)
    other.commit(commit("1", remove=("bucket=000000/a.parquet",), add=(member("b"),), sources=(source(1),)))
    with pytest.raises(Conflict):
        table.commit(commit("2", **mine))
    assert paths(Table.open(table.folder)) == ["bucket=000000/b.parquet"]


def test_threads_committing_at_once_lose_nothing(table):
    def work(worker: int) -> None:
        mine = Table.open(table.folder)
        for i in range(20):
            mine.commit(commit("c", add=(member(f"{worker}-{i}"),), sources=(source(worker * 100 + i),)))

    table.commit(commit("first", add=(member("z"),)))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    state = Table.open(table.folder).state
    assert state.count() == 81 and state.sequence == 81


class TestCheckpoint:
    def fill(self, table: Table) -> None:
        for i in range(5):
            table.commit(commit(str(i), add=(member(f"m{i}", i * 10, i * 10 + 9),), sources=(source(i),)))

    def test_a_checkpoint_and_the_frames_behind_it_give_the_whole_state(self, table):
        self.fill(table)
        table.checkpoint()
        table.commit(
            commit("x", remove=("bucket=000000/m1.parquet",), add=(member("n", 100, 109),), gone=(1,))
        )
        table.commit(commit("y", tier=(("bucket=000000/m2.parquet", 4),)))
        state = Table.open(table.folder).state
        assert [m.path[14:-8] for m in state.candidates(None)] == ["m0", "m2", "m3", "m4", "n"]
        assert state.find("bucket=000000/m2.parquet")[0].tier == 4
        assert sorted(state.sources()) == ["f0.csv", "f2.csv", "f3.csv", "f4.csv"]
        assert state.row_count() == 50

    def test_compaction_keeps_the_live_set_and_drops_the_history(self, table):
        self.fill(table)
        table.commit(commit("x", remove=("bucket=000000/m1.parquet",)))
        before = paths(table)
        table.compact()
        assert paths(table) == before == paths(Table.open(table.folder))
        assert (table.folder / LOG).stat().st_size < 300
        table.commit(commit("y", add=(member("n", 100, 109),)))
        assert paths(Table.open(table.folder)) == [*before, "bucket=000000/n.parquet"]

    @pytest.mark.parametrize("stop", ["before checkpoint", "between", "after"])
    def test_compaction_killed_between_its_steps_is_harmless(self, table, monkeypatch, stop):
        self.fill(table)
        before = paths(table)
        if stop == "before checkpoint":
            monkeypatch.setattr(Table, "_write_checkpoint", _killed)
        elif stop == "between":
            monkeypatch.setattr("lading.log.file.LogFile.replace", _killed)
        if stop == "after":
            table.compact()
        else:
            with pytest.raises(KeyboardInterrupt):
                table.compact()
        monkeypatch.undo()
        again = Table.open(table.folder)
        assert paths(again) == before
        again.commit(commit("y", add=(member("n", 100, 109),)))
        assert len(paths(Table.open(table.folder))) == 6

    def test_a_handle_from_before_a_compaction_goes_on(self, table):
        self.fill(table)
        other = Table.open(table.folder)
        other.compact()
        table.commit(commit("y", add=(member("n", 100, 109),)))
        assert len(paths(Table.open(table.folder))) == 6

    def test_a_handle_that_missed_compacted_commits_conflicts(self, table):
        self.fill(table)
        other = Table.open(table.folder)
        other.commit(commit("z", add=(member("o", 200, 201),)))
        other.compact()
        with pytest.raises(Conflict):
            table.commit(commit("y", add=(member("n", 100, 109),)))

    def test_a_damaged_checkpoint_is_a_named_error(self, table):
        self.fill(table)
        table.checkpoint()
        (table.folder / "manifest.db").write_bytes(b"not a database" * 100)
        with pytest.raises(LogCorrupt, match=r"manifest\.db"):
            Table.open(table.folder)

    def test_a_log_without_its_checkpoint_is_a_named_error(self, table):
        self.fill(table)
        table.compact()
        (table.folder / "manifest.db").unlink()
        with pytest.raises(LogCorrupt, match="no checkpoint"):
            Table.open(table.folder)

    def test_equal_states_dump_alike(self, table, tmp_path):
        self.fill(table)
        table.checkpoint()
        other = Table.create(tmp_path / "u", "t")
        self.fill(other)
        for i in (3, 1):
            path = f"bucket=000000/m{i}.parquet"
            kept = other.state.find(path)[0]
            other.commit(commit("x", remove=(path,)))
            other.commit(commit("y", add=(kept,)))
        other.checkpoint()
        assert _dump(table) == _dump(other)


def _killed(*_args, **_kwargs):
    raise KeyboardInterrupt


def _dump(table: Table):
    con = sqlite3.connect(table.folder / "manifest.db")
    base = table.state.base
    vectors = con.execute("SELECT * FROM summaries").fetchall()
    return [base.members_in(page) for page in base.pages()], vectors


EDIT = st.tuples(
    st.sampled_from(["add", "remove", "tier", "minus", "checkpoint", "compact", "open"]), st.integers(0, 30)
)


@settings(max_examples=60, deadline=None)
@given(edits=st.lists(EDIT, max_size=25))
def test_replay_of_any_sequence_of_edits_equals_a_model(tmp_path_factory, edits):
    table = Table.create(tmp_path_factory.mktemp("t") / "t", "t")
    model: dict[str, tuple[int, tuple[int, ...]]] = {}
    zones: dict[str, int] = {}
    for number, (kind, at) in enumerate(edits):
        names = sorted(model)
        path = names[at % len(names)] if names else None
        if kind == "add":
            new = member(f"m{number}", at, at + 5, status=at, sources=((1, 4), (2, 6)))
            table.commit(commit("c", add=(new,)))
            model[new.path] = (0, ())
            zones[new.path] = at
        elif kind in ("checkpoint", "compact"):
            getattr(table, kind)()
        elif kind == "open":
            table = Table.open(table.folder)
        elif path is not None and kind == "remove":
            table.commit(commit("c", remove=(path,)))
            del model[path]
        elif path is not None and kind == "tier":
            table.commit(commit("c", tier=((path, at),)))
            model[path] = (at, model[path][1])
        elif path is not None and kind == "minus":
            table.commit(commit("c", minus=((path, (1,)),)))
            model[path] = (model[path][0], (1,))
    for state in (table.state, Table.open(table.folder).state):
        assert {m.path: (m.tier, m.minus) for m in state.candidates(None)} == model
        assert state.count() == len(model)
        assert state.row_count() == sum(6 if minus else 10 for _, minus in model.values())
        assert {m.path for m in state.members_of({2})} == set(model)
        for key in (0, 7, 33):
            assert {m.path for m in state.holding(key)} == {
                p for p in model if zones[p] <= key <= zones[p] + 5
            }
            import pyarrow as pa

            where = bind(parse(f"status = {key}"), pa.schema([("status", pa.int64())]))
            assert {m.path for m in state.candidates(where)} == {p for p in model if zones[p] == key}


def test_a_checkpoint_is_due_when_there_is_much_to_decode_behind_the_last_one(table, monkeypatch):
    monkeypatch.setattr(table_module, "CHECKPOINT_EVERY", 3)
    monkeypatch.setattr(table_module, "CHECKPOINT_CHANGES", 4)

    def due(name, members):
        table.commit(commit(name, add=tuple(member(f"{name}{n}") for n in range(members))))
        return table.checkpoint_if_due()

    assert [due("a", 1), due("b", 1), due("c", 1)] == [False, False, True], "by commits"
    assert due("d", 5), "by members"
    assert [due("e", 1), due("f", 1)] == [False, False]
    assert due("g", 1) and table.checkpoint_sequence == 7
    assert due("h", 20) and not due("i", 5), "five are few of thirty-six"
    assert [m.path for m in Table.open(table.folder).state.in_order_added()] == paths_of(table)


def test_a_commit_that_was_made_does_not_fail_for_want_of_a_checkpoint(table, monkeypatch):
    """Who is told that it failed does it again."""
    monkeypatch.setattr(table_module, "CHECKPOINT_EVERY", 1)
    real = table_module.write_checkpoint

    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(table_module, "write_checkpoint", full)
    table.commit(commit("a", add=(member("a"),)))
    assert not table.checkpoint_if_due() and table.checkpoint_sequence == 0
    with pytest.raises(OSError, match="No space"):
        table.checkpoint()  # asked for by name
    monkeypatch.setattr(table_module, "write_checkpoint", real)
    table.commit(commit("b", add=(member("b"),)))
    assert table.checkpoint_if_due() and table.checkpoint_sequence == 2


def test_a_checkpoint_is_due_when_many_sources_were_read_or_retracted(table, monkeypatch):
    monkeypatch.setattr(table_module, "CHECKPOINT_CHANGES", 4)

    def due(name, **edits):
        table.commit(commit(name, **edits))
        return table.checkpoint_if_due()

    def read(*numbers):
        return {"sources": tuple(source(number) for number in numbers)}

    assert not due("a", **read(1, 2, 3)) and due("b", **read(4))
    assert not due("c", gone=(1, 2, 3)) and due("d", gone=(4,))
    assert due("e", **read(*range(100))) and not due("f", **read(1, 2, 3, 4, 5)), "five are few of a hundred"
    assert len(Table.open(table.folder).state.sources()) == 100


def paths_of(table):
    return [m.path for m in table.state.in_order_added()]


@pytest.mark.parametrize("then", [None, "x", "longer"], ids=["nothing", "as long", "longer"])
def test_a_commit_that_was_read_and_then_taken_back_is_nobodys_base(table, monkeypatch, then):
    """Read while it was being written, without the lock; then it couldn't be synced. Found by the
    simulation: the log was called truncated, and a commit of the same length was never noticed."""
    table.commit(commit("1", add=(member("a"),)))
    read, real = [], os.fsync

    def full(fd: int) -> None:
        read.append(Table.open(table.folder))
        raise OSError(errno.ENOSPC, "No space left on device")

    other = Table.open(table.folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            other.commit(commit("2", add=(member("b"),)))
    assert real is os.fsync
    if then is not None:
        other.commit(commit("3", add=(member(then),)))
    held, another = read[0], Table.open(table.folder)
    assert paths(held) == ["bucket=000000/a.parquet", "bucket=000000/b.parquet"]
    for asked in (lambda: held.commit(commit("4", add=(member("c"),))), lambda: held.refuse_expired("run")):
        with pytest.raises(Conflict, match="taken back"):
            asked()
    held.catch_up()
    assert paths(held) == paths(another)
    held.commit(commit("4", add=(member("c"),)))
    assert paths(Table.open(table.folder)) == [*paths(another), "bucket=000000/c.parquet"]


def test_a_frame_of_somebody_else_is_synced_before_anything_is_built_on_it(table, monkeypatch):
    """Whoever wrote it may have been killed before the sync: a power cut leaves a snapshot without it."""
    synced, real = [], os.fsync
    table.commit(commit("1", add=(member("a"),)))
    other = Table.open(table.folder)
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd))[1])
    table.make_durable()
    assert not synced, "its own"
    other.make_durable()
    other.make_durable()
    assert len(synced) == 1
