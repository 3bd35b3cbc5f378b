"""lading merge on real tables, and `minus`: rows and lineage stay what a rebuild gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import Project

import lading
from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.log.table import Table
from lading.upkeep.merge import merge_table
from lading.watch import Watch


@pytest.fixture
def project(tmp_path: Path, spark) -> Project:
    """A table whose rows lie in four buckets, in parts of three runs."""
    project = Project(tmp_path / "project")
    for number, key in enumerate(["a.csv", "b.csv", "c.csv"]):
        project.put(key, [(i, 1 + number, "x") for i in range(number, 40, 4)], age=1000 - number)
        project.run()
    return project


def state(project: Project):
    return Table.open(project.table).state


def edit(project: Project, key: str, rows: list, age: float) -> None:
    project.put(key, rows, age=age)
    project.run()


def merge(project: Project, **options):
    return merge_table(load_config(project.folder), "events", **options)


def with_replace(project: Project, how: str) -> None:
    project.replace = how
    project.write_recipe()


def test_small_parts_become_one_a_bucket_and_readers_see_the_same_rows(project):
    before = project.seen()
    assert state(project).count() == 12
    report = merge(project)
    assert (report.parts_removed, report.parts_added, report.skipped) == (12, 4, 0)
    assert (report.published, report.spark_started) == (True, False)
    assert project.seen() == before == project.truth()
    with lading.open(project.table) as reader:
        assert reader.info()["parts"] == 4 and reader.snapshot.ref == report.manifest_ref
    assert json.loads((project.table / "manifest.json").read_text())["lading"]["sequence"] == report.sequence


def test_a_merged_table_stays_true_to_its_files(project):
    merge(project)
    again = project.run().tables[0]
    assert (again.rows_added, again.rows_removed, again.published) == (0, 0, False)
    edit(project, "a.csv", [(3, 9, "edited")], 500)
    (project.data / "b.csv").unlink()
    project.run()
    assert project.seen() == project.truth()


def test_a_table_with_nothing_to_gain_is_left_alone(project):
    merge(project)
    sequence = state(project).sequence
    report = merge(project)
    assert (report.folds, report.published, state(project).sequence) == ([], False, sequence)


def test_a_dry_run_shows_and_changes_nothing(project, capsys):
    before = {path: path.stat().st_mtime_ns for path in project.table.rglob("*")}
    assert invoke(["-C", str(project.folder), "merge", "events", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(fold["bucket"], fold["parts"], fold["rows"]) for fold in found["folds"]] == [
        (bucket, 3, found["folds"][bucket]["rows"]) for bucket in range(4)
    ]
    assert sum(fold["rows"] for fold in found["folds"]) == 30
    assert {path: path.stat().st_mtime_ns for path in project.table.rglob("*")} == before


def test_large_work_goes_to_spark(project, monkeypatch):
    monkeypatch.setattr("lading.upkeep.merge.ON_SPARK", 1)
    report = merge(project)
    assert (report.spark_started, report.parts_added) == (True, 4)
    assert project.seen() == project.truth()


def test_a_run_in_between_wins_and_no_row_is_lost_or_doubled(project):
    class RunMeanwhile(Watch):
        def __init__(self) -> None:
            self.done = False

        def progress(self, table, text, done=None, total=None):
            if not self.done and done == 1:  # one bucket is merged, three are planned
                self.done = True
                edit(project, "a.csv", [(11, 9, "edited"), (12, 9, "edited")], 500)

    report = merge(project, watch=RunMeanwhile())
    assert report.skipped > 0
    assert project.seen() == project.truth()
    lying = {f"{p.parent.name}/{p.name}" for p in project.table.glob("bucket=*/*.parquet")}
    assert {member.path for member in state(project).candidates(None)} <= lying


def test_a_minus_in_between_is_not_lost(project, monkeypatch):
    """The rows that it takes out are in the parts that the merge has read already."""
    with_replace(project, "minus")
    monkeypatch.setattr("lading.upkeep.merge.ON_SPARK", 1)
    from lading.spark import tasks as merge_spark

    real = merge_spark.fold_on_spark

    def slow(*args):
        folded = real(*args)
        edit(project, "a.csv", [(11, 9, "edited")], 500)
        return folded

    monkeypatch.setattr(merge_spark, "fold_on_spark", slow)
    report = merge(project)
    assert (report.skipped, report.parts_removed) == (4, 0)
    assert project.seen() == project.truth()


def test_merging_a_table_that_was_never_run_says_so(tmp_path, capsys):
    project = Project(tmp_path / "project")
    assert invoke(["-C", str(project.folder), "merge", "events"]) == 1
    assert "lading run events" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "-1", "many", "1XB"])
def test_a_size_that_is_none_is_a_usage_error(tmp_path, capsys, size):
    project = Project(tmp_path / "project")
    assert invoke(["-C", str(project.folder), "merge", "events", "--target-size", size]) == 3


class TestMinus:
    """One part a bucket holds rows of three files; changing one of them leaves the parts where they are."""

    @pytest.fixture
    def merged(self, project: Project) -> Project:
        merge(project)
        with_replace(project, "minus")
        return project

    def old_parts(self, project: Project) -> dict[str, tuple[int, ...]]:
        return {m.path: m.minus for m in state(project).candidates(None)}

    def test_a_change_takes_rows_out_without_rewriting(self, merged):
        before = set(self.old_parts(merged))
        edit(merged, "a.csv", [(1, 9, "edited"), (38, 9, "edited")], 500)
        after = self.old_parts(merged)
        assert before < set(after), "every old part is still there"
        assert all(after[path] for path in before)
        assert merged.seen() == merged.truth()
        with lading.open(merged.table) as reader:
            assert reader.rows == sum(merged.truth().values()) == reader.info()["rows"]
        assert state(merged).row_count() == sum(merged.truth().values())

    def test_a_file_that_comes_back_is_seen_in_its_new_part_and_hidden_in_the_old_one(self, merged):
        rows = [(i, 1, "x") for i in range(0, 40, 4)]
        (merged.data / "a.csv").unlink()
        merged.run()
        assert merged.seen() == merged.truth()
        edit(merged, "a.csv", rows, 500)
        assert merged.seen() == merged.truth()
        with lading.open(merged.table) as reader:
            assert len(reader.lookup(4).rows) == 1 and reader.lookup(4).rows[0]["note"] == "x"

    def test_a_part_of_which_nothing_counts_is_dropped(self, merged):
        for key in ("a.csv", "b.csv", "c.csv"):
            edit(merged, key, [(99, 1, key)], 500)
        assert merged.seen() == merged.truth()
        assert {member.bucket for member in state(merged).candidates(None)} == {9}

    def test_merging_removes_it_for_good(self, merged):
        edit(merged, "a.csv", [(1, 9, "edited")], 500)
        report = merge(merged)
        assert report.published
        assert not any(self.old_parts(merged).values())
        assert merged.seen() == merged.truth()
        rows = sum(member.rows for member in state(merged).candidates(None))
        assert rows == sum(merged.truth().values())

    def test_auto_rewrites_small_parts_and_subtracts_from_large_ones(self, merged, monkeypatch):
        with_replace(merged, "auto")
        sizes = sorted(member.bytes for member in state(merged).candidates(None))
        monkeypatch.setattr("lading.ingest.plan.REWRITE_PART", sizes[1])
        edit(merged, "a.csv", [(1, 9, "edited")], 500)
        subtracted = [path for path, minus in self.old_parts(merged).items() if minus]
        assert 0 < len(subtracted) < 4
        assert merged.seen() == merged.truth()

    def test_a_commit_rewrites_no_more_than_its_share(self, merged, monkeypatch):
        with_replace(merged, "auto")
        monkeypatch.setattr("lading.ingest.plan.REWRITE_COMMIT", 0)
        edit(merged, "a.csv", [(1, 9, "edited")], 500)
        assert len([path for path, minus in self.old_parts(merged).items() if minus]) == 4

    def test_the_plan_says_so_beforehand(self, merged, capsys):
        merged.put("a.csv", [(1, 9, "edited")], age=500)
        assert invoke(["-C", str(merged.folder), "plan", "--json"]) == 2
        [table] = json.loads(capsys.readouterr().out)["tables"]
        assert (table["parts_to_rewrite"], table["parts_to_subtract"]) == (0, 4)

    def test_replace_is_no_part_of_the_recipe(self, merged):
        report = merged.run().tables[0]
        assert (report.rows_added, report.published) == (0, False)
