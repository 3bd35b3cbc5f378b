"""Progress on a terminal only, and a log that never stops a run."""

import io
import json
import sys

from lading.cli.terminal.failures import print_error
from lading.cli.terminal.screen import plain, show_table
from lading.cli.terminal.watching import TerminalWatch, terminal_watch
from lading.errors import ConfigError, SourceError
from lading.signals.log import JsonLog, LogWatch, log_exception
from lading.watch import Watch, Watches
from lading.words import byte_words, verdict_words


def log_lines(project):
    return [json.loads(line) for line in (project / "logs" / "lading.jsonl").read_text().splitlines()]


def test_phases_are_logged_with_how_long_the_one_before_took(tmp_path):
    watch = LogWatch(JsonLog(tmp_path))
    watch.phase("voyages", "plan")
    watch.progress("voyages", "files", 3, 10)
    watch.phase("voyages", "ingest")
    first, second = log_lines(tmp_path)
    assert (first["event"], first["table"], first["phase"]) == ("phase", "voyages", "plan")
    assert (second["phase"], second["after"]) == ("ingest", "plan")
    assert second["seconds"] >= 0
    assert first["at"].endswith("+00:00")


def test_a_log_that_cannot_be_written_warns_once_and_stops_nothing(tmp_path, capsys):
    (tmp_path / "logs").write_text("a file where the folder should be")
    log = JsonLog(tmp_path)
    assert log.write("a") is False
    assert log.write("b") is False
    assert capsys.readouterr().err.count("warning: can't write") == 1
    assert log_exception(tmp_path, ValueError("x")) is None


def test_no_terminal_no_progress(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with terminal_watch() as watch:
        watch.phase("voyages", "ingest")
        watch.progress("voyages", "stage", 1, 2)
    assert type(watch) is Watch
    assert sys.stderr.getvalue() == ""


def test_what_is_quick_shows_nothing_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with terminal_watch() as watch:
        watch.phase("voyages", "plan")
    assert type(watch) is TerminalWatch
    assert sys.stderr.getvalue().strip() == ""


def test_progress_says_table_phase_and_count(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    watch = TerminalWatch()
    watch.phase("voyages", "ingest")
    watch.progress("voyages", "files found", 1200)
    watch.show()
    try:
        (task,) = watch.shown.tasks
        assert task.description == "voyages: ingest · files found 1,200", "what was said before it was shown"
        watch.progress("voyages", "Spark stage", 3, 10)
        assert (task.completed, task.total) == (3, 10)
    finally:
        watch.hide()


def test_several_watches_hear_the_same(tmp_path):
    log = LogWatch(JsonLog(tmp_path))
    Watches(Watch(), log).phase("ships", "commit")
    assert [line["phase"] for line in log_lines(tmp_path)] == ["commit"]


def test_progress_is_asked_for_only_if_somebody_hears_of_it(tmp_path):
    log = LogWatch(JsonLog(tmp_path))
    shown = TerminalWatch()
    assert not Watches(Watch(), log).counts
    assert Watches(log, shown).counts


def test_words_for_people():
    assert verdict_words({"new": 2, "changed": 0, "unchanged": 1200}) == "2 new, 1,200 unchanged"
    assert verdict_words({}) == "no files"
    assert [byte_words(n) for n in (0, 999, 1000, 12_345_678)] == ["0 B", "999 B", "1.0 kB", "12.3 MB"]
    assert plain("a\x1b[31m\r") == "a\\x1b[31m\\r"


def test_a_line_end_in_a_file_name_is_shown_and_not_made(capsys):
    print_error(SourceError("a\nb.csv can't be read", hint="rename a\nb.csv", file="a\nb.csv"))
    show_table(("file",), [("a\nb\x9b.csv",)])
    said = capsys.readouterr()
    assert said.err == "error: a\\nb.csv can't be read\nhint: rename a\\nb.csv\n"
    assert "a\\nb\\x9b.csv" in said.out
    print_error(ConfigError("lading.yaml:1: x\nlading.yaml:2: y"))
    assert capsys.readouterr().err == "error: lading.yaml:1: x\nlading.yaml:2: y\n", "one fault a line"


def test_a_table_fits_the_screen_and_loses_nothing(capsys, monkeypatch):
    monkeypatch.setattr("lading.cli.terminal.screen._WIDE", 20)
    show_table(("key", "rows"), [("a" * 25, 1200), ("東京", None)], right=("rows",))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "key             rows",
        "aaaaaaaaaaaaa  1,200",
        "aaaaaaaaaaaa",
        "東京",
    ]
