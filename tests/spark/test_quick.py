"""A class archive makes Java start sooner; without one, or with a broken one, it starts all the same."""

import subprocess
import sys

import pytest

from lading.spark.java import found_java, java_environment
from lading.spark.quick import OPTIONS_VARIABLE, SWITCH, TRAINING, archive_at, forget_archive, quick_options


@pytest.fixture
def archives(monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.delenv(TRAINING, raising=False)


def test_the_archive_is_used_if_there_is_one(tmp_path, archives):
    java, _ = found_java()
    assert not any("Archive" in one for one in quick_options(tmp_path, java))
    archive_at(tmp_path, java).write_bytes(b"x")
    assert f"-XX:SharedArchiveFile={archive_at(tmp_path, java)}" in quick_options(tmp_path, java)
    assert "-Xshare:auto" in quick_options(tmp_path, java), "or Java would refuse to start without it"
    assert forget_archive(tmp_path) and not forget_archive(tmp_path)


def test_none_is_used_where_it_is_off_or_can_t_be_named(tmp_path, archives, monkeypatch):
    java, _ = found_java()
    odd = tmp_path / "with blank"
    odd.mkdir()
    archive_at(odd, java).write_bytes(b"x")
    assert not any("Archive" in one for one in quick_options(odd, java))
    archive_at(tmp_path, java).write_bytes(b"x")
    monkeypatch.setenv(SWITCH, "off")
    assert not any("Archive" in one for one in quick_options(tmp_path, java))


def test_another_java_or_another_spark_has_another_archive(tmp_path):
    java, _ = found_java()
    assert archive_at(tmp_path, java) != archive_at(tmp_path, tmp_path / "java")


def test_java_starts_with_an_archive_that_is_broken(tmp_path, archives):
    java, _ = found_java()
    home = tmp_path / "java"
    home.mkdir()
    archive_at(home, java).write_bytes(b"\0" * 5_000)
    options = java_environment(tmp_path)[OPTIONS_VARIABLE].split()
    assert any("SharedArchiveFile" in one for one in options)
    assert subprocess.run([str(java), *options, "-version"], capture_output=True, timeout=60).returncode == 0


def test_a_session_that_was_let_go_is_followed_by_another(tmp_path):
    """In a process of its own: this one's session is for all tests."""
    code = (
        "import sys; from pathlib import Path\n"
        "from lading.spark.session import is_dead, is_started, let_go, spark_session\n"
        "cache = Path(sys.argv[1])\n"
        "first = spark_session('local[1]', {}, cache)\n"
        "process = first._sc._gateway.proc\n"
        "assert first.range(3).count() == 3 and not is_dead()\n"
        "process.kill(); process.wait()\n"
        "assert is_dead()\n"
        "let_go(); assert not is_started() and not is_dead()\n"
        "second = spark_session('local[1]', {}, cache)\n"
        "assert second.range(4).count() == 4\n"
        "print(let_go(), is_started())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["True", "False"], done.stderr[-2000:]
