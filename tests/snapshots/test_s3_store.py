"""The S3 store: what it puts where, and what it makes of what others put there."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from support.servers import S3Server

from lading.errors import ConfigError, ManifestParseError, ManifestStoreError, PublishCurrentError
from lading.snapshots.pointer import POINTER_LIMIT, encode_pointer
from lading.snapshots.stores import files
from lading.snapshots.stores.files import BucketStore
from lading.storage.bucket import ObjectStorage


@pytest.fixture
def root(s3_server: S3Server) -> str:
    return f"{s3_server.bucket('stores')}/{uuid.uuid4().hex}"


@pytest.fixture
def storage(root: str, s3_server: S3Server) -> ObjectStorage:
    return ObjectStorage(root, s3_server.options())


@pytest.fixture
def store(root: str, s3_server: S3Server) -> BucketStore:
    return BucketStore(root, s3_server.options())


def test_the_layout_is_that_of_a_table_directory(store: BucketStore, storage: ObjectStorage) -> None:
    published = store.publish(b"one", "r1", sequence=1)
    names = [named.name for named in storage.list()]
    assert names == ["_CURRENT", published.ref.removeprefix(f"{store.url}/")]
    assert names[1].startswith("manifests/") and names[1].endswith("Z_run_id=r1/manifest")


@pytest.mark.parametrize("run_id", ["a b", "a%20b", "é*", "a#b?c&d", "x" * 150, "a\\b", "..", "%2F.."])
def test_any_run_id_comes_back_as_it_was(store: BucketStore, run_id: str) -> None:
    published = store.publish(b"one", run_id, sequence=1)
    assert store.load_manifest(published.ref) == b"one"
    assert [listed.run_id for listed in store.list_manifests()] == [run_id]
    assert store.set_current(published.ref).run_id == run_id


def test_a_reference_elsewhere_is_never_followed(
    store: BucketStore, storage: ObjectStorage, s3_server: S3Server
) -> None:
    other = BucketStore(f"{store.url}-other", s3_server.options())
    theirs = other.publish(b"theirs", "r1", sequence=1)
    mine = store.publish(b"mine", "r1", sequence=1)
    name = mine.ref.removeprefix(f"{store.url}/")
    for ref in (theirs.ref, f"s3://elsewhere/{name}", f"{store.url}/../x/{name}", f"{store.url}/_CURRENT"):
        with pytest.raises(ManifestStoreError):
            store.load_manifest(ref)
        with pytest.raises(ManifestStoreError):
            store.set_current(ref)


def test_a_malformed_pointer_is_named_and_a_rollback_mends_it(
    store: BucketStore, storage: ObjectStorage
) -> None:
    published = store.publish(b"one", "r1", sequence=1)
    for broken in (b"{", b"", b"x" * (POINTER_LIMIT + 1)):
        storage.swap("_CURRENT", broken, storage.head("_CURRENT").etag)
        with pytest.raises((ManifestParseError, ManifestStoreError)) as caught:
            store.load_current()
        assert caught.value.file == f"{store.url}/_CURRENT"
        with pytest.raises(PublishCurrentError):
            store.publish(b"two", "r2", sequence=2)
        mended = store.set_current(published.ref, hold=False)
        assert store.load_current() == mended and store.load_manifest(mended.ref) == b"one"


def test_a_pointer_that_went_away_and_came_back_is_not_taken_for_the_same(
    store: BucketStore, s3_server: S3Server
) -> None:
    first = store.publish(b"one", "r1", sequence=1)
    other = BucketStore(store.url, s3_server.options())
    other.publish(b"two", "r2", sequence=2)
    back = other.set_current(first.ref, hold=False, sequence=1)
    assert back.ref == first.ref
    assert not store.swap_current(first.current, replace(first.current, swap_id="mine"))
    assert store.load_current() == back


def test_a_pointer_of_a_foreign_writer_is_moved_on_from(store: BucketStore, storage: ObjectStorage) -> None:
    first = store.publish(b"one", "r1", sequence=1)
    foreign = encode_pointer(replace(first.current, sequence=0, swap_id=""))
    storage.swap("_CURRENT", foreign, storage.head("_CURRENT").etag)
    assert store.publish(b"two", "r2", sequence=2).outcome == "current"


def test_a_manifest_that_is_too_long_is_refused_before_it_is_fetched(
    store: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = store.publish(b"x" * 100, "r1", sequence=1)
    monkeypatch.setattr(files, "SNAPSHOT_LIMIT", 99)
    with pytest.raises(ManifestParseError, match="100 bytes"):
        store.load_manifest(published.ref)


def test_a_bucket_that_is_not_there_says_so(s3_server: S3Server) -> None:
    store = BucketStore("s3://no-such-bucket/x", s3_server.options())
    with pytest.raises(ManifestStoreError) as caught:
        store.load_manifest("s3://no-such-bucket/x/manifests/2026-04-20T15:23:01.123456Z_run_id=r/manifest")
    assert caught.value.hint


@pytest.mark.parametrize(
    "url", ["s3://", "s3://key:sentinel@bucket/x", "s3://bucket/x?sentinel", "http://bucket"]
)
def test_a_url_with_credentials_or_nonsense_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BucketStore(url, {})
    assert "sentinel" not in str(caught.value)
