"""What a storage promises, on each of them: a folder, memory, S3 and Azure."""

from __future__ import annotations

import hashlib
import threading
import uuid
from pathlib import Path

import pytest

from lading.storage.bucket import ObjectStorage
from lading.storage.folder import FolderStorage
from lading.storage.memory import MemoryStorage
from lading.storage.protocol import Replaced, Storage, SwapLost, TooLarge


@pytest.fixture(params=["folder", "memory", "s3", "azure"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    own = uuid.uuid4().hex
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        return ObjectStorage(f"{server.bucket('storages')}/{own}", server.options())
    if request.param == "azure":
        return ObjectStorage(f"{request.getfixturevalue('azure_server').container('storages')}/{own}")
    return MemoryStorage() if request.param == "memory" else FolderStorage(tmp_path / own)


def test_a_name_is_given_once(storage: Storage) -> None:
    storage.put_new("a/b", b"first")
    with pytest.raises(FileExistsError):
        storage.put_new("a/b", b"second")
    assert storage.get("a/b") == b"first" and storage.has("a/b") and not storage.has("a/c")
    storage.put("a/b", b"third")
    assert storage.get("a/b") == b"third"


def test_what_is_missing_is_not_found(storage: Storage) -> None:
    for ask in (storage.get, storage.head, storage.sha256, storage.get_with_etag):
        with pytest.raises(FileNotFoundError):
            ask("a/b")
    storage.delete("a/b")
    assert list(storage.list()) == [] and storage.folders() == () and list(storage.newest("m", "x")) == []


def test_a_swap_goes_by_what_the_caller_saw(storage: Storage) -> None:
    with pytest.raises(SwapLost):
        storage.swap("p", b"0", "never")
    first = storage.swap("p", b"1", None)
    assert storage.get_with_etag("p") == (b"1", first)
    with pytest.raises(SwapLost):
        storage.swap("p", b"2", None)
    second = storage.swap("p", b"2", first)
    with pytest.raises(SwapLost):
        storage.swap("p", b"3", first)
    assert storage.get_with_etag("p") == (b"2", second)


def test_of_many_swaps_one_gets_through_each_time(storage: Storage) -> None:
    storage.put_new("count", b"0")

    def count_up() -> None:
        for _ in range(5):
            while True:
                data, etag = storage.get_with_etag("count")
                try:
                    storage.swap("count", b"%d" % (int(data) + 1), etag)
                except SwapLost:
                    continue
                break

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert storage.get("count") == b"20"


def test_a_long_object_is_refused_and_can_be_replaced(storage: Storage) -> None:
    storage.put_new("p", b"x" * 100)
    assert storage.get("p", limit=100) == b"x" * 100
    with pytest.raises(TooLarge) as caught:
        storage.get_with_etag("p", limit=99)
    storage.swap("p", b"better", caught.value.etag)
    assert storage.get("p") == b"better"


def test_ranges_and_checksums(storage: Storage) -> None:
    storage.put_new("r", b"0123456789")
    found = storage.head("r")
    assert storage.get_range("r", 2, 3) == storage.get_range("r", 2, 3, etag=found.etag) == b"234"
    assert storage.get_range("r", 2, 3, etag=found.etag.strip('"')) == b"234"  # as a listing may have it
    assert storage.sha256("r") == (10, hashlib.sha256(b"0123456789").hexdigest())
    with pytest.raises((Replaced, FileNotFoundError)):
        storage.get_range("r", 2, 3, etag='"another"')


def test_listing_is_sorted_and_starts_where_it_is_told(storage: Storage) -> None:
    for name in ("m/1/x", "m/2/x", "m/2/y", "m/3/y", "n/1", "top"):
        storage.put_new(name, b"1")
    assert [one.name for one in storage.list()] == ["m/1/x", "m/2/x", "m/2/y", "m/3/y", "n/1", "top"]
    assert [one.name for one in storage.list("m", after="m/2/x")] == ["m/2/y", "m/3/y"]
    assert [one.name for one in storage.list(wanted=lambda name: name.endswith("x"))] == ["m/1/x", "m/2/x"]
    assert storage.folders() == ("m", "n") and storage.folders("m") == ("1", "2", "3")
    assert list(storage.newest("m", "x")) == ["2", "1"] and list(storage.newest("m", "x", after="1")) == ["2"]


def test_only_what_was_found_is_deleted(storage: Storage) -> None:
    storage.put_new("a", b"one")
    [found] = storage.list()
    storage.delete("a")
    storage.put_new("a", b"other one")
    assert not storage.delete_found(found) and storage.has("a")
    [found] = storage.list()
    assert storage.delete_found(found) and not storage.has("a")


def test_a_draft_becomes_an_object_when_it_is_kept(storage: Storage) -> None:
    draft = storage.draft("parts/p")
    draft.write_bytes(b"rows")
    assert not storage.has("parts/p")
    storage.keep(draft, "parts/p")
    assert storage.get("parts/p") == b"rows" and not draft.exists()


def test_files_go_up_come_down_and_change_their_names(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"x" * 70_000)
    storage.upload("there", tmp_path / "here")
    with pytest.raises(FileExistsError):
        storage.upload("there", tmp_path / "here")
    storage.rename("there", "elsewhere")
    storage.download("elsewhere", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"x" * 70_000 and not storage.has("there")
