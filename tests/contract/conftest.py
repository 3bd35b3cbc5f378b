"""Every test of the contract runs on every store."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.places import KINDS, Place, new_place

from lading.snapshots.stores.protocol import ManifestStore


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place(request.param, request, tmp_path)


@pytest.fixture
def store(place: Place) -> ManifestStore:
    return place.open()
