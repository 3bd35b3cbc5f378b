"""A Spark driver in a process of its own that runs one command of lading after the other, in one session.

Tests have a session of their own, and starting one costs seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Commands come in and answers go out as lines of JSON. `settings` are module attributes to set beforehand:
# tasks are cut for gigabytes, and a few rows are to be several tasks too.
_SCRIPT = """\
import contextlib, importlib, io, json, sys
from lading.cli.main import invoke

answers = sys.stdout
for name, value in json.loads(sys.argv[1]).items():
    module, _, attribute = name.rpartition(".")
    setattr(importlib.import_module(module), attribute, tuple(value) if isinstance(value, list) else value)
for line in sys.stdin:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = invoke(json.loads(line))
    answers.write(json.dumps([code, out.getvalue()]) + "\\n")
    answers.flush()
"""


class Driver:
    """`run` waits for the answer, which is JSON; `ask` and `answer` are its two halves."""

    def __init__(self, project: Path, settings: Mapping[str, object] | None = None) -> None:
        self._project = project
        self.said: list[str] = []
        self.errors = project.parent / "driver.log"
        with open(self.errors, "ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SCRIPT, json.dumps(dict(settings or {}))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    def run(self, *command: str, code: int = 0) -> Any:
        """What a command says, which is to end with this code."""
        self.ask(*command)
        return self.answer(code)

    def ask(self, *command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(["-C", str(self._project), *command, "--json"]) + "\n")
        self._process.stdin.flush()

    def answer(self, code: int = 0) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.errors.read_text()[-3000:]
        ended, said = json.loads(line)
        self.said.append(said)
        assert ended == code, said or self.errors.read_text()[-3000:]
        return json.loads(said)

    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
