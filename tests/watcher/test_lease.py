"""A warehouse has one watcher."""

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from lading.errors import Conflict
from lading.layout.project import WATCHER
from lading.watcher.lease import Holder, held, holder


def never() -> None:
    raise AssertionError("the lease was not lost")


def test_a_second_watcher_is_refused_and_told_who_has_it(tmp_path):
    with held(tmp_path, never) as mine:
        assert mine.pid == os.getpid() and holder(tmp_path) is not None
        with pytest.raises(Conflict, match=f"process {os.getpid()} on") as refused, held(tmp_path, never):
            pass
        assert "lading run" in (refused.value.hint or "")
    assert holder(tmp_path) is None
    with held(tmp_path, never):
        pass


@pytest.mark.parametrize(
    ("host", "pid", "lasts", "is_taken"),
    [
        (socket.gethostname(), 2**22 + 1, 60, False),  # no such process
        (socket.gethostname(), os.getpid(), 60, True),
        (socket.gethostname(), os.getpid(), -1, False),  # lapsed
        ("elsewhere", 2**22 + 1, 60, True),
        ("elsewhere", 1, -1, False),
    ],
    ids=["no such process", "this one", "lapsed", "elsewhere", "lapsed elsewhere"],
)
def test_a_watcher_that_died_is_followed_by_another(tmp_path: Path, host, pid, lasts, is_taken):
    until = (datetime.now(UTC) + timedelta(seconds=lasts)).isoformat()
    other = Holder("x", host, pid, "2024-01-01T00:00:00+00:00", until)
    (tmp_path / WATCHER).write_bytes(msgspec.json.encode(other))
    if is_taken:
        with pytest.raises(Conflict), held(tmp_path, never):
            pass
    else:
        with held(tmp_path, never):
            pass


def test_a_file_that_nobody_understands_keeps_nobody_from_watching(tmp_path):
    (tmp_path / WATCHER).write_text("{")
    with held(tmp_path, never):
        pass


def test_a_lease_is_renewed_and_its_loss_is_noticed(tmp_path):
    import threading

    lost = threading.Event()
    with held(tmp_path, lost.set, lease=timedelta(seconds=0.3)) as mine:
        first = msgspec.json.decode((tmp_path / WATCHER).read_bytes(), type=Holder)
        deadline = datetime.now(UTC) + timedelta(seconds=20)
        while msgspec.json.decode((tmp_path / WATCHER).read_bytes(), type=Holder).until == first.until:
            assert datetime.now(UTC) < deadline
        assert not lost.is_set()
        (tmp_path / WATCHER).write_bytes(msgspec.json.encode(msgspec.structs.replace(mine, id="other")))
        assert lost.wait(20)
