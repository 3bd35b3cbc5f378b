"""A look at the files that were named says of them what a full look says."""

import os
from pathlib import Path

import pytest
from support.watched import CONFIG, WatchedProject

from lading.ingest.look import look
from lading.run import run
from lading.watch import SILENT

KEYS = ("new.csv", "changed.csv", "touched.csv", "vanished.csv", "same.csv", "d/disguised.csv", "never.csv")


@pytest.fixture
def project(tmp_path: Path) -> WatchedProject:
    project = WatchedProject(tmp_path / "project")
    for number, key in enumerate((*KEYS[1:6], *(f"more{n}.csv" for n in range(6)))):
        project.put(f"data/{key}", (number, key))
    assert run(project.config).error is None
    project.put("data/new.csv", (90, "new"))
    project.put("data/changed.csv", (1, "changed!"), (91, "more"))
    project.put("data/touched.csv", (1, "touched.csv"))
    os.remove(project.folder / "data" / "vanished.csv")
    disguised = project.folder / "data" / "d" / "disguised.csv"
    was = disguised.stat()
    disguised.with_name("other").write_text(disguised.read_text().replace("disguised", "DISGUISED"))
    os.replace(disguised.with_name("other"), disguised)
    os.utime(disguised, ns=(was.st_atime_ns, was.st_mtime_ns))
    return project


def plans(project: WatchedProject, *keys: str):
    near = look(project.config, "a", watch=SILENT, near=keys)
    full = look(project.config, "a", watch=SILENT)
    return near, near.plan, full.plan


def test_the_verdicts_are_those_of_a_full_look(project):
    seen, near, full = plans(project, *KEYS)
    assert seen.near
    wanted = {one.key: one.verdict for one in full.files if one.key in KEYS}
    assert {one.key: one.verdict for one in near.files} == wanted
    assert wanted == {
        "new.csv": "new",
        "changed.csv": "changed",
        "touched.csv": "touched",
        "vanished.csv": "vanished",
        "same.csv": "unchanged",
        "d/disguised.csv": "changed",
    }
    assert (near.drop, near.rewrite, near.subtract) == (full.drop, full.rewrite, full.subtract)
    assert [file.key for file in near.read] == [file.key for file in full.read]
    assert near.vanished == full.vanished and near.note == full.note


def test_what_was_not_named_is_left_alone(project):
    seen, near, _ = plans(project, "new.csv")
    assert seen.near and [one.key for one in near.files] == ["new.csv"]
    report = run(project.config, ["a"], near={"a": ["new.csv"]})
    assert report.error is None
    assert {row[2] for row in project.rows()} >= {"new.csv", "vanished.csv"}
    assert run(project.config, ["a"]).error is None
    assert project.rows() == project.rebuilt(project.folder.parent / "fresh")


def test_a_run_of_some_files_leaves_requests_to_the_next_full_look(project):
    manifest = project.config.source_manifest("a")
    manifest.write_text(manifest.read_text().replace('"more0.csv"', '"elsewhere.csv"'))
    before = manifest.read_bytes()
    assert run(project.config, ["a"], near={"a": ["new.csv"]}).error is None
    assert manifest.read_bytes() == before
    verdicts = {one.key: one.verdict for one in look(project.config, "a", watch=SILENT).plan.files}
    assert verdicts["more0.csv"] == "reread"


def spoilt(config: str, **changes: str) -> str:
    return config.replace(
        "order_by: id}\n  b:", f"order_by: id, {', '.join(f'{k}: {v}' for k, v in changes.items())}}}\n  b:"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"on_bad": "quarantine"},
        {"drift": "evolve"},
        {"types": "quarantine"},
        {"fingerprint": "full"},
        {"bucket_size": "7"},  # another recipe
    ],
)
def test_a_table_whose_files_mean_something_only_together_gets_a_full_look(project, changes):
    (project.folder / "lading.yaml").write_text(spoilt(CONFIG, **changes))
    assert not look(project.config, "a", watch=SILENT, near=["new.csv"]).near


def test_a_manifest_that_somebody_removed_is_a_request_that_needs_a_full_look(project):
    project.config.source_manifest("a").unlink()
    seen = look(project.config, "a", watch=SILENT, near=["new.csv"])
    assert not seen.near and seen.plan.replaces_all


def test_links_and_many_vanished_files_need_a_full_look(project):
    (project.folder / "data" / "link.csv").symlink_to("same.csv")
    assert not look(project.config, "a", watch=SILENT, near=["link.csv"]).near
    os.remove(project.folder / "data" / "link.csv")
    (project.folder / "data" / "e").symlink_to("d")
    assert not look(project.config, "a", watch=SILENT, near=["e/disguised.csv"]).near
    os.remove(project.folder / "data" / "e")
    for number in range(6):
        os.remove(project.folder / "data" / f"more{number}.csv")
    gone = [f"more{number}.csv" for number in range(6)]
    assert not look(project.config, "a", watch=SILENT, near=gone).near


def test_a_root_that_is_gone_retracts_nothing(project):
    (project.folder / "data").rename(project.folder / "unmounted")
    report = run(project.config, ["a"], near={"a": ["same.csv"]})
    assert report.error is not None and "no rows were retracted" in str(report.error.hint)
