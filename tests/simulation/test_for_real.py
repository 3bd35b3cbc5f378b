"""Histories of the simulation in small number on PostgreSQL and on S3 servers: if a real store were weaker
than the one in memory, what holds there would not hold here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lading.model import Place
from lading.storage.place import storage_of
from simulation.collecting import Collections
from simulation.pointing import Noting, NotingPostgres, Pointing
from simulation.real import Reality, play_for_real, without_faults
from simulation.sizes import SIZES
from simulation.stories import story_case

if TYPE_CHECKING:
    from support.servers import PostgresServer, S3Server

SOAK = bool(os.environ.get("LADING_SOAK"))
HISTORIES = 60 if SOAK else 6


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stories have other sizes, and these are played in the process of all tests."""
    for module, name in SIZES:
        monkeypatch.setattr(module, name, getattr(module, name))


@pytest.fixture(params=["moto", "localstack"])
def real_s3(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    """Two servers that know nothing of each other."""
    if request.param == "moto":
        yield request.getfixturevalue("s3_server")
        return
    from support.servers import LocalStack

    if not SOAK or not LocalStack.python.exists():
        pytest.skip("make soak: LocalStack has an environment of its own, with Python 3.13")
    server = LocalStack()
    yield server
    server.close()


class InPostgres(Pointing):
    url: str

    def _store(self) -> Any:
        return NotingPostgres(self.url, self.place)


class InS3(Pointing):
    options: dict[str, str]

    def _store(self) -> Any:
        return Noting(storage_of(Place(self.place, tuple(sorted(self.options.items())))))


def test_the_pointer_moves_one_by_one_in_postgresql(postgres_server: PostgresServer) -> None:
    for seed in range(HISTORIES):
        case, world = without_faults(story_case("pointing", seed)), Reality()
        story = InPostgres(world, case, f"real{seed}")  # type: ignore[arg-type]
        story.url = postgres_server.url
        play_for_real(case, story, world)


def test_the_pointer_moves_one_by_one_in_s3(real_s3: S3Server) -> None:
    bucket = real_s3.bucket("pointing-for-real")
    for seed in range(HISTORIES):
        case, world = without_faults(story_case("pointing", seed)), Reality()
        story = InS3(world, case, f"{bucket}/{seed}")  # type: ignore[arg-type]
        story.options = real_s3.options()
        play_for_real(case, story, world)


def test_a_collection_changes_one_by_one_in_s3(real_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    options = real_s3.options()
    monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint"])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", options["region"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret_access_key"])
    bucket = real_s3.bucket("collecting-for-real")
    for seed in range(HISTORIES):
        case, world = without_faults(story_case("collecting", seed)), Reality()
        story = Collections(world, case, f"{bucket}/{seed}")  # type: ignore[arg-type]
        play_for_real(case, story, world)
