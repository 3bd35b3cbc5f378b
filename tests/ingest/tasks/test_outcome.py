"""What tasks tell, put together: numbers of lines across pieces, counts, refusals."""

from __future__ import annotations

from lading.ingest.tasks.judge import AsideOf, FailingRow
from lading.ingest.tasks.outcome import ingested
from lading.ingest.tasks.task import Refusal, SourceRead, TaskDone
from lading.model import BadRow, CheckTally


def bad(source: int, record: int, line: int) -> BadRow:
    return BadRow(source, record, line, "k", "is bad", "x")


def test_numbers_of_a_piece_go_on_from_the_pieces_before_it() -> None:
    done = [
        TaskDone(0, reads=(SourceRead(7, 100, records=5, lines=6),), first=((100, bad(7, 2, 3)),)),
        TaskDone(1, reads=(SourceRead(7, 0, records=10, lines=12), SourceRead(8, 0, records=3, lines=4))),
        TaskDone(2, reads=(SourceRead(7, 200, records=1, lines=1),), first=((200, bad(7, 1, 1)),)),
        TaskDone(3, reads=(SourceRead(7, -1, sha256="d"),)),
    ]
    found = ingested(done, b"")
    assert [(row.record, row.line) for row in found.bad] == [(12, 15), (16, 19)]
    assert (found.files[7].records, found.files[7].sha256) == (16, "d")
    assert found.files[8].records == 3


def test_kept_rows_are_joined_in_the_order_of_the_file() -> None:
    done = [
        TaskDone(0, reads=(SourceRead(7, 100, records=5, lines=6),), aside=(AsideOf(7, 100, "b", 2),)),
        TaskDone(1, reads=(SourceRead(7, 0, records=10, lines=12),), aside=(AsideOf(7, 0, "a", 1),)),
    ]
    assert [(one.path, one.rows, one.records, one.lines) for one in ingested(done, b"").aside[7]] == [
        ("a", 1, 0, 0),
        ("b", 2, 10, 12),
    ]


def test_a_task_that_ran_twice_counts_once_and_writers_count_all() -> None:
    reading = TaskDone(0, reads=(SourceRead(7, 0, records=10, bad=2),), first=((0, bad(7, 1, 2)),))
    writing = TaskDone(unkeyed={7: 1}, tally=CheckTally({7: 4}, {"c": {7: 1}}))
    found = ingested([reading, reading, writing, writing], b"")
    assert found.files[7].records == 10
    assert found.bad_rows == 4
    assert found.tally.rows == {7: 8} and found.tally.failed == {"c": {7: 2}}


def test_what_is_told_of_a_refused_file_is_taken_back() -> None:
    refused = SourceRead(7, 0, records=3, bad=1, refused=Refusal("SourceError", "7 is broken", None))
    done = TaskDone(
        0,
        reads=(refused, SourceRead(8, 0, records=2)),
        first=((0, bad(7, 1, 2)),),
        unkeyed={7: 1, 8: 2},
        failing=(FailingRow(0, 0, bad(7, 1, 2)), FailingRow(0, 0, bad(8, 1, 2))),
        aside=(AsideOf(7, 0, "a", 1),),
        tally=CheckTally({7: 3, 8: 2}, {"c": {7: 1, 8: 1}}),
    )
    left = ingested([done], b"").without(frozenset({7}))
    assert list(left.files) == [8] and left.bad == () and left.unkeyed == {8: 2} and left.aside == {}
    assert [row.source for row in left.failing[0]] == [8]
    assert left.tally.rows == {8: 2} and left.tally.failed == {"c": {8: 1}}
