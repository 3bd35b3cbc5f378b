"""Ctrl-C while Spark works: the process ends soon, with one sentence and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from support.project import Project

TRANSFORM = """
import time
from pathlib import Path

def apply(df, context):
    def rows(batches):
        for batch in batches:
            Path({flag!r}).touch()
            time.sleep(300)
            yield batch
    return df.mapInArrow(rows, df.schema)
"""


# As a terminal does it, to the JVM and its workers too; and as `kill -INT` does, while the job goes on.
@pytest.mark.parametrize("end", [os.killpg, os.kill], ids=["all processes", "the first alone"])
def test_ctrl_c_in_the_middle_of_a_spark_job_is_one_sentence(tmp_path, end):
    project = Project(tmp_path / "project")
    project.put("a.csv", [(1, 1, "x")], age=1000)
    flag = tmp_path / "started"
    (project.folder / "transform.py").write_text(TRANSFORM.format(flag=str(flag)))
    process = subprocess.Popen(
        [sys.executable, "-c", "from lading.cli.main import main; main()", "-C", str(project.folder), "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )
    wait_for = time.monotonic() + 240
    while not flag.exists() and process.poll() is None and time.monotonic() < wait_for:
        time.sleep(0.1)
    assert flag.exists(), process.communicate()[1][-2000:]
    end(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines() == [
        "error: interrupted",
        "hint: nothing is lost: the next `lading run` completes what was begun",
    ]
    assert not list((project.folder / ".lading_cache").glob("staging/*"))
    assert not (project.table / "_CURRENT").exists()
