"""Ctrl-C while Spark works: the process ends soon, with one sentence and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from support.project import Project

from lading.errors import PipelineError
from lading.spark.failures import Py4JError, raise_interrupt
from lading.spark.job_settings import held_settings

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


# Whoever starts tests in the background may have told them to ignore Ctrl-C, and children inherit that.
COMMAND = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
COMMAND += "from lading.cli.main import main; main()"


# As a terminal does it, to the JVM and its workers too; and as `kill -INT` does, while the job goes on.
@pytest.mark.parametrize("end", [os.killpg, os.kill], ids=["all processes", "the first alone"])
def test_ctrl_c_in_the_middle_of_a_spark_job_is_one_sentence(tmp_path, end):
    project = Project(tmp_path / "project")
    project.put("a.csv", [(1, 1, "x")], age=1000)
    flag = tmp_path / "started"
    (project.folder / "transform.py").write_text(TRANSFORM.format(flag=str(flag)))
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "-C", str(project.folder), "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for = time.monotonic() + 240
    while not flag.exists() and process.poll() is None and time.monotonic() < wait_for:
        time.sleep(0.1)
    assert flag.exists(), process.communicate()[1][-2000:]
    end(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines() == [
        "error: interrupted",
        "hint: nothing is lost; the next `lading run` picks up where this one stopped",
    ]
    assert not list((project.folder / ".lading_cache").glob("at_work/*"))
    assert not (project.table / "_CURRENT").exists()


def test_an_interrupt_is_one_even_if_tidying_up_behind_it_fails():
    """As PySpark does it: it calls the JVM again on its way out, and the JVM may be gone."""
    with pytest.raises(KeyboardInterrupt):
        try:
            try:
                raise KeyboardInterrupt
            finally:
                raise Py4JError("Answer from Java side is empty")
        except Py4JError as error:
            raise_interrupt(error)
    with pytest.raises(PipelineError):
        try:
            raise Py4JError("the job failed")
        except Py4JError as error:
            raise_interrupt(error)
            raise PipelineError("it failed", hint="look") from error


def test_settings_are_not_put_back_through_a_jvm_that_an_interrupt_left_busy():
    class Conf:
        def get(self, name, default):
            return "before"

        def set(self, name, value):
            asked.append(value)

    asked: list[str] = []
    spark = SimpleNamespace(conf=Conf())
    for hidden in (False, True):
        with pytest.raises((KeyboardInterrupt, Py4JError)), held_settings(spark, {"a": "during"}):
            try:
                raise KeyboardInterrupt
            finally:
                if hidden:
                    raise Py4JError("Answer from Java side is empty")
    assert asked == ["during"] * 2
    with pytest.raises(Py4JError), held_settings(spark, {"a": "during"}):
        raise Py4JError("the job failed")
    assert asked == ["during"] * 3 + ["before"]
