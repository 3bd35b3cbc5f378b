"""What shardyfusion promises of snapshots, on snapshots with real shards."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from support.served import SERVE, ServedProject

from lading.config.file import load as load_config
from lading.errors import ManifestParseError
from lading.serve.shard_file import DDL
from lading.snapshots.manifest import (
    ShardMeta,
    build_snapshot,
    load_build_meta,
    load_shard,
    open_snapshot_file,
    parse_snapshot,
)
from lading.snapshots.stores.files import LocalStore

pytestmark = pytest.mark.usefixtures("spark")

TOKENS = """
key: imo
value: [day, name]
duplicates: latest
cel:
  expr: name
  columns: {name: string}
  routing_values: [anna, bert]
"""


@pytest.fixture
def project(tmp_path: Path) -> ServedProject:
    made = ServedProject(tmp_path / "p")
    made.put("a.csv", [(imo, 1, "anna" if imo % 2 else "bert") for imo in range(40)])
    made.run()
    return made


def manifest(project: ServedProject) -> Path:
    store = LocalStore(project.table)
    current = store.load_current()
    assert current is not None
    return store.manifest_path(current.ref)


@pytest.mark.acceptance("M3")
def test_a_manifest_says_of_each_shard_what_its_file_holds(project: ServedProject) -> None:
    snapshot = project.snapshot()
    assert [shard.db_id for shard in snapshot.shards] == [0, 1, 2, 3]
    for shard in snapshot.shards:
        data = project.file(shard).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (shard.db_bytes, shard.checkpoint_id)
        with closing(sqlite3.connect(project.file(shard))) as con:
            [(ddl,)] = con.execute("SELECT sql FROM sqlite_master WHERE name = 'kv'")
            found = con.execute("SELECT count(*), min(k), max(k) FROM kv").fetchone()
        assert ddl == DDL
        least, greatest = (int(key).to_bytes(8, "big") for key in (shard.min_key, shard.max_key))
        assert found == (shard.row_count, least, greatest)
    sharding = msgspec.to_builtins(snapshot.meta.sharding)
    assert (sharding["strategy"], sharding["hash_algorithm"]) == ("hash", "xxh3_64")
    assert (snapshot.meta.num_dbs, snapshot.meta.key_col, snapshot.meta.key_encoding) == (4, "imo", "u64be")


@pytest.mark.acceptance("M4")
def test_build_metadata_writers_durations_and_statistics_come_back(project: ServedProject) -> None:
    snapshot = project.snapshot()
    custom = snapshot.meta.custom
    assert snapshot.meta.run_id and snapshot.meta.created_at.tzinfo is not None
    assert custom["durations"]["shards_ms"] > 0
    assert custom["statistics"] == {
        "shards_built": 4,
        "shards_shared": 0,
        "keys": 40,
        "bytes": sum(shard.db_bytes for shard in snapshot.shards),
    }
    for shard in snapshot.shards:
        writer = shard.writer_info
        assert writer.stage_id is not None and writer.task_attempt_id is not None
        assert writer.attempt == 0 and writer.duration_ms >= 0


@pytest.mark.acceptance("M7")
def test_version_two_without_tokens_and_three_with_them(project: ServedProject) -> None:
    assert project.snapshot().meta.format_version == 2
    project.serve(SERVE + "cel: {expr: imo % 4, columns: {imo: int}}\n")
    project.run()
    assert project.snapshot().meta.format_version == 2
    assert project.snapshot().meta.sharding.strategy == "cel"
    project.serve(TOKENS)
    project.run()
    assert project.snapshot().meta.format_version == 3
    assert project.snapshot().meta.sharding.routing_values == ("anna", "bert")


@pytest.mark.acceptance("M8")
def test_a_version_two_manifest_with_tokens_is_refused(project: ServedProject) -> None:
    project.serve(TOKENS)
    project.run()
    payload = manifest(project).read_bytes()
    with closing(sqlite3.connect(":memory:")) as con:
        con.deserialize(payload)
        con.execute("UPDATE build_meta SET format_version = 2")
        con.commit()
        bent = con.serialize()
    with pytest.raises(ManifestParseError, match="routing_values need format_version 3"):
        parse_snapshot(bent)


@pytest.mark.acceptance("M11")
def test_shards_that_do_not_fit_the_set_are_refused(project: ServedProject) -> None:
    snapshot = project.snapshot()
    first = snapshot.shards[0]
    for shards in (
        (*snapshot.shards, first),
        (*snapshot.shards[1:], msgspec.structs.replace(first, db_id=4)),
        (*snapshot.shards, msgspec.structs.replace(first, db_id=9)),
    ):
        with pytest.raises(ManifestParseError):
            build_snapshot(snapshot.meta, shards)


@pytest.mark.acceptance("M23")
def test_one_shard_by_id_is_enough_to_open_it(project: ServedProject) -> None:
    with closing(open_snapshot_file(manifest(project))) as con:
        statements: list[str] = []
        con.set_trace_callback(statements.append)
        meta = load_build_meta(con)
        shard = load_shard(con, 2)
    assert not any("FROM shards" in text and "WHERE db_id" not in text for text in statements)
    assert meta.num_dbs == 4 and isinstance(shard, ShardMeta)
    with closing(sqlite3.connect(project.file(shard))) as con:
        assert con.execute("SELECT count(*) FROM kv").fetchone() == (shard.row_count,)


@pytest.mark.acceptance("S12")
def test_shards_go_where_prefix_and_template_say_and_readers_follow(project: ServedProject) -> None:
    import lading

    run = project.snapshot().meta.run_id
    assert project.urls()[3] == f"shards/run_id={run}/db=00003/attempt=00"
    project.serve(SERVE + "shard_prefix: served/here\ndb_path_template: 'part-{db_id:02d}'\n")
    project.put("b.csv", [(imo, 2, "new") for imo in range(40)])
    run = project.run().run_id
    meta = project.snapshot().meta
    assert (meta.shard_prefix, meta.db_path_template) == ("served/here", "part-{db_id:02d}")
    assert project.urls()[3] == f"served/here/run_id={run}/part-03/attempt=00"
    assert load_config(project.folder).tables["ships"].serve is not None
    with lading.open(project.table) as reader:
        assert reader.multi_get(list(range(40))) == project.latest()
