"""What tests of several steps share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.servers import S3Server
from support.world import BucketWorld, World


@pytest.fixture(params=["folder", "bucket"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A table in each kind of place: cleaning and tidying are one and the same."""
    if request.param == "folder":
        yield World(tmp_path / "project")
        return
    server: S3Server = request.getfixturevalue("s3_server")
    made = BucketWorld(tmp_path / "project", f"{server.bucket('world')}/{uuid.uuid4().hex}", server)
    yield made
    made.close()
