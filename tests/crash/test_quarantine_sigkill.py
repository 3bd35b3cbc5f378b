"""A real run, killed for real between writing what it set aside and committing it."""

from __future__ import annotations

import signal
import subprocess
import sys

from support.checked import Checked

from lading.ingest.quarantine import list_aside

CHILD = """
import os, signal, sys
from pathlib import Path
from lading.config.file import load as load_config
from lading.run import run
from lading.watch import Watch

class Kill(Watch):
    def phase(self, table, name):
        if name == "commit":
            os.kill(os.getpid(), signal.SIGKILL)

run(load_config(Path(sys.argv[1])), watch=Kill())
"""


def test_what_was_set_aside_and_not_committed_is_set_aside_by_the_next_run(tmp_path, spark):
    ships = Checked(tmp_path / "p", "on_bad: quarantine\nchecks:\n  - not_null: port")
    ships.put("a.csv", "1,1,oslo", "x,1,oslo")
    ships.good()
    ships.put("a.csv", "1,1,oslo", "2,1,")
    ships.put("b.csv", "1", header="id")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(ships.folder)],
        capture_output=True,
        timeout=300,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2000:]
    assert len(ships.aside_files()) == 3, "the old one, and two that nobody took up"
    assert [row["text"] for row in ships.aside()] == ["x,1,oslo"], "the commit before it stands"
    ships.good()
    assert [(row["file"], row["text"]) for row in ships.aside()] == [("a.csv", "2,1,"), ("b.csv", None)]
    assert [one.file for one in list_aside(ships.config, "ships")] == ["a.csv", "b.csv"]
    assert list(ships.rows()) == [(1, 1.0, "oslo", "a.csv")]
