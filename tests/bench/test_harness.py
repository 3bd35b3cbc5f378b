"""The harness: whose turn it is, what a figure is made of, and what becomes of those that fail."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.bars import Figures, at_least_floor, at_most, at_most_floor, better_than, either, ratio
from bench.harness import Contender, Measured, Role, Turn, always, contest, reason, simply, timed


def contender(name: str, role: Role, turn: Turn, budget: float = float("inf")) -> Contender:
    return Contender(name, role, lambda: always(turn), budget)


def test_everybody_has_a_turn_in_every_round() -> None:
    order: list[str] = []

    def turn_of(name: str) -> Turn:
        def turn() -> float:
            order.append(name)
            return 1.0

        return turn

    contenders = [contender("lading", "lading", turn_of("lading")), contender("x", "peer", turn_of("x"))]
    measured = contest(contenders, repeats=3, warm_up=False)
    assert order == ["lading", "x"] * 3
    assert {name: len(one.turns) for name, one in measured.items()} == {"lading": 3, "x": 3}


def test_a_figure_is_the_median_and_the_warm_up_does_not_count() -> None:
    figures = iter([1000.0, 3.0, 1.0, 2.0, 9.0, 4.0])
    measured = contest([contender("lading", "lading", lambda: next(figures))], repeats=5)
    assert measured["lading"].turns == (3.0, 1.0, 2.0, 9.0, 4.0)
    assert measured["lading"].median == 3.0


def test_a_peer_that_fails_is_shown_with_its_reason_and_stops_nobody() -> None:
    @contextmanager
    def not_there() -> Iterator[Turn]:
        raise ModuleNotFoundError("No module named 'peer'")
        yield

    turns = iter([1.0])

    def breaks() -> float:
        try:
            return next(turns)
        except StopIteration:
            raise ValueError("the second turn\nand more") from None

    contenders = [
        Contender("absent", "peer", not_there),
        contender("breaks", "peer", breaks),
        contender("lading", "lading", lambda: 2.0),
    ]
    measured = contest(contenders, repeats=3, warm_up=False)
    assert measured["absent"].shown == "failed: ModuleNotFoundError: No module named 'peer'"
    assert measured["breaks"].shown == "failed: ValueError: the second turn"
    assert measured["breaks"].median is None
    assert measured["lading"].turns == (2.0, 2.0, 2.0)


def test_who_has_used_up_the_budget_gets_no_more_turns_but_has_had_one() -> None:
    def slow() -> float:
        time.sleep(0.01)
        return 1.0

    contenders = [contender("slow", "peer", slow, budget=0.001), contender("lading", "lading", lambda: 1.0)]
    measured = contest(contenders, repeats=4)
    assert len(measured["slow"].turns) == 1
    assert len(measured["lading"].turns) == 4


def test_a_turn_that_never_ends_is_a_failure() -> None:
    def stuck() -> float:
        while True:
            time.sleep(0.001)

    measured = contest([contender("stuck", "peer", stuck)], repeats=1, limit=0.05)
    assert measured["stuck"].failed is not None and measured["stuck"].failed.startswith("TimeoutError")


def test_quick_work_is_done_often_enough_to_be_measured() -> None:
    calls: list[None] = []
    seconds = timed(lambda: calls.append(None), at_least=0.002)()
    assert len(calls) > 1
    assert seconds * len(calls) >= 0.002
    once: list[None] = []
    simply("x", "floor", lambda: once.append(None))
    assert once == []


def test_nobody_beats_a_peer_that_did_not_turn_up() -> None:
    lower = Figures("lower", 2.0, 1.6, {"slow": 100.0, "failed": None})
    assert better_than("slow", 50)(lower).met
    assert not better_than("slow", 51)(lower).met
    verdict = better_than("failed", 1)(lower)
    assert (verdict.met, verdict.found) == (False, "not measured")
    assert not better_than("absent", 1)(lower).met


def test_ratios_to_the_floor_are_of_the_figures_as_they_are() -> None:
    seconds = Figures("lower", 1.2, 1.0, {})
    assert at_most_floor(1.2)(seconds).met and not at_most_floor(1.1)(seconds).met
    rates = Figures("higher", 80.0, 100.0, {"slow": 20.0})
    assert at_least_floor(0.8)(rates).met and not at_least_floor(0.81)(rates).met
    assert rates.times_better("slow") == 4
    assert not at_least_floor(0.1)(Figures("higher", 80.0, None, {})).met


def test_either_clause_is_enough_and_both_are_shown() -> None:
    figures = Figures("lower", 0.004, 0.001, {})
    clause = either(at_most(5, "≤ 5 ms", 1e3, " ms"), at_most_floor(2))
    verdict = clause(figures)
    assert verdict.met
    assert verdict.text == "≤ 5 ms or ≤ 2x floor" and verdict.found == "4 ms, 4x"
    assert not either(at_most(3, "≤ 3 ms", 1e3, " ms"), at_most_floor(2))(figures).met


@pytest.mark.parametrize(("found", "met"), [(1.2, True), (1.21, False), (None, False)])
def test_growth_is_judged_by_its_ratio(found: float | None, met: bool) -> None:
    assert ratio("growth ≤ 1.2x", found, 1.2)(Figures("higher", 1.0, None, {})).met is met


def test_a_reason_is_one_line() -> None:
    assert reason(ValueError("first\nsecond")) == "ValueError: first"
    assert reason(KeyError()) == "KeyError"
    assert Measured("peer", (1.0, 2.0), "it broke").shown == "failed: it broke"
