"""A collection in a bucket: every call and every command that a collection in a folder has."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.faults import FaultyHttp
from support.servers import S3Server

import lading
from lading.cli.main import invoke
from lading.errors import ConfigError, Conflict, NotFound, PartError
from lading.model import Place
from lading.storage.bucket import ObjectStorage
from lading.storage.place import storage_of


def parquet(rows: dict[str, Any] | pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), out, **options)
    return out.getvalue()


@pytest.fixture
def bucket(there: Place) -> ObjectStorage:
    """Three files in the collection's prefix."""
    storage = storage_of(there)
    for number in range(3):
        keys = [number * 10, number * 10 + 5]
        storage.put_new(f"f{number}.parquet", parquet({"k": keys, "s": [f"s{key}" for key in keys]}))
    return storage


@pytest.fixture
def open_(there: Place, tmp_path: Path) -> Any:
    def opened(**options: Any) -> lading.Collection:
        return lading.Collection(there.url, s3=options or dict(there.options), cache=tmp_path / "cache")

    return opened


@pytest.fixture
def collection(open_: Any, bucket: ObjectStorage) -> lading.Collection:
    found: lading.Collection = open_()
    found.add("f0.parquet", "f1.parquet", "f2.parquet", key="k")
    return found


def paths(collection: lading.Collection) -> list[str]:
    return [member.path for member in collection.members()]


def test_what_is_added_is_listed_scanned_and_looked_up(collection: Any, open_: Any, bucket: Any) -> None:
    again = open_()
    assert [(m.path, m.rows, m.key_min, m.key_max) for m in again.members()] == [
        ("f0.parquet", 2, 0, 5),
        ("f1.parquet", 2, 10, 15),
        ("f2.parquet", 2, 20, 25),
    ]
    assert again.scan("k >= 15", columns=["s"]).to_table()["s"].to_pylist() == ["s15", "s20", "s25"]
    hit = again.lookup(15)
    assert (hit.found, hit.member, hit.opened, hit.row) == (True, "f1.parquet", 1, {"k": 15, "s": "s15"})
    assert not again.lookup(16).found
    assert (again.key, again.sequence, again.rows, len(again)) == ("k", 1, 6, 3)
    assert again.check() == (3, [])


def test_an_object_is_named_by_its_place_or_its_url(open_: Any, bucket: Any, there: Place) -> None:
    found = open_()
    done = found.add("f0.parquet", f"{there.url}/f1.parquet", "./f2.parquet", f"{there.url}/f0.parquet")
    assert sorted(done.added) == ["f0.parquet", "f1.parquet", "f2.parquet"]
    assert found.tier(f"{there.url}/f1.parquet", 3) == "f1.parquet"


def test_a_file_in_another_bucket_is_found_by_its_url(
    collection: Any, open_: Any, s3_server: S3Server
) -> None:
    url = f"{s3_server.bucket('elsewhere')}/{uuid.uuid4().hex}"
    ObjectStorage(url, s3_server.options()).put_new("far.parquet", parquet({"k": [77], "s": ["far"]}))
    collection.add(f"{url}/far.parquet")
    again = open_()
    assert paths(again)[-1] == f"{url}/far.parquet"
    hit = again.lookup(77)
    assert (hit.member, hit.row["s"], hit.opened) == (f"{url}/far.parquet", "far", 1)
    assert again.check() == (4, [])
    merged = again.merge("far.parquet", "f0.parquet", into="m.parquet")
    assert open_().lookup(77).member == merged == "m.parquet"


@pytest.mark.parametrize(
    "name", ["/tmp/x.parquet", "../x.parquet", "a//b.parquet", "s3://bucket", "ftp://b/x"]
)
def test_what_is_no_object_of_a_bucket_is_refused(open_: Any, bucket: Any, name: str) -> None:
    with pytest.raises(ConfigError):
        open_().add(name)
    assert not bucket_names(bucket, "log")


def test_an_object_that_is_missing_or_no_parquet_is_named_and_nothing_is_added(
    open_: Any, bucket: ObjectStorage
) -> None:
    bucket.put_new("text.parquet", b"PAR1 but not really PAR1")
    for name in ("text.parquet", "none.parquet"):
        with pytest.raises(PartError, match=name) as caught:
            open_().add("f0.parquet", name)
        assert "nothing was added" in caught.value.hint
    assert not bucket_names(bucket, "log")


def test_files_in_a_bucket_are_no_members_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a file here"):
        lading.Collection(tmp_path).add("s3://bucket/x.parquet")


def test_a_place_without_a_log_and_a_url_without_a_prefix_are_named(open_: Any) -> None:
    with pytest.raises(NotFound, match="not a collection"):
        open_().members()
    for url in ("s3://", "s3://bucket", "ftp://bucket/x"):
        with pytest.raises(ConfigError, match="can't hold a collection"):
            lading.Collection(url)


def test_adding_reads_footers_only_and_makes_one_commit(
    open_: Any, there: Place, faulty: FaultyHttp, s3_server: S3Server
) -> None:
    storage = storage_of(there)
    ordered = {"sorting_columns": [pq.SortingColumn(0)]}  # a file that says so
    rows = parquet({"k": list(range(300_000))}, use_dictionary=False, compression="none", **ordered)
    storage.put_new("big.parquet", rows)
    found = open_(**s3_server.options(faulty.endpoint))
    faulty.sent = 0
    found.add("big.parquet", key="k")
    assert faulty.sent < 100_000 < len(rows)
    puts = [path for method, path in faulty.requests if method == "PUT"]
    assert len(puts) == 2 and [path.rpartition("/")[2][-1] for path in puts] == ["0", "1"]


def test_a_lookup_fetches_one_file_and_of_it_one_row_group(
    open_: Any, there: Place, faulty: FaultyHttp, s3_server: S3Server
) -> None:
    storage = storage_of(there)
    for number in range(3):
        keys = list(range(number * 100_000, (number + 1) * 100_000))
        plain = parquet({"k": keys}, row_group_size=10_000, use_dictionary=False, compression="none")
        storage.put_new(f"g{number}.parquet", plain)
    found = open_(**s3_server.options(faulty.endpoint))
    found.add("g0.parquet", "g1.parquet", "g2.parquet", key="k")
    faulty.requests.clear()
    faulty.sent = 0
    assert found.lookup(123_456).opened == 1
    assert {path.rpartition("/")[2].split("?")[0] for _, path in faulty.requests} == {"g1.parquet"}
    assert faulty.sent < 250_000, "80,000 bytes of rows, and a footer"


def test_remove_tier_merge_and_compact(collection: Any, open_: Any, bucket: ObjectStorage) -> None:
    assert collection.remove("f2.parquet") == ("f2.parquet",)
    collection.tier("f0.parquet", 4)
    path = collection.merge("f0.parquet", "f1.parquet", into="new.parquet")
    [member] = open_().members()
    assert (member.path, member.rows, member.tier, member.key_min) == (path, 4, 4, 0)
    assert pq.read_table(io.BytesIO(bucket.get(path)))["k"].to_pylist() == [0, 5, 10, 15]
    collection.compact()
    assert bucket_names(bucket, "checkpoint") == [f"{4:020}"]
    again = open_()
    assert paths(again) == [path]
    again.add("f2.parquet")
    assert paths(open_()) == [path, "f2.parquet"]
    left = {"f0.parquet", "f1.parquet", "f2.parquet"}
    assert left < set(bucket_names(bucket, "")), "files are never deleted"


def test_a_name_that_is_taken_is_never_overwritten(collection: Any, bucket: ObjectStorage) -> None:
    with pytest.raises(ConfigError, match="already exists"):
        collection.merge("f0.parquet", "f1.parquet", into="f2.parquet")
    with pytest.raises(ConfigError, match="not a plain file name"):
        collection.merge("f0.parquet", "f1.parquet", into="sub/x.parquet")


def test_a_merge_that_lost_its_input_leaves_nothing(
    collection: Any, open_: Any, bucket: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lading.parts import fold as merge

    real = merge.merge_files

    def slow(*args: Any) -> Any:
        merged = real(*args)
        open_().remove("f1.parquet")
        return merged

    monkeypatch.setattr(merge, "merge_files", slow)
    with pytest.raises(Conflict):
        collection.merge("f0.parquet", "f1.parquet", into="new.parquet")
    assert "new.parquet" not in bucket_names(bucket, "")
    assert paths(open_()) == ["f0.parquet", "f2.parquet"]


def test_handles_that_change_it_at_once_lose_nothing(collection: Any, open_: Any) -> None:
    one, other, third = open_(), open_(), open_()
    one.remove("f0.parquet")
    other.tier("f1.parquet", 2)
    with pytest.raises(NotFound, match=r"f0\.parquet is not a member"):  # by the log, whatever it remembers
        third.remove("f0.parquet", "f2.parquet")
    assert third.remove("f2.parquet") == ("f2.parquet",)
    assert [(m.path, m.tier) for m in open_().members()] == [("f1.parquet", 2)]


def test_check_names_what_is_missing_or_changed(collection: Any, bucket: ObjectStorage) -> None:
    bucket.delete("f0.parquet")
    bucket.put("f1.parquet", parquet({"k": [1], "s": ["other"]}))
    count, problems = collection.check()
    assert count == 3 and [problem.path for problem in problems] == ["f0.parquet", "f1.parquet"]
    assert "is not there" in problems[0].problem and "bytes" in problems[1].problem


class TestRebuild:
    def rebuilt(self, there: Place, **options: Any) -> Any:
        return lading.Collection.rebuild(there.url, s3=dict(there.options), **options)

    def test_a_whole_log_is_left_alone(self, collection: Any, there: Place, bucket: Any) -> None:
        before = {name: bucket.get(f"log/{name}") for name in bucket_names(bucket, "log")}
        found = self.rebuilt(there)
        assert (found.found_in, found.written, found.members) == ("log", False, 3)
        assert {name: bucket.get(f"log/{name}") for name in bucket_names(bucket, "log")} == before

    @pytest.mark.parametrize("compacted", [False, True])
    def test_what_comes_before_a_damaged_commit_is_restored_and_the_log_goes_on(
        self, collection: Any, there: Place, open_: Any, bucket: ObjectStorage, compacted: bool
    ) -> None:
        collection.tier("f0.parquet", 1)
        if compacted:
            collection.compact()
        collection.remove("f2.parquet")
        collection.tier("f0.parquet", 2)
        damage(bucket, "log/00000000000000000003")
        with pytest.raises(lading.LadingError):
            open_()
        found = self.rebuilt(there)
        assert found.written and found.found_in == ("checkpoint" if compacted else "log")
        assert any("1 commit after the damage" in text for text in found.undecided)
        again = open_()
        assert next((m.path, m.tier) for m in again.members()) == ("f0.parquet", 1) and len(again) == 3
        again.remove("f1.parquet")
        assert paths(open_()) == ["f0.parquet", "f2.parquet"]
        assert bucket.get("log/00000000000000000003"), "what is damaged stays"

    def test_a_damaged_checkpoint_of_a_whole_log_is_done_without(
        self, collection: Any, there: Place, open_: Any, bucket: ObjectStorage
    ) -> None:
        collection.compact()
        collection.tier("f0.parquet", 1)
        bucket.put(f"checkpoint/{1:020}", b"not a checkpoint")
        with pytest.raises(lading.LadingError):
            open_()
        assert self.rebuilt(there).found_in == "log"
        assert next((m.path, m.tier) for m in open_().members()) == ("f0.parquet", 1)

    def test_without_a_log_the_files_are_walked(
        self, collection: Any, there: Place, open_: Any, bucket: ObjectStorage
    ) -> None:
        for name in bucket_names(bucket, "log"):
            bucket.delete(f"log/{name}")
        found = self.rebuilt(there, key="k")
        assert found.found_in == "files" and "outside" in found.undecided[-1]
        assert open_().lookup(15).member == "f1.parquet"
        open_().remove("f1.parquet")
        assert len(open_()) == 2

    def test_where_nothing_lies_there_is_nothing_to_rebuild(self, there: Place) -> None:
        with pytest.raises(NotFound, match="nothing in"):
            self.rebuilt(there)


def test_every_command_works_on_a_url(
    bucket: Any, there: Place, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LADING_CACHE", str(tmp_path / "cache"))
    settings = "\n".join(f"  {name}: '{value}'" for name, value in there.options)
    (tmp_path / "lading.yaml").write_text(
        f"s3:\n{settings}\ntables:\n  t:\n    path: '*.csv'\n    format: csv\n"
    )

    def told(*arguments: str, code: int = 0) -> Any:
        assert invoke(["collection", *arguments, "--json"]) == code, capsys.readouterr()
        return json.loads(capsys.readouterr().out)

    url = there.url
    files = [f"f{number}.parquet" for number in range(3)]
    assert told("add", url, *files, "--key", "k")["members"] == 3
    assert [m["path"] for m in told("list", url)["members"]] == files
    assert told("lookup", url, "15")["row"] == {"k": 15, "s": "s15"}
    assert invoke(["collection", "scan", url, "--where", "k > 20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["s"] == "s25"
    assert told("tier", url, "f0.parquet", "2")["tier"] == 2
    assert told("merge", url, "f0.parquet", "f1.parquet", "--into", "m.parquet")["rows"] == 4
    assert told("remove", url, "f2.parquet")["members"] == 1
    assert told("check", url)["ok"]
    assert told("compact", url)["members"] == 1
    assert told("rebuild", url)["written"] is False
    assert told("remove", url, "nope", code=1)["error"]["kind"] == "NotFound"
    out = capsys.readouterr()
    assert "sentinel" not in (out.out + out.err).lower()


def bucket_names(bucket: ObjectStorage, folder: str) -> list[str]:
    return [one.name.removeprefix(f"{folder}/") for one in bucket.list(folder)]


def damage(bucket: ObjectStorage, name: str) -> None:
    data = bytearray(bucket.get(name))
    data[-6] ^= 1
    bucket.put(name, bytes(data))
