"""Hints, the clock and runs together; without Spark."""

import os
import threading
import time

import pytest
from support.watched import CONFIG, Ticking, WatchedProject

from lading.errors import Conflict, Unexpected
from lading.run import RunReport, TableReport, run
from lading.watcher.events import Event
from lading.watcher.hints import is_possible
from lading.watcher.loop import Options, Watcher


@pytest.fixture
def project(tmp_path):
    project = WatchedProject(tmp_path / "project")
    project.put("data/one.csv", (1, "x"))
    project.put("other/one.csv", (7, "y"))
    return project


def test_first_a_run_then_one_for_what_was_heard(project):
    ticking = Ticking(project)
    ticking.until(1)
    assert ticking.runs() == [("a", None), ("b", None)]
    assert project.rows() == [(1, "x", "one.csv")]
    project.put("data/two.csv", (2, "y"))
    ticking.hint("two.csv")
    ticking.until(1)
    assert ticking.runs() == [("a", 1)]
    assert project.rows() == [(1, "x", "one.csv"), (2, "y", "two.csv")]
    os.remove(project.folder / "data" / "one.csv")
    project.put("data/two.csv", (2, "changed"))
    ticking.hint("one.csv", "two.csv")
    ticking.until(1)
    assert ticking.runs() == [("a", 2)]
    assert project.rows() == [(2, "changed", "two.csv")]


def test_a_listing_finds_what_nobody_told_of_and_brings_the_manifests_up_to_the_log(project):
    ticking = Ticking(project, every=60.0)
    ticking.until(1)
    manifest = project.config.source_manifest("a")
    project.put("data/two.csv", (2, "y"))
    ticking.hint("two.csv")
    ticking.until(1)
    assert "two.csv" not in manifest.read_text(), "left to the next listing"
    project.put("data/three.csv", (3, "z"))
    ticking.until(60)
    assert [row[0] for row in project.rows()] == [1, 2, 3]
    assert "two.csv" in manifest.read_text() and "three.csv" in manifest.read_text()
    assert ticking.runs()[-2:] == [("a", None), ("b", None)]


def test_a_wrong_hint_changes_nothing(project):
    ticking = Ticking(project)
    ticking.until(1)
    before = (project.folder / "warehouse" / "a" / "_CURRENT").read_bytes()
    ticking.runs()
    ticking.hint("one.csv", "never-was.csv", "not/../there.csv", "one.csv")
    ticking.until(1)
    assert (project.folder / "warehouse" / "a" / "_CURRENT").read_bytes() == before


def test_one_table_fails_and_the_others_go_on(project):
    ticking = Ticking(project, every=1000.0)
    ticking.until(1)
    bad = project.folder / "data" / "bad.csv"
    bad.write_text("id,note\nnot a number,x\n")
    os.utime(bad, (1_500_000_000, 1_500_000_000))
    ticking.hint("bad.csv")
    ticking.until(0.5)
    failed = [one for one in ticking.events if one.kind == "run failed"]
    assert len(failed) == 1 and failed[0].table == "a" and failed[0].fields["again_in"] == 1.0
    project.put("other/two.csv", (8, "z"))
    ticking.hint("two.csv", table="b")
    ticking.until(0.1)
    assert [row[0] for row in project.rows("b")] == [7, 8]
    ticking.runs()
    ticking.until(8)
    assert ticking.runs() == [("a", None)] * 3, "after 1, 2 and 4 seconds"
    project.put("data/bad.csv", (2, "mended"))
    ticking.hint("bad.csv")
    ticking.until(0.1)
    assert [row[0] for row in project.rows()] == [1, 2]


def test_a_new_config_counts_and_a_broken_one_does_not(project):
    ticking = Ticking(project)
    ticking.until(1)
    watcher = ticking.watcher
    watcher._stamp = None
    (project.folder / "lading.yaml").write_text("tables: [")
    assert not watcher._config_changed()
    assert ticking.events[-1].kind == "config" and "error" in ticking.events[-1].fields
    (project.folder / "lading.yaml").write_text(
        CONFIG.replace("  b:", "  c:").replace("root: other", "root: other")
    )
    (project.folder / "schema" / "b.yaml").rename(project.folder / "schema" / "c.yaml")
    assert watcher._config_changed() and watcher.tables == ("a", "c")
    ticking.until(0.1)
    assert ("c", None) in ticking.runs()


def test_a_listener_that_raises_is_nobody_elses_trouble_and_the_others_are_told(project):
    heard: list[Event] = []
    ticking = Ticking(project)

    def broken(event: Event) -> None:
        raise RuntimeError("no screen for token=abc123")

    ticking.watcher.tell.listen(broken)
    end = ticking.watcher.tell.listen(heard.append)
    ticking.until(1)
    assert "run finished" in [event.kind for event in heard]
    warnings = [event.fields["said"] for event in heard if event.kind == "warning"]
    assert len(warnings) == 1, "it is told no more, so it fails no more"
    assert "broken, failed and is told no more: RuntimeError: no screen" in warnings[0]
    assert "abc123" not in warnings[0]
    end()
    count = len(heard)
    ticking.hint("one.csv")
    ticking.until(1)
    assert len(heard) == count


def test_spark_that_died_is_started_anew_at_once(project, monkeypatch):
    ended = [True]
    let_go: list[int] = []
    monkeypatch.setattr("lading.spark.session.is_dead", lambda: ended[0])
    monkeypatch.setattr("lading.spark.session.let_go", lambda: let_go.append(1))
    ticking = Ticking(project)

    def dies_once(config, names, **options):
        if ended[0]:
            raise Unexpected("An error occurred while calling o49.sc", hint="please report it")
        return run(config, names, **options)

    ticking.watcher.runs = dies_once
    ticking.until(0)
    failed = [one.fields["error"] for one in ticking.events if one.kind == "run failed"]
    assert {(one.kind, one.table) for one in failed} == {("PipelineError", "a"), ("PipelineError", "b")}
    assert all("Spark ended by itself" in one.message and "spark.log" in one.hint for one in failed)
    assert ticking.runs()[:2] == [("a", None), ("b", None)]
    assert len(let_go) == 4 and project.rows() == [], "each table once more at once, then after a pause"
    ended[0] = False
    ticking.until(2.1)
    assert project.rows() == [(1, "x", "one.csv")]


def test_spark_is_let_go_when_nothing_happens(project, monkeypatch):
    let_go: list[float] = []
    ticking = Ticking(project, idle=30.0, every=1000.0)
    monkeypatch.setattr("lading.spark.session.is_started", lambda: not let_go)
    monkeypatch.setattr("lading.spark.session.let_go", lambda: let_go.append(ticking.now))
    ticking.until(29)
    assert let_go == []
    ticking.until(2)
    assert len(let_go) == 1


def test_files_that_nobody_tells_of_are_left_while_they_are_written(project):
    """As on a network file system, where there are only listings."""
    ticking = Ticking(project)
    (project.folder / "data" / "growing.csv").write_text("id,note\n5,half")
    ticking.until(0.1)
    assert ("a", None) not in ticking.runs()
    time.sleep(0.25)
    ticking.until(0.5)
    assert ("a", None) in ticking.runs()
    assert [row[0] for row in project.rows()] == [1, 5]


def test_what_is_made_of_a_table_follows_it(project):
    made = "  c: {from: {a: {by: id}}, sql: 'select id, note from a'}\n"
    (project.folder / "lading.yaml").write_text(CONFIG + made)
    ticking = Ticking(project, every=1000.0)
    told: list[tuple[str, bool, bool]] = []

    def stands_in(config, names, *, only, near, **options):
        published = near is not None
        told.append((names[0], only, published))
        return RunReport("r", False, (TableReport(names[0], {}, published=published),))

    ticking.watcher.runs = stands_in
    ticking.until(1)
    assert [name for name, _, _ in told] == ["a", "b", "c"] and all(only for _, only, _ in told)
    told.clear()
    ticking.hint("one.csv", table="b")
    ticking.until(1)
    assert [name for name, _, _ in told] == ["b"]
    ticking.hint("one.csv", table="a")
    ticking.until(1)
    assert [name for name, _, _ in told][1:] == ["a", "c"]


MADE = "  c: {from: {a: {by: id}}, sql: 'select id, note from a'}\n"
SERVED = CONFIG.replace("order_by: id}", "order_by: id, serve: {key: id, shards: 1}}", 1)


@pytest.mark.parametrize(
    ("config", "times"),
    [(CONFIG, 0), (CONFIG.partition("\n")[2], 1), (CONFIG + MADE, 1), (SERVED, 1)],
    ids=["small files", "all on Spark", "a query", "shards"],
)
def test_spark_is_started_ahead_once_unless_small_files_are_read_without(project, monkeypatch, config, times):
    started: list[int] = []
    monkeypatch.setattr("lading.spark.tasks.warm_up", lambda *spark: started.append(1))
    monkeypatch.setattr("lading.spark.session.is_started", lambda: False)
    (project.folder / "lading.yaml").write_text(config)
    watcher = Watcher(project.config)
    watcher._warm_up()
    watcher._warm_up()
    assert len(started) == times


@pytest.mark.skipif(not is_possible(), reason="watchfiles is not installed")
def test_a_real_watcher_hears_runs_and_stops(project):
    watcher = Watcher(project.config, options=Options(every=30.0))
    moved, begun = threading.Event(), threading.Event()

    def heard(event: Event) -> None:
        if event.kind == "run finished" and event.table == "b":
            begun.set()
        if event.kind == "run finished" and begun.is_set() and event.table == "a":
            moved.set()

    watcher.tell.listen(heard)
    thread = threading.Thread(target=watcher.watch)
    thread.start()
    try:
        assert begun.wait(30)
        with pytest.raises(Conflict):
            Watcher(project.config).watch()
        assert run(project.config).error is None, "runs by hand go on beside it"
        project.put("ready.csv", (2, "y"))
        os.rename(project.folder / "ready.csv", project.folder / "data" / "two.csv")
        assert moved.wait(30)
        assert [row[0] for row in project.rows()] == [1, 2]
    finally:
        watcher.stop()
        thread.join(30)
    assert not thread.is_alive()
