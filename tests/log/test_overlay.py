"""An overlay says what the log says, or it doesn't count; it makes opening quick and nothing else."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import LogCorrupt
from lading.layout.table import CHECKPOINT, LOG
from lading.log import file as log_module
from lading.log import table as table_module
from lading.log.state import TableState
from lading.log.table import Table
from lading.model import Commit, Member, Source, Zone
from lading.state import overlay as overlay_module
from lading.state import root_copy
from lading.state.overlay import Overlay, read_overlay
from lading.where.bind import bind, parse

OVERLAY = "manifest.overlay"
SCHEMA = pa.schema([("key", pa.int64()), ("status", pa.int64()), ("host", pa.string())])
QUERIES = ("key = 7", "status >= 30 and key < 20", "host = 'h3'", "status is null", "not host like 'h%'")

EDITS = ("add", "add", "add", "remove", "tier", "minus", "read", "gone", "checkpoint", "compact", "open")
EDIT = st.tuples(st.sampled_from(EDITS), st.integers(0, 50))


def member(number: int, low: int = 0) -> Member:
    zones = {"key": Zone(low, low + 5, 0), "status": Zone(low, low, 0), "host": Zone("h1", f"h{low}", 0)}
    if number % 3 == 0:
        del zones["host"]
    return Member(
        f"bucket=000000/m{number}.parquet", 10, 100, 0, low, low + 5, low, low + 5, "2024-01-01", zones,
        ((1, 4), (2, 6)),
    )  # fmt: skip


def source(number: int) -> Source:
    return Source(number, f"f{number}.csv", "mtime:1.0_size:1", "ab", 1, 1, 10, False, "2024-01-01T00:00:00")


def commit(**edits: object) -> Commit:
    return Commit("c", "run", "2024-01-01T00:00:00", "recipe", **edits)  # type: ignore[arg-type]


def told(state: TableState) -> list[object]:
    """All that a state says, each question asked of a state that was asked nothing before it but these."""
    asked = [bind(parse(where), SCHEMA) for where in QUERIES]
    return [
        state.count(),
        [[one.path for one in state.candidates(where)] for where in asked],
        [sorted(one.path for one in state.holding(key)) for key in (0, 7, 33)],
        state.row_count(),
        state.with_zones(),
        state.sources(),
        [one.path for one in state.in_order_added()],
        sorted(one.path for one in state.members_of({1})),
        msgspec.structs.replace(state.meta, members=0),
    ]


def without_overlay(folder: Path, to: Path) -> TableState:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    (to / OVERLAY).unlink(missing_ok=True)
    found = Table.open(to).state
    found.root = str(folder)
    return found


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "OVERLAY_EVERY", 4)


@pytest.fixture
def table(tmp_path: Path, often: None) -> Table:
    """Six commits, of which an overlay covers four; the last two change what it covers."""
    found = Table.create(tmp_path / "t", "t")
    found.commit(commit(schema=SCHEMA.serialize().to_pybytes(), order_by="key"))
    for number in range(3):
        found.commit(commit(add=(member(number, number * 10),), sources=(source(number),)))
    assert (found.folder / OVERLAY).exists()
    found.commit(commit(remove=(member(0).path,), tier=((member(1).path, 3),), gone=(2,)))
    found.commit(commit(add=(member(9, 7),)))
    return found


@settings(max_examples=120, deadline=None)
@given(edits=st.lists(EDIT, min_size=5, max_size=40), every=st.sampled_from([1, 2, 5]))
def test_a_state_with_an_overlay_answers_as_the_log_alone(tmp_path_factory, edits, every):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "OVERLAY_EVERY", every)
        folder = tmp_path_factory.mktemp("t")
        table = Table.create(folder / "t", "t")
        table.commit(commit(schema=SCHEMA.serialize().to_pybytes(), order_by="key"))
        live: list[str] = []
        for number, (kind, at) in enumerate(edits):
            path = live[at % len(live)] if live else None
            if kind == "add":
                table.commit(commit(add=(member(number, at),)))
                live.append(member(number).path)
            elif kind in ("checkpoint", "compact"):
                getattr(table, kind)()
            elif kind == "open":
                table = Table.open(table.folder)
            elif kind == "read":
                table.commit(commit(sources=(source(at % 7),)))
            elif kind == "gone":
                table.commit(commit(gone=(at % 7,)))
            elif path is not None:
                edit = {"remove": (path,), "tier": ((path, at),), "minus": ((path, (1,)),)}[kind]
                table.commit(commit(**{kind: edit}))
                if kind == "remove":
                    live.remove(path)
        alone = told(without_overlay(table.folder, folder / "copy"))
        assert told(Table.open(table.folder).state) == alone == told(table.state)
        reopened = Table.open(table.folder)
        reopened.checkpoint()
        assert told(reopened.state)[:-1] == alone[:-1]


def test_a_damaged_overlay_is_passed_over(table, tmp_path):
    whole = (table.folder / OVERLAY).read_bytes()
    alone = told(without_overlay(table.folder, tmp_path / "copy"))
    for at in range(0, len(whole), 7):
        flipped = bytearray(whole)
        flipped[at] ^= 0x20
        for damaged in (bytes(flipped), whole[:at]):
            (table.folder / OVERLAY).write_bytes(damaged)
            opened = Table.open(table.folder)
            assert opened._loose == 6, "every commit was read from the log"
            assert told(opened.state) == alone
    (table.folder / OVERLAY).write_bytes(whole)
    assert Table.open(table.folder)._loose == 2


def test_the_log_below_an_overlay_may_be_longer_than_what_is_looked_at_at_once(table, tmp_path, monkeypatch):
    alone = told(without_overlay(table.folder, tmp_path / "copy"))
    monkeypatch.setattr(log_module, "_PIECE", 100)
    opened = Table.open(table.folder)
    assert opened._loose == 2 and told(opened.state) == alone
    opened.commit(commit(add=(member(10, 3),)))
    opened.commit(commit(add=(member(11, 4),)))
    assert Table.open(table.folder)._loose == 0, "an overlay that was written on top of it counts"


@pytest.fixture
def above_a_checkpoint(table: Table) -> Table:
    """Behind a checkpoint, a few commits with an overlay that has a copy of its root."""
    table.checkpoint()
    for number in range(20, 26):
        table.commit(commit(add=(member(number, number),)))
    return table


def _asked_sqlite(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    asked: list[object] = []
    real = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **more: (asked.append(args), real(*args, **more))[1]
    )
    return asked


def test_a_checkpoint_whose_root_an_overlay_has_is_opened_without_sqlite(
    above_a_checkpoint, tmp_path, monkeypatch
):
    alone = told(without_overlay(above_a_checkpoint.folder, tmp_path / "copy"))
    asked = _asked_sqlite(monkeypatch)
    assert told(Table.open(above_a_checkpoint.folder).state) == alone and not asked
    reopened = Table.open(above_a_checkpoint.folder)
    for number in range(30, 40):
        reopened.commit(commit(add=(member(number, number),)))
    assert Table.open(reopened.folder).state.count() == reopened.state.count()
    assert not asked, "who opened it by a copy writes the copy on"


def test_whoever_asked_the_checkpoint_writes_a_copy_of_its_root(above_a_checkpoint, tmp_path, monkeypatch):
    (above_a_checkpoint.folder / OVERLAY).unlink()
    opened = Table.open(above_a_checkpoint.folder)
    for number in range(30, 40):
        opened.commit(commit(add=(member(number, number),)))
    alone = told(without_overlay(opened.folder, tmp_path / "copy"))
    asked = _asked_sqlite(monkeypatch)
    assert told(Table.open(opened.folder).state) == alone and not asked


def test_a_copy_of_a_root_counts_for_that_very_file(above_a_checkpoint, tmp_path, monkeypatch):
    """Whatever else lies there is asked itself, and says what is wrong with it."""
    folder = above_a_checkpoint.folder
    alone = told(without_overlay(folder, tmp_path / "copy"))
    checkpoint = (folder / CHECKPOINT).read_bytes()
    con = sqlite3.connect(folder / CHECKPOINT)
    con.execute("CREATE TABLE remark(text)")  # another file, which says the same
    con.close()
    asked = _asked_sqlite(monkeypatch)
    assert told(Table.open(folder).state) == alone and asked
    for at in range(0, len(checkpoint), 501):
        flipped = bytearray(checkpoint)
        flipped[at] ^= 0x20
        (folder / CHECKPOINT).write_bytes(flipped)
        asked.clear()
        with contextlib.suppress(LogCorrupt):
            assert told(Table.open(folder).state) == alone
        assert asked
    (folder / CHECKPOINT).unlink()
    assert told(Table.open(folder).state)[1:] == alone[1:], "the log has all of it"


def test_a_root_that_was_replaced_since_it_was_opened_is_not_copied(above_a_checkpoint, tmp_path):
    """Its copy would pass for one of the file that lies there now."""
    table = above_a_checkpoint
    (table.folder / OVERLAY).unlink()
    opened = Table.open(table.folder)
    table.checkpoint()
    for number in range(30, 40):
        opened.commit(commit(add=(member(number, number),)))
    overlay = read_overlay(io.BytesIO((table.folder / OVERLAY).read_bytes()))
    assert overlay is not None and overlay.root is None
    assert told(Table.open(table.folder).state) == told(without_overlay(table.folder, tmp_path / "copy"))


def test_a_large_root_is_not_copied(above_a_checkpoint, monkeypatch):
    monkeypatch.setattr(root_copy, "_LARGEST", 10)
    (above_a_checkpoint.folder / OVERLAY).unlink()
    opened = Table.open(above_a_checkpoint.folder)
    for number in range(30, 40):
        opened.commit(commit(add=(member(number, number),)))
    overlay = read_overlay(io.BytesIO((opened.folder / OVERLAY).read_bytes()))
    assert overlay is not None and overlay.root is None


def test_an_overlay_does_not_hide_damage_of_the_log(table):
    log = bytearray((table.folder / LOG).read_bytes())
    at = log.index(b"m1.parquet")  # in a commit that the overlay covers
    log[at] ^= 1
    (table.folder / LOG).write_bytes(log)
    with pytest.raises(LogCorrupt, match="damaged at offset"):
        Table.open(table.folder)


def test_an_overlay_of_another_log_or_checkpoint_is_passed_over(table, tmp_path):
    kept = (table.folder / OVERLAY).read_bytes()
    other = Table.create(tmp_path / "other", "t")
    other.commit(commit(add=(member(77),)))
    (other.folder / OVERLAY).write_bytes(kept)
    assert [one.path for one in Table.open(other.folder).state.candidates(None)] == [member(77).path]
    table.checkpoint()
    assert not (table.folder / OVERLAY).exists()
    (table.folder / OVERLAY).write_bytes(kept)
    alone = told(table.state)
    assert told(Table.open(table.folder).state) == alone
    table.compact()
    (table.folder / OVERLAY).write_bytes(kept)
    assert told(Table.open(table.folder).state)[:-1] == alone[:-1]


def test_a_log_that_was_cut_behind_the_overlays_start_is_read_by_itself(table):
    """Restored from a backup, say: an overlay of what came later doesn't count."""
    frame = b"LDGF"
    log = (table.folder / LOG).read_bytes()
    third = [at for at in range(len(log)) if log.startswith(frame, at)][2]
    (table.folder / LOG).write_bytes(log[:third])
    opened = Table.open(table.folder)
    assert opened.state.sequence == 2 and opened.state.count() == 1


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), MemoryError()])
@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_commit_is_made_when_its_overlay_cannot_be_written(table, monkeypatch, step, error):
    def full(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(Path if step == "write_bytes" else os, step, full)
    before = (table.folder / OVERLAY).read_bytes()
    for number in range(20, 30):
        table.commit(commit(add=(member(number),)))
    assert (table.folder / OVERLAY).read_bytes() == before
    assert Table.open(table.folder).state.count() == table.state.count()


def test_writers_that_take_turns_share_one_overlay(table, tmp_path):
    one, two = table, Table.open(table.folder)
    for number in range(100, 120):
        (one if number % 3 else two).commit(commit(add=(member(number, number),)))
    assert Table.open(table.folder)._loose < 4
    assert told(Table.open(table.folder).state) == told(without_overlay(table.folder, tmp_path / "copy"))


def test_an_overlay_stands_for_what_its_writer_read_and_not_for_what_lies_there(tmp_path, often):
    """A log is put back under an open table: what the table remembers must not be what others see."""
    table = Table.create(tmp_path / "t", "t")
    table.commit(commit(add=(member(10),)))
    backup = (table.folder / LOG).read_bytes()
    table.commit(commit(add=(member(20),)))
    (table.folder / LOG).write_bytes(backup)
    other = Table.open(table.folder)
    other.commit(commit(add=(member(31),)))  # as long as the one that is gone
    for number in (40, 50, 61):
        table.commit(commit(add=(member(number),)))
    seen = {one.path for one in Table.open(table.folder).state.candidates(None)}
    assert seen == {member(number).path for number in (10, 31, 40, 50, 61)}


def test_a_table_that_somebody_else_compacted_writes_no_overlay_of_the_old_log(tmp_path, often):
    table = Table.create(tmp_path / "t", "t")
    table.commit(commit(add=(member(1),)))
    Table.open(table.folder).compact()
    for number in range(10, 20):
        table.commit(commit(add=(member(number),)))
    assert not (table.folder / OVERLAY).exists()
    assert told(Table.open(table.folder).state)[1:3] == told(table.state)[1:3]
    table.refresh()
    for number in range(20, 30):
        table.commit(commit(add=(member(number),)))
    assert (table.folder / OVERLAY).exists() and Table.open(table.folder)._loose < 4


def test_questions_of_two_threads_see_each_member_once(tmp_path, often):
    table = Table.create(tmp_path / "t", "t")
    for number in range(100):
        table.commit(commit(add=(member(number, number),)))
    table.commit(commit(add=(member(200, 200),)))
    assert Table.open(table.folder)._loose < 64
    everything = bind(parse("key >= 0"), SCHEMA)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            state = Table.open(table.folder).state
            asked = [lambda s=state: len(s.candidates(everything)), lambda s=state: len(s.candidates(None))]
            asked += [lambda s=state: s.count(), lambda s=state: len(s.added)] * 2
            with ThreadPoolExecutor(len(asked)) as pool:
                assert {one.result() for one in [pool.submit(question) for question in asked]} == {101}
    finally:
        sys.setswitchinterval(before)


def test_a_thousand_commits_are_opened_by_decoding_few_and_pruned_by_decoding_what_is_found(
    tmp_path, monkeypatch
):
    table = Table.create(tmp_path / "t", "t")
    table.commit(commit(schema=SCHEMA.serialize().to_pybytes(), order_by="key"))
    table.checkpoint()
    written: list[int] = []
    real = Overlay.to_bytes
    monkeypatch.setattr(Overlay, "to_bytes", lambda self: (written.append(self.count()), real(self))[1])
    for number in range(1_000):
        table.commit(commit(add=(member(number, number * 10),)))
    assert len(written) <= 1_000 // table_module.OVERLAY_EVERY
    assert sum(written) < 8 * 1_000, "what is written again and again stays a small multiple"
    decoded: list[bytes] = []
    decode = overlay_module._decode_member
    monkeypatch.setattr(
        overlay_module, "_decode_member", lambda data: (decoded.append(data), decode(data))[1]
    )
    opened = Table.open(table.folder)
    assert opened._loose < table_module.OVERLAY_EVERY
    assert opened.state.count() == 1_000
    found = opened.state.candidates(bind(parse("key = 5003"), SCHEMA))
    assert [one.path for one in found] == [member(500).path] and len(decoded) == 1
    assert not opened.state.candidates(bind(parse("status = 3"), SCHEMA)) and len(decoded) == 1


def test_changes_are_counted_without_decoding_a_source(tmp_path, often, monkeypatch):
    table = Table.create(tmp_path / "t", "t")
    for number in range(10):
        table.commit(commit(add=(member(number),), sources=(source(number), source(number + 100))))
    monkeypatch.delattr(overlay_module, "_decode_sources")
    state = Table.open(table.folder).state
    assert state._sources[0] is not None, "an overlay has most of them"
    assert (state.changes(), state.size()) == (30, 30)


def test_an_overlay_is_not_synced_and_not_written_for_what_is_too_much(tmp_path, monkeypatch, often):
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), fsync(fd))[1])
    table = Table.create(tmp_path / "t", "t")
    synced.clear()
    for number in range(12):
        table.commit(commit(add=(member(number),)))
    assert len(synced) == 12 and (table.folder / OVERLAY).exists()
    monkeypatch.setattr(table_module, "_OVERLAY_MOST", 12)
    monkeypatch.setattr(log_module, "write_passing", lambda *args: pytest.fail("too much was written"))
    for number in range(12, 20):
        table.commit(commit(add=(member(number),)))


def test_bytes_that_are_no_overlay_are_none(table):
    whole = (table.folder / OVERLAY).read_bytes()
    found = read_overlay(io.BytesIO(whole))
    assert found is not None and found.to_bytes() == whole
    later = overlay_module.framed(b"LDGO", overlay_module._encode({"version": 99}))
    assert [read_overlay(io.BytesIO(data)) for data in (b"", whole[:-1], later)] == [None] * 3
