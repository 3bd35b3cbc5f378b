"""Several handles on one collection: what one answers is true of the log, not of what it remembers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.machines import run_machine
from support.servers import S3Server

import lading
import lading.parts.fold
from lading.errors import ConfigError, NotFound
from lading.storage.bucket import ObjectStorage


class Handles:
    """Opens the same collection again and again, in a folder or in a bucket."""

    def __init__(self, where: str, options: dict[str, str] | None = None) -> None:
        self.where, self._options = where, options

    def open(self) -> lading.Collection:
        return lading.Collection(self.where, s3=self._options)

    def seen(self) -> list[str]:
        with self.open() as fresh:
            return [member.path for member in fresh.members()]

    def put(self, name: str, numbers: list[int]) -> str:
        table = pa.table({"k": numbers})
        if self._options is None:
            Path(self.where).mkdir(exist_ok=True)
            pq.write_table(table, Path(self.where, name))
            return str(Path(self.where, name))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        ObjectStorage(self.where, self._options).put(name, sink.getvalue().to_pybytes())
        return f"{self.where}/{name}"


@pytest.fixture(params=["folder", "bucket"])
def handles(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Handles]:
    if request.param == "folder":
        yield Handles(str(tmp_path / "c"))
        return
    server: S3Server = request.getfixturevalue("s3_server")
    yield Handles(f"{server.bucket('handles')}/{uuid.uuid4().hex}", server.options())


@pytest.mark.acceptance("T22")
def test_a_file_that_somebody_else_removed_is_added_again(handles: Handles) -> None:
    file = handles.put("a.parquet", [1, 2])
    first = handles.open()
    first.add(file)
    handles.open().remove("a.parquet")
    assert first.add(file).added == ("a.parquet",)
    assert handles.seen() == ["a.parquet"]


@pytest.mark.acceptance("T22")
def test_a_member_that_somebody_else_added_can_be_removed_and_tiered(handles: Handles) -> None:
    first = handles.open()
    first.add(handles.put("a.parquet", [1]))
    second = handles.open()
    first.add(handles.put("b.parquet", [2]), handles.put("c.parquet", [3]))
    assert second.tier("b.parquet", 3) == "b.parquet"
    assert second.remove("c.parquet") == ("c.parquet",)
    with pytest.raises(NotFound):
        first.remove("c.parquet")
    assert handles.seen() == ["a.parquet", "b.parquet"]


def test_a_tier_that_somebody_else_changed_is_set_again(handles: Handles) -> None:
    first = handles.open()
    first.add(handles.put("a.parquet", [1]))
    first.tier("a.parquet", 2)
    handles.open().tier("a.parquet", 0)
    first.tier("a.parquet", 2)
    assert [member.tier for member in handles.open().members()] == [2]


def test_a_handle_from_before_a_compaction_answers_from_the_new_log(handles: Handles) -> None:
    file = handles.put("a.parquet", [1])
    first = handles.open()
    first.add(file)
    other = handles.open()
    other.remove("a.parquet")
    other.compact()
    assert first.add(file).added == ("a.parquet",)
    assert handles.seen() == ["a.parquet"]


def test_two_merges_into_one_name_lose_nobodys_rows(
    handles: Handles, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = handles.open(), handles.open()
    first.add(*(handles.put(f"{name}.parquet", [number]) for number, name in enumerate("abcd")))
    real = lading.parts.fold.merge_files
    waiting = [lambda: second.merge("c.parquet", "d.parquet", into="x.parquet")]

    def merge_files(*args: Any) -> Any:
        if waiting:
            waiting.pop()()
        return real(*args)

    monkeypatch.setattr(lading.parts.fold, "merge_files", merge_files)
    with pytest.raises(ConfigError, match="already exists"):
        first.merge("a.parquet", "b.parquet", into="x.parquet")
    with handles.open() as fresh:
        assert sorted(fresh.scan().to_table()["k"].to_pylist()) == [0, 1, 2, 3]
        assert [one.path for one in fresh.members()] == ["a.parquet", "b.parquet", "x.parquet"]


class ManyHandles(RuleBasedStateMachine):
    """Any handle, any order: answers and contents are those of one set of files."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(ManyHandles.top) / uuid.uuid4().hex
        self.handles = Handles(str(self.folder))
        self.files = [self.handles.put(f"f{number}.parquet", [number]) for number in range(3)]
        self.open = [self.handles.open() for _ in range(3)]
        self.model: dict[str, int] = {}

    @rule(handle=st.integers(0, 2), file=st.integers(0, 2))
    def add(self, handle: int, file: int) -> None:
        name = f"f{file}.parquet"
        done = self.open[handle].add(self.files[file])
        assert (done.added, done.unchanged) == (((), (name,)) if name in self.model else ((name,), ()))
        self.model.setdefault(name, 0)

    @rule(handle=st.integers(0, 2), file=st.integers(0, 2))
    def remove(self, handle: int, file: int) -> None:
        self._unless_absent(f"f{file}.parquet", lambda name: self.open[handle].remove(name))
        self.model.pop(f"f{file}.parquet", None)

    @rule(handle=st.integers(0, 2), file=st.integers(0, 2), tier=st.integers(0, 1))
    def tier(self, handle: int, file: int, tier: int) -> None:
        name = f"f{file}.parquet"
        self._unless_absent(name, lambda name: self.open[handle].tier(name, tier))
        if name in self.model:
            self.model[name] = tier

    @rule(handle=st.integers(0, 2))
    def compact(self, handle: int) -> None:
        if self.model:
            self.open[handle].compact()

    @invariant()
    def a_fresh_reader_sees_the_model(self) -> None:
        if self.model:
            assert {one.path: one.tier for one in self.handles.open().members()} == self.model

    def _unless_absent(self, name: str, do: Any) -> None:
        if name in self.model:
            do(name)
            return
        with pytest.raises(NotFound):
            do(name)

    top = ""


@pytest.mark.acceptance("T22")
def test_any_number_of_handles_answer_as_one(tmp_path: Path) -> None:
    ManyHandles.top = str(tmp_path)
    run_machine(ManyHandles, examples=40, steps=20, soak=(2000, 40))
