"""lading collection on the command line: the JSON that scripts rely on, and what people read."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lading
from lading.cli.main import invoke


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        keys = [number * 10 - 10, number * 10]
        pq.write_table(pa.table({"k": keys, "s": ["x", "y"]}), tmp_path / f"f{number}.parquet")
    return tmp_path


@pytest.fixture
def call(capsys):
    """Run a command: its exit code, its JSON, its stderr."""

    def call(*args, code=0):
        assert invoke(["collection", *map(str, args), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def added(folder, call):
    call("add", folder, *sorted(folder.glob("*.parquet")), "--key", "k")
    return folder


def test_every_command_answers_in_json(folder, call):
    files = sorted(folder.glob("*.parquet"))
    assert call("add", folder, *files, "--key", "k") == {
        "added": ["f0.parquet", "f1.parquet", "f2.parquet"],
        "changed": [],
        "unchanged": [],
        "members": 3,
        "sequence": 1,
    }
    assert call("tier", folder, "f1.parquet", 2) == {"member": "f1.parquet", "tier": 2, "sequence": 2}
    assert call("remove", folder, "f2.parquet") == {"removed": ["f2.parquet"], "members": 2, "sequence": 3}
    merged = call("merge", folder, "f0.parquet", "f1.parquet", "--into", "all.parquet")
    assert merged == {
        "member": "all.parquet",
        "rows": 4,
        "bytes": (folder / "all.parquet").stat().st_size,
        "members": 1,
        "sequence": 4,
    }
    compacted = call("compact", folder)
    assert (compacted["members"], compacted["sequence"]) == (1, 4)
    assert call("check", folder) == {"ok": True, "members": 1, "problems": []}
    rebuilt = call("rebuild", folder)
    assert (rebuilt["found_in"], rebuilt["written"], rebuilt["undecided"]) == ("log", False, [])


def test_the_listing_has_just_these_keys(added, call):
    found = call("list", added)
    assert list(found) == ["members"]
    assert found["members"][0] == {
        "path": "f0.parquet",
        "rows": 2,
        "bytes": (added / "f0.parquet").stat().st_size,
        "tier": 0,
        "key_min": -10,
        "key_max": 0,
        "zones": {
            "k": {"min": -10, "max": 0, "nulls": 0},
            "s": {"min": "x", "max": "y", "nulls": 0},
        },
    }


def test_a_listing_holds_values_of_every_type(tmp_path, call):
    rows = {
        "d": [dt.date(2024, 1, 2)],
        "t": pa.array([dt.datetime(2024, 1, 2, 3, 4)], pa.timestamp("us", "UTC")),
        "n": [Decimal("1.50")],
        "b": [b"\x01"],
        "f": [float("inf")],
        "o": [True],
        "l": [[1]],
    }
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    call("add", tmp_path, tmp_path / "a.parquet")
    [member] = call("list", tmp_path)["members"]
    zones = {name: zone["min"] for name, zone in member["zones"].items()}
    assert zones["d"] == "2024-01-02" and zones["n"] == "1.50" and zones["f"] == "Infinity"
    assert zones["t"].startswith("2024-01-02T03:04") and "l" not in zones
    assert (member["key_min"], member["key_max"]) == (None, None)


def test_a_negative_key_is_a_key_and_not_an_option(added, call):
    found = call("lookup", added, -10)
    assert (found["found"], found["member"], found["row"], found["opened"]) == (
        True,
        "f0.parquet",
        {"k": -10, "s": "x"},
        1,
    )


def test_check_names_what_is_wrong_and_fails(added, call):
    os.unlink(added / "f0.parquet")
    with open(added / "f1.parquet", "ab") as file:
        file.write(b"more")
    found = call("check", added, code=1)
    assert not found["ok"] and [problem["path"] for problem in found["problems"]] == [
        "f0.parquet",
        "f1.parquet",
    ]
    assert "is not there" in found["problems"][0]["problem"]


def test_check_of_a_damaged_log_names_the_remedy(added, call):
    data = bytearray((added / "manifest.log").read_bytes())
    data[9] ^= 1
    (added / "manifest.log").write_bytes(data)
    [problem] = call("check", added, code=1)["problems"]
    assert "collection rebuild" in problem["problem"]


def test_an_error_is_one_object_with_a_hint(added, call):
    error = call("remove", added, "f7.parquet", code=1)["error"]
    assert error["kind"] == "NotFound" and error["hint"]
    assert call("add", added, added / "none.parquet", code=1)["error"]["kind"] == "PartError"


def test_a_table_that_runs_write_is_read_but_not_changed(tmp_path, call):
    from lading.log.table import Table
    from lading.model import Commit, Member

    member = Member("bucket=000000/p.parquet", 1, 1, 0, 0, 0, None, None, "2024-01-01", {})
    Table.create(tmp_path / "t", "t").commit(Commit("c", "r", "2024-01-01", "recipe", add=(member,)))
    assert len(call("list", tmp_path / "t")["members"]) == 1
    assert call("compact", tmp_path / "t")["members"] == 1
    for command in (("remove", tmp_path / "t", "p.parquet"), ("merge", tmp_path / "t", "p.parquet", "x")):
        error = call(*command, code=3)["error"]
        assert "lading run" in error["message"]
    assert len(lading.Collection(tmp_path / "t")) == 1


def test_people_are_told_what_was_done(folder, capsys):
    files = [str(path) for path in sorted(folder.glob("*.parquet"))]
    for args, words in (
        (["add", str(folder), *files, "--key", "k"], "3 members added; 3 live"),
        (["add", str(folder), files[0]], "0 members added, 1 unchanged; 3 live"),
        (["tier", str(folder), "f0.parquet", "1"], "f0.parquet is now in tier 1"),
        (["merge", str(folder), "f0.parquet", "f1.parquet", "--into", "m.parquet"], "m.parquet has 4 rows"),
        (["remove", str(folder), "f2.parquet"], "1 member removed; 1 live"),
        (["check", str(folder)], "1 member, all intact"),
        (["compact", str(folder)], "1 member live"),
        (["rebuild", str(folder)], "the log is intact"),
        (["lookup", str(folder), "99"], "not found"),
        (["scan", str(folder), "--where", "k = 10"], "10"),
    ):
        assert invoke(["collection", *args]) == 0
        assert words in capsys.readouterr().out, args


def test_rebuild_says_what_it_could_not_decide(added, capsys):
    (added / "manifest.log").unlink()
    assert invoke(["collection", "rebuild", str(added), "--key", "k"]) == 0
    out = capsys.readouterr().out
    assert "restored from the files: 3 members" in out and "not decided: members outside" in out
    assert lading.Collection(added).lookup(0).opened == 2
