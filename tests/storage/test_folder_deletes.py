from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.storage.place import storage_of


def test_what_was_deleted_stays_gone_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = storage_of(tmp_path)
    storage.put("a/b", b"x")
    done: list[str] = []
    fsync = os.fsync

    def recorded(fd: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", recorded)
    storage.delete("a/b")
    assert done == [str(tmp_path / "a")]
    storage.delete("a/b")  # nothing is there, and nothing is said
    assert len(done) == 1
