"""docs/tutorial.md: every command on it is run, in its order, and prints what the page shows.

A block of `sh` is run by bash; one titled "second terminal" stays running until the next such block, or the
end. A block with a file's name for a title is written to that file. A block of `text` is what came out: `…`
stands for anything, runs and times for any others, and runs of spaces are one.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lading.watcher.hints import is_possible

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SECOND = "second terminal"


class Block(NamedTuple):
    kind: str
    title: str
    text: str


BLOCKS = [Block(*found) for found in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
INSTALL, *WORK = BLOCKS

MASKS = [
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}"), "RUN"),
    (re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?! *;)"), "TIME"),
    (re.compile(r"^\d{2}:\d{2}:\d{2}", re.MULTILINE), "TIME"),
]


def masked(text: str) -> list[str]:
    for mask, name in MASKS:
        text = mask.sub(name, text)
    lines = [re.sub(r" +", " ", line).strip() for line in text.splitlines() if line.strip()]
    timed = False
    for number, line in enumerate(lines):
        if timed:
            lines[number] = re.sub(r" [0-9.]+$", " SECONDS", line)
        timed = line.endswith(" seconds") or lines[number] != line
    return lines


def shows(page: list[str], printed: list[str]) -> bool:
    """Whether these lines of the page show what was printed."""
    if not page:
        return not printed
    if page[0] == "…":
        return any(shows(page[1:], printed[at:]) for at in range(len(printed) + 1))
    pattern = ".*".join(map(re.escape, page[0].split("…")))
    return bool(printed) and re.fullmatch(pattern, printed[0]) is not None and shows(page[1:], printed[1:])


# `lading plan` exits with 2 when there is something to do.
PLAN_SAYS_2 = 'lading() { command lading "$@" || { local said=$?; [ "$1" = plan ] && [ $said = 2 ]; }; }'


class Terminals:
    """Somebody who follows the page: one terminal for commands that end, another for those that stay."""

    def __init__(self, home: Path) -> None:
        self.home = self.folder = home
        self._told = home / "second.txt"
        self._second: subprocess.Popen[bytes] | None = None
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._env = os.environ | {"HOME": str(home), "PATH": path, "COLUMNS": "200"}

    def run(self, commands: str) -> str:
        """What they print. A `cd` counts for those that follow."""
        after = self.home / "folder.txt"
        script = f"set -e\n{PLAN_SAYS_2}\n{commands}\npwd > {after}\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}"
        self.folder = Path(after.read_text().strip())
        return done.stdout

    def start(self, command: str) -> None:
        self.end()
        # Under pytest-xdist SIGINT is ignored, and what a process ignores, its children do.
        heeds = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        heeds += "os.execvp(sys.argv[1], sys.argv[1:])"
        with self._told.open("wb") as out:
            self._second = subprocess.Popen(
                [sys.executable, "-c", heeds, *command.split()],
                cwd=self.folder,
                env=self._env | {"PYTHONUNBUFFERED": "1"},
                stdout=out,
                stderr=out,
            )
        self.until(lambda told: bool(told))

    def until(self, seen: Callable[[str], bool]) -> str:
        """What the second terminal shows, as soon as it is that."""
        deadline = time.monotonic() + 600
        while not seen(self._told.read_text()):
            assert self._second is not None and self._second.poll() is None, self._told.read_text()
            assert time.monotonic() < deadline, self._told.read_text()
            time.sleep(0.1)
        return self._told.read_text()

    def end(self) -> None:
        """Ctrl-C."""
        if self._second is not None:
            self._second.send_signal(signal.SIGINT)
            assert self._second.wait(120) == 0, self._told.read_text()
            self._second = None

    def kill(self) -> None:
        if self._second is not None:
            self._second.kill()
            self._second.wait()


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    _give_duckdb_its_extensions(tmp_path)
    terminals = Terminals(tmp_path)
    yield terminals
    terminals.kill()


def _give_duckdb_its_extensions(home: Path) -> None:
    """Those that it would fetch; from PyPI they come unsigned, so `~/.duckdbrc` is not enough."""
    import duckdb

    (system,) = duckdb.sql("pragma platform").fetchone() or ()
    folder = home / ".duckdb" / "extensions" / f"v{duckdb.__version__}" / system
    folder.mkdir(parents=True)
    for name in ("avro", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{name}")
        [file] = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
        shutil.copy(file, folder)


def test_what_the_page_installs_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (asked,) = re.findall(r"pip install '\.\[([a-z,]+)\]'", INSTALL.text)
    assert set(asked.split(",")) <= extras.keys()


@pytest.mark.skipif(not os.environ.get("LADING_SOAK"), reason="takes minutes: make soak")
def test_it_installs(terminals):
    terminals.folder = ROOT
    terminals.run(INSTALL.text + "lading --version")


@pytest.mark.skipif(not is_possible(), reason="watchfiles is not installed")
@pytest.mark.timeout(3600)  # a Spark is started twice
def test_every_command_does_what_the_page_shows(terminals):
    printed = ""
    for kind, title, text in WORK:
        if kind == "sh" and title == SECOND:
            terminals.start(text.strip())
        elif kind == "sh":
            printed = terminals.run(text)
        elif kind == "text" and title == SECOND:
            wanted = masked(text)
            printed = terminals.until(lambda told, wanted=wanted: shows(wanted, masked(told)))
        elif kind == "text":
            assert shows(masked(text), masked(printed)), f"the page shows\n{text}\nand this came\n{printed}"
        else:
            (terminals.folder / title).write_text(text)
    address = re.search(r"(http://\S+)/\?token=(\S+)", printed)
    assert address is not None, "the page ends with `lading ui`"
    overview = urllib.request.Request(address[1], headers={"Authorization": f"Bearer {address[2]}"})
    with urllib.request.urlopen(overview, timeout=30) as answer:
        assert "tonnage" in answer.read().decode()
    terminals.end()


def test_a_page_that_shows_something_else_is_noticed():
    printed = masked("table  rows  seconds\ncalls     8     0.31\n\nreaders see 20260401-080112-73c8c474")
    assert shows(masked("table rows seconds\ncalls 8 12.5\n…\nreaders … 20270401-080112-73c8c474"), printed)
    assert shows(["…"], printed) and shows(["…"], [])
    assert not shows(masked("table rows seconds\ncalls 9 0.31\n…"), printed)
    assert not shows(masked("table rows seconds\ncalls 8 0.31"), printed)
    assert not shows([], printed)
