"""What tests of several folders share: one Spark session, since starting one costs seconds."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.servers import AzureServer, PostgresServer, S3Server

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("lading", deadline=None)
settings.load_profile("lading")

# Tests start hundreds of Pythons: without bytecode each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# A disk takes milliseconds for each fsync, and nearly every test does some. What becomes of the bytes
# when the power fails is tested on an ext4 of its own (simulation/test_power_cut.py).
_MEMORY, _ENOUGH = "/dev/shm", 4 << 30


def _has_room(folder: str) -> bool:
    """Enough for the folders of all tests, with a Java in them that may be started."""
    try:
        here = os.statvfs(folder)
    except OSError:
        return False
    return here.f_bavail * here.f_frsize > _ENOUGH and not here.f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and not os.environ.get("LADING_SOAK") and _has_room(_MEMORY):
    os.environ["TMPDIR"] = _MEMORY
    tempfile.tempdir = None  # somebody may have asked before

# Folders with files that take minutes come first: whatever begins last is waited for by one process alone
# (Makefile: `--no-loadscope-reorder`).
_LONG = (
    "simulation", "cluster", "crash", "properties", "s3", "bench", "spark", "acceptance", "upkeep", "iceberg",
    "cli", "contract", "docs", "ui", "ingest", "formats",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """What the processes of this run share is set up by the first of them, before it starts the others."""
    if hasattr(config, "workerinput"):
        return
    from support.jvm import quick_java
    from support.servers import fetch_azurite

    several = bool(config.getoption("numprocesses", None))
    # Making the archive takes as long as three tests that start a JVM.
    quick_java(config.cache.mkdir("java"), train=several)
    if several:
        threading.Thread(target=fetch_azurite, daemon=True).start()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(here).parts[0]
        return _LONG.index(folder) if folder in _LONG else len(_LONG)

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Nine thousand tests are no garbage: without this, each full collection goes through all of them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The process's session, the one that product code finds when it asks for its own."""
    from lading.spark.session import spark_session, stop_session

    conf = {"spark.sql.shuffle.partitions": "2"}
    yield spark_session("local[2]", conf, tmp_path_factory.mktemp("spark-cache"), app="lading-tests")
    stop_session()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """S3 over HTTP, one for all tests: make a bucket of your own."""
    from support.servers import S3Server

    server = S3Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """Azure Blob Storage, one for all tests; the environment says where it is."""
    from support.servers import AzureServer

    if not AzureServer.is_possible():
        pytest.skip("Azure's emulator comes from npm, and there is no npm here")
    server = AzureServer()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests: use a prefix of your own."""
    from support.servers import PostgresServer

    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(params=["apsw", "sqlite3"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Shards are read and written by apsw, or, as where that isn't installed, by Python's own sqlite3."""
    if request.param == "sqlite3":
        monkeypatch.setitem(sys.modules, "apsw", None)
    return str(request.param)
