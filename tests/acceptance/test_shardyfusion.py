"""What shardyfusion promises of manifests, the pointer and stores, as far as local files show it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lading.errors import (
    ManifestParseError,
    ManifestStoreError,
    PublishCurrentError,
    PublishManifestError,
)
from lading.model import SnapshotRef
from lading.snapshots import runs
from lading.snapshots.manifest import (
    BuildMeta,
    Sharding,
    ShardMeta,
    build_snapshot,
    load_build_meta,
    load_shard,
    open_snapshot_file,
    parse_snapshot,
)
from lading.snapshots.pointer import CONTENT_TYPE, parse_pointer
from lading.snapshots.stores.files import LocalStore, MemoryStore
from lading.storage import folder as local
from lading.storage import memory

NOW = datetime(2026, 4, 20, 15, 23, 1, 123456, tzinfo=UTC)


class Killed(BaseException):
    """Stands for a kill: no handler of lading's may catch it."""


def snapshot(run_id: str = "r1", *, num_dbs: int = 4, shards: tuple[int, ...] = (0, 3), **meta: Any) -> bytes:
    described = BuildMeta(run_id=run_id, created_at=NOW, num_dbs=num_dbs, key_col="id", **meta)
    return build_snapshot(described, [shard(db_id, run_id) for db_id in shards])


def shard(db_id: int, run_id: str = "r1") -> ShardMeta:
    url = f"shards/run_id={run_id}/db={db_id:05d}/attempt=00"
    return ShardMeta(
        db_id=db_id,
        db_url=url,
        attempt=0,
        row_count=5,
        min_key=1,
        max_key=9,
        checkpoint_id="ab",
        db_bytes=8192,
    )


def tampered(payload: bytes, *statements: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(payload)
        connection.executescript(";".join(statements))
        return connection.serialize()


def cel(routing_values: tuple[str, ...] | None) -> Sharding:
    return Sharding(
        strategy="cel",
        hash_algorithm="xxh3_64",
        routing_values=routing_values,
        cel_expr="country",
        cel_columns={"country": "string"},
    )


def current(store: LocalStore | MemoryStore) -> SnapshotRef:
    ref = store.load_current()
    assert ref is not None
    return ref


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "table")


_WATCHED = {"open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.link", "sqlite3.connect"}
_listeners: list[list[tuple[str, str]]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _listeners and event in _WATCHED:
        named = arguments[:1] if event == "open" else arguments
        paths = [str(path) for path in named if isinstance(path, (str, os.PathLike))]
        for listener in _listeners:
            listener.extend((event, path) for path in paths)


sys.addaudithook(_audit)  # can't be taken away again, so it only listens inside touched()


@contextmanager
def touched() -> Iterator[list[tuple[str, str]]]:
    """Which files were opened, listed or changed inside the block, in order."""
    seen: list[tuple[str, str]] = []
    _listeners.append(seen)
    try:
        yield seen
    finally:
        _listeners.remove(seen)


@pytest.mark.acceptance("M1")
def test_a_published_manifest_is_one_whole_database(store: LocalStore) -> None:
    published = store.publish(snapshot(), "r1", sequence=1)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize((store.root / published.ref).read_bytes())
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT run_id, num_dbs FROM build_meta").fetchall() == [("r1", 4)]
        assert connection.execute("SELECT db_id FROM shards ORDER BY db_id").fetchall() == [(0,), (3,)]
    assert [path.name for path in (store.root / published.ref).parent.iterdir()] == ["manifest"]


@pytest.mark.acceptance("M2")
def test_the_magic_comes_first_and_other_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = snapshot()
    assert payload[:16] == b"SQLite format 3\0"

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("SQLite was asked")

    monkeypatch.setattr(sqlite3, "connect", never)
    for other in (b"", payload[1:], b"{}" * 50, b"SQLite format 2\0" + payload[16:]):
        with pytest.raises(ManifestParseError):
            parse_snapshot(other)


@pytest.mark.acceptance("M5")
def test_the_pointer_names_the_content_type(store: LocalStore) -> None:
    store.publish(snapshot(), "r1", sequence=1)
    pointer = json.loads((store.root / "_CURRENT").read_bytes())
    assert pointer["manifest_content_type"] == CONTENT_TYPE == "application/x-sqlite3"


@pytest.mark.acceptance("M6")
@pytest.mark.parametrize("version", [-1, 0, 1, 2, 3, 4, 99])
def test_formats_1_to_3_parse_and_no_other(version: int) -> None:
    payload = tampered(snapshot(), f"UPDATE build_meta SET format_version = {version}")
    if version in (1, 2, 3):
        assert parse_snapshot(payload).meta.format_version == version
    else:
        with pytest.raises(ManifestParseError, match="format_version"):
            parse_snapshot(payload)


@pytest.mark.acceptance("M7")
def test_the_writer_emits_2_without_routing_values_and_3_with_them() -> None:
    assert parse_snapshot(snapshot()).meta.format_version == 2
    assert parse_snapshot(snapshot(format_version=1)).meta.format_version == 2
    assert parse_snapshot(snapshot(sharding=cel(None))).meta.format_version == 2
    categorical = snapshot(sharding=cel(("de", "fr")), format_version=3)
    assert parse_snapshot(categorical).meta.format_version == 3


@pytest.mark.acceptance("M8")
@pytest.mark.parametrize("version", [1, 2])
def test_routing_values_need_format_3(version: int) -> None:
    payload = snapshot(sharding=cel(("de", "fr")), format_version=3)
    assert parse_snapshot(payload).meta.sharding.routing_values == ("de", "fr")
    with pytest.raises(ManifestParseError, match="routing_values"):
        parse_snapshot(tampered(payload, f"UPDATE build_meta SET format_version = {version}"))


@pytest.mark.acceptance("M9", "M10")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("algorithm", ["", ', "hash_algorithm": null', ', "hash_algorithm": "xxh64"'])
def test_a_missing_or_other_hash_algorithm_is_refused(version: int, algorithm: str) -> None:
    sharding = '{"strategy": "hash"' + algorithm + "}"
    payload = tampered(
        snapshot(), f"UPDATE build_meta SET sharding = '{sharding}', format_version = {version}"
    )
    with pytest.raises(ManifestParseError, match="hash_algorithm"):
        parse_snapshot(payload)


@pytest.mark.acceptance("M11")
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE s AS SELECT * FROM shards; DROP TABLE shards; ALTER TABLE s RENAME TO shards;"
        "UPDATE shards SET db_id = 0",
        "UPDATE shards SET db_id = 4 WHERE db_id = 3",
        "UPDATE shards SET db_id = -1 WHERE db_id = 0",
        "UPDATE build_meta SET num_dbs = 1",
        *(
            f"ALTER TABLE build_meta DROP COLUMN {column}"
            for column in ("run_id", "created_at", "num_dbs", "s3_prefix", "key_col", "sharding")
        ),
        "DELETE FROM build_meta",
        "DROP TABLE shards",
    ],
)
def test_shards_that_do_not_fit_and_missing_metadata_are_refused(statement: str) -> None:
    assert len(parse_snapshot(snapshot()).shards) == 2
    with pytest.raises(ManifestParseError):
        parse_snapshot(tampered(snapshot(), statement))


@pytest.mark.acceptance("M12")
def test_the_pointer_parses_to_an_immutable_reference(store: LocalStore) -> None:
    published = store.publish(snapshot(), "r1", sequence=1, now=NOW)
    raw = (store.root / "_CURRENT").read_bytes()
    assert json.loads(raw)["format_version"] == 1
    ref = parse_pointer(raw)
    assert (ref.ref, ref.run_id, ref.published_at) == (published.ref, "r1", NOW)
    assert isinstance(ref.published_at, datetime)
    with pytest.raises(FrozenInstanceError):
        ref.ref = "other"  # type: ignore[misc]


@pytest.mark.acceptance("M14")
def test_publish_is_two_writes_the_manifest_then_the_pointer(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[str] = []

    def recorded(write: Callable[..., None]) -> Callable[..., None]:
        def record(path: str, data: bytes, **options: Any) -> None:
            write(path, data, **options)
            writes.append(Path(path).relative_to(store.root).as_posix())

        return record

    monkeypatch.setattr(local, "write_new", recorded(local.write_new))
    monkeypatch.setattr(local, "write_atomic", recorded(local.write_atomic))
    published = store.publish(snapshot(), "r1", sequence=1)
    assert writes == [published.ref, "_CURRENT"]


@pytest.mark.acceptance("M15", "M16", "S8")
def test_the_manifest_lies_in_a_folder_of_time_and_run(store: LocalStore) -> None:
    at = datetime(2026, 4, 20, 17, 23, 1, 123456, tzinfo=datetime.now().astimezone().tzinfo)
    published = store.publish(snapshot(), "r1", sequence=1, now=at)
    folder = f"{at.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}_run_id=r1"
    assert published.ref == f"manifests/{folder}/manifest"
    assert parse_snapshot((store.root / published.ref).read_bytes()).meta.run_id == "r1"
    named = LocalStore(store.root, manifest_name="snapshot.sqlite")
    again = named.publish(snapshot("r2"), "r2", sequence=2, now=at + timedelta(seconds=1))
    assert again.ref.endswith("Z_run_id=r2/snapshot.sqlite") and (store.root / again.ref).is_file()
    assert {"_CURRENT", "manifests"} <= {path.name for path in store.root.iterdir()}


@pytest.mark.acceptance("M17")
def test_three_publishes_leave_three_unchanged_manifests(store: LocalStore) -> None:
    written = {}
    for n in (1, 2, 3):
        ref = store.publish(snapshot(f"r{n}"), f"r{n}", sequence=n).ref
        written[ref] = (store.root / ref).read_bytes()
    assert len(written) == 3
    assert {ref: (store.root / ref).read_bytes() for ref in written} == written
    assert len({hashlib.sha256(data).digest() for data in written.values()}) == 3


@pytest.mark.acceptance("M18")
def test_killed_between_the_two_writes_the_old_snapshot_stays_whole(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.publish(snapshot("old"), "old", sequence=1)

    def kill(path: str, data: bytes, **_: Any) -> None:
        assert Path(path).name == "_CURRENT"
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(local, "write_atomic", kill)
        with pytest.raises(Killed):
            store.publish(snapshot("new"), "new", sequence=2)
    assert current(store).ref == old.ref
    assert parse_snapshot(store.load_manifest(old.ref)).meta.run_id == "old"
    assert [listed.run_id for listed in store.list_manifests()] == ["new", "old"]
    assert store.publish(snapshot("new"), "new", sequence=2).outcome == "current"


@pytest.mark.acceptance("M18")
@pytest.mark.parametrize("step", ["os.link", "os.replace"])
def test_a_real_kill_in_either_write_leaves_the_old_snapshot(store: LocalStore, step: str) -> None:
    old = store.publish(snapshot("old"), "old", sequence=1)
    script = (
        "import os, signal, sys, pathlib\n"
        "from lading.snapshots.stores.files import LocalStore\n"
        "store = LocalStore(pathlib.Path(sys.argv[1]))\n"
        f"{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "store.publish(b'new', 'new', sequence=2)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(store.root)], check=False)
    assert killed.returncode == -9
    assert current(store) == old.current
    assert parse_snapshot(store.load_manifest(old.ref)).meta.run_id == "old"
    assert store.publish(snapshot("next"), "next", sequence=2).outcome == "current"


_POLL = """
import sys, pathlib
from lading.snapshots.stores.files import LocalStore

store = LocalStore(pathlib.Path(sys.argv[1]))
sequences = []
while not sequences or sequences[-1] < 1000:
    ref = store.load_current()
    assert ref is not None and store.load_manifest(ref.ref) == b"%d" % ref.sequence * 50, ref
    sequences.append(ref.sequence)
    if len(sequences) == 1:
        print("polling", flush=True)
assert sequences == sorted(sequences)
print(len(set(sequences)))
"""


@pytest.mark.acceptance("M19", "S3")
def test_a_polling_reader_only_ever_gets_old_or_new(store: LocalStore) -> None:
    store.publish(b"0" * 50, "r0", sequence=0)
    command = [sys.executable, "-c", _POLL, str(store.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert reader.stdout is not None and reader.stdout.readline() == "polling\n"
            for n in range(1, 1001):
                assert store.publish(b"%d" % n * 50, "r", sequence=n).outcome == "current"
            distinct, _ = reader.communicate(timeout=60)
        finally:
            reader.kill()
    assert reader.returncode == 0
    assert int(distinct) > 10


@pytest.mark.acceptance("M20")
def test_a_reader_opens_with_two_reads_and_lists_nothing(store: LocalStore) -> None:
    published = store.publish(snapshot(), "r1", sequence=1)
    with touched() as seen:
        payload = store.load_manifest(current(store).ref)
    assert parse_snapshot(payload).meta.num_dbs == 4
    assert seen == [("open", str(store.root / "_CURRENT")), ("open", str(store.root / published.ref))]


@pytest.mark.acceptance("M22")
def test_pointing_at_an_earlier_manifest_gives_its_snapshot_and_rewrites_nothing(store: LocalStore) -> None:
    first = store.publish(snapshot("r1", shards=(0,)), "r1", sequence=1)
    store.publish(snapshot("r2", shards=(0, 1)), "r2", sequence=2)
    before = {path: path.read_bytes() for path in (store.root / "manifests").rglob("manifest")}
    store.set_current(first.ref)
    opened = parse_snapshot(store.load_manifest(current(LocalStore(store.root)).ref))
    assert (opened.meta.run_id, [entry.db_id for entry in opened.shards]) == ("r1", [0])
    assert {path: path.read_bytes() for path in (store.root / "manifests").rglob("manifest")} == before


@pytest.mark.acceptance("M23")
def test_build_metadata_and_one_shard_are_read_without_the_others(store: LocalStore) -> None:
    broken = tampered(snapshot(), "UPDATE shards SET writer_info = 'broken' WHERE db_id = 3")
    published = store.publish(broken, "r1", sequence=1)
    with closing(open_snapshot_file(store.manifest_path(published.ref))) as connection:
        assert load_build_meta(connection).num_dbs == 4
        one = load_shard(connection, 0)
        assert one is not None and one.db_url == "shards/run_id=r1/db=00000/attempt=00"
        assert load_shard(connection, 2) is None
    with pytest.raises(ManifestParseError):
        parse_snapshot(broken)


@pytest.mark.acceptance("S1")
@pytest.mark.parametrize("make", [LocalStore, lambda _: MemoryStore()], ids=["local", "memory"])
def test_every_store_publishes_loads_lists_and_sets(make: Callable[[Path], Any], tmp_path: Path) -> None:
    store = make(tmp_path)
    first = store.publish(snapshot("r1"), "r1", sequence=1)
    second = store.publish(snapshot("r2"), "r2", sequence=2)
    assert current(store).ref == second.ref
    assert parse_snapshot(store.load_manifest(first.ref)).meta.run_id == "r1"
    assert [listed.run_id for listed in store.list_manifests()] == ["r2", "r1"]
    store.set_current(first.ref)
    assert current(store).run_id == "r1"


@pytest.mark.acceptance("S2")
def test_a_store_never_touches_a_data_file(store: LocalStore) -> None:
    data = [store.root / "bucket=000000" / "part-a.parquet", store.root / "shards" / "db=00000" / "shard.db"]
    for path in data:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"rows")
    with touched() as seen:
        first = store.publish(b"one", "r1", sequence=1)
        store.publish(b"two", "r2", sequence=2)
        store.list_manifests()
        store.set_current(first.ref)
        store.load_manifest(current(store).ref)
    assert ("open", str(store.root / "_CURRENT")) in seen
    assert not [path for _, path in seen if "bucket=" in path or "shards" in path]
    assert [path.read_bytes() for path in data] == [b"rows", b"rows"]


@pytest.mark.acceptance("S6")
def test_the_memory_store_moves_by_assignment_and_nobody_else_sees_it() -> None:
    store = MemoryStore()
    published = store.publish(snapshot(), "r1", sequence=1)
    assert store.load_current() == published.current
    assert MemoryStore().load_current() is None and MemoryStore().list_manifests() == []
    script = (
        "from lading.snapshots.stores.files import MemoryStore; assert MemoryStore().load_current() is None"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    for doc in (memory.__doc__, MemoryStore.__doc__):
        assert doc is not None and "tests only" in doc


@pytest.mark.acceptance("S8", "S10")
def test_the_root_holds_the_pointer_manifests_and_run_records(store: LocalStore) -> None:
    with runs.start(store.root, "r1", NOW) as run:
        published = store.publish(snapshot(), "r1", sequence=1, now=NOW)
        run.finish("succeeded", manifest_ref=published.ref)
    names = {path.name for path in store.root.iterdir()}
    assert {"_CURRENT", "manifests", "runs"} <= names
    (record,) = (store.root / "runs").rglob("*.yaml")
    pattern = r"runs/2026-04-20T15:23:01\.123456Z_run_id=r1_[0-9a-f]{32}/run\.yaml"
    assert re.fullmatch(pattern, record.relative_to(store.root).as_posix())
    last = runs.last_run(store.root)
    assert last is not None and (last["status"], last["manifest_ref"]) == ("succeeded", published.ref)


@pytest.mark.acceptance("S9")
def test_publishing_a_run_again_adds_a_second_folder(store: LocalStore) -> None:
    refs = [store.publish(snapshot(), "r1", sequence=1).ref for _ in range(2)]
    folders = sorted(path.name for path in (store.root / "manifests").iterdir())
    assert [f"manifests/{name}/manifest" for name in folders] == refs
    assert all(name.endswith("_run_id=r1") for name in folders)
    assert [parse_snapshot(store.load_manifest(ref)).meta.run_id for ref in refs] == ["r1", "r1"]


@pytest.mark.acceptance("S11")
def test_sorting_folders_as_text_sorts_them_by_time(store: LocalStore) -> None:
    start = datetime(2026, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC)
    steps = (0, 1, 2, 3, 10**6 + 2, 10**7 + 2, 3600 * 10**6 + 2, 86400 * 10**6 + 2)
    times = [start + timedelta(microseconds=step) for step in steps]
    refs = [store.publish(b"x", f"r{9 - n}", sequence=n, now=at).ref for n, at in enumerate(times)]
    assert sorted(refs) == refs
    assert "manifests/2027-01-01T00:00:00.000000Z_run_id=r7/manifest" in refs
    for ref in refs:
        assert re.match(r"manifests/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z_run_id=", ref)


@pytest.mark.acceptance("S20")
def test_publishing_to_one_store_leaves_another_untouched(tmp_path: Path) -> None:
    one, other = LocalStore(tmp_path / "one"), LocalStore(tmp_path / "other")
    other.publish(snapshot("theirs"), "theirs", sequence=1)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "other").rglob("*")}
    one.publish(snapshot("mine"), "mine", sequence=2)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "other").rglob("*")} == before
    assert current(other).run_id == "theirs"


@pytest.mark.acceptance("S21")
def test_a_store_keeps_an_unknown_format_and_only_parsing_refuses_it(store: LocalStore) -> None:
    future = tampered(snapshot(), "UPDATE build_meta SET format_version = 9")
    published = store.publish(future, "r1", sequence=1)
    assert store.load_manifest(published.ref) == future
    with pytest.raises(ManifestParseError, match="format_version"):
        parse_snapshot(store.load_manifest(published.ref))


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.acceptance("S22")
def test_a_failed_manifest_write_changes_nothing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.publish(snapshot("old"), "old", sequence=1)
    before = (store.root / "_CURRENT").read_bytes()
    monkeypatch.setattr(os, "link", full_disk)
    with pytest.raises(PublishManifestError, match="No space left") as caught:
        store.publish(snapshot("new"), "new", sequence=2)
    assert caught.value.hint
    assert (store.root / "_CURRENT").read_bytes() == before
    assert [listed.run_id for listed in store.list_manifests()] == ["old"]


@pytest.mark.acceptance("S23")
def test_a_failed_pointer_write_is_recovered_by_the_next_publish(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish(snapshot("old"), "old", sequence=1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full_disk)
        with pytest.raises(PublishCurrentError, match="No space left") as caught:
            store.publish(snapshot("new"), "new", sequence=2)
    assert caught.value.hint
    assert current(store).run_id == "old"
    durable = store.list_manifests()[0]
    assert parse_snapshot(store.load_manifest(durable.ref)).meta.run_id == "new"
    store.publish(snapshot("next"), "next", sequence=3)
    assert current(store).run_id == "next"


@pytest.mark.acceptance("S24")
def test_a_failed_read_and_a_malformed_payload_are_told_apart(store: LocalStore) -> None:
    published = store.publish(snapshot(), "r1", sequence=1)
    manifest = store.root / published.ref
    manifest.unlink()
    with pytest.raises(ManifestStoreError):
        store.load_manifest(current(store).ref)
    manifest.write_bytes(b"not a manifest")
    with pytest.raises(ManifestParseError):
        parse_snapshot(store.load_manifest(current(store).ref))
    (store.root / "_CURRENT").write_text('{"manifest_ref": 3}')
    with pytest.raises(ManifestParseError):
        store.load_current()
    (store.root / "_CURRENT").unlink()
    (store.root / "_CURRENT").mkdir()
    with pytest.raises(ManifestStoreError):
        store.load_current()
