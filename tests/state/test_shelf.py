"""Copies of pages in the cache: the oldest go when there are too many, whoever else is at work there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.state import shelf


def test_room_is_made_while_another_reader_renames_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        path = tmp_path / f"page-{number}"
        path.write_bytes(b"x" * 100)
        os.utime(path, (number, number))
    (tmp_path / ".page-4.tmp").symlink_to("gone")  # to ask for its status is to find it gone
    monkeypatch.setattr(shelf, "_IN_CACHE", 200)
    shelf._make_room(path)
    assert sorted(one.name for one in tmp_path.glob("page-*")) == ["page-2", "page-3"]
