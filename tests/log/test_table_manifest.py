"""manifest.json on disk: what it costs, and what a damaged one says."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.memory_bucket import MemoryBucket, once

from lading.errors import ManifestParseError, ManifestStoreError
from lading.layout.table import TABLE_MANIFEST
from lading.log.table_manifest import (
    load_manifest,
    manifest_bytes,
    manifest_of,
    rebuild_manifest,
    replace_manifest,
    write_manifest,
)
from lading.log.table_manifest_text import new_manifest
from lading.model import Member
from lading.storage.folder import FolderStorage


def member(path: str, bucket: int) -> Member:
    return Member(path, 1, 10, bucket, 0, 0, None, None, "2026-01-01T00:00:00+00:00", {})


def test_rebuild_reads_footers_not_rows(tmp_path: Path) -> None:
    part = tmp_path / "bucket=000000" / "part-a.parquet"
    part.parent.mkdir()
    pq.write_table(pa.table({"tick": list(range(1000))}), part)
    data = bytearray(part.read_bytes())
    first = pq.read_metadata(part).row_group(0).column(0)
    data[4 : 4 + first.total_compressed_size] = bytes(first.total_compressed_size)
    part.write_bytes(data)
    assert rebuild_manifest(tmp_path, "t").partitions["000000"].tick_max == 999


def test_a_part_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    part = tmp_path / "bucket=000000" / "part-a.parquet"
    part.parent.mkdir()
    part.write_text("PAR1 no more")
    with pytest.raises(ManifestStoreError, match=r"part-a\.parquet") as caught:
        rebuild_manifest(tmp_path, "t")
    assert caught.value.hint and caught.value.file == str(part)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"table": 3}', '{"table": "t", "partitions": [1]}', "\xff", "[" * 9999]
)
def test_a_malformed_manifest_is_named_with_its_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ManifestParseError, match=r"manifest\.json") as caught:
        load_manifest(tmp_path)
    assert "delete the file" in caught.value.hint


def test_a_manifest_that_cannot_be_read_is_not_taken_for_absent(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(ManifestStoreError):
        load_manifest(tmp_path)


def test_what_lading_adds_sits_under_one_key_and_does_not_load(tmp_path: Path) -> None:
    manifest = new_manifest("t")
    write_manifest(tmp_path, manifest, {"sequence": 9})
    assert b'"lading": {\n    "sequence": 9\n  }\n}' in (tmp_path / "manifest.json").read_bytes()
    assert load_manifest(tmp_path) == manifest


def test_the_same_members_give_the_same_bytes_whatever_bucket_came_first(tmp_path: Path) -> None:
    one = [member("bucket=000002/a.parquet", 2), member("bucket=000001/b.parquet", 1)]
    times = {"created_at": "2026-01-01", "updated_at": "2026-01-01"}
    write_manifest(tmp_path / "one", manifest_of("t", one, **times))
    write_manifest(tmp_path / "two", manifest_of("t", one[::-1], **times))
    assert (tmp_path / "one/manifest.json").read_bytes() == (tmp_path / "two/manifest.json").read_bytes()


def test_a_member_from_elsewhere_is_reached_from_its_bucket() -> None:
    members = [
        member("shard0.parquet", 0),
        member("/far/away.parquet", 0),
        member("bucket=000000/p.parquet", 0),
    ]
    parts = manifest_of("t", members, created_at="x", updated_at="x").partitions["000000"].parts
    assert [part.path for part in parts] == ["../shard0.parquet", "/far/away.parquet", "p.parquet"]


def test_one_of_a_later_sequence_stays(tmp_path: Path) -> None:
    """Of two that write it, the slower one has nothing to add; found by the simulation."""
    later = manifest_of("t", [member("bucket=000000/b", 0)], created_at="", updated_at="")
    replace_manifest(tmp_path, later, {"table_id": "x", "sequence": 5, "order_by": None})
    replace_manifest(tmp_path, new_manifest("t"), {"table_id": "x", "sequence": 4, "order_by": None})
    assert load_manifest(tmp_path).partitions
    older = {"table_id": "x", "sequence": 4, "order_by": None}
    replace_manifest(tmp_path, new_manifest("t"), older, mending=b"another one")
    assert load_manifest(tmp_path).partitions
    replace_manifest(tmp_path, new_manifest("t"), older, mending=manifest_bytes(tmp_path))
    assert not load_manifest(tmp_path).partitions


def test_one_of_another_table_does_not(tmp_path: Path) -> None:
    replace_manifest(tmp_path, new_manifest("old"), {"table_id": "x", "sequence": 5, "order_by": None})
    replace_manifest(tmp_path, new_manifest("new"), {"table_id": "y", "sequence": 1, "order_by": None})
    assert load_manifest(tmp_path).table == "new"


def test_two_that_write_it_at_once_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary file has one name only; found by the simulation."""
    inside: list[int] = []

    def slowly(self: FolderStorage, name: str, data: bytes, **options: object) -> None:
        inside.append(1)
        time.sleep(0.02)
        assert len(inside) == 1
        inside.pop()

    monkeypatch.setattr(FolderStorage, "put", slowly)
    extra = {"table_id": "x", "sequence": 1, "order_by": None}
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(replace_manifest, tmp_path, new_manifest("t"), extra) for _ in range(8)]:
            done.result()


@pytest.mark.parametrize("first", [False, True], ids=["a later one is there", "nothing was there"])
def test_in_a_bucket_a_request_that_arrives_late_replaces_nothing_newer(
    monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Found by the simulation: there is no lock, and a put may arrive long after it was sent."""
    bucket = MemoryBucket()
    monkeypatch.setattr("lading.log.table_manifest.storage_of", lambda place: bucket)

    def written(sequence: int) -> None:
        extra = {"table_id": "x", "sequence": sequence, "order_by": None}
        replace_manifest("s3://b/t", new_manifest("t"), extra)

    if not first:
        written(3)
    bucket.before = once("swap", TABLE_MANIFEST, lambda: written(5))
    written(4)
    assert b'"sequence": 5' in bucket.get(TABLE_MANIFEST)
    written(6)
    assert b'"sequence": 6' in bucket.get(TABLE_MANIFEST)
