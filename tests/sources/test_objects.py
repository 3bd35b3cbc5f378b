"""Source files in a bucket: listed there, read from copies, gone when they are gone. S3 over HTTP."""

from __future__ import annotations

import io
import json
import urllib.request
import uuid
import zipfile
from pathlib import Path

import pytest

import lading
from lading.config.archives import ArchiveLimits
from lading.config.file import load as load_config
from lading.errors import LadingError, SourceError
from lading.model import Place
from lading.run import RunReport, plan_tables, run
from lading.sources.objects import Objects

CONFIG = """\
s3: {s3}
tables:
  ports:
    root: {url}/raw
    path: "**/*.csv"
    format: csv
  packed:
    root: {url}/raw
    path: "drops/*.zip"
    inside: "*.csv"
    format: csv
"""


class Bucket:
    def __init__(self, server, folder: Path) -> None:
        self.url = server.bucket(f"b{uuid.uuid4().hex[:12]}")
        self.options = server.options()
        self.folder = folder
        self._http = f"{server.endpoint}/{self.url.removeprefix('s3://')}"
        text = CONFIG.format(s3=json.dumps(self.options), url=self.url)
        (folder / "lading.yaml").write_text(text.replace('"true"', "true"))

    def put(self, key: str, data: str | bytes) -> None:
        body = data.encode() if isinstance(data, str) else data
        self._send(key, "PUT", body)

    def delete(self, key: str) -> None:
        self._send(key, "DELETE", None)

    def _send(self, key: str, method: str, body: bytes | None) -> None:
        path = urllib.request.quote(f"raw/{key}")
        kind = {"Content-Type": "application/octet-stream", "Authorization": "AWS x:y"}
        request = urllib.request.Request(f"{self._http}/{path}", data=body, method=method, headers=kind)
        urllib.request.urlopen(request, timeout=10).close()

    def objects(self) -> Objects:
        return Objects(Place(f"{self.url}/raw", tuple(self.options.items())), self.folder / "copies")

    def run(self, *names: str) -> RunReport:
        report = run(load_config(self.folder), names, allow_vanish=True)
        if report.error is not None:
            raise report.error
        return report

    def rows(self, table: str = "ports") -> list[int]:
        with lading.open(self.folder / "warehouse" / table) as reader:
            return sorted(reader.scan().to_table()["id"].to_pylist())


@pytest.fixture
def bucket(s3_server, tmp_path) -> Bucket:
    return Bucket(s3_server, tmp_path)


def test_objects_are_found_by_glob_and_known_by_etag_and_size(bucket):
    bucket.put("a.csv", "id\n1\n")
    bucket.put("2024/b.csv", "id\n2\n")
    bucket.put("other.txt", "x")
    found = bucket.objects().discover("**/*.csv")
    assert [file.key for file in found] == ["2024/b.csv", "a.csv"]
    assert all(file.hash.startswith("etag:") and file.hash.endswith("_size:5") for file in found)
    before = {file.key: file.hash for file in found}
    bucket.put("a.csv", "id\n7\n")
    after = {file.key: file.hash for file in bucket.objects().discover("**/*.csv")}
    assert before["2024/b.csv"] == after["2024/b.csv"] and before["a.csv"] != after["a.csv"]


@pytest.mark.parametrize("key", ["a [1].csv", "ünï.csv", "100%.csv", "a#b.csv", "a+b c.csv"])
def test_awkward_keys_are_copied_under_names_of_our_own(bucket, key):
    bucket.put(key, "id\n1\n")
    objects = bucket.objects()
    (found,) = objects.discover("*.csv")
    assert found.key == key
    objects.fetch([found])
    copies = list((bucket.folder / "copies").iterdir())
    assert [copy.read_text() for copy in copies] == ["id\n1\n"] and str(copies[0]) == found.path
    assert copies[0].name.removesuffix(".csv").isalnum()
    assert objects.unmoved(found)


def test_an_object_that_changed_since_it_was_listed_is_not_taken_for_the_listed_one(bucket):
    bucket.put("a.csv", "id\n1\n")
    objects = bucket.objects()
    (found,) = objects.discover("*.csv")
    bucket.put("a.csv", "id\n2\n")
    assert not objects.unmoved(found)
    with pytest.raises(SourceError, match=r"a\.csv changed while it was being read"):
        objects.source_file(found, ArchiveLimits()).digest()
    with pytest.raises(SourceError, match="changed while it was being copied"):
        objects.fetch([found])
    assert not list((bucket.folder / "copies").iterdir())
    bucket.delete("a.csv")
    with pytest.raises(SourceError, match="changed while it was being copied"):
        objects.fetch([found])
    assert not objects.unmoved(found)


def test_a_table_follows_its_bucket_and_copies_nothing(bucket, spark, monkeypatch):
    for number in (1, 2, 3):
        bucket.put(f"{number}.csv", f"id,name\n{number},x\n")
    fetched: list[str] = []
    real = Objects._fetch
    monkeypatch.setattr(Objects, "_fetch", lambda self, one: (fetched.append(one.key), real(self, one)))
    (plan,) = plan_tables(load_config(bucket.folder), ["ports"])
    assert plan.verdicts["new"] == 3 and not fetched
    bucket.run("ports")
    assert bucket.rows() == [1, 2, 3] and not fetched
    assert not bucket.run("ports").spark_started and not fetched
    bucket.put("2.csv", "id,name\n20,x\n")
    bucket.delete("3.csv")
    bucket.run("ports")
    assert bucket.rows() == [1, 20] and not fetched, "tasks read the objects themselves"
    assert not (bucket.folder / ".lading_cache" / "objects" / "ports").exists(), (
        "copies go when they are read"
    )
    files = json.loads((bucket.folder / "manifest" / "ports.json").read_text())["files"]
    assert files["2.csv"]["hash"].startswith("etag:")


def test_archives_in_a_bucket_are_extracted_once(bucket, spark):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as out:
        out.writestr("x.csv", "id\n5\n")
    bucket.put("drops/a.zip", memory.getvalue())
    bucket.run("packed")
    assert bucket.rows("packed") == [5]
    extractions = json.loads((bucket.folder / "manifest" / "_global.json").read_text())["extractions"]
    assert list(extractions) == [f"archive:{bucket.url}/raw/drops/a.zip"]
    assert not bucket.run("packed").spark_started
    (bucket.folder / "manifest" / "_global.json").unlink()
    assert not bucket.run("packed").spark_started, "the same bytes are not read again"
    bucket.delete("drops/a.zip")
    bucket.run("packed")
    assert bucket.rows("packed") == []


def test_a_bucket_that_is_away_fails_the_run_and_retracts_nothing(bucket, spark):
    bucket.put("1.csv", "id\n1\n")
    bucket.run("ports")
    text = (bucket.folder / "lading.yaml").read_text().replace(bucket.url, "s3://no-such-bucket")
    (bucket.folder / "lading.yaml").write_text(text)
    with pytest.raises(LadingError, match="s3://no-such-bucket/raw") as error:
        bucket.run("ports")
    assert "sentinel" not in str(error.value).lower()
    assert bucket.rows() == [1]
