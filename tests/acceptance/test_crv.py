"""What crv.io promises of a table manifest's functions, on real files (C1 to C28). What is promised of the
manifest that a run writes is shown in test_crv_written.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import asdict, fields
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.crv import SeedPartMeta
from support.servers import S3Server

from lading import catalog
from lading.errors import ConfigError, ManifestParseError
from lading.layout.table import bucket_key
from lading.log.table_manifest import load_manifest, write_manifest
from lading.log.table_manifest_text import (
    PartitionMeta,
    PartMeta,
    TableManifest,
    new_manifest,
    update_with_new_part,
)


def write_part(
    table_dir: Path, bucket: int, ticks: list[int], *, order_by: str | None = None, statistics: bool = True
) -> PartMeta:
    folder = table_dir / f"bucket={bucket_key(bucket)}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{uuid.uuid4()}.parquet"
    table = pa.table({"tick": pa.array(ticks, pa.int64()), "value": [str(t) for t in ticks]})
    if order_by is not None:
        table = table.replace_schema_metadata({"lading.order_by": order_by})
    pq.write_table(table, path, row_group_size=3, write_statistics=statistics)
    return PartMeta(
        path.name, len(ticks), path.stat().st_size, min(ticks), max(ticks), "2026-01-01T00:00:00.000000+00:00"
    )


def make_table(table_dir: Path) -> TableManifest:
    """Three buckets, one of them negative, one with two parts."""
    manifest = new_manifest("voyages")
    for bucket, ticks in (
        (123, [12300, 12399, 12311, 12350]),
        (123, [12305]),
        (0, [7, 3]),
        (-2, [-150, -101]),
    ):
        update_with_new_part(manifest, bucket, write_part(table_dir, bucket, ticks))
    write_manifest(table_dir, manifest)
    return manifest


def on_disk(table_dir: Path) -> dict:
    return json.loads((table_dir / "manifest.json").read_text("utf-8"))


def figures(manifest: TableManifest) -> dict:
    """All that a manifest says but the times, parts by name."""
    return {
        key: (
            p.bucket_id,
            p.state,
            p.tick_min,
            p.tick_max,
            p.row_count,
            p.byte_size,
            sorted((q.path, q.rows, q.bytes, q.tick_min, q.tick_max) for q in p.parts),
        )
        for key, p in manifest.partitions.items()
    }


@pytest.mark.acceptance("C1")
def test_the_file_is_utf8_json_indented_by_two_with_its_keys_in_order(tmp_path: Path) -> None:
    manifest = make_table(tmp_path)
    manifest.partitions["000000"].parts[0].path = "part-größe.parquet"
    write_manifest(tmp_path, manifest)
    text = (tmp_path / "manifest.json").read_bytes().decode("utf-8")
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    assert list(json.loads(text)) == ["table", "version", "created_at", "updated_at", "partitions"]


@pytest.mark.acceptance("C4")
def test_a_partition_object_has_its_seven_keys(tmp_path: Path) -> None:
    make_table(tmp_path)
    for bucket in on_disk(tmp_path)["partitions"].values():
        assert list(bucket) == [f.name for f in fields(PartitionMeta)]
        assert " ".join(bucket) == "bucket_id state tick_min tick_max row_count byte_size parts"


@pytest.mark.acceptance("C5")
def test_a_bucket_is_ready_after_every_append_and_no_other_state_loads(tmp_path: Path) -> None:
    manifest = new_manifest("t")
    for ticks in ([1], [2, 3]):
        update_with_new_part(manifest, 0, write_part(tmp_path, 0, ticks))
        assert manifest.partitions["000000"].state == "ready"
    obj = manifest.to_json_obj()
    obj["partitions"]["000000"]["state"] = "writing"
    assert TableManifest.from_json_obj(obj).partitions["000000"].state == "writing"
    obj["partitions"]["000000"]["state"] = "broken"
    with pytest.raises(ManifestParseError, match="state"):
        TableManifest.from_json_obj(obj)


@pytest.mark.acceptance("C10")
def test_parts_are_listed_in_the_order_they_were_added(tmp_path: Path) -> None:
    manifest = new_manifest("t")
    added = [write_part(tmp_path, 5, [tick]) for tick in (9, 1, 5)]
    for part in added:
        update_with_new_part(manifest, 5, part)
    write_manifest(tmp_path, manifest)
    names = [part["path"] for part in on_disk(tmp_path)["partitions"]["000005"]["parts"]]
    assert names == [part.path for part in added]


_INTEGERS = st.integers(-(2**63), 2**63 - 1)
_SIZES = st.integers(0, 2**63 - 1)
_PARTS = st.builds(PartMeta, st.text(), _SIZES, _SIZES, _INTEGERS, _INTEGERS, st.text())
_PARTITIONS = st.builds(
    PartitionMeta,
    _INTEGERS,
    st.sampled_from(["writing", "ready"]),
    _INTEGERS,
    _INTEGERS,
    _SIZES,
    _SIZES,
    st.lists(_PARTS, max_size=3),
)
_MANIFESTS = st.builds(
    TableManifest,
    st.text(),
    _SIZES,
    st.text(min_size=1),
    st.text(min_size=1),
    st.dictionaries(st.text(), _PARTITIONS, max_size=3),
)


@pytest.mark.acceptance("C12")
@given(_MANIFESTS)
def test_a_manifest_survives_the_round_trip_with_its_types(manifest: TableManifest) -> None:
    again = TableManifest.from_json_obj(json.loads(json.dumps(manifest.to_json_obj())))
    assert again == manifest
    for bucket in again.partitions.values():
        assert type(bucket) is PartitionMeta and type(bucket.row_count) is int
        assert all(type(part) is PartMeta and type(part.rows) is int for part in bucket.parts)


@pytest.mark.acceptance("C13")
def test_absent_version_times_and_partitions_have_defaults() -> None:
    before = datetime.now().astimezone()
    for obj in ({"table": "t"}, {"table": "t", "partitions": None, "created_at": None}):
        manifest = TableManifest.from_json_obj(obj)
        assert (manifest.version, manifest.partitions) == (1, {})
        for time in (manifest.created_at, manifest.updated_at):
            assert before <= datetime.fromisoformat(time) <= datetime.now().astimezone()
    bucket = PartitionMeta(1, "ready", 0, 0, 0, 0)
    obj = {"table": "t", "partitions": {"000001": asdict(bucket) | {"parts": None}}}
    assert TableManifest.from_json_obj(obj).partitions == {"000001": bucket}


@pytest.mark.acceptance("C14")
def test_numeric_text_becomes_an_integer_and_a_missing_field_is_an_error() -> None:
    bucket = {
        "bucket_id": "123",
        "state": "ready",
        "tick_min": "-5",
        "tick_max": "9",
        "row_count": "3",
        "byte_size": "70",
    }
    loaded = TableManifest.from_json_obj({"table": "t", "partitions": {"000123": bucket}})
    assert loaded.partitions["000123"] == PartitionMeta(123, "ready", -5, 9, 3, 70)
    with pytest.raises(ManifestParseError, match="table"):
        TableManifest.from_json_obj({"partitions": {}})
    for name in bucket:
        without = {key: value for key, value in bucket.items() if key != name}
        with pytest.raises(ManifestParseError, match=name):
            TableManifest.from_json_obj({"table": "t", "partitions": {"000123": without}})


@pytest.mark.acceptance("C15")
def test_unknown_keys_are_ignored_above_a_part_and_refused_in_one(tmp_path: Path) -> None:
    obj = make_table(tmp_path).to_json_obj()
    expected = TableManifest.from_json_obj(obj)
    obj["lading"] = {"sequence": 4}
    obj["partitions"]["000123"]["compacted"] = True
    assert TableManifest.from_json_obj(obj) == expected
    obj["partitions"]["000123"]["parts"][0]["sha256"] = "ff"
    with pytest.raises(ManifestParseError, match="sha256"):
        TableManifest.from_json_obj(obj)
    with pytest.raises(TypeError):
        SeedPartMeta(**obj["partitions"]["000123"]["parts"][0])


@pytest.mark.acceptance("C16")
def test_a_table_without_a_manifest_loads_as_none(tmp_path: Path) -> None:
    assert load_manifest(tmp_path) is None
    assert load_manifest(tmp_path / "absent") is None


@pytest.mark.acceptance("C17")
def test_loading_opens_no_part(tmp_path: Path) -> None:
    manifest = make_table(tmp_path)
    for part in tmp_path.glob("bucket=*/*.parquet"):
        part.unlink()
    assert load_manifest(tmp_path) == manifest


@pytest.mark.acceptance("C18")
def test_writing_goes_through_a_synced_temporary_file_and_a_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.replace

    def record_fsync(fd: int) -> None:
        steps.append("fsync " + Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        fsync(fd)

    def record_replace(source: Path, target: Path) -> None:
        steps.append(f"replace {Path(source).name} {Path(target).name}")
        json.loads(Path(source).read_bytes())
        rename(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    write_manifest(tmp_path, new_manifest("t"))
    assert steps[:2] == ["fsync manifest.json.tmp", "replace manifest.json.tmp manifest.json"]


@pytest.mark.acceptance("C18")
def test_killed_before_the_replace_the_old_manifest_is_intact(tmp_path: Path) -> None:
    make_table(tmp_path)
    before = (tmp_path / "manifest.json").read_bytes()
    script = (
        "import os, signal, sys, pathlib\n"
        "from lading.log.table_manifest import write_manifest\n"
        "from lading.log.table_manifest_text import new_manifest\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_manifest(pathlib.Path(sys.argv[1]), new_manifest('other'))\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert (tmp_path / "manifest.json.tmp").exists()
    assert (tmp_path / "manifest.json").read_bytes() == before
    write_manifest(tmp_path, new_manifest("other"))
    assert on_disk(tmp_path)["table"] == "other"
    assert not (tmp_path / "manifest.json.tmp").exists()


@pytest.mark.acceptance("C19")
def test_the_first_manifest_creates_the_directory_and_leaves_nothing_else(tmp_path: Path) -> None:
    table_dir = tmp_path / "warehouse" / "t"
    write_manifest(table_dir, new_manifest("t"))
    assert [path.name for path in table_dir.iterdir()] == ["manifest.json"]


@pytest.mark.acceptance("C20")
def test_a_file_where_the_folder_should_be_reaches_the_caller(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        write_manifest(tmp_path / "file" / "t", new_manifest("t"))
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.acceptance("C21")
def test_a_new_manifest_is_empty_and_created_now() -> None:
    manifest = new_manifest("t")
    assert (manifest.table, manifest.version, manifest.partitions) == ("t", 1, {})
    assert manifest.created_at == manifest.updated_at
    assert new_manifest("t", version=4).version == 4


@pytest.mark.acceptance("C22")
def test_parts_create_and_widen_their_bucket() -> None:
    manifest = new_manifest("t")
    first = PartMeta("part-a.parquet", 10, 100, 5, 9, "2026-01-01T00:00:00+00:00")
    second = PartMeta("part-b.parquet", 3, 50, 2, 7, "2026-01-02T00:00:00+00:00")
    update_with_new_part(manifest, 4, first)
    assert manifest.partitions == {"000004": PartitionMeta(4, "ready", 5, 9, 10, 100, [first])}
    update_with_new_part(manifest, 4, second)
    assert manifest.partitions == {"000004": PartitionMeta(4, "ready", 2, 9, 13, 150, [first, second])}


@pytest.mark.acceptance("C23")
def test_adding_a_part_moves_updated_at_only() -> None:
    manifest = new_manifest("t")
    manifest.created_at = manifest.updated_at = "2020-01-01T00:00:00+00:00"
    update_with_new_part(manifest, 0, PartMeta("part-a.parquet", 1, 1, 0, 0, "2026-01-01T00:00:00+00:00"))
    assert manifest.created_at == "2020-01-01T00:00:00+00:00"
    assert datetime.fromisoformat(manifest.updated_at).year >= 2026


@pytest.mark.acceptance("C24")
@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "scan"])
def test_rebuild_finds_what_was_there(tmp_path: Path, statistics: bool) -> None:
    manifest = new_manifest("voyages")
    for bucket, ticks in ((1, [150, 101, 199, 120]), (1, [160]), (-1, [-5, -90]), (0, [0])):
        part = write_part(tmp_path, bucket, ticks, order_by="tick", statistics=statistics)
        update_with_new_part(manifest, bucket, part)
    write_manifest(tmp_path, manifest)
    (tmp_path / "manifest.json").unlink()
    assert figures(catalog.rebuild(tmp_path, "voyages", "tick")) == figures(manifest)


@pytest.mark.acceptance("C24")
@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "scan"])
@pytest.mark.parametrize(
    ("kind", "values", "ticks"),
    [
        (pa.int32(), [5, -7], (-7, 5)),
        (pa.uint64(), [2**63, 1], (1, 2**63)),
        (pa.date32(), [date(1970, 1, 3), date(1969, 12, 31)], (-1, 2)),
        (pa.date64(), [date(1970, 1, 3), date(1969, 12, 31)], (-1, 2)),
        (
            pa.timestamp("us"),
            [datetime(1970, 1, 1, 0, 0, 1), datetime(1969, 12, 31)],
            (-86_400_000_000, 1_000_000),
        ),
        (pa.timestamp("us", "UTC"), [datetime(1970, 1, 1, 0, 0, 1)], (1_000_000, 1_000_000)),
        (pa.timestamp("s"), [datetime(1970, 1, 1, 0, 1)], (60_000_000, 60_000_000)),
        (pa.timestamp("ms"), [datetime(1970, 1, 1, 0, 1)], (60_000_000, 60_000_000)),
        (pa.timestamp("ns"), [-1], (-1, -1)),
        (pa.string(), ["a", "b"], (0, 0)),
        (pa.float64(), [1.5], (0, 0)),
        (pa.bool_(), [True], (0, 0)),
        (pa.decimal128(5, 2), [1], (0, 0)),
    ],
    ids=str,
)
def test_ticks_are_days_and_microseconds_and_other_types_have_none(
    tmp_path: Path, kind: pa.DataType, values: list, ticks: tuple[int, int], statistics: bool
) -> None:
    folder = tmp_path / "bucket=000000"
    folder.mkdir()
    table = pa.table({"at": pa.array(values, kind)})
    pq.write_table(table, folder / "part-a.parquet", write_statistics=statistics)
    (part,) = catalog.rebuild(tmp_path, "t", "at").partitions["000000"].parts
    assert (part.tick_min, part.tick_max, part.rows) == (*ticks, len(values))


@pytest.mark.acceptance("C24")
def test_the_footer_says_which_column_orders_a_part(tmp_path: Path) -> None:
    write_part(tmp_path, 0, [4, 8])
    assert catalog.rebuild(tmp_path, "t", "absent").partitions["000000"].tick_max == 0
    assert catalog.rebuild(tmp_path, "t").partitions["000000"].tick_max == 8
    write_part(tmp_path, 1, [4, 8], order_by="tick")
    assert catalog.rebuild(tmp_path, "t", "absent").partitions["000001"].tick_max == 8
    write_part(tmp_path, 2, [4, 8], order_by="")
    assert catalog.rebuild(tmp_path, "t", "tick").partitions["000002"].tick_max == 0


@pytest.mark.acceptance("C25")
def test_rebuild_visits_buckets_and_parquet_files_in_sorted_order(tmp_path: Path) -> None:
    for bucket in (2, 10, -1):
        write_part(tmp_path, bucket, [bucket])
        write_part(tmp_path, bucket, [bucket])
    for name in ("bucket=abc", "bucket=", "notes", "bucket=000002/sub.parquet"):
        (tmp_path / name).mkdir()
    (tmp_path / "bucket=abc" / "part-z.parquet").write_text("not read")
    (tmp_path / "bucket=000002" / "x.tmp").write_text("not read")
    (tmp_path / "bucket=000007").write_text("a file, not a directory")
    outside = tmp_path.parent / f"{tmp_path.name}-outside.parquet"
    outside.write_text("not read")
    (tmp_path / "bucket=000002" / "part-link.parquet").symlink_to(outside)
    manifest = catalog.rebuild(tmp_path, "t")
    assert list(manifest.partitions) == ["-000001", "000002", "000010"]
    for bucket in manifest.partitions.values():
        names = [part.path for part in bucket.parts]
        assert len(names) == 2 and names == sorted(names)


@pytest.mark.acceptance("C26")
def test_rebuild_of_nothing_is_empty_and_writes_nothing(tmp_path: Path) -> None:
    manifest = catalog.rebuild(tmp_path / "absent", "t")
    assert (manifest.table, manifest.partitions) == ("t", {})
    assert list(tmp_path.iterdir()) == []
    write_part(tmp_path, 0, [1])
    before = sorted(tmp_path.rglob("*"))
    catalog.rebuild(tmp_path, "t")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.acceptance("C27")
def test_importing_the_module_does_not_import_pyarrow() -> None:
    script = (
        "import sys, lading.log.table_manifest, lading.log.table_manifest_text\n"
        "sys.exit(any(name.split('.')[0] in ('pyarrow', 'numpy', 'pandas') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.acceptance("C28")
@pytest.mark.parametrize("kind", [str, Path])
def test_every_function_takes_a_path_as_text_too(tmp_path: Path, kind: type) -> None:
    folder = kind(tmp_path / "events")
    assert catalog.load(folder) is None
    write_part(tmp_path / "events", 3, [4, 9])
    found = catalog.rebuild(folder)
    assert (found.table, list(found.partitions)) == ("events", ["000003"])
    catalog.write(folder, found)
    assert catalog.load(folder) == found


@pytest.mark.acceptance("C28")
def test_a_url_is_a_bucket_and_never_a_folder_called_s3(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lading import catalog

    for name, value in s3_server.options().items():
        monkeypatch.setenv("AWS_ENDPOINT_URL" if name == "endpoint" else f"AWS_{name.upper()}", value)
    monkeypatch.chdir(tmp_path)
    url = f"{s3_server.bucket('catalog')}/{tmp_path.name}/events"
    assert catalog.load(url) is None
    catalog.write(url, new_manifest("events"))
    found = catalog.load(url)
    assert found is not None and found.table == "events"
    for refused in (lambda: catalog.rebuild(url), lambda: catalog.load("ftp://bucket/events")):
        with pytest.raises(ConfigError):
            refused()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.acceptance("C28")
def test_a_part_without_rows_has_the_ticks_0(tmp_path: Path) -> None:
    (tmp_path / "bucket=000001").mkdir()
    empty = pa.table({"tick": pa.array([], pa.int64())})
    pq.write_table(empty, tmp_path / "bucket=000001" / "part-empty.parquet")
    [bucket] = catalog.rebuild(str(tmp_path), "t").partitions.values()
    assert (bucket.tick_min, bucket.tick_max, bucket.row_count) == (0, 0, 0)


@pytest.mark.acceptance("C28")
def test_a_bucket_is_listed_under_the_key_under_which_it_can_be_found(tmp_path: Path) -> None:
    part = write_part(tmp_path, 7, [1, 2])
    (tmp_path / "bucket=000007").rename(tmp_path / "bucket=7")
    write_part(tmp_path, 8, [3])
    manifest = catalog.rebuild(tmp_path, "t")
    assert set(manifest.partitions) == {"7", "000008"}
    assert manifest.partitions["7"].bucket_id == 7
    for key, bucket in manifest.partitions.items():
        for one in bucket.parts:
            assert (tmp_path / f"bucket={key}" / one.path).is_file()
    assert manifest.partitions["7"].parts[0].path == part.path
    write_manifest(tmp_path, manifest)
    assert load_manifest(tmp_path) == manifest
