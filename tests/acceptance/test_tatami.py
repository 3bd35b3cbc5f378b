"""What tatami promises of collections, through lading's own doors.

T2, T5 and T6 are shown where the log is tested: tests/catalog.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.opened import opened_among
from support.statistics import statistics_of

import lading
from lading.cli.main import invoke
from lading.errors import PartError

KEYS = {"shard0": ["https://a", "https://k"], "shard1": ["https://m", "https://q"], "shard2": ["https://s"]}


def write(path: Path, urls: list[str | None], statuses: list[int], *, sort: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"url": pa.array(urls, pa.string()), "status": pa.array(statuses, pa.int32())})
    pq.write_table(rows, path, sorting_columns=[pq.SortingColumn(0)] if sort else None)
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three sorted files with disjoint key ranges in one directory, not yet a collection."""
    for number, (name, urls) in enumerate(KEYS.items()):
        write(tmp_path / "corpus" / f"{name}.parquet", urls, [200 + number] * (len(urls) - 1) + [404])
    return tmp_path / "corpus"


@pytest.fixture
def collection(corpus: Path) -> lading.Collection:
    found = lading.Collection(corpus)
    found.add(*sorted(corpus.glob("*.parquet")))
    return found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*args: object) -> str:
        code = invoke([str(arg) for arg in args])
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run


@pytest.mark.acceptance("T1", "T12")
def test_the_catalogue_is_one_log_beside_the_data_and_is_opened_by_its_directory(collection, corpus):
    assert sorted(path.name for path in corpus.iterdir()) == [
        "manifest.lock",
        "manifest.log",
        "shard0.parquet",
        "shard1.parquet",
        "shard2.parquet",
    ]
    assert len(lading.Collection(corpus)) == 3


@pytest.mark.acceptance("T3")
def test_a_removed_member_is_neither_listed_nor_scanned(collection, corpus):
    collection.remove("shard1.parquet")
    again = lading.Collection(corpus)
    assert [member.path for member in again.members()] == ["shard0.parquet", "shard2.parquet"]
    assert again.scan().to_table()["url"].to_pylist() == [*KEYS["shard0"], *KEYS["shard2"]]


@pytest.mark.acceptance("T4")
def test_an_add_carries_the_key_range_and_the_statistics_that_pyarrow_reads(tmp_path):
    columns = {
        "k": pa.array([3, 3, 5, 8, 13, 21], pa.int64()),
        "name": pa.array(["q", None, "b", "zz", None, "ä"], pa.string()),
        "price": pa.array([1.5, -2.5, None, 0.0, 9.25, 4.0], pa.float64()),
        "day": pa.array(
            [date(2024, 3, 1), None, None, None, date(1969, 7, 20), date(2030, 1, 1)], pa.date32()
        ),
        "at": pa.array([datetime(2024, 1, n + 1, 7, 30, 0, n) for n in range(6)], pa.timestamp("us")),
        "ok": pa.array([True, True, None, True, False, True], pa.bool_()),
    }
    sorting = [pq.SortingColumn(0)]
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=2, sorting_columns=sorting)
    other = pa.table(columns).slice(1, 3)
    pq.write_table(other, tmp_path / "b.parquet", row_group_size=2, sorting_columns=sorting)
    lading.Collection(tmp_path).add(tmp_path / "a.parquet", tmp_path / "b.parquet")
    for kept in ("in the log", "in the checkpoint"):
        members = lading.Collection(tmp_path).members()
        assert {member.path for member in members} == {"a.parquet", "b.parquet"}
        for member in members:
            file = tmp_path / member.path
            statistics = statistics_of(file)
            assert set(statistics) == set(columns) and member.zones == statistics, kept
            keys = pq.read_table(file)["k"].to_pylist()
            assert (member.key_min, member.key_max, member.rows) == (min(keys), max(keys), len(keys)), kept
            assert member.bytes == file.stat().st_size
        lading.Collection(tmp_path).compact()


@pytest.mark.acceptance("T7")
@pytest.mark.parametrize(
    ("where", "wanted", "urls"),
    [
        (
            "url between 'https://m' and 'https://q'",
            {"shard1"},
            ["https://m", "https://q"],
        ),  # by the key range
        ("status = 200", {"shard0"}, ["https://a"]),  # by a zone of another column
        ("not (url >= 'https://m') or status = 7", {"shard0"}, ["https://a", "https://k"]),
        ("url > 'https://x' or status is null", set(), []),
    ],
)
def test_a_ruled_out_member_is_never_opened(collection, corpus, where, wanted, urls):
    files = sorted(corpus.glob("*.parquet"))
    with opened_among(files) as opened:
        assert lading.Collection(corpus).scan(where).to_table()["url"].to_pylist() == urls
    assert {path.stem for path in opened} == wanted
    for path in files:
        if path.stem not in wanted:
            make_unreadable(path)
    again = lading.Collection(corpus)
    assert again.scan(where).to_table()["url"].to_pylist() == urls
    with pytest.raises(PartError):  # a scan that needs them can't do without
        again.scan().to_table()


def make_unreadable(path: Path) -> None:
    """For root too, whom permissions don't stop: a link to itself leads nowhere."""
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(OSError):
        path.open()


@pytest.mark.acceptance("T8")
def test_add_makes_live_members_and_leaves_the_files_untouched(corpus, run):
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in corpus.iterdir()}
    run("collection", "add", corpus, *sorted(corpus.glob("*.parquet")))
    assert len(lading.Collection(corpus)) == 3
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before


@pytest.mark.acceptance("T9")
def test_a_file_outside_the_directory_is_found_by_its_recorded_path(
    collection, corpus, tmp_path, monkeypatch
):
    away = write(tmp_path / "far" / "away.parquet", ["https://x", "https://z"], [500, 404])
    monkeypatch.chdir(tmp_path)
    collection.add("far/away.parquet")
    monkeypatch.chdir("/")
    again = lading.Collection(corpus)
    assert again.lookup("https://z").member == str(away)
    assert again.scan("status = 500").to_table()["url"].to_pylist() == ["https://x"]


@pytest.mark.acceptance("T10")
def test_the_listing_counts_the_live_members_and_describes_each_on_one_line(collection, corpus, run):
    first, *lines = run("collection", "list", corpus).splitlines()
    assert first == "members: 3 live"
    assert [line.split()[0] for line in lines] == ["shard0.parquet", "shard1.parquet", "shard2.parquet"]
    assert "key [https://a ... https://k]" in lines[0]
    assert lines[0].endswith("zones: status, url")


@pytest.mark.acceptance("T11")
def test_a_member_without_a_sort_key_is_listed_as_such_and_still_pruned(corpus, run):
    rows = pa.table({"status": pa.array([1, 2], pa.int32()), "content_type": ["a/b", "c/d"]})
    pq.write_table(rows, corpus / "unsorted.parquet")
    run("collection", "add", corpus, *sorted(corpus.glob("*.parquet")))
    [line] = [one for one in run("collection", "list", corpus).splitlines() if "unsorted" in one]
    assert "(no sort key)" in line and line.endswith("zones: content_type, status")
    scan = lading.Collection(corpus).scan("status = 404")
    assert scan.to_table().num_rows == 3 and scan.files_scanned == 3
    scan = lading.Collection(corpus).scan("status = 2")
    assert scan.to_table()["content_type"].to_pylist() == ["c/d"] and scan.files_scanned == 1


@pytest.mark.acceptance("T13")
def test_scan_gives_the_matching_rows_of_all_members_with_just_those_columns(collection):
    found = collection.scan("status = 404", ["url"]).to_table()
    assert found.column_names == ["url"]
    assert found["url"].to_pylist() == ["https://k", "https://q", "https://s"]


@pytest.mark.acceptance("T14")
def test_scan_reports_files_opened_of_files_in_total(collection, corpus, run, capsys):
    scan = collection.scan("url = 'https://m'")
    assert scan.to_table().num_rows == 1
    assert (scan.files_scanned, scan.files_total) == (1, 3)
    invoke(["collection", "scan", str(corpus), "--where", "url = 'https://m'", "--json", "--stats"])
    out, err = capsys.readouterr()
    assert json.loads(out) == {"url": "https://m", "status": 201}
    assert json.loads(err) == {
        "files_total": 3,
        "files_scanned": 1,
        "rows": 1,
        "row_groups_total": 1,
        "row_groups_scanned": 1,
    }


@pytest.mark.acceptance("T15")
@pytest.mark.parametrize(
    ("where", "expression"),
    [
        ("status = 404", pc.field("status") == 404),
        ("status != 404", pc.field("status") != 404),
        ("not (url < 'https://m')", ~(pc.field("url") < "https://m")),
        ("url is null", pc.field("url").is_null()),
        (
            "url like 'https://%' or status > 200",
            pc.match_like(pc.field("url"), "https://%") | (pc.field("status") > 200),
        ),
        ("status = 1", pc.field("status") == 1),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_one_predicate_gives_pyarrows_rows_on_a_file_alone_and_through_a_collection(
    tmp_path, where, expression
):
    urls = [["https://a", None, "https://m"], ["https://m", "ftp://x", None], [None, "https://z"]]
    files = [
        write(tmp_path / f"f{n}.parquet", each, [404, 200, 7][: len(each)], sort=False)
        for n, each in enumerate(urls)
    ]
    whole = lading.Collection(tmp_path / "whole")
    whole.add(*files)
    expected = []
    for number, file in enumerate(files):
        one = lading.Collection(tmp_path / f"alone{number}")
        one.add(file)
        rows = pq.read_table(file).filter(expression).to_pylist()
        assert one.scan(where).to_table().to_pylist() == rows
        expected += rows
    assert sorted(whole.scan(where).to_table().to_pylist(), key=repr) == sorted(expected, key=repr)


@pytest.mark.acceptance("T16")
def test_lookup_gives_member_and_files_opened_and_an_absent_key_is_no_error(collection, corpus, run):
    hit = collection.lookup("https://q")
    assert (hit.found, hit.member, hit.opened) == (True, "shard1.parquet", 1)
    assert hit.row == {"url": "https://q", "status": 404}
    absent = collection.lookup("https://n")
    assert (absent.found, absent.member, absent.row) == (False, None, None)
    found = json.loads(run("collection", "lookup", corpus, "https://q", "--json"))
    assert {name: found[name] for name in ("found", "member", "row", "opened")} == {
        "found": True,
        "member": "shard1.parquet",
        "row": {"url": "https://q", "status": 404},
        "opened": 1,
    }
    assert json.loads(run("collection", "lookup", corpus, "zzz", "--json"))["found"] is False


@pytest.mark.acceptance("T17")
def test_lookup_on_disjoint_ranges_opens_exactly_one_file(collection, corpus):
    for name in ("shard0.parquet", "shard2.parquet"):
        (corpus / name).unlink()  # a lookup that opened them would fail
    hit = lading.Collection(corpus).lookup("https://m")
    assert (hit.found, hit.opened) == (True, 1)
    assert lading.Collection(corpus).lookup("https://l").opened == 0


@pytest.mark.acceptance("T18")
def test_compact_leaves_the_same_listing_and_no_history(collection, corpus, run):
    for _ in range(20):
        collection.remove("shard0.parquet")
        collection.add(corpus / "shard0.parquet")
    before = run("collection", "list", corpus, "--json")
    size = (corpus / "manifest.log").stat().st_size
    found = json.loads(run("collection", "compact", corpus, "--json"))
    assert found["log_bytes_before"] == size and found["log_bytes_after"] < 300
    assert b"shard0.parquet" not in (corpus / "manifest.log").read_bytes()
    assert run("collection", "list", corpus, "--json") == before


@pytest.mark.acceptance("T19")
def test_compact_killed_before_a_rename_leaves_the_old_log_open(collection, corpus, monkeypatch):
    before = [member.path for member in collection.members()]
    old = (corpus / "manifest.log").read_bytes()
    renames = []

    class KilledError(BaseException):
        pass

    def killed(source, target):
        renames.append((Path(source).name, Path(target).name))
        raise KilledError

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KilledError):
        collection.compact()
    monkeypatch.undo()
    [(temporary, target)] = renames
    assert temporary.endswith(".tmp") and target == "manifest.db"
    assert (corpus / "manifest.log").read_bytes() == old
    assert [member.path for member in lading.Collection(corpus).members()] == before


@pytest.mark.acceptance("T20")
def test_merge_swaps_several_members_for_one_file_with_the_same_rows(collection, corpus, run):
    before = collection.scan().to_table().to_pylist()
    size = (corpus / "manifest.log").stat().st_size
    found = json.loads(run("collection", "merge", corpus, "shard2.parquet", "shard0.parquet", "--json"))
    again = lading.Collection(corpus)
    members = {member.path: member for member in again.members()}
    assert sorted(members) == sorted([found["member"], "shard1.parquet"])
    assert members[found["member"]].rows == 3
    assert (members[found["member"]].key_min, members[found["member"]].key_max) == ("https://a", "https://s")
    assert sorted(again.scan().to_table().to_pylist(), key=repr) == sorted(before, key=repr)
    assert pq.read_table(corpus / found["member"])["url"].to_pylist() == [
        "https://a",
        "https://k",
        "https://s",
    ]
    assert all((corpus / f"shard{n}.parquet").is_file() for n in range(3)), "the inputs are the user's"
    # One frame behind the old bytes: inputs out and output in are one commit.
    log = (corpus / "manifest.log").read_bytes()[size:]
    assert log.count(b"LDGF") == 1 and log.count(b"shard0.parquet") == 1


def test_lading_imports_quickly_and_without_pyarrow():
    code = (
        "import sys, lading; lading.Collection; sys.exit('pyarrow' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.acceptance("T21")
@pytest.mark.parametrize("late", [False, True], ids=["at once", "key later"])
def test_a_file_that_is_not_sorted_by_the_key_is_listed_without_one_and_found_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], late: bool
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    keys = {
        "down.parquet": [9, 8, 7, 8],
        "ragged.parquet": [20, *range(21, 100_000), 20],
        "up.parquet": [1, 1, None, 2, 3],
    }
    for name, values in keys.items():
        table = pa.table({"k": pa.array(values, pa.int64()), "at": pa.array(range(len(values)))})
        pq.write_table(table, folder / name, row_group_size=40_000)
    collection = lading.Collection(folder)
    files = [folder / name for name in keys]
    if late:
        collection.add(*files)
        pq.write_table(pa.table({"k": pa.array([200_000]), "at": [0]}), folder / "last.parquet")
        collection.add(folder / "last.parquet", key="k")
    else:
        collection.add(*files, key="k")
    assert invoke(["collection", "list", str(folder)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert "(no sort key)" in lines["down.parquet"] and "(no sort key)" in lines["ragged.parquet"]
    assert "key [1 ... 3]" in lines["up.parquet"]
    assert all("zones: at, k" in line for line in lines.values())

    hit = collection.lookup(8)
    assert sorted(row["at"] for row in hit.rows) == [1, 3] and hit.opened == 1
    hit = collection.lookup(20)
    assert [row["at"] for row in hit.rows] == [0, 99_980] and hit.opened == 1
    assert collection.lookup(1).opened == 1 and len(collection.lookup(1).rows) == 2
    assert (collection.lookup(5).found, collection.lookup(5).opened) == (False, 0)
    scan = collection.scan("k = 8", ["at"])
    assert scan.to_table().num_rows == 2 and scan.files_scanned == 1
    collection.compact()
    assert sorted(row["at"] for row in lading.Collection(folder).lookup(8).rows) == [1, 3]
    assert lading.Collection(folder).lookup(8).opened == 1
