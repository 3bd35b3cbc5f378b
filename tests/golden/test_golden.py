"""What every version so far has written still opens, reads right, and takes commits."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import lading
from lading import catalog
from lading.log.table import Table
from lading.model import Commit

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if path.name[0].isdigit())


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def golden(request, tmp_path) -> Path:
    """A copy: what is kept is never written to."""
    return Path(shutil.copytree(request.param, tmp_path / "golden"))


def test_there_is_a_golden_directory():
    assert VERSIONS


def test_a_collection_of_an_earlier_version_opens_and_takes_commits(golden):
    collection = lading.Collection(golden / "collection")
    listing = [(m.path, m.rows, m.tier, m.key_min, m.key_max) for m in collection.members()]
    assert listing == [("f0.parquet", 2, 0, 0, 5), ("f2.parquet", 2, 2, 20, 25), ("f3.parquet", 2, 0, 30, 35)]
    assert collection.scan("k > 20").to_table()["s"].to_pylist() == ["s25", "s30", "s35"]
    assert collection.lookup(25).opened == 1
    assert collection.check() == (3, [])
    collection.add(golden / "collection" / "f1.parquet")
    collection.compact()
    assert len(lading.Collection(golden / "collection")) == 4


def test_a_table_of_an_earlier_version_opens_with_its_rows_and_lineage(golden):
    wanted = Counter(tuple(row) for row in json.loads((golden / "table.json").read_text()))
    columns = ["id", "day", "note", "_source"]
    with lading.open(golden / "table") as reader:
        found = reader.scan(columns=columns).to_table().to_pylist()
        assert Counter((r["id"], str(r["day"]), r["note"], r["_source"]) for r in found) == wanted
        assert reader.rows == sum(wanted.values())
        assert sorted(source.key for source in reader.sources()) == ["a.csv", "sub/c.csv"]
        assert reader.lookup(33).row["note"] == "edited"
    state = Table.open(golden / "table").state
    assert state.row_count() == sum(wanted.values())
    assert any(member.minus for member in state.candidates(None))


def test_the_log_of_an_earlier_version_goes_on(golden):
    table = Table.open(golden / "table")
    before = table.state.sequence
    table.commit(Commit("c", "r", "2026-01-01", table.state.meta.recipe))
    table.compact()
    assert Table.open(golden / "table").state.sequence == before + 1


def test_the_table_manifest_of_an_earlier_version_loads_and_is_rebuilt_alike(golden):
    manifest = catalog.load(golden / "table")
    assert manifest.table == "events"
    assert catalog.rebuild(golden / "table").partitions == manifest.partitions
