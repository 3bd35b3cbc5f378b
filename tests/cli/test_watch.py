"""`lading watch` as a process: what it prints, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.watched import WatchedProject

from lading.cli.main import invoke
from lading.watcher.hints import is_possible

pytestmark = pytest.mark.skipif(not is_possible(), reason="watchfiles is not installed")


@pytest.fixture
def project(tmp_path: Path) -> WatchedProject:
    project = WatchedProject(tmp_path / "project")
    project.put("data/one.csv", (1, "x"))
    return project


class Process:
    def __init__(self, project: WatchedProject, *args: str) -> None:
        code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        code += "from lading.cli.main import main; main()"
        command = [sys.executable, "-c", code, "-C", str(project.folder), "watch", "--json", *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.events: list[dict[str, object]] = []

    def until(self, event: str, table: str | None = None) -> dict[str, object]:
        assert self.process.stdout is not None
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            line = self.process.stdout.readline()
            assert line, f"it ended: {self.process.stderr.read() if self.process.stderr else ''}"
            told = json.loads(line)
            self.events.append(told)
            if told["event"] == event and table in (None, told.get("table")):
                return told
        raise AssertionError(f"no {event}")

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        self.events += [json.loads(line) for line in out.splitlines()]
        self.err = err
        return self.process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_events_are_lines_and_a_signal_ends_it_well(project, number):
    watch = Process(project)
    try:
        assert watch.until("started")["tables"] == ["a", "b"]
        assert watch.until("run finished", "a")["rows"] == 1
        watch.until("run finished", "b")
        project.put("ready.csv", (2, "y"))
        os.rename(project.folder / "ready.csv", project.folder / "data" / "two.csv")
        report = watch.until("run finished", "a")
        assert (report["rows_added"], report["published"]) == (1, True)
        assert invoke(["-C", str(project.folder), "run", "--json"]) == 0, "a run by hand beside it"
        assert invoke(["-C", str(project.folder), "watch"]) != 0, "but no second watcher"
        assert watch.end(number) == 0, watch.err
    finally:
        watch.process.kill()
        watch.process.wait()
    assert [one["event"] for one in watch.events][-2:] == ["stopping", "stopped"]
    assert [row[0] for row in project.rows()] == [1, 2]


def test_a_spell_of_wrong_options_is_told(project, capsys):
    for option in ("--every", "--settle", "--idle"):
        assert invoke(["-C", str(project.folder), "watch", option, "soon"]) == 3
        assert f"{option} 'soon' is not a time span" in capsys.readouterr().err
