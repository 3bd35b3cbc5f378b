"""Spark and its workers on one machine: sockets in a folder of the user's where that can be, else TCP."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lading.spark import session, sockets


@pytest.fixture
def no_folder_yet(monkeypatch):
    monkeypatch.setattr(sockets, "_folder", None)
    monkeypatch.setattr(sockets.atexit, "register", lambda *args, **kwargs: None)


def test_workers_are_reached_through_a_folder_that_only_this_user_may_enter(spark):
    conf = spark.sparkContext.getConf()
    assert conf.get(sockets.ENABLED) == "true"
    folder = conf.get(sockets.FOLDER)
    assert folder is not None and stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert spark.range(3).mapInArrow(lambda batches: batches, "id bigint").count() == 3
    assert any(stat.S_ISSOCK(one.lstat().st_mode) for one in Path(folder).iterdir()), "nobody listens there"


def test_a_users_own_choice_wins(tmp_path):
    chosen = session._settings("local[1]", {sockets.ENABLED: "false"}, tmp_path)
    assert chosen[sockets.ENABLED] == "false"
    assert sockets.ENABLED not in session._settings("spark://host:7077", {}, tmp_path)


def test_where_names_are_too_long_for_a_socket_the_short_folder_is_taken(
    no_folder_yet, monkeypatch, tmp_path
):
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = sockets.socket_settings()[sockets.FOLDER]
    assert folder.startswith("/tmp/") and len(folder) <= 61
    assert not list(long.iterdir())
    os.rmdir(folder)


def test_where_no_folder_holds_sockets_tcp_has_to_do(no_folder_yet, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sockets, "_SHORT", str(tmp_path / "missing"))
    monkeypatch.setattr(sockets, "_LONGEST", 1_000)
    monkeypatch.setattr(sockets, "_holds_sockets", lambda folder: False)
    assert sockets.socket_settings() == {}
    assert not list(tmp_path.iterdir())


def test_the_folder_is_gone_when_the_process_ends():
    code = "from lading.spark.sockets import *; print(socket_settings()[FOLDER])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    folder = Path(answer.stdout.strip())
    assert folder.is_absolute() and not folder.exists()
