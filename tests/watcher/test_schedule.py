"""Hints and a clock go in, runs come out."""

from lading.watcher.schedule import Due, Schedule, Seen

ALL = None


def fresh(*tables: str, every: float = 60, settle: float = 0.2, at: float = 0, most: int = 3) -> Schedule:
    """A schedule whose first runs are done."""
    schedule = Schedule(tables or ("a",), every=every, settle=settle, at=at, most=most)
    for due in schedule.due(at):
        schedule.finished(due, failed=False, at=at)
    return schedule


def of(*keys: str, table: str = "a") -> Due:
    return Due(table, frozenset(keys))


def test_the_first_run_looks_at_all_tables():
    schedule = Schedule(("a", "b"), every=60, settle=0.2, at=5)
    assert schedule.wake_at() == 5
    assert schedule.due(5) == [Due("a", ALL), Due("b", ALL)]
    assert schedule.due(5) == [], "what was begun is not begun again"


def test_a_listing_comes_round_whatever_was_heard():
    schedule = fresh(every=60)
    assert schedule.wake_at() == 60
    assert schedule.due(59.9) == []
    assert schedule.due(60) == [Due("a", ALL)]
    assert schedule.wake_at() == 120


def test_a_file_put_in_place_whole_counts_at_once():
    schedule = fresh()
    schedule.heard("a", "x.csv", Seen(10, 1, placed=True), 1)
    assert schedule.wake_at() == float("-inf")
    assert schedule.due(1) == [of("x.csv")]


def test_a_file_that_is_gone_counts_at_once():
    schedule = fresh()
    schedule.heard("a", "x.csv", None, 1)
    assert schedule.due(1) == [of("x.csv")]


def test_a_file_being_written_is_left_until_it_is_quiet():
    schedule = fresh(settle=0.2)
    schedule.heard("a", "x.csv", Seen(10, 1), 1.0)
    assert schedule.due(1.1) == [] and schedule.to_ask(1.1) == []
    schedule.heard("a", "x.csv", Seen(20, 2), 1.1)
    assert schedule.wake_at() == 1.3
    assert schedule.to_ask(1.25) == [], "the clock starts again with every change"
    assert schedule.to_ask(1.3) == [("a", "x.csv")]
    schedule.heard("a", "x.csv", Seen(30, 3), 1.3)
    assert schedule.due(1.3) == [], "it had changed without a hint"
    schedule.heard("a", "x.csv", Seen(30, 3), 1.5)
    assert schedule.due(1.5) == [of("x.csv")]


def test_a_doubled_hint_starts_no_clock_anew():
    schedule = fresh(settle=0.2)
    for at in (1.0, 1.05, 1.1, 1.15):
        schedule.heard("a", "x.csv", Seen(10, 1), at)
    assert schedule.to_ask(1.2) == [("a", "x.csv")]


def test_a_burst_is_one_run_and_a_large_one_a_listing():
    schedule = fresh(most=3)
    for number in range(3):
        schedule.heard("a", f"{number}.csv", Seen(1, 1, placed=True), 1)
    assert schedule.due(1) == [of("0.csv", "1.csv", "2.csv")]
    for number in range(4):
        schedule.heard("a", f"{number}.csv", Seen(1, 1, placed=True), 2)
    assert schedule.due(2) == [Due("a", ALL)]
    assert schedule.due(2) == []


def test_a_listing_waits_for_a_file_that_is_being_written_but_not_for_ever():
    schedule = fresh(every=60, settle=0.2)
    schedule.heard("a", "x.csv", Seen(1, 1), 59.9)
    assert schedule.due(60) == []
    size = 1
    at = 60.0
    while at < 120:  # somebody writes on and on
        size += 1
        schedule.heard("a", "x.csv", Seen(size, size), at)
        assert schedule.due(at) == []
        at += 0.1
    assert schedule.due(at) == [Due("a", ALL)]


def test_lost_hints_are_a_listing():
    schedule = fresh("a", "b")
    schedule.heard_of_all("b", 3)
    assert schedule.wake_at() == 3
    assert schedule.due(3) == [Due("b", ALL)]


def test_what_is_heard_during_a_listing_is_listed_again():
    schedule = fresh(every=60)
    (due,) = schedule.due(60)
    schedule.heard_of_all("a", 61)
    schedule.finished(due, failed=False, at=65)
    assert schedule.due(65) == [Due("a", ALL)]


def test_a_failing_table_is_tried_again_after_growing_pauses_and_others_go_on():
    schedule = fresh("a", "b", every=10_000)
    schedule.heard("a", "x.csv", None, 1)
    (due,) = schedule.due(1)
    at, pauses = 1.0, []
    for _ in range(11):
        pause = schedule.finished(due, failed=True, at=at)
        assert pause is not None
        pauses.append(pause)
        assert schedule.due(at + pause / 2) == []
        at += pause
        (due,) = schedule.due(at)
        assert due == Due("a", ALL), "whatever failed, the next try looks at all files"
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    schedule.heard("b", "y.csv", None, at)
    assert schedule.due(at) == [of("y.csv", table="b")]
    assert schedule.finished(due, failed=False, at=at) is None
    schedule.heard("a", "x.csv", None, at + 1)
    assert schedule.due(at + 1) == [of("x.csv")], "all is well again"


def test_news_of_a_failing_table_is_tried_at_once():
    schedule = fresh(every=1000)
    schedule.heard("a", "x.csv", None, 1)
    (due,) = schedule.due(1)
    schedule.finished(due, failed=True, at=1)
    schedule.heard("a", "x.csv", Seen(1, 1, placed=True), 1.1)
    assert schedule.wake_at() == float("-inf")
    assert schedule.due(1.1) == [Due("a", ALL)]


def test_tables_come_and_go_with_the_config():
    schedule = fresh("a", "b")
    schedule.keep(["b", "c"], 7)
    assert schedule.tables == ("b", "c")
    assert schedule.due(7) == [Due("c", ALL)]
    schedule.heard("a", "x.csv", None, 8)
    schedule.heard_of_all("a", 8)
    assert schedule.finished(Due("a", ALL), failed=True, at=8) is None
    assert schedule.due(8) == []


def test_without_tables_nothing_is_ever_due():
    schedule = Schedule((), every=60, settle=0.2, at=0)
    assert schedule.due(100) == [] and schedule.wake_at() == float("inf")
