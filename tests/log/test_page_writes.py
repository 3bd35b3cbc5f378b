"""Checkpoints and publishes of tables whose pages lie outside of the root: killed between any two writes, by
two publishers at once, from older states, in a bucket; and what each of them costs."""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.faults import FaultyHttp
from support.servers import S3Server

import lading
from lading.errors import Conflict, LadingError, LogCorrupt
from lading.layout.table import LOG, content_name, page_path
from lading.log.table import Table
from lading.model import Commit, Member, Source, Zone
from lading.snapshots.opening import open_members
from lading.snapshots.publish import snapshot_payload
from lading.snapshots.stores.by_url import store_for
from lading.snapshots.stores.files import LocalStore
from lading.snapshots.stores.protocol import ManifestStore
from lading.state import edit, tables
from lading.storage.place import place, storage_of
from lading.where.bind import bind, parse

SMALL = 16
REPLACE = os.replace


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "PAGE", SMALL)
    monkeypatch.setattr(tables, "INLINE", 0)


def member(number: int) -> Member:
    zones = {"k": Zone(number, number, 0)}
    return Member(f"m{number}", 1, 1, 0, 0, 0, number, number, "2024", zones, ((number, 1),))


def commit(**edits: Any) -> Commit:
    return Commit(uuid.uuid4().hex, uuid.uuid4().hex, "2024-01-01T00:00:00+00:00", "recipe", **edits)


def source(number: int) -> Source:
    return Source(number, f"f{number:04}.csv", "h", "s", 1, 1, 1, False, "2024")


def filled(table: Table, members: int = 200) -> Table:
    import pyarrow as pa

    some = tuple(map(member, range(members)))
    schema = pa.schema([("k", pa.int64())]).serialize().to_pybytes()
    table.commit(commit(add=some, sources=tuple(map(source, range(members))), schema=schema, order_by="k"))
    return table


def publish(table: Table, store: ManifestStore, run: str) -> None:
    store.publish(snapshot_payload("t", table, run), run, sequence=table.state.sequence)


def test_pages_that_leave_the_checkpoint_count_as_new_whoever_wrote_it(tmp_path: Path) -> None:
    """Whoever has the replaced one open is left alone by cleaning for a while."""
    ours = filled(Table.create(tmp_path, "t"))
    ours.settle()
    theirs = Table.open(tmp_path)
    theirs.commit(commit(remove=("m7",)))
    theirs.settle()
    assert theirs.state.base is not None
    replaced = theirs.state.base.page_names()
    ours.commit(commit(remove=("m8",)))
    for path in (tmp_path / "pages").iterdir():
        os.utime(path, (1, 1))
    ours.settle()
    assert ours.state.base is not None
    left = replaced - ours.state.base.page_names()
    assert left and all((tmp_path / page_path(name)).stat().st_mtime > 1 for name in left)


def seen(store: ManifestStore, root: Any) -> set[str] | None:
    """What a reader sees, every page of it read."""
    current = store.load_current()
    if current is None:
        return None
    members = open_members(store, current.ref, root)
    try:
        members.check()
        return {one.path for one in members.members(None)}
    finally:
        members.close()


class Killed(BaseException):
    pass


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """From now on the n-th durable step (sync, rename, link) isn't taken any more, nor are later ones."""
    left = [-1]
    real = {name: getattr(os, name) for name in ("fsync", "replace", "link", "unlink", "utime")}

    def dying(name: str) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real[name](*args, **options)

        return step

    for name in real:
        monkeypatch.setattr(os, name, dying(name))

    def set_to(steps: int) -> None:
        left[0] = steps

    return set_to


@pytest.mark.parametrize("what", ["checkpoint", "publish"])
def test_killed_between_any_two_writes_nothing_is_lost_and_the_next_one_completes_it(
    tmp_path: Path, killing: Callable[[int], None], what: str
) -> None:
    table = filled(Table.create(tmp_path / "t", "t"))
    publish(table, LocalStore(tmp_path / "t"), "r0")
    before = seen(LocalStore(tmp_path / "t"), table.place)
    table.commit(commit(add=(member(1000),), remove=("m7", "m100"), sources=(source(7),), gone=(100,)))
    wanted = {one.path for one in table.state.candidates(None)}
    table.close()
    shutil.copytree(tmp_path / "t", tmp_path / "original")
    steps = 0
    while True:
        shutil.rmtree(tmp_path / "t")
        shutil.copytree(tmp_path / "original", tmp_path / "t")
        table, store = Table.open(tmp_path / "t"), LocalStore(tmp_path / "t")
        killing(steps)
        try:
            if what == "checkpoint":
                table.checkpoint()
            else:
                publish(table, store, f"r{steps + 1}")
            done = True
        except Killed:
            done = False
        killing(-1)
        again = Table.open(tmp_path / "t")
        assert {one.path for one in again.state.candidates(None)} == wanted
        assert again.state.base is not None
        again.state.base.check()
        assert seen(store, again.place) in (before, wanted)
        publish(again, store, f"r{steps + 1}-again")
        assert seen(store, again.place) == wanted
        again.state.base.check()
        if done:
            break
        steps += 1
    assert steps > 4


def replacing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are put in place from now on."""
    found: list[str] = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (found.append(str(b)), real(a, b))[1])
    return found


def test_a_publish_writes_the_pages_that_changed_and_four_more_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for members in (200, 2000):
        table = filled(Table.create(tmp_path / str(members), "t"), members)
        store = LocalStore(table.folder)
        publish(table, store, "r0")
        table.commit(commit(add=(member(5),), remove=("m5",), sources=(source(5),)))
        replaced = replacing(monkeypatch)
        publish(table, store, "r1")
        monkeypatch.setattr(os, "replace", REPLACE)
        names = sorted(Path(path).parent.name + "/" + Path(path).name.split("-")[0] for path in replaced)
        counts.append(names)
        before, after = (
            open_members(store, one.ref, table.place).page_names()
            for one in reversed(store.list_manifests(limit=2))
        )
        assert len(after - before) == 2 and len(after & before) > 10
    assert counts[0][1:] != [] and len(counts[0]) == len(counts[1]) <= 4
    assert [one for one in counts[1] if one.startswith("pages/")] == ["pages/members", "pages/sources"]


def test_two_publishers_at_once_leave_a_whole_table_and_a_whole_snapshot(tmp_path: Path) -> None:
    filled(Table.create(tmp_path / "t", "t")).close()
    errors: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 8):
                table = Table.open(tmp_path / "t")
                table.commit(commit(add=(member(number),), sources=(source(number),)))
                publish(table, LocalStore(tmp_path / "t"), f"r{number}")
                table.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in (1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    table = Table.open(tmp_path / "t")
    assert table.state.count() == 224
    assert table.state.base is not None
    table.state.base.check()
    store = LocalStore(tmp_path / "t")
    for listed in store.list_manifests():
        members = open_members(store, listed.ref, table.place)
        members.check()
        assert members.count() == members.meta.sequence + 199
        members.close()
    assert len(seen(store, table.place) or ()) == 224


@pytest.mark.parametrize("what", ["snapshot", "checkpoint"])
def test_a_frame_that_was_only_read_is_synced_before_anything_is_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whoever wrote it may be about to sync it, or was killed before: after a power cut the log would end
    before what readers were told."""
    filled(Table.create(tmp_path / "t", "t")).close()
    synced: list[str] = []
    sync = os.fsync

    def record(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        sync(file)

    table = Table.open(tmp_path / "t")
    monkeypatch.setattr(os, "fsync", record)
    if what == "snapshot":
        publish(table, LocalStore(tmp_path / "t"), "r1")
    else:
        table.checkpoint()
    table.close()
    assert synced[0] == str(tmp_path / "t" / LOG)


def test_a_stale_publisher_never_moves_the_checkpoint_back(tmp_path: Path) -> None:
    filled(Table.create(tmp_path / "t", "t")).close()
    stale = Table.open(tmp_path / "t")
    stale.commit(commit(add=(member(1000),)))
    other = Table.open(tmp_path / "t")
    other.commit(commit(add=(member(2000),)))
    other.compact()
    publish(stale, LocalStore(tmp_path / "t"), "stale")
    now = Table.open(tmp_path / "t")
    assert now.checkpoint_sequence == now.state.sequence == 3 and now.state.count() == 202
    assert "m2000" not in (seen(LocalStore(tmp_path / "t"), now.place) or ())


def test_pages_that_a_checkpoint_drops_look_new_from_then_on(tmp_path: Path) -> None:
    """Whoever has the one before open is given the grace period from then on, not from its writing."""
    table = filled(Table.create(tmp_path / "t", "t"))
    table.checkpoint()
    assert table.state.base is not None
    before = table.state.base.page_names()
    for path in (tmp_path / "t" / "pages").iterdir():
        os.utime(path, (1, 1))
    table.commit(commit(remove=("m7",)))
    table.checkpoint()
    [dropped] = before - table.state.base.page_names()
    times = {path.name: path.stat().st_mtime for path in (tmp_path / "t" / "pages").iterdir()}
    assert times[dropped] > 1 and sum(time > 1 for time in times.values()) == 2


def test_a_page_that_comes_back_looks_new_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    table = filled(Table.create(tmp_path / "t", "t"))
    table.checkpoint()
    assert table.state.base is not None
    first = table.state.base.page_names()
    table.commit(commit(tier=(("m7", 1),)))
    table.checkpoint()
    [name] = first - table.state.base.page_names()
    path = tmp_path / "t" / "pages" / name
    whole = path.read_bytes()
    for damaged in (whole, whole[:-1], b"x" * len(whole)):
        path.write_bytes(damaged)
        os.utime(path, (1, 1))
        table.commit(commit(tier=(("m7", 0),)))
        table.checkpoint()
        assert table.state.base.page_names() == first
        assert path.read_bytes() == whole and path.stat().st_mtime > 1
        table.commit(commit(tier=(("m7", 1),)))
        table.checkpoint()


GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"


def test_a_state_of_version_3_is_read_and_written_anew_as_pages(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "table", tmp_path / "t")
    table = Table.open(tmp_path / "t")
    told = table.state.with_zones(), list(table.state.sources_by_key())
    assert table.state.base is not None and table.state.base.unsaved()
    assert not (tmp_path / "t" / "pages").exists(), "reading writes nothing"
    with lading.open(tmp_path / "t") as reader:
        rows = reader.scan().to_table()
    publish(table, LocalStore(tmp_path / "t"), "r1")
    assert {path.name.split("-")[0] for path in (tmp_path / "t" / "pages").iterdir()} == {
        "members",
        "sources",
    }
    again = Table.open(tmp_path / "t")
    assert (again.state.with_zones(), list(again.state.sources_by_key())) == told
    assert again.state.base is not None and not again.state.base.unsaved()
    again.state.base.check()
    with lading.open(tmp_path / "t") as reader:
        assert reader.snapshot.run_id == "r1"
        assert reader.scan().to_table().equals(rows)


@pytest.fixture
def counted(s3_server: S3Server) -> Iterator[tuple[FaultyHttp, str, dict[str, str]]]:
    http = FaultyHttp(s3_server.port)
    options = s3_server.options() | {"endpoint": http.endpoint}
    yield http, f"{s3_server.bucket('counted')}/{uuid.uuid4().hex}/t", options
    http.close()


@pytest.mark.parametrize("cached", [True, False])
def test_in_a_bucket_a_page_is_fetched_once_and_only_if_a_question_needs_it(
    counted: tuple[FaultyHttp, str, dict[str, str]], tmp_path: Path, cached: bool
) -> None:
    http, url, options = counted
    where = place(url, options, tmp_path / "cache" if cached else None)
    table = filled(Table.create(where, "t"))
    store = store_for(url.rpartition("/")[0], "t", s3=options)

    def pages() -> list[str]:
        found = [
            f"{method} {path.rpartition('/')[2].split('-')[0]}"
            for method, path in http.requests
            if "/pages/" in path
        ]
        http.requests.clear()
        return sorted(found)

    publish(table, store, "r0")
    assert set(pages()) == {"PUT members", "PUT sources"}
    table.commit(commit(add=(member(7),), remove=("m7",), sources=(source(7),)))
    publish(table, store, "r1")
    written = pages()
    assert [one for one in written if one.startswith("PUT")] == ["PUT members", "PUT sources"]
    fresh = place(url, options, tmp_path / "fresh" if cached else None)
    current = store.load_current()
    assert current is not None
    members = open_members(store, current.ref, fresh)
    pages()
    import pyarrow as pa

    where_ = bind(parse("k = 50"), pa.schema([("k", pa.int64())]))
    assert [one.path for one in members.candidates(where_)] == ["m50"]
    assert pages() == ["GET members"]
    assert [one.path for one in members.holding(50)] == ["m50"] and pages() == [], "fetched already"
    assert len(members.candidates(None)) == 200
    assert pages() == ["GET members"] * (len(members.pages()) - 1)
    if cached:
        again = open_members(store, current.ref, fresh)
        assert len(again.candidates(None)) == 200 and pages() == []


@pytest.mark.parametrize("question", ["plan", "lookup"])
def test_in_a_bucket_opening_and_a_question_are_three_requests(
    counted: tuple[FaultyHttp, str, dict[str, str]], question: str
) -> None:
    """The pointer, the snapshot, one page: however many pages there are."""
    import pyarrow as pa

    http, url, options = counted
    table = filled(Table.create(place(url, options, None), "t"))
    publish(table, store_for(url.rpartition("/")[0], "t", s3=options), "r0")
    where = bind(parse("k = 50"), pa.schema([("k", pa.int64())]))
    store = store_for(url.rpartition("/")[0], "t", s3=options)
    http.requests.clear()
    current = store.load_current()
    assert current is not None
    members = open_members(store, current.ref, place(url, options, None))
    found = members.candidates(where) if question == "plan" else members.holding(50)
    assert [one.path for one in found] == ["m50"] and len(members.pages()) > 5
    told = [method for method, _ in http.requests]
    assert told == ["GET"] * 3, http.requests
    members.close()


def test_in_a_bucket_no_page_has_a_name_that_another_had(
    counted: tuple[FaultyHttp, str, dict[str, str]],
) -> None:
    """Whoever cleans has looked at the old one and is about to delete it when the same content comes back."""
    _, url, options = counted
    where = place(url, options, None)
    table = filled(Table.create(where, "t"))
    table.settle()
    assert table.state.base is not None
    first = table.state.base.page_names()
    table.commit(commit(tier=(("m7", 1),)))
    table.settle()
    [old] = first - table.state.base.page_names()
    table.commit(commit(tier=(("m7", 0),)))
    table.settle()
    names = table.state.base.page_names()
    assert {content_name(name) for name in names} == {content_name(name) for name in first}
    assert names.isdisjoint({old}) and len(names & first) == len(first) - 1
    storage_of(where).delete(page_path(old))
    again = Table.open(where)
    assert again.state.base is not None
    again.state.base.check()


def test_in_a_bucket_an_edit_that_changes_nothing_writes_no_page(
    counted: tuple[FaultyHttp, str, dict[str, str]],
) -> None:
    http, url, options = counted
    table = filled(Table.create(place(url, options, None), "t"))
    table.settle()
    assert table.state.base is not None
    names = table.state.base.page_names()
    table.commit(commit(tier=(("m7", 1),)))
    table.commit(commit(tier=(("m7", 0),)))
    http.requests.clear()
    assert table.settle().page_names() == names
    assert not [path for method, path in http.requests if method == "PUT" and "/pages/" in path]


def test_of_two_checkpoints_of_one_state_in_a_bucket_both_go_on_from_the_first(
    counted: tuple[FaultyHttp, str, dict[str, str]],
) -> None:
    """Only what a checkpoint names is kept from being cleaned away."""
    _, url, options = counted
    where = place(url, options, None)
    filled(Table.create(where, "t")).close()
    first, second = Table.open(where), Table.open(where)
    assert first.settle().page_names() == second.settle().page_names()
    second.commit(commit(add=(member(1000),)))
    second.settle().check()


@pytest.mark.parametrize("replaced", [True, False])
def test_whoever_slept_while_its_checkpoint_was_replaced_and_cleaned_is_told_so(
    tmp_path: Path, replaced: bool
) -> None:
    """Not that the table is damaged, which it is where the checkpoint is still the same."""
    table = filled(Table.create(tmp_path / "t", "t"))
    table.checkpoint()
    sleeper = Table.open(tmp_path / "t")
    assert sleeper.state.base is not None
    page = page_path(sleeper.state.base.pages()[0].name)
    if replaced:
        table.commit(commit(remove=("m0",)))
        table.checkpoint()
    (tmp_path / "t" / page).unlink()
    with pytest.raises(LadingError, match="it is missing") as told:
        sleeper.state.find("m1")
    assert isinstance(told.value, Conflict if replaced else LogCorrupt)
    assert ("run again" in told.value.hint) is replaced
    assert ("lading repair" in told.value.hint) is not replaced
