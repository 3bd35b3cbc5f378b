"""A place of one's own in a bucket, and a way to it on which things go wrong."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.faults import FaultyHttp
from support.servers import S3Server

from lading.model import Place
from lading.storage.place import place


@pytest.fixture
def url(s3_server: S3Server) -> str:
    return f"{s3_server.bucket('warehouse')}/{uuid.uuid4().hex}"


@pytest.fixture
def there(s3_server: S3Server, url: str, tmp_path: Path) -> Place:
    """A table's place; nothing lies there yet."""
    return place(f"{url}/t", s3_server.options(), tmp_path / "cache")


@pytest.fixture
def faulty(s3_server: S3Server) -> Iterator[FaultyHttp]:
    """The way to the same server, through which everything goes well until a plan is given."""
    proxy = FaultyHttp(s3_server.port)
    yield proxy
    proxy.close()
