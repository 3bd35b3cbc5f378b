"""Which store a URL means, and reading it from asynchronous code."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import KINDS, new_place

from lading.config.stores import PostgresNames
from lading.errors import ConfigError, ManifestStoreError
from lading.snapshots.stores.asynchronous import AsyncBucketStore, AsyncOver
from lading.snapshots.stores.by_url import async_store_for, store_for
from lading.snapshots.stores.files import LocalStore


def test_a_path_and_a_file_url_are_one_place(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    store_for(str(folder), "t").publish(b"one", "r1", sequence=1)
    other = store_for(folder.as_uri(), "t")
    assert isinstance(other, LocalStore) and other.root == folder / "t"
    assert other.load_current() is not None


def test_memory_is_one_place_a_process_and_url() -> None:
    store_for("memory://one", "t").publish(b"one", "r1", sequence=1)
    assert store_for("memory://one", "t").load_current() is not None
    assert store_for("memory://one", "other").load_current() is None
    assert store_for("memory://two", "t").load_current() is None
    script = (
        "from lading.snapshots.stores.by_url import store_for\n"
        "assert store_for('memory://one', 't').load_current() is None"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("url", ["", "ftp://x/y", "file://host/x", "s3:///x", "postgresql://a:b@c@d/e"])
def test_a_url_that_means_nothing_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store_for(url, "t")
    assert caught.value.hint


def test_libraries_are_imported_only_for_the_urls_that_need_them(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from lading.snapshots.stores.by_url import store_for\n"
        f"store_for({str(tmp_path)!r}, 't').load_current()\n"
        "assert not {'obstore', 'psycopg'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(("module", "url"), [("obstore", "s3://b/x"), ("psycopg", "postgresql://h/d")])
def test_a_missing_extra_is_named(module: str, url: str) -> None:
    script = (
        "import sys\n"
        f"sys.modules[{module!r}] = None\n"
        "from lading.errors import MissingExtra\n"
        "from lading.snapshots.stores.by_url import store_for\n"
        "try:\n"
        f"    store_for({url!r}, 't')\n"
        "except MissingExtra as error:\n"
        "    assert 'pip install' in error.hint\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.acceptance("S5")
@pytest.mark.parametrize("kind", KINDS)
def test_asynchronous_readers_see_what_was_published_and_can_write_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = new_place(kind, request, tmp_path)
    names = PostgresNames(prefix=place.prefix)
    reader = async_store_for(place.url, place.table, s3=place.s3, postgres=names)
    assert isinstance(reader, AsyncBucketStore if kind in ("s3", "azure") else AsyncOver)

    async def nothing_yet() -> None:
        assert await reader.load_current() is None and await reader.list_manifests() == []
        with pytest.raises(ManifestStoreError):
            await reader.load_manifest("manifests/absent/manifest")

    async def read_all() -> None:
        current = await reader.load_current()
        assert current == second.current
        loaded = await asyncio.gather(*(reader.load_manifest(first.ref) for _ in range(20)))
        assert loaded == [b"one"] * 20
        assert [listed.run_id for listed in await reader.list_manifests()] == ["r2", "r1"]
        assert [listed.run_id for listed in await reader.list_manifests(limit=1)] == ["r2"]

    asyncio.run(nothing_yet())
    store = place.open()
    first, second = (
        store.publish(payload, run, sequence=1) for payload, run in ((b"one", "r1"), (b"two", "r2"))
    )
    asyncio.run(read_all())
    public = {name for name in dir(reader) if not name.startswith("_")}
    assert public == {"load_current", "load_manifest", "list_manifests"}
