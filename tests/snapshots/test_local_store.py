"""What only the local store can get wrong: links, leftovers, foreign pointers, other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lading.errors import ManifestParseError, ManifestStoreError, PublishCurrentError
from lading.snapshots.stores.files import LocalStore


def point_at(root: Path, ref: str) -> None:
    pointer = json.loads((root / "_CURRENT").read_bytes())
    (root / "_CURRENT").write_text(json.dumps(pointer | {"manifest_ref": ref}))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "table")
    store.publish(b"first", "r1", sequence=1)
    return store


def test_a_link_that_leaves_the_root_is_refused_before_it_is_read(store: LocalStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "manifest").write_bytes(b"secret")
    (store.root / "manifests" / "out").symlink_to(secret)
    (store.root / "out").symlink_to(secret / "manifest")
    for ref in (
        "manifests/out/manifest",
        "out",
        "loop",
        f"{secret}/manifest",
        "manifests/../../secret/manifest",
    ):
        point_at(store.root, ref)
        current = store.load_current()
        assert current is not None and current.ref == ref
        with pytest.raises(ManifestStoreError, match="points outside"):
            store.load_manifest(ref)


@pytest.mark.parametrize("ref", ["manifests/../_CURRENT", "./_CURRENT", "manifests//x", "_CURRENT/"])
def test_a_reference_is_one_plain_path(store: LocalStore, ref: str) -> None:
    with pytest.raises(ManifestStoreError, match="points outside"):
        store.load_manifest(ref)


def test_a_loop_of_links_is_a_store_error(store: LocalStore) -> None:
    (store.root / "loop").symlink_to("loop")
    with pytest.raises(ManifestStoreError):
        store.load_manifest("loop")


def test_a_table_behind_a_link_is_still_its_own_root(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(store.root)
    through = LocalStore(tmp_path / "alias")
    current = through.load_current()
    assert current is not None and through.load_manifest(current.ref) == b"first"


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "huge"])
def test_a_pointer_that_is_no_small_file_is_refused(store: LocalStore, tmp_path: Path, kind: str) -> None:
    path = store.root / "_CURRENT"
    content = path.read_bytes()
    path.unlink()
    if kind == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(content + b" " * 100_000)
    with pytest.raises(ManifestParseError if kind == "huge" else ManifestStoreError, match="_CURRENT"):
        store.load_current()


def test_a_manifest_that_is_no_file_is_a_store_error(store: LocalStore) -> None:
    os.mkfifo(store.root / "manifests" / "fifo")
    for ref in ("manifests", "manifests/fifo"):
        with pytest.raises(ManifestStoreError, match="manifests"):
            store.load_manifest(ref)


def test_a_malformed_pointer_is_named_and_a_rollback_mends_it(store: LocalStore) -> None:
    (store.root / "_CURRENT").write_text("{")
    with pytest.raises(ManifestParseError) as caught:
        store.load_current()
    assert caught.value.file == str(store.root / "_CURRENT")
    with pytest.raises(PublishCurrentError):
        store.publish(b"second", "r2", sequence=2)
    newest = store.list_manifests()[0]
    store.set_current(newest.ref, hold=False)
    current = store.load_current()
    assert current is not None and store.load_manifest(current.ref) == b"second"


def test_a_foreign_pointer_is_moved_on_from(store: LocalStore) -> None:
    pointer = json.loads((store.root / "_CURRENT").read_bytes())
    for key in ("sequence", "held", "swap_id"):
        del pointer[key]
    (store.root / "_CURRENT").write_text(json.dumps(pointer))
    assert store.publish(b"second", "r2", sequence=1).outcome == "current"


def test_what_a_kill_leaves_behind_is_not_listed(store: LocalStore) -> None:
    manifests = store.root / "manifests"
    (manifests / "2026-04-20T15:23:01.123456Z_run_id=dead").mkdir()
    (manifests / "2026-04-20T15:23:01.123456Z_run_id=dead" / ".manifest.0.tmp").write_bytes(b"half")
    (manifests / "2026-99-99T15:23:01.123456Z_run_id=never").mkdir()
    (manifests / "notes").mkdir()
    assert [listed.run_id for listed in store.list_manifests()] == ["r1"]
    with pytest.raises(ManifestStoreError):
        store.set_current("manifests/2026-04-20T15:23:01.123456Z_run_id=dead/manifest")
    with pytest.raises(ManifestStoreError):
        store.set_current("manifests/notes/manifest")


def test_the_table_can_be_moved(store: LocalStore, tmp_path: Path) -> None:
    store.root.rename(tmp_path / "elsewhere")
    moved = LocalStore(tmp_path / "elsewhere")
    current = moved.load_current()
    assert current is not None and moved.load_manifest(current.ref) == b"first"
    assert moved.publish(b"second", "r2", sequence=2).outcome == "current"


def test_publishers_in_other_processes_lose_nothing(store: LocalStore) -> None:
    script = (
        "import sys, pathlib\n"
        "from lading.snapshots.stores.files import LocalStore\n"
        "store = LocalStore(pathlib.Path(sys.argv[1]))\n"
        "for n in range(int(sys.argv[2]), 42, 2):\n"
        "    store.publish(b'%d' % n, f'r{n}', sequence=n)\n"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", script, str(store.root), str(first)]) for first in (2, 3)
    ]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    current = store.load_current()
    assert current is not None and current.sequence == 41
    assert store.load_manifest(current.ref) == b"41"
    assert {listed.run_id for listed in store.list_manifests()} == {f"r{n}" for n in range(1, 42)}


def test_a_failed_rollback_moves_nothing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (store.root / "_CURRENT").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(PublishCurrentError, match="No space"):
        store.set_current(store.list_manifests()[0].ref)
    assert (store.root / "_CURRENT").read_bytes() == before


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What reached the disk, in its order."""
    calls: list[tuple[str, str]] = []

    def noting(name: str) -> None:
        real = getattr(os, name)

        def call(what: object, *args: object, **more: object) -> object:
            path = os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else os.fspath(what)  # type: ignore[call-overload]
            calls.append((name, Path(args[0] if name == "replace" else path).name))  # type: ignore[arg-type]
            return real(what, *args, **more)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "replace", "unlink"):
        noting(name)
    return calls


def test_a_rollback_makes_the_manifest_durable_before_it_points_there(
    store: LocalStore, done: list[tuple[str, str]]
) -> None:
    """Its publisher may have written it and not have synced its folder yet. Found by the simulation."""
    ref = store.list_manifests()[0].ref
    store.set_current(ref)
    before = done[: done.index(("replace", "_CURRENT"))]
    assert [("fsync", step) for step in (ref.split("/")[1], "manifests", "table")] == before[:3]


def test_a_deletion_makes_the_pointer_durable_first(store: LocalStore, done: list[tuple[str, str]]) -> None:
    """Who moved it may have been killed before the sync: a power cut would bring back what named it."""
    old = store.list_manifests()[0].ref
    store.publish(b"second", "r2", sequence=2)
    done.clear()
    assert store.delete_manifest(old)
    assert done[0] == ("fsync", "table") and done[1] == ("unlink", "manifest")
