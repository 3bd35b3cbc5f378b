"""A look that finds nothing changed decodes nothing; one that might not goes the long way."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from lading.catalog.table import Table
from lading.config.file import load as load_config
from lading.model import Commit, Source
from lading.sources.discover import discover
from lading.sources.ids import source_id
from lading.steps.look import Look, look, recipe_of
from lading.steps.quiet import SEAL, AllUnchanged
from lading.steps.record import record_sources
from lading.steps.schema import pinned_columns
from lading.watch import Watch

OLD = 1_600_000_000


class Shelf:
    """A table that has read its files, as far as its log and its manifest say."""

    def __init__(self, folder: Path, *, racy: bool = False) -> None:
        self.folder = folder
        (folder / "lading.yaml").write_text("tables: {t: {root: data, path: '*.csv', format: csv}}\n")
        (folder / "schema").mkdir()
        (folder / "schema" / "t.yaml").write_text("columns:\n- {name: a, type: bigint}\n")
        for name in ("a", "b", "c"):
            self.put(f"{name}.csv", "a\n1\n")
        self._commit(racy)
        self.record()

    def put(self, name: str, text: str, at: float = OLD) -> None:
        path = self.folder / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (at, at))

    def look(self, **options: bool) -> Look:
        return look(load_config(self.folder), "t", watch=Watch(), **options)

    def record(self, **failures: str) -> None:
        config = load_config(self.folder)
        table = Table.open(config.place("t"))
        record_sources(
            config,
            self.look(),
            table_id=table.table_id,
            sequence=table.state.sequence,
            sources={key: source for key, (source, _) in table.state.sources().items()},
            failures={f"{key}.csv": why for key, why in failures.items()},
            recipe=table.state.meta.recipe,
        )

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest" / "t.json"

    def _commit(self, racy: bool) -> None:
        config = load_config(self.folder)
        cfg = config.table("t")
        columns = pinned_columns(config, cfg)
        assert columns is not None
        found = discover(cfg.root, cfg.path, now_ns=time.time_ns())
        sources = tuple(
            Source(source_id(f.key), f.key, f.hash, "0" * 64, f.size, f.mtime_ns, 1, racy, "2024-01-01")
            for f in found
        )
        recipe = recipe_of(config, cfg, columns)
        table = Table.create(config.place("t"), "t")
        table.commit(Commit("c", "r", "2024-01-01T00:00:00+00:00", recipe, sources=sources))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_an_unchanged_table_is_seen_at_a_glance(shelf: Shelf) -> None:
    seen = shelf.look()
    assert isinstance(seen.plan.files, AllUnchanged) and seen.plan.idle
    assert seen.plan.verdicts["unchanged"] == 3 and sum(seen.plan.verdicts.values()) == 3
    assert [(one.key, one.verdict) for one in seen.plan.files] == [
        ("a.csv", "unchanged"),
        ("b.csv", "unchanged"),
        ("c.csv", "unchanged"),
    ]
    assert seen.plan.files[1].key == "b.csv" and [one.key for one in seen.plan.files[1:]] == [
        "b.csv",
        "c.csv",
    ]
    assert seen.ledger.known["a.csv"].source is not None and len(seen.ledger.known) == 3


def test_a_glance_and_the_long_way_see_the_same(shelf: Shelf) -> None:
    glance = shelf.look().plan
    manifest = json.loads(shelf.manifest.read_text())
    del manifest["lading"][SEAL]
    shelf.manifest.write_text(json.dumps(manifest, indent=2))
    long = shelf.look().plan
    assert not isinstance(long.files, AllUnchanged)
    assert (list(glance.files), glance.verdicts, glance.idle) == (list(long.files), long.verdicts, long.idle)


@pytest.mark.parametrize("change", ["touch", "edit", "add", "remove", "rename", "young"])
def test_whatever_happens_to_a_file_is_noticed(shelf: Shelf, change: str) -> None:
    path = shelf.folder / "data" / "b.csv"
    if change == "touch":
        os.utime(path, (OLD + 1, OLD + 1))
    elif change == "edit":
        shelf.put("b.csv", "a\n22\n")
    elif change == "add":
        shelf.put("d.csv", "a\n1\n")
    elif change == "remove":
        path.unlink()
    elif change == "rename":
        path.rename(path.with_name("bb.csv"))
    else:
        os.utime(path)
    assert not isinstance(shelf.look().plan.files, AllUnchanged)


def test_another_recipe_an_edited_manifest_and_a_full_run_go_the_long_way(shelf: Shelf) -> None:
    assert not isinstance(shelf.look(full=True).plan.files, AllUnchanged)
    schema = shelf.folder / "schema" / "t.yaml"
    schema.write_text(schema.read_text().replace("bigint", "string"))
    assert shelf.look().plan.reason is not None
    schema.write_text(schema.read_text().replace("string", "bigint"))
    text = shelf.manifest.read_text()
    shelf.manifest.write_text(text.replace('"row_count": 1', '"row_count": 2', 1))
    assert not isinstance(shelf.look().plan.files, AllUnchanged)


def test_a_manifest_with_something_left_to_do_has_no_seal(tmp_path: Path) -> None:
    (tmp_path / "racy").mkdir()
    shelf = Shelf(tmp_path / "racy", racy=True)
    assert json.loads(shelf.manifest.read_text())["lading"][SEAL] is None
    (tmp_path / "failed").mkdir()
    other = Shelf(tmp_path / "failed")
    other.record(b="it was torn")
    assert json.loads(other.manifest.read_text())["lading"][SEAL] is None
    assert other.look().plan.verdicts["failed"] == 1


def test_a_manifest_is_cut_where_its_own_sections_are_and_nowhere_else(shelf: Shelf) -> None:
    shelf.put('x,\n  "preprocessing": .csv', "a\n1\n")
    shelf.record(**{'x,\n  "preprocessing": ': "a name made to confuse"})
    assert set(json.loads(shelf.manifest.read_text())["files"]) == {
        "a.csv",
        "b.csv",
        "c.csv",
        'x,\n  "preprocessing": .csv',
    }
    assert shelf.look().plan.verdicts["failed"] == 1
