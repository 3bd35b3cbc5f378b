"""Which task reads what, from names and sizes alone."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lading.formats.reader import ReadSpec
from lading.formats.source_file import SourceFile
from lading.ingest.tasks import splits
from lading.ingest.tasks.splits import FilePiece, make_tasks
from lading.model import Column

CSV = ReadSpec("csv", {}, (Column("k", "bigint"),))
SPANNING = ReadSpec("csv", {"multiline": True}, (Column("k", "bigint"),))


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "SHARE", (100, 1_000))


def tasks_of(
    sizes: list[int], spec: ReadSpec = CSV, cores: int = 2, ext: str = "csv"
) -> list[list[FilePiece]]:
    files = [
        FilePiece(SourceFile(f"{number}.{ext}", f"/nowhere/{number}.{ext}", size), number)
        for number, size in enumerate(sizes)
    ]
    return [list(task.pieces) for task in make_tasks(files, spec, cores)]


def test_small_files_are_packed_in_their_order() -> None:
    tasks = tasks_of([30] * 10)
    assert [[piece.source for piece in task] for task in tasks] == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9]]
    assert not any(piece.is_cut for task in tasks for piece in task)


def test_a_task_opens_a_bounded_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "_FILES", 4)
    assert [len(task) for task in tasks_of([1] * 10)] == [4, 4, 2]


def test_a_large_file_is_cut_without_a_gap_and_digested_once() -> None:
    pieces = [piece for task in tasks_of([5_000]) for piece in task]
    assert [piece for piece in pieces if piece.piece is None] == pieces[:1]
    ranges = [(piece.piece.start, piece.piece.end) for piece in pieces[1:] if piece.piece is not None]
    assert len(ranges) == 6
    assert ranges[0][0] == 0 and ranges[-1][1] is None
    assert all(end == start for (_, end), (start, _) in pairwise(ranges))


@pytest.mark.parametrize(("spec", "ext"), [(SPANNING, "csv"), (CSV, "csv.gz")], ids=["multiline", "packed"])
def test_what_can_not_be_cut_stays_whole(spec: ReadSpec, ext: str) -> None:
    (task,) = tasks_of([50_000], spec, ext=ext)
    assert [piece.is_cut for piece in task] == [False]


def test_more_cores_get_more_tasks_within_bounds() -> None:
    assert len(tasks_of([90] * 100, cores=1)) < len(tasks_of([90] * 100, cores=8))
    assert max(sum(piece.bytes for piece in task) for task in tasks_of([90] * 1_000, cores=1)) < 1_090


def test_tasks_are_about_as_long_as_each_other() -> None:
    assert sorted(len(task) for task in tasks_of([30] * 20)) == [3, 3, 3, 3, 4, 4]
    assert [len(task) for task in tasks_of([10] * 11)] == [5, 6]


def test_without_cores_one_task_reads_all_files_whole() -> None:
    [task] = tasks_of([5_000] * 3, cores=0)
    assert [(piece.source, piece.is_cut) for piece in task] == [(0, False), (1, False), (2, False)]


def test_nothing_gives_no_task() -> None:
    assert tasks_of([]) == []


def made(number: int, size: int, together: str | None) -> FilePiece:
    file = SourceFile(f"{number}.csv", f"/nowhere/{number}.csv", size, made=lambda: "")
    return FilePiece(file, number, together=together)


def test_members_are_read_whole_and_those_that_come_together_by_one_task() -> None:
    files = [made(0, 90, "a.tar"), made(1, 5_000, "a.tar"), made(2, 90, "a.tar"), made(3, 90, "b.tar")]
    files += [made(4, 5_000, None), made(5, 90, None)]
    tasks = make_tasks(files, CSV, 2)
    assert [[piece.source for piece in task.pieces] for task in tasks] == [[0, 1, 2], [3], [4], [5]]
    assert not any(piece.is_cut for task in tasks for piece in task.pieces)


def test_what_is_only_digested_is_not_cut() -> None:
    file = SourceFile("0.csv", "/nowhere/0.csv", 5_000)
    ((piece,),) = [task.pieces for task in make_tasks([FilePiece(file, 0, None)], CSV, 2)]
    assert piece.piece is None
