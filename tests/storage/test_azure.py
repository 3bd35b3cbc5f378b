"""A collection and source files in Azure: the whole way, log and parts included."""

from __future__ import annotations

import io
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers import AzureServer

import lading
from lading.errors import ConfigError
from lading.model import Place
from lading.sources.objects import Objects
from lading.storage.bucket import ObjectStorage


def test_a_collection_in_azure_is_added_to_read_merged_and_checked(
    azure_server: AzureServer, tmp_path: Path
) -> None:
    url = f"{azure_server.container('corpus')}/{uuid.uuid4().hex}"
    storage = ObjectStorage(url)
    for number in range(3):
        out = io.BytesIO()
        pq.write_table(pa.table({"k": [number * 10, number * 10 + 5]}), out)
        storage.put_new(f"f{number}.parquet", out.getvalue())
    with lading.Collection(url, cache=tmp_path) as own:
        own.add(*(f"{url}/f{number}.parquet" for number in range(3)), key="k")
        assert own.scan("k >= 10").to_table().num_rows == 4 and own.rows == 6
        own.merge("f0.parquet", "f1.parquet", into="merged.parquet")
        own.compact()
    with lading.Collection(url, cache=tmp_path) as again:
        assert sorted(member.path for member in again.members()) == ["f2.parquet", "merged.parquet"]
        assert again.check() == (2, []) and again.rows == 6
        with pytest.raises(ConfigError, match="az://bucket/name"):
            again.add("s3://elsewhere/f.parquet")


def test_source_files_in_azure_are_found_and_known_by_etag(azure_server: AzureServer, tmp_path: Path) -> None:
    url = f"{azure_server.container('raw')}/{uuid.uuid4().hex}"
    storage = ObjectStorage(url)
    storage.put_new("2024/a.csv", b"id\n1\n")
    storage.put_new("2024/a.txt", b"id\n1\n")
    [found] = Objects(Place(url), tmp_path).discover("**/*.csv")
    assert (found.key, found.size) == ("2024/a.csv", 5)
    storage.put("2024/a.csv", b"id\n2\n")
    [changed] = Objects(Place(url), tmp_path).discover("**/*.csv")
    assert changed.hash != found.hash
