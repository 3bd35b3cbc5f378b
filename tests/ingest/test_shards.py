"""A table that is served by key, run by run: what is built, what is shared, what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.served import SERVE, ServedProject, Ship
from support.servers import S3Server

import lading
from lading.config.file import load
from lading.config.file import load as load_config
from lading.errors import ConfigError, GateFailed, NotFound, UnknownRoutingTokenError
from lading.ingest import release as gate
from lading.run import plan_tables
from lading.serve.routing import Router
from lading.snapshots.history import Wanted
from lading.snapshots.stores.files import BucketStore
from lading.sources import discover
from lading.storage.bucket import ObjectStorage
from lading.upkeep.merge import merge_table
from lading.upkeep.rollback import publish_run, roll_back

pytestmark = pytest.mark.usefixtures("spark")

TOKENS = """
key: imo
value: name
encoding: raw
cel:
  expr: "imo < 50 ? 'low' : name"
  columns: {imo: int, name: string}
  routing_values: [low, high]
"""
FLEET: list[Ship] = [(imo, 1 + imo % 20, f"ship {imo}") for imo in range(100)]


@pytest.fixture
def project(tmp_path: Path) -> ServedProject:
    made = ServedProject(tmp_path / "p")
    made.put("a.csv", FLEET[:60])
    made.put("b.csv", FLEET[60:])
    return made


def test_shards_hold_the_table_key_by_key(project: ServedProject) -> None:
    project.run()
    assert project.shards() == project.expected()
    with lading.open(project.table) as reader:
        assert reader.get(7) == project.latest()[7]
        assert reader.get(100) is None


def test_of_rows_with_one_key_the_latest_wins_then_the_file_then_the_value(project: ServedProject) -> None:
    project.put(
        "a.csv", [(1, 5, "old"), (2, 5, "same day, first file"), (3, 5, "a"), (3, 5, "b"), (3, 5, "")]
    )
    project.put("b.csv", [(1, 6, "new"), (2, 5, "same day, last file")])
    project.put("c.csv", [(1, 4, "older")])
    project.run()
    served = {imo: value for shard in project.shards().values() for imo, value in shard.items()}
    assert served == project.latest()
    assert b'"new"' in served[1] and b'"same day, last file"' in served[2] and b"null" in served[3]


def test_only_the_shards_of_changed_keys_are_built_again(project: ServedProject) -> None:
    project.run()
    before = project.urls()
    project.put("c.csv", [(7, 31, "renamed")])
    project.run()
    touched = Router.of_manifest(project.snapshot().meta).route(7)
    assert {db_id for db_id, url in project.urls().items() if url != before[db_id]} == {touched}
    assert project.shards() == project.expected()
    statistics = project.snapshot().meta.custom["statistics"]
    assert (statistics["shards_built"], statistics["shards_shared"]) == (1, 3)


@pytest.mark.parametrize("replace", ["rewrite", "minus"])
def test_rows_that_leave_touch_their_shards_and_no_others(tmp_path: Path, replace: str) -> None:
    project = ServedProject(tmp_path / "p", replace=replace)
    project.put("a.csv", FLEET)
    project.put("c.csv", [(7, 31, "renamed"), (500, 1, "alone")])
    project.run()
    before, router = project.urls(), Router.of_manifest(project.snapshot().meta)
    (project.data / "c.csv").unlink()
    project.run()
    assert project.shards() == project.expected()
    changed = {db_id for db_id, url in project.urls().items() if url != before[db_id]}
    assert changed == {router.route(7), router.route(500)}


def test_a_run_with_nothing_to_do_builds_nothing(project: ServedProject) -> None:
    project.run()
    before = project.snapshot()
    report = project.run()
    assert not report.spark_started
    assert not report.tables[0].published
    assert project.snapshot() == before


def test_another_spec_builds_all_shards_though_no_row_changed(project: ServedProject) -> None:
    project.run()
    before = set(project.urls().values())
    project.serve(SERVE.replace("shards: 4", "shards: 3"))
    report = project.run()
    assert report.tables[0].published
    assert project.snapshot().meta.num_dbs == 3
    assert project.shards() == project.expected()
    assert not before & set(project.urls().values())
    assert not project.run().tables[0].published


def test_another_place_builds_all_shards_there_though_no_row_changed(project: ServedProject) -> None:
    project.run()
    for place in ("shard_prefix: served/here\n", "db_path_template: 'part-{db_id:02d}'\n"):
        before = set(project.urls().values())
        project.serve(SERVE + place)
        [plan] = plan_tables(load_config(project.folder))
        assert "all of them are built again" in str(plan.publish)
        run = project.run().run_id
        name = "served/here/run_id=" if "prefix" in place else "part-"
        assert all(name in str(url) and run in str(url) for url in project.urls().values())
        assert not before & set(project.urls().values())
        assert project.shards() == project.expected()
        assert not project.run().tables[0].published


def test_serve_that_comes_and_goes_takes_effect_at_once_and_plan_says_so(project: ServedProject) -> None:
    def planned() -> str | None:
        [plan] = plan_tables(load_config(project.folder))
        assert not plan.changes_rows and plan.idle is (plan.publish is None)
        return plan.publish

    project.run()
    config = (project.folder / "lading.yaml").read_text()
    assert planned() is None

    (project.folder / "lading.yaml").write_text(config.partition("    serve:")[0])
    assert "`serve:` was removed" in str(planned())
    report = project.run()
    assert report.tables[0].published and not report.spark_started
    assert project.snapshot().shards == () and "serve" not in project.snapshot().meta.custom
    with lading.open(project.table) as reader, pytest.raises(NotFound, match="not served by key"):
        reader.get(7)
    assert planned() is None
    assert not project.run().tables[0].published

    (project.folder / "lading.yaml").write_text(config)
    assert "`serve:` is new" in str(planned())
    assert project.run().tables[0].published
    assert project.shards() == project.expected()
    project.serve(SERVE.replace("shards: 4", "shards: 3"))
    assert "`serve:` has changed" in str(planned())


def test_a_snapshot_that_is_held_is_not_published_over_for_another_serve(project: ServedProject) -> None:
    project.run()
    project.put("c.csv", [(7, 31, "renamed")])
    project.run()
    config = load_config(project.folder)
    roll_back(config, "ships", Wanted(offset=1))
    seen = project.snapshot()
    project.serve(SERVE.replace("shards: 4", "shards: 3"))
    [plan] = plan_tables(load_config(project.folder))
    assert plan.publish is None
    project.run()
    assert project.snapshot() == seen


def test_a_run_that_died_before_its_publish_is_made_good(
    project: ServedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    project.run()
    project.put("c.csv", [(7, 31, "renamed"), (900, 1, "new")])
    with monkeypatch.context() as patch:
        patch.setattr(gate, "publish_snapshot", killed)
        with pytest.raises(Killed):
            project.run()
    assert b'"ship 7"' in {k: v for shard in project.shards().values() for k, v in shard.items()}[7]
    report = project.run()
    assert report.tables[0].published
    assert project.shards() == project.expected()


def test_a_key_that_comes_twice_fails_the_gate_and_is_named(project: ServedProject) -> None:
    project.serve(SERVE.replace("latest", "error"))
    project.run()
    seen = project.shards()
    project.put("c.csv", [(7, 31, "again"), (9, 31, "again")])
    report = project.try_run()
    error = report.tables[0].error
    assert isinstance(error, GateFailed)
    assert "2 rows have the same imo as another row (7, 9)" in error.message or "(9, 7)" in error.message
    assert project.shards() == seen
    again = project.try_run()
    assert isinstance(again.tables[0].error, GateFailed)
    assert not again.spark_started
    (project.data / "c.csv").unlink()
    project.run()
    assert project.shards() == project.expected()


def test_a_refused_snapshot_can_be_shown_by_force_with_its_shards(project: ServedProject) -> None:
    project.serve(SERVE.replace("latest", "error"))
    project.put("c.csv", [(7, 31, "zz again")])
    report = project.try_run()
    assert isinstance(report.tables[0].error, GateFailed)
    publish_run(load(project.folder), "ships", report.run_id, force=True)
    served = {imo: value for shard in project.shards().values() for imo, value in shard.items()}
    assert len(served) == 100
    assert served[7] == max(row[2] for row in project.rows()[7])


def test_a_shard_that_went_missing_is_built_again_with_the_next_change(project: ServedProject) -> None:
    project.run()
    shutil.rmtree(project.file(project.snapshot().shards[2]).parent)
    project.put("c.csv", [(700, 1, "new")])
    project.run()
    assert project.shards() == project.expected()


def test_merging_parts_touches_no_shard(project: ServedProject) -> None:
    project.run()
    project.put("c.csv", [(7, 31, "renamed")])
    project.run()
    before = project.snapshot()
    report = merge_table(load_config(project.folder), "ships")
    assert report.published and not report.spark_started
    assert project.snapshot().meta.run_id == report.run_id
    assert project.snapshot().shards == before.shards


def test_empty_shards_are_left_out_and_an_emptied_table_has_none(project: ServedProject) -> None:
    project.serve(SERVE.replace("shards: 4", "shards: 64"))
    for name in ("a.csv", "b.csv"):
        project.put(name, FLEET[:5])
    project.run()
    assert 1 <= len(project.snapshot().shards) <= 5
    assert project.shards() == project.expected()
    for path in project.data.glob("*.csv"):
        path.unlink()
    project.run()
    assert project.snapshot().shards == ()
    assert project.snapshot().meta.num_dbs == 64


def test_only_the_winners_of_a_run_stay(project: ServedProject) -> None:
    project.run()
    loser = project.table / "shards" / f"run_id={project.snapshot().meta.run_id}" / "db=00000" / "attempt=01"
    folders = {str(path.relative_to(project.table)) for path in project.table.glob("shards/*/*/*")}
    assert folders == set(project.urls().values())
    assert not loser.exists()


def test_composite_and_text_keys_are_served(project: ServedProject) -> None:
    project.serve('key: [name, imo]\nvalue: "*"\nshards: 3\nencoding: msgpack')
    project.run()
    found = {key: value for shard in project.shards().values() for key, value in shard.items()}
    assert set(found) == {(name, imo) for imo, _, name in FLEET}
    with lading.open(project.table) as reader:
        assert reader.get(("ship 7", 7), decode=True) == {"imo": 7, "day": "2024-01-08", "name": "ship 7"}


def test_tokens_route_to_their_shards_and_unknown_ones_are_refused(project: ServedProject) -> None:
    project.serve(TOKENS)
    report = project.try_run()
    assert isinstance(report.tables[0].error, UnknownRoutingTokenError)
    assert "'low', 'high'" in report.tables[0].error.hint
    assert not (project.table / "shards").exists()
    for name in ("a.csv", "b.csv"):
        project.put(name, [(imo + (name == "b.csv"), 1, "high") for imo in range(0, 100, 2)])
    project.run()
    assert {db_id: len(shard) for db_id, shard in project.shards().items()} == {0: 50, 1: 50}
    assert project.snapshot().meta.format_version == 3


def test_what_the_table_does_not_have_is_refused_before_spark_starts(project: ServedProject) -> None:
    project.serve("key: imoo\nshards: 4")
    report = project.try_run()
    assert isinstance(report.tables[0].error, ConfigError)
    assert "lading.yaml:9: tables.ships.serve.key: the table has no column 'imoo'" in str(
        report.tables[0].error
    )
    assert not report.spark_started
    assert not list(project.table.glob("bucket=*"))


def test_with_manifests_in_a_bucket_the_shards_are_there_too(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = s3_server.options()
    url = f"{s3_server.bucket('served')}/{tmp_path.name}"
    keys = ", ".join(f"{name}: '{value}'" for name, value in options.items())
    project = ServedProject(tmp_path / "p", head=f"store: {url}\ns3: {{{keys}}}\n")
    project.put("a.csv", FLEET)
    project.run()
    before = project.urls()
    assert all(str(found).startswith(f"{url}/ships/shards/run_id=") for found in before.values())
    project.put("c.csv", [(7, 31, "renamed")])
    project.run()
    assert len(set(before.items()) & set(project.urls().items())) == 3
    assert not (project.table / "shards").exists()
    storage = ObjectStorage(f"{url}/ships", options)
    names = {found.name for found in storage.list("shards")}
    listed = {*before.values(), *project.urls().values()}
    kept = {str(found).removeprefix(f"{url}/ships/") + "/shard.db" for found in listed}
    assert names == kept
    read: list[str] = []
    with monkeypatch.context() as patch:  # a run with nothing to do asks for the pointer alone
        load = BucketStore.load_manifest
        patch.setattr(discover, "RACY_NS", 0)  # first it notes of files that were young that they aren't now
        patch.setattr(BucketStore, "load_manifest", lambda self, ref: read.append(ref) or load(self, ref))
        project.run()
        first = len(read)
        project.run()
    assert first <= 1 and len(read) == first
    for shard in project.snapshot().shards:
        head = storage.head(str(shard.db_url).removeprefix(f"{url}/ships/") + "/shard.db")
        assert head.size == shard.db_bytes
