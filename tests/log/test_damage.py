"""Whatever happens to the bytes of a log or a checkpoint: the last whole state, or a named error."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import LadingError, LogCorrupt
from lading.layout.table import CHECKPOINT, LOG
from lading.log.checkpoint import write_checkpoint
from lading.log.table import Table
from lading.model import Commit, Member, Source, Zone
from lading.state.tables import STATE_VERSION
from lading.storage.place import place_of


def member(number: int) -> Member:
    low, high = number * 10, number * 10 + 15
    zones = {"key": Zone(low, high, 0), "name": Zone(f"n{number}", f"n{number}z", 1)}
    sources = ((number, 6), (number + 100, 4))
    path = f"bucket=000000/m{number}.parquet"
    return Member(path, 10, 100, 0, low, high, low, high, "2024-01-01", zones, sources)


def source(number: int) -> Source:
    return Source(number, f"f{number}.csv", "mtime:1.0_size:1", "ab", 1, 1, 6, False, "2024-01-01")


def commit(name: str, **edits) -> Commit:
    return Commit(name, "run", "2024-01-01T00:00:00", "recipe", **edits)


def everything(table: Table) -> object:
    """All that a reader or a writer can learn of a state, by every way there is to ask."""
    state = table.state
    return (
        state.meta.recipe,
        state.sequence,
        state.with_zones(),
        [state.find(m.path) for m in state.candidates(None)],
        [[m.path for m in state.holding(key)] for key in (0, 12, 15, 33, 400)],
        [[m.path for m in state.members_of([n])] for n in (0, 3, 103, 7)],
        [state.contains(f"bucket=000000/m{n}.parquet") for n in range(8)],
        sorted(state.sources().items()),
        [state.source(n) for n in range(8)],
        state.row_count(),
        state.count(),
        state.bucket_count(),
        state.source_count(),
        [(m.path, m.tier, m.minus, m.sources) for m in state.in_order_added()],
    )


@pytest.fixture(scope="module")
def history(tmp_path_factory) -> tuple[Path, list[object]]:
    """A table with a checkpoint and commits behind it, and its state after every commit."""
    folder = tmp_path_factory.mktemp("history") / "t"
    table = Table.create(folder, "t")
    states = [everything(table)]

    def add(**edits) -> None:
        table.commit(commit(f"c{len(states)}", **edits))
        states.append(everything(Table.open(folder)))

    for number in range(5):
        add(add=(member(number),), sources=(source(number),))
    add(minus=((member(1).path, (101,)),))
    table.checkpoint()
    add(add=(member(5),), sources=(source(5),))
    add(remove=(member(0).path,), gone=(0,))
    add(tier=((member(2).path, 3),))
    add(minus=((member(3).path, (3,)),))
    return folder, states


def state_of(folder: Path) -> object:
    table = Table.open(folder)
    try:
        return everything(table)
    finally:
        table.close()


@pytest.mark.parametrize("name", [LOG, CHECKPOINT])
def test_a_file_cut_anywhere_gives_a_whole_state_or_a_named_error(history, tmp_path, name):
    folder, states = history
    copy = shutil.copytree(folder, tmp_path / "t")
    whole = (folder / name).read_bytes()
    step = 1 if name == LOG else 997
    errors = 0
    for cut in range(0, len(whole), step):
        (copy / name).write_bytes(whole[:cut])
        try:
            assert state_of(copy) in states, f"cut at {cut}"
        except LadingError as error:
            errors += 1
            assert error.hint
    assert errors


def test_a_flipped_bit_of_the_log_gives_a_whole_state_or_a_named_error(history, tmp_path):
    folder, states = history
    copy = shutil.copytree(folder, tmp_path / "t")
    whole = (folder / LOG).read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        (copy / LOG).write_bytes(damaged)
        try:
            assert state_of(copy) in states, f"flipped at {at}"
        except LadingError as error:
            assert error.hint


@settings(max_examples=400, deadline=None)
@given(where=st.floats(0, 1, exclude_max=True), value=st.integers(1, 255))
def test_a_changed_byte_of_the_checkpoint_gives_the_whole_state_or_a_named_error(
    history, tmp_path_factory, where, value
):
    folder, states = history
    copy = tmp_path_factory.getbasetemp() / "damaged-checkpoint"
    if not copy.exists():
        shutil.copytree(folder, copy)
    damaged = bytearray((folder / CHECKPOINT).read_bytes())
    damaged[int(where * len(damaged))] ^= value
    (copy / CHECKPOINT).write_bytes(damaged)
    try:
        assert state_of(copy) == states[-1]
    except LadingError as error:
        assert error.hint


def test_every_byte_of_a_zone_is_covered(history, tmp_path):
    """Where silence would hurt most: a zone that rules out what is there."""
    folder, states = history
    copy = shutil.copytree(folder, tmp_path / "t")
    whole = (folder / CHECKPOINT).read_bytes()
    start = whole.index(b"LZV2", whole.index(b"LDGP"))
    errors = 0
    least = 16 + 3 * 24  # header, null counts, minima, maxima
    for at in range(start, start + least):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        (copy / CHECKPOINT).write_bytes(damaged)
        try:
            assert state_of(copy) == states[-1]
        except LogCorrupt as error:
            errors += 1
            assert "checksum" in error.message
    assert errors == least


def test_a_log_shorter_than_its_checkpoint_saw_is_refused_and_not_appended_to(history, tmp_path):
    folder, _ = history
    copy = shutil.copytree(folder, tmp_path / "t")
    whole = (copy / LOG).read_bytes()
    (copy / LOG).write_bytes(whole[: len(whole) // 4])
    with pytest.raises(LogCorrupt, match="bytes long"):
        Table.open(copy)
    assert (copy / LOG).read_bytes() == whole[: len(whole) // 4]


def test_a_checkpoint_of_a_later_version_is_refused_by_name(history, tmp_path):
    folder, _ = history
    table = Table.open(shutil.copytree(folder, tmp_path / "t"))
    later = msgspec.structs.replace(table.state.meta, version=STATE_VERSION + 1)
    write_checkpoint(place_of(table.folder), later, table.state.settled())
    with pytest.raises(LogCorrupt, match=f"version is {STATE_VERSION + 1}"):
        Table.open(table.folder)
