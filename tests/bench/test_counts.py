"""Counts behind the bench's figures: they don't depend on the clock, so here they can be asserted."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.workshop import Workshop

import lading
from bench import fixtures, projects, served, sourced, spark_work
from bench.case import Kit
from bench.jobs.change import Files
from bench.jobs.ingest import COLUMNS, table_lines
from bench.jobs.publish import payload_of
from bench.served import SHARDS, STRIDE
from lading.ingest import prepare
from lading.ingest.look import look
from lading.ingest.record import record_sources
from lading.ingest.tasks.execute import execute
from lading.ingest.tasks.splits import make_tasks
from lading.log.table import Table
from lading.model import Check
from lading.run import run
from lading.serve.build.place import ShardPlace
from lading.serve.build.rows import PartRows
from lading.serve.build.task import ShardJob, build_shards, route_parts
from lading.serve.keys import KeySpec
from lading.serve.routing import Router
from lading.serve.spec import ServeSpec
from lading.snapshots import manifest
from lading.snapshots.manifest import BuildMeta, Sharding, ShardMeta, build_snapshot
from lading.snapshots.stores.files import LocalStore
from lading.state.members import MemberStore
from lading.watch import Watch


def python_calls(work: Callable[..., object], *given: object) -> int:
    """How many functions written in Python were called; not those that a garbage collection in between would
    call, for whatever other tests left behind."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        work(*given)
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def traced(statements: list[Any]) -> Callable[..., sqlite3.Connection]:
    """`sqlite3.connect`, with what its connections are asked told to `statements`."""
    connect = sqlite3.connect

    def connected(*words: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*words, **named)
        connection.set_trace_callback(statements.append)
        return connection

    return connected


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is opened through Python from now on. The hook stays for good; it only listens while asked to."""
    names: list[str] = []
    listening = [True]

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if listening[0] and event == "open" and isinstance(arguments[0], str):
            names.append(arguments[0])

    sys.addaudithook(hear)
    yield names  # type: ignore[misc]
    listening[0] = False


def test_publishing_syncs_as_often_however_many_members_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (syncs.append(file), real(file))[1])
    counts = []
    for size in (10, 2_000):
        table = Table.open(fixtures.collection(tmp_path / "data", size))
        store = LocalStore(tmp_path / f"published-{size}")
        store.publish(payload_of(table, "first"), "first", sequence=1)  # makes the folders
        payload = payload_of(table, "second")
        syncs.clear()
        store.publish(payload, "second", sequence=2)
        counts.append(len(syncs))
        table.close()
    assert counts[0] == counts[1] <= 5


def test_a_snapshot_is_built_without_being_read_back_and_with_few_calls_for_each_shard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meta = BuildMeta(run_id="r", created_at=datetime(2024, 1, 1, tzinfo=UTC), num_dbs=1_000)

    def shards(count: int) -> list[ShardMeta]:
        return [
            ShardMeta(db_id=number, db_url="u", attempt=0, row_count=1, min_key=0, max_key=1, db_bytes=1)
            for number in range(count)
        ]

    build_snapshot(meta)  # what is made once a process
    few, many = shards(100), shards(1_000)
    calls = [python_calls(lambda some=some: build_snapshot(meta, some)) for some in (few, many)]
    assert calls[1] - calls[0] <= 5 * 900
    statements: list[Any] = []
    monkeypatch.setattr(sqlite3, "connect", traced(statements))
    monkeypatch.setattr(manifest, "_kept", manifest._Kept())
    build_snapshot(meta, many)
    others = [statement for statement in statements if not statement.startswith("INSERT INTO shards")]
    assert len(statements) == len(others) + len(many)
    assert len(others) <= 6 and not [one for one in others if one.startswith(("SELECT", "VACUUM", "CREATE"))]


def test_a_run_with_nothing_to_do_opens_no_source_and_calls_little_for_each(
    tmp_path: Path, opened: list[str]
) -> None:
    calls, files = [], []
    for size in (200, 1_200):
        config = sourced.project(tmp_path, size)
        sourced.nothing_to_do(run(config))
        opened.clear()
        calls.append(python_calls(lambda config=config: sourced.nothing_to_do(run(config))))
        listed = [name for name in opened if os.path.isdir(name)]
        files.append(len(opened) - len(listed))
        assert len(listed) == len(set(listed)) == min(size, sourced.FOLDERS) + 1
        assert not [name for name in opened if name.endswith(".csv")]
    folders = sourced.FOLDERS - 200  # that the second project has more
    assert files[1] == files[0]
    assert calls[1] - calls[0] <= 2 * 1_000 + 10 * folders


def test_a_run_with_nothing_to_do_imports_nothing_that_only_rows_need(tmp_path: Path) -> None:
    config = sourced.project(tmp_path, 1)
    heavy = ("pandas", "pyspark", "pyarrow.acero", "pyarrow.dataset", "obstore", "psycopg", "apsw")
    code = (
        "import sys; from lading.cli.main import invoke; "
        f"invoke(['-C', {str(config.project)!r}, 'run']); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert "1 unchanged" in shown and shown.endswith("\n[]\n")


def test_a_run_that_brings_the_manifest_up_to_the_log_walks_its_sources_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = sourced.project(tmp_path, 3)
    manifest = config.source_manifest(projects.TABLE)
    whole = manifest.read_bytes()
    manifest.write_bytes((config.project / sourced.EMPTY).read_bytes())
    walks: list[Any] = []
    real = MemberStore.sources_in
    monkeypatch.setattr(MemberStore, "sources_in", lambda *of: (walks.append(of), real(*of))[1])
    projects.run_once(config)
    assert manifest.read_bytes() == whole
    assert len(walks) == 2, "to compare the files, and to write the manifest"


def test_recording_calls_as_much_for_a_file_among_many_as_among_few(tmp_path: Path) -> None:
    calls = {}
    for size in (100, 200, 400):
        config = sourced.project(tmp_path, size)
        manifest = config.source_manifest(projects.TABLE)
        empty = (config.project / sourced.EMPTY).read_bytes()
        for _ in range(2):  # the first has imports in it
            manifest.write_bytes(empty)
            calls[size] = python_calls(lambda config=config: projects.run_once(config))
    per_file = (calls[400] - calls[200]) / 200
    assert per_file <= (calls[200] - calls[100]) / 100 * 1.1 + 1


def test_writing_down_what_was_read_takes_few_calls_for_a_file(tmp_path: Path) -> None:
    calls = []
    for size in (1_000, 2_000):
        config = sourced.project(tmp_path, size)
        seen = look(config, projects.TABLE, watch=Watch())
        record_sources(seen, {})
        calls.append(python_calls(record_sources, seen, {}))
        seen.table.close()
    assert (calls[1] - calls[0]) / 1_000 <= 14


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    return served.table(served.project(Kit(folder / "data", folder), 2_000))


@pytest.fixture
def statements(engine: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What connections that are opened from now on execute; texts, or what apsw makes of them. Nothing
    written in Python is called for it."""
    seen: list[Any] = []
    if engine == "apsw":
        import apsw

        def listen(connection: Any) -> None:
            connection.trace_v2(apsw.SQLITE_TRACE_STMT, seen.append)

        monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, listen])
        return seen
    monkeypatch.setattr(sqlite3, "connect", traced(seen))
    return seen


def test_a_get_is_one_statement_and_a_multi_get_few_for_each_shard(keys: Path, statements: list[Any]) -> None:
    with lading.open(keys) as reader:
        wanted = [number * STRIDE for number in range(1_000)]
        reader.multi_get(wanted)  # opens every shard
        statements.clear()
        assert all(reader.get(key) is not None for key in wanted[:50])
        assert len(statements) == 50
        assert python_calls(reader.get, wanted[0]) <= 3
        statements.clear()
        assert None not in reader.multi_get(wanted).values()
        assert SHARDS <= len(statements) <= 2 * SHARDS
        assert python_calls(lambda: reader.multi_get(wanted)) <= 20 * SHARDS


def test_a_shard_is_built_without_a_call_and_with_a_hundredth_of_a_statement_for_each_row(
    tmp_path: Path, statements: list[Any]
) -> None:
    calls, inserts = {}, {}
    for count in (1_000, 20_000, 40_000):  # the first has imports in it
        folder = tmp_path / str(count)
        folder.mkdir()
        keys = np.arange(count)[::-1]
        table = pa.table({"key": keys, "v": [f"{key:0100d}" for key in keys], "_source": keys * 0})
        pq.write_table(table, folder / "part.parquet", row_group_size=count)
        router = Router(KeySpec(("key",), ("int",), "u64be"), SHARDS, Sharding(hash_algorithm="xxh3_64"))
        spec = ServeSpec(router, ("v",), "raw", latest=False, order_by=None, id="x")
        job = ShardJob(
            str(folder), table.schema.serialize().to_pybytes(), spec, ShardPlace(str(folder), "run"),
            shards=tuple(range(SHARDS)), tasks=1, parts=((PartRows("part.parquet"),),),
        )  # fmt: skip
        statements.clear()
        calls[count] = python_calls(lambda job=job: _build(job))
        inserts[count] = sum("INSERT INTO kv" in str(one) for one in statements)
    assert calls[40_000] - calls[20_000] <= 20_000 / 50
    assert inserts[40_000] - inserts[20_000] <= 20_000 / 50


def _build(job: ShardJob) -> None:
    """What Spark's tasks do, without Spark between them."""
    packets = route_parts(iter([pa.record_batch({"id": [0]})]), job)
    moved = pa.Table.from_batches(packets).sort_by("db").to_batches()
    assert sum(batch.num_rows for batch in build_shards(iter(moved), job)) == SHARDS


@pytest.mark.parametrize("spread", [False, True])
def test_for_a_changed_file_tasks_read_what_is_its_own_only(
    tmp_path: Path, spark: SparkSession, spread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def noting(files: Any, *rest: Any) -> Any:
        tasks = make_tasks(files, *rest)
        read.append(sum(piece.bytes for task in tasks for piece in task.pieces))
        return tasks

    monkeypatch.setattr(prepare, "make_tasks", noting)
    raw = Files(tmp_path / "raw", files=20, rows=1_500, spread=spread)
    raw.write_all()
    config = projects.make(tmp_path / "project", COLUMNS, table_lines(raw.files * raw.rows), raw.folder)
    before = spark_work.stages()
    projects.run_once(config)
    full = spark_work.since(before)
    raw.change(1)
    before = spark_work.stages()
    report = projects.run_once(config)
    change = spark_work.since(before)
    assert report.tables[0].verdicts["changed"] == 1 and report.tables[0].rows == raw.files * raw.rows
    assert len(read) == 2 and 0 < read[1] <= 2 * read[0] / raw.files
    assert full.shuffle_bytes == change.shuffle_bytes == 0, "rows never enter the JVM"
    assert change.tasks <= full.tasks


@pytest.mark.parametrize("checks", [(), (Check("not_null", "named", "k", 1, columns=("name",)),)])
def test_a_task_calls_no_python_for_a_row(tmp_path: Path, checks: tuple[Check, ...]) -> None:
    calls = []
    for rows in (200, 2_000, 20_000):  # the first has imports in it
        shop = Workshop(tmp_path / str(rows))
        draw = np.random.default_rng(5)
        ids = (draw.permutation(rows) // 2 * 2).tolist()  # pairs, so that ties are settled too
        files = shop.csv("id,name,ms\n" + "".join(f"{one},name-{one % 97},{one}.5\n" for one in ids))
        job = shop.job(files, "id bigint; name string; ms double", order_by="id", checks=checks)
        plan = shop.plan(job, files)
        calls.append(python_calls(lambda j=job, p=plan: execute(j, p, lambda: None, in_process=True)))
    assert calls[2] <= calls[1] + 20
