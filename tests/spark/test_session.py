"""The session: one a process, strict where it must be, and absent with a hint when Spark isn't there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from lading.errors import ConfigError
from lading.spark import session


def test_the_process_has_one_session(spark, tmp_path):
    assert session.is_started()
    assert session.spark_session("local[7]", {}, tmp_path) is spark
    assert list(tmp_path.iterdir()) == []


def test_what_correctness_rests_on_is_set(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.caseSensitive") == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # a user's own setting


def test_a_setting_that_would_break_a_promise_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(session, "_session", None)
    with pytest.raises(ConfigError, match="timeZone") as raised:
        session.spark_session("local[1]", {"spark.sql.session.timeZone": "Europe/Berlin"}, tmp_path)
    assert "remove" in raised.value.hint


def test_a_session_that_somebody_else_started_keeps_its_settings(spark, monkeypatch, tmp_path):
    monkeypatch.setattr(session, "_session", None)
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.caseSensitive", "false")
    monkeypatch.setattr(type(spark), "getActiveSession", lambda: theirs)
    ours = session.spark_session("local[1]", {}, tmp_path)
    assert ours.conf.get("spark.sql.caseSensitive") == "true"
    assert theirs.conf.get("spark.sql.caseSensitive") == "false"


@pytest.mark.parametrize(
    ("theirs", "here"), [("local[*]", True), ("spark://host:7077", False), ("yarn", False), (None, False)]
)
def test_tasks_run_here_or_elsewhere_as_the_session_that_there_is(spark, monkeypatch, theirs, here):
    """A session without a context is a Spark Connect client's."""
    assert session.runs_here("spark://host:7077"), "there is a local session already"
    monkeypatch.setattr(session, "_session", None)
    active = SimpleNamespace(_sc=SimpleNamespace(master=theirs)) if theirs else SimpleNamespace()
    monkeypatch.setattr(type(spark), "getActiveSession", lambda: active)
    assert session.runs_here("local[2]") is here
    monkeypatch.setattr(type(spark), "getActiveSession", lambda: None)
    assert session.runs_here("local[2]") and not session.runs_here("sc://host:15002")


def test_without_pyspark_the_extra_is_named(tmp_path):
    code = (
        "import sys; sys.modules['pyspark'] = None; sys.modules['pyspark.errors'] = None\n"
        "from pathlib import Path; from lading.errors import MissingExtra\n"
        "from lading.spark.session import spark_session, is_started\n"
        "try: spark_session('local[1]', {}, Path(sys.argv[1]))\n"
        "except MissingExtra as error: print(error.hint, is_started())\n"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert answer.stdout.strip() == "pip install 'lading[spark]' False", answer.stderr


def test_a_session_that_cannot_start_says_where_to_look(tmp_path):
    code = (
        "import sys; from pathlib import Path; from lading.errors import PipelineError\n"
        "from lading.spark.session import spark_session\n"
        "conf = {'spark.driver.extraJavaOptions': '--add-modules=no.such.module'}\n"
        "try: spark_session('local[1]', conf, Path(sys.argv[1]))\n"
        "except PipelineError as error: print(error.hint)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert answer.stdout.strip().endswith("spark.log"), answer.stderr
    assert "no.such.module" in (tmp_path / "spark" / "spark.log").read_text()


def test_a_start_that_is_interrupted_leaves_no_process_behind(tmp_path):
    """As Ctrl-C does while Spark starts: what PySpark has begun by then would stay for ever. Tests that were
    started in the background ignore SIGINT, and so would what they start."""
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\ncd "{tmp_path}" && echo $$ > new && mv new pid && exec sleep 600 >&- 2>&-\n'
    )
    script.chmod(0o755)
    code = (
        "import os, signal, sys, threading, time; from pathlib import Path\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from lading.spark.session import spark_session\n"
        "pid = Path(sys.argv[1], 'pid')\n"
        "def interrupt():\n"
        "    while not pid.exists(): time.sleep(0.05)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        "try: spark_session('local[1]', {}, Path(sys.argv[1]))\n"
        "except KeyboardInterrupt: print(pid.read_text())\n"
    )
    environment = {**os.environ, "SPARK_HOME": str(tmp_path)}
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=environment
    )
    pid = int(answer.stdout.split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
