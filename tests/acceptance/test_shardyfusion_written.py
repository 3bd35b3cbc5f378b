"""Snapshots that shardyfusion wrote, opened by lading: what they hold is served, what they lack is said."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.servers import S3Server
from support.shardyfusion import Put, Writer, into_folder

import lading
from lading.cli.main import invoke
from lading.errors import ConfigError, ManifestParseError, NotFound, ShardError
from lading.snapshots.history import history
from lading.snapshots.opening import references
from lading.snapshots.stores.files import BucketStore, LocalStore
from lading.storage.bucket import ObjectStorage
from lading.storage.place import place_of

VALUES = {key: b"value %d" % key for key in range(0, 400, 2)}
TOKENS = {
    "num_dbs": 2,
    "routing_values": ["eu", "us"],
    "cel_expr": "region",
    "cel_columns": {"region": "string"},
}

Opened = Callable[..., lading.Reader]


def put_object(storage: ObjectStorage) -> Put:
    def put(name: str, data: bytes, content_type: str) -> None:
        if name == "_CURRENT":
            storage.put(name, data)
        else:
            storage.put_new(name, data, content_type=content_type)

    return put


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Put, Opened, Any]:
    """Where the writer's root is: its URL, how it writes there, how lading opens it, lading's store there."""
    if request.param == "folder":
        root = tmp_path / "warehouse" / "ships"
        root.mkdir(parents=True)
        url = "s3://far-away/team/ships"  # copied out of its bucket: its manifests go on naming that
        return url, into_folder(root), lambda **more: lading.open(root, **more), LocalStore(root)
    server: S3Server = request.getfixturevalue("s3_server")
    url = f"{server.bucket(f'seed-{uuid.uuid4().hex[:12]}')}/team/ships"
    storage = ObjectStorage(url, server.options())
    options: dict[str, Any] = {"s3": server.options(), "cache": tmp_path / "cache"}
    return (
        url,
        put_object(storage),
        lambda **more: lading.open(url, **options, **more),
        BucketStore(url, server.options()),
    )


@pytest.mark.acceptance("M24")
@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_snapshot_that_shardyfusion_wrote_is_served(place: Any, format_version: int) -> None:
    url, put, opened, store = place
    sharding: dict[str, Any] = TOKENS if format_version == 3 else {}
    by_token = {"shard_of": lambda key: key // 200} if format_version == 3 else {}
    build = Writer(url, put, **sharding).publish(VALUES, format_version=format_version, **by_token)
    beside = [{"region": "eu"}, {"region": "us"}] if format_version == 3 else [None, None]
    with opened() as reader:
        assert reader.get(4, context=beside[0]) == b"value 4"
        assert reader.get(5, context=beside[0]) is None
        asked = reader.multi_get([202, 201, 398], context=beside[1])
        assert asked == {202: b"value 202", 201: None, 398: b"value 398"}
        told = {one["db_id"]: one for one in build.shards}
        assert [one.db_id for one in reader.shards()] == sorted(told)
        for one in reader.shards():
            assert (one.row_count, one.min_key, one.max_key, one.checkpoint_id) == tuple(
                told[one.db_id][name] for name in ("row_count", "min_key", "max_key", "checkpoint_id")
            )
            assert one.writer_info.task_attempt_id == 7 and one.db_bytes is None
        low, high = told[reader.route(4, context=beside[0])], told[reader.route(398, context=beside[1])]
        assert low["min_key"] <= 4 <= low["max_key"] and high["min_key"] <= 398 <= high["max_key"]
        assert reader.rows == len(VALUES)
        for deep in (False, True):
            told_health = reader.health(deep=deep)
            assert (told_health["status"], told_health["problems"]) == ("ok", [])
            assert told_health["shards"] == len(build.shards) and told_health["served"]
        assert reader.info()["serve"]["keys"] == len(VALUES)
        for ask in (reader.scan, lambda: reader.lookup(4), reader.sources):
            with pytest.raises(NotFound, match="has no parts"):
                ask()
        with pytest.raises(ConfigError, match="doesn't say how values are encoded"):
            reader.get(4, context=beside[0], decode=True)
    [entry] = history(store)
    assert (entry.run_id, entry.current, entry.problem) == (build.run_id, True, None)


@pytest.mark.acceptance("M24")
def test_readers_move_on_between_snapshots_of_shardyfusion_and_go_back(place: Any) -> None:
    url, put, opened, store = place
    writer = Writer(url, put)
    first = writer.publish({1: b"one"})
    with opened() as reader:
        second = writer.publish({1: b"two", 2: b"two"})
        assert reader.get(1) == b"one"
        assert reader.refresh() and reader.get(1) == b"two" and reader.snapshot.run_id == second.run_id
    with opened(offset=1) as reader:
        assert reader.get(1) == b"one" and reader.snapshot.run_id == first.run_id
    assert [one.run_id for one in history(store)] == [second.run_id, first.run_id]


@pytest.mark.acceptance("M24")
@pytest.mark.parametrize("encoding, keys", [("u32be", [0, 1, 2**32 - 1]), ("utf8", ["a", "bb", "ö"])])
def test_keys_of_every_kind_are_found_in_what_shardyfusion_wrote(
    place: Any, encoding: str, keys: list[Any]
) -> None:
    url, put, opened, _ = place
    values = {key: str(key).encode() for key in keys}
    Writer(url, put, num_dbs=3, key_encoding=encoding).publish(values, format_version=1)
    with opened() as reader:
        assert reader.multi_get(keys) == values


def test_a_snapshot_of_shardyfusion_without_any_rows_answers_that_nothing_is_there(tmp_path: Path) -> None:
    Writer("s3://b/t", into_folder(tmp_path)).publish({})
    with lading.open(tmp_path) as reader:
        assert reader.get(1) is None and reader.shards() == [] and reader.info()["served"]


def test_a_checksum_that_shardyfusion_did_record_is_held_against_the_file(tmp_path: Path) -> None:
    writer = Writer("s3://b/t", into_folder(tmp_path), num_dbs=1)
    writer.checkpoint = lambda data: hashlib.sha256(data).hexdigest()
    writer.publish({1: b"right"})
    with lading.open(tmp_path) as reader:
        assert reader.get(1) == b"right"
    [file] = tmp_path.rglob("shard.db")
    file.write_bytes(file.read_bytes().replace(b"right", b"wrong"))
    with lading.open(tmp_path) as reader, pytest.raises(ShardError, match="SHA-256 is not the published one"):
        reader.get(1)


def test_a_missing_shard_of_shardyfusion_is_named(place: Any) -> None:
    url, put, opened, store = place
    build = Writer(url, put, num_dbs=1).publish({1: b"one"})
    name = build.shards[0]["db_url"].removeprefix(f"{url}/") + "/shard.db"
    if isinstance(store, LocalStore):
        (store.root / name).unlink()
    else:
        store.storage.delete(name)
    with opened() as reader:
        assert reader.health()["status"] == "failing"
        with pytest.raises(ShardError, match="missing"):
            reader.get(1)


def test_a_manifest_of_ours_that_lost_its_tables_is_damaged_and_not_somebody_elses(tmp_path: Path) -> None:
    writer = Writer("s3://b/t", into_folder(tmp_path))
    build = writer.build({1: b"one"})
    build.custom = {"table": "ships", "table_id": "t", "sequence": 4}
    writer.build = lambda values, **context: build  # type: ignore[method-assign]
    writer.publish({})
    with pytest.raises(ManifestParseError):
        lading.open(tmp_path)


def test_cleaning_leaves_alone_what_a_manifest_of_shardyfusion_refers_to(tmp_path: Path) -> None:
    build = Writer("s3://b/t", into_folder(tmp_path)).publish(VALUES)
    store = LocalStore(tmp_path)
    [listed] = store.list_manifests()
    told = references(store, listed.ref, place_of(tmp_path), {})
    assert told.pages == frozenset()
    assert {one["db_url"].removeprefix("s3://b/t/") for one in build.shards} <= told.shards


@pytest.mark.acceptance("M24")
def test_the_asynchronous_reader_serves_them_too(tmp_path: Path) -> None:
    Writer("s3://b/t", into_folder(tmp_path)).publish(VALUES)

    async def ask() -> tuple[Any, ...]:
        async with await lading.open_async(tmp_path) as reader:
            return await reader.get(8), await reader.multi_get([10, 11]), (await reader.health())["status"]

    assert asyncio.run(ask()) == (b"value 8", {10: b"value 10", 11: None}, "ok")


@pytest.fixture(params=["folder", "bucket"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project that knows nothing of the table `ships`, which shardyfusion wrote into its warehouse."""
    other = 'tables: {other: {root: data, path: "*.csv", format: csv}}\n'
    if request.param == "folder":
        Writer("s3://b/ships", into_folder(tmp_path / "warehouse" / "ships")).publish(VALUES)
        (tmp_path / "lading.yaml").write_text(other)
        return tmp_path
    server: S3Server = request.getfixturevalue("s3_server")
    base = f"{server.bucket(f'seed-{uuid.uuid4().hex[:12]}')}/team"
    Writer(f"{base}/ships", put_object(ObjectStorage(f"{base}/ships", server.options()))).publish(VALUES)
    told = json.dumps(server.options())
    (tmp_path / "lading.yaml").write_text(f"warehouse: {base}\ns3: {told}\n{other}")
    return tmp_path


@pytest.mark.acceptance("M24")
def test_the_command_line_reads_what_shardyfusion_wrote(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def said(*args: str, code: int = 0) -> Any:
        assert invoke(["-C", str(project), *args, "--json"]) == code
        return json.loads(capfd.readouterr().out)

    assert said("get", "ships", "4")["value"] == "value 4"
    assert said("get", "ships", "5")["found"] is False
    assert [one["value"] for one in said("multiget", "ships", "6", "8")["values"]] == ["value 6", "value 8"]
    assert said("route", "ships", "4")["shard"] == said("get", "ships", "4")["shard"]
    shards = said("shards", "ships")
    assert sum(one["keys"] for one in shards["shards"]) == len(VALUES) and shards["bytes"] is None
    assert said("health", "ships")["tables"][0]["status"] == "ok"
    assert [one["current"] for one in said("history", "ships")["snapshots"]] == [True]
    assert "has no parts" in said("lookup", "ships", "4", code=1)["error"]["message"]
    assert invoke(["-C", str(project), "scan", "ships"]) == 1
    assert "has no parts" in capfd.readouterr().err
    assert invoke(["-C", str(project), "shards", "ships"]) == 0
    assert invoke(["-C", str(project), "get", "ships", "4"]) == 0
    assert capfd.readouterr().out.endswith("value 4\n")
    assert said("get", "shops", "4", code=1)["error"]["kind"] == "NotFound"
