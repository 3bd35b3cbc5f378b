"""A look that finds nothing changed decodes nothing; one that might not goes the long way."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.shelf import OLD, Shelf

from lading.config.file import load as load_config
from lading.errors import SourceError
from lading.ingest.noop import SEAL
from lading.ingest.record import record_sources
from lading.ingest.verdicts import AllUnchanged
from lading.log.table import Table
from lading.sources.manifest import load


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
    assert [(key, one.source is not None) for key, one in seen.ledger.known] == [
        ("a.csv", True),
        ("b.csv", True),
        ("c.csv", True),
    ]


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
    assert shelf.look().plan.again is not None
    schema.write_text(schema.read_text().replace("string", "bigint"))
    text = shelf.manifest.read_text()
    shelf.manifest.write_text(text.replace('"row_count": 1', '"row_count": 2', 1))
    assert not isinstance(shelf.look().plan.files, AllUnchanged)


def test_files_that_become_archives_by_the_config_are_no_longer_quiet(shelf: Shelf) -> None:
    """The recipe says nothing of `inside` and `preprocess: unzip`; a look has to ask for the archives."""
    for settings in ({"inside": "*"}, {"preprocess": {"action": "unzip"}}):
        shelf.configure(**settings)
        with pytest.raises(SourceError, match=r"a\.csv is not an archive"):
            shelf.look()
    shelf.configure()
    assert isinstance(shelf.look().plan.files, AllUnchanged)
    shelf.configure(fingerprint="full")
    assert shelf.look().plan.verdicts["changed"] == 3, "the bytes are not those that were committed"


CLEAN = "def clean(df, context):\n    return df\n"


@pytest.mark.parametrize(
    "settings",
    [
        {"checks": [{"not_null": "a"}]},
        {"drift": "ignore_new"},
        {"read_options": {"null": "1"}},
        {"columns_from_name": r"(?P<a2>.)\.csv"},
        {"order_by": "a"},
        {"transform": "clean.py:clean"},
        {"format": "tsv"},
        {"preprocess": {"action": "clean.py:clean"}},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_other_rules_are_never_taken_for_quiet(shelf: Shelf, settings: dict[str, object]) -> None:
    (shelf.folder / "clean.py").write_text(CLEAN)
    shelf.configure(**settings)
    plan = shelf.look().plan
    assert not isinstance(plan.files, AllUnchanged)
    assert plan.again is not None or plan.waits


def test_a_changed_module_that_a_transform_imports_is_never_taken_for_quiet(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    (shelf.folder / "clean.py").write_text("import words\n" + CLEAN)
    (shelf.folder / "words.py").write_text("WORD = 1\n")
    shelf.configure(transform="clean.py:clean")
    shelf.commit()
    shelf.record()
    assert isinstance(shelf.look().plan.files, AllUnchanged)
    (shelf.folder / "words.py").write_text("WORD = 2\n")
    assert shelf.look().plan.again is not None


def test_a_changed_spec_of_fixed_width_is_never_taken_for_quiet(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    spec = shelf.folder / "spec.yaml"
    spec.write_text("columns: [{name: a, start: 0, length: 1}]\n")
    shelf.configure(format="fixed_width", spec="spec.yaml")
    shelf.commit()
    shelf.record()
    assert isinstance(shelf.look().plan.files, AllUnchanged)
    spec.write_text("columns: [{name: a, start: 1, length: 1}]\n")
    assert shelf.look().plan.again is not None


def test_what_another_process_committed_since_is_not_read_again(shelf: Shelf) -> None:
    """The manifest is as lading wrote it, and the log has moved on."""
    shelf.put("d.csv", "a\n1\n")
    shelf.commit("d.csv")
    seen = shelf.look()
    assert seen.plan.verdicts["unchanged"] == 4 and seen.ledger.behind
    shelf.record()
    assert isinstance(shelf.look().plan.files, AllUnchanged)


def test_what_another_process_committed_since_the_look_is_recorded(shelf: Shelf) -> None:
    """The look has read the log's sources, and they are others by now."""
    shelf.put("d.csv", "a\n1\n")
    shelf.commit("d.csv")
    seen = shelf.look()
    shelf.put("e.csv", "a\n1\n")
    shelf.commit("e.csv")
    config = load_config(shelf.folder)
    record_sources(replace(seen, opened=Table.open(config.place("t"))), {})
    recorded = load(shelf.manifest)
    assert recorded is not None and len(recorded.files) == 5 and "e.csv" in recorded.files


def test_a_log_that_was_restored_and_came_to_the_same_sequence_is_not_mistaken(shelf: Shelf) -> None:
    copy = shelf.folder / "copy"
    shutil.copytree(shelf.folder / "warehouse", copy)
    shelf.put("d.csv", "a\n1\n")
    shelf.commit("d.csv", at="2024-01-02T00:00:00+00:00")
    shelf.record()
    shutil.rmtree(shelf.folder / "warehouse")
    copy.rename(shelf.folder / "warehouse")
    (shelf.folder / "data" / "d.csv").unlink()
    shelf.put("e.csv", "a\n1\n")
    shelf.commit("e.csv", at="2024-01-03T00:00:00+00:00")
    seen = shelf.look().plan
    assert (seen.verdicts["new"], seen.verdicts["vanished"]) == (0, 0), "that is what the log has"
    assert seen.verdicts["reread"] == 1, "e.csv: the log has it, the manifest doesn't, so it is replaced"


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
