"""Tables one after the other and side by side: the order, and what an interrupt leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from lading.chain import Interruptible, each_after
from lading.watch import Watch

# top needs both, right needs nothing of left.
DIAMOND = {"base": (), "left": ("base",), "right": ("base",), "other": (), "top": ("left", "right")}


@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_each_comes_after_what_it_needs_and_answers_in_the_given_order(jobs: int) -> None:
    begun: list[str] = []

    def work(name: str, done: Mapping[str, str]) -> str:
        assert all(one in done for one in DIAMOND[name]), (name, done)
        begun.append(name)
        return name.upper()

    assert list(each_after(DIAMOND, work, jobs).items()) == [(name, name.upper()) for name in DIAMOND]
    assert sorted(begun) == sorted(DIAMOND)


def test_those_that_need_nothing_of_each_other_are_at_work_at_once() -> None:
    both = threading.Barrier(2, timeout=10)

    def work(name: str, done: Mapping[str, None]) -> None:
        if name in ("left", "right"):
            both.wait()

    each_after(DIAMOND, work, 2)


def test_no_more_than_were_asked_for_are_at_work_at_once() -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def work(name: str, done: Mapping[str, None]) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.01)
        with lock:
            now[0] -= 1

    each_after({str(number): () for number in range(12)}, work, 3)
    assert most[0] == 3


def test_what_is_needed_but_not_asked_for_is_not_waited_for() -> None:
    assert each_after({"top": ("left",), "other": ()}, lambda name, done: name, 2) == {
        "top": "top",
        "other": "other",
    }


def test_what_one_raises_is_raised_once_the_others_were_told_and_have_ended() -> None:
    told, ended = threading.Event(), threading.Event()

    def work(name: str, done: Mapping[str, None]) -> None:
        if name == "base":
            raise KeyboardInterrupt
        assert name == "other", "nothing begins after that"
        assert told.wait(10)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        each_after(DIAMOND, work, 2, told.set)
    assert ended.is_set()


def test_an_interrupted_watch_ends_whoever_enters_another_phase() -> None:
    heard: list[str] = []

    class Heard(Watch):
        def phase(self, table: str, name: str) -> None:
            heard.append(name)

    watch = Interruptible(Heard())
    watch.phase("ships", "plan")
    watch.stop()
    watch.progress("ships", "3 of 4")  # only between two steps
    with pytest.raises(KeyboardInterrupt):
        watch.phase("ships", "ingest")
    assert heard == ["plan"]
