"""A current manifest that can't be parsed: readers get the one before, and are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.handmade import ServedTable

import lading
from lading.errors import ManifestParseError
from lading.read.view import SnapshotFallback


@pytest.fixture
def table(tmp_path: Path) -> ServedTable:
    table = ServedTable(tmp_path / "ships")
    for number in range(1, 6):
        table.publish({1: b"%d" % number})
    return table


def spoil(table: ServedTable, count: int) -> None:
    """Make the newest manifests garbage that still begins as a SQLite file."""
    for ref in table.store.list_manifests(limit=count):
        path = table.root / ref.ref
        path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_earlier_snapshot_stands_in_and_that_is_said(table: ServedTable, count: int) -> None:
    spoil(table, count)
    with pytest.warns(SnapshotFallback, match="is malformed"):
        reader = lading.open(table.root)
    with reader:
        assert reader.get(1) == b"%d" % (5 - count)
        found = reader.health()
        assert found["status"] == "degraded"
        assert found["fallback_from"] == table.store.load_current().ref
        assert found["behind"] is False  # there is nothing better to be had
        assert reader.refresh() is False


def test_there_is_a_limit(table: ServedTable) -> None:
    spoil(table, 4)
    with pytest.raises(ManifestParseError):
        lading.open(table.root)
    with pytest.warns(SnapshotFallback), lading.open(table.root, fallbacks=4) as reader:
        assert reader.get(1) == b"1"
    spoil(table, 1)
    with pytest.raises(ManifestParseError):
        lading.open(table.root, fallbacks=0)


def test_a_snapshot_that_was_asked_for_by_name_has_no_stand_in(table: ServedTable) -> None:
    ref = table.store.list_manifests(limit=1)[0].ref
    spoil(table, 1)
    with pytest.raises(ManifestParseError):
        lading.open(table.root, ref=ref)


def test_a_refresh_onto_a_malformed_manifest_keeps_what_there_was(table: ServedTable) -> None:
    with lading.open(table.root) as reader:
        assert reader.get(1) == b"5"
        table.publish({1: b"6"})
        spoil(table, 1)
        with pytest.warns(SnapshotFallback):
            assert reader.refresh() is False
        assert reader.get(1) == b"5"
        assert reader.health()["status"] == "degraded"
        table.publish({1: b"7"})
        assert reader.refresh() is True
        assert (reader.get(1), reader.health()["status"]) == (b"7", "ok")


def test_a_snapshot_that_a_gate_refused_never_stands_in(tmp_path: Path) -> None:
    table = ServedTable(tmp_path / "ships")
    table.publish({1: b"good"})
    table.publish({1: b"refused"}, gate={"failures": ["too few rows"]})
    table.publish({1: b"current"})
    spoil(table, 1)
    with pytest.warns(SnapshotFallback), lading.open(table.root) as reader:
        assert reader.get(1) == b"good"


def test_an_old_snapshot_is_healthy_until_it_is_too_old(table: ServedTable) -> None:
    with lading.open(table.root) as reader:
        assert reader.health(max_age=3600)["status"] == "ok"
        late = reader.health(max_age=0)
        assert late["status"] == "degraded" and "old" in late["problems"][0]
        table.publish({1: b"newer"})
        assert reader.health()["behind"] is True
        assert reader.health()["status"] == "ok"
        os.unlink(table.root / "_CURRENT")
        assert reader.health()["status"] == "failing"
        assert reader.get(1) == b"5"
