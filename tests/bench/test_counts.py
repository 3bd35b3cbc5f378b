"""Counts behind the bench's figures: they don't depend on the clock, so here they can be asserted."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lading
from bench import fixtures, projects, served, sourced, spark_work
from bench.case import Kit
from bench.jobs.change import RawFiles
from bench.jobs.ingest import COLUMNS, table_lines
from bench.jobs.publish import payload_of
from bench.served import SHARDS, STRIDE
from lading.catalog.table import Table
from lading.run import run
from lading.snapshots.stores.local import LocalStore


def python_calls(work: Callable[[], object]) -> int:
    """How many functions written in Python were called."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


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


def test_a_run_with_nothing_to_do_opens_no_source_and_calls_little_for_each(
    tmp_path: Path, opened: list[str]
) -> None:
    calls, files = [], []
    for size in (200, 1_200):
        config = sourced.project(tmp_path, size)
        sourced.nothing_to_do(run(config))
        opened.clear()
        calls.append(python_calls(lambda config=config: sourced.nothing_to_do(run(config))))
        files.append(len(opened))
        assert not [name for name in opened if name.endswith(".csv")]
    folders = sourced.FOLDERS - 200  # that the second project has more
    assert files[1] == files[0]
    assert calls[1] - calls[0] <= 2 * 1_000 + 10 * folders


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


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    return served.table(served.project(Kit(folder / "data", folder), 2_000))


def test_a_get_is_one_statement_and_a_multi_get_few_for_each_shard(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*words: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*words, **named)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    with lading.open(keys) as reader:
        wanted = [number * STRIDE for number in range(1_000)]
        reader.multi_get(wanted)  # opens every shard
        statements.clear()
        assert all(reader.get(key) is not None for key in wanted[:50])
        assert len(statements) == 50
        assert python_calls(lambda: reader.get(wanted[0])) <= 8
        statements.clear()
        assert None not in reader.multi_get(wanted).values()
        assert SHARDS <= len(statements) <= 2 * SHARDS
        assert python_calls(lambda: reader.multi_get(wanted)) <= 3 * len(wanted)


@pytest.mark.parametrize("spread", [False, True])
def test_for_a_changed_file_spark_reads_and_moves_what_is_its_own_only(
    tmp_path: Path, spark: SparkSession, spread: bool
) -> None:
    raw = RawFiles(tmp_path / "raw", files=20, rows=500, spread=spread)
    for number in range(raw.files):
        raw.write(number)
    config = projects.make(tmp_path / "project", COLUMNS, table_lines(raw.files * raw.rows), raw.folder)
    before = spark_work.stages()
    projects.run_once(config)
    full = spark_work.since(before)
    raw.change(1)
    before = spark_work.stages()
    report = projects.run_once(config)
    change = spark_work.since(before)
    assert report.tables[0].verdicts["changed"] == 1 and report.tables[0].rows == raw.files * raw.rows
    assert full.input_bytes > 0
    assert change.input_bytes <= 2 * full.input_bytes / raw.files
    assert change.shuffle_bytes <= 2 * full.shuffle_bytes / raw.files
    assert change.tasks <= full.tasks
