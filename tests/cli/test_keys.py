"""lading get, multiget, route, shards and health on a table that is served by key."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.handmade import ServedTable
from support.walks import walked

from lading.cli.main import invoke
from lading.serve.routing import Router
from lading.snapshots.manifest import Sharding

CONFIG = """\
tables:
  ships:
    path: "*.csv"
    format: csv
    serve: {key: imo, shards: 4}
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServedTable:
    (tmp_path / "lading.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    table = ServedTable(tmp_path / "warehouse" / "ships")
    table.publish({key: b'{"name":"old %d"}' % key for key in range(10)})
    table.publish({key: b'{"name":"ship %d"}' % key for key in range(10)})
    return table


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*args: str, code: int = 0) -> Any:
        assert invoke(args) == code
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in args else out

    return run


def test_get_prints_the_value(table: ServedTable, said: Any) -> None:
    assert said("get", "ships", "7") == '{"name":"ship 7"}\n'
    assert said("get", "ships", "70").startswith("not found")
    found = said("get", "ships", "7", "--json")
    assert (found["key"], found["found"], found["value"]) == (7, True, {"name": "ship 7"})
    assert said("get", "ships", "70", "--json")["found"] is False
    assert said("get", "ships", "7", "--offset", "1") == '{"name":"old 7"}\n'
    ref = table.store.list_manifests()[1].ref
    assert said("get", "ships", "7", "--ref", ref) == '{"name":"old 7"}\n'


def test_get_looks_at_no_member(table: ServedTable, said: Any) -> None:
    """A value comes from its shard: what it costs must not grow with the table's parts."""
    with walked() as entered:
        said("get", "ships", "7")
    assert "serve/get.py:KeyReader.get" in entered
    assert [
        step for step in entered if step.startswith("state/members.py:MemberStore.") and "rows" in step
    ] == []


def test_a_key_that_can_not_be_one_is_a_usage_error(table: ServedTable, said: Any) -> None:
    for key in ("seven", "-5"):
        assert said("get", "ships", key, "--json", code=3)["error"]["kind"] == "RoutingError"
    assert said("get", "ships", "1", "--context", "x", "--json", code=3)["error"]["kind"] == "ConfigError"


def test_multiget_takes_keys_from_arguments_or_standard_input(
    table: ServedTable, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said("multiget", "ships", "1", "99", "2") == '1\t{"name":"ship 1"}\n99\t\n2\t{"name":"ship 2"}\n'
    monkeypatch.setattr("sys.stdin", io.StringIO("3\n\n4\n77\n"))
    found = said("multiget", "ships", "--json")
    assert [entry["key"] for entry in found["values"]] == [3, 4, 77]
    assert found["values"][0] == {"key": 3, "found": True, "value": {"name": "ship 3"}}
    assert found["missing"] == 1


def test_route_names_the_shard(table: ServedTable, said: Any) -> None:
    found = said("route", "ships", "7", "--json")
    listed = {one["db_id"]: one for one in said("shards", "ships", "--json")["shards"]}
    assert found["db_url"] == listed[found["shard"]]["db_url"]
    assert said("route", "ships", "7").startswith(f"shard {found['shard']}, shards/")


def test_shards_lists_them(table: ServedTable, said: Any) -> None:
    found = said("shards", "ships", "--json")
    assert sum(one["keys"] for one in found["shards"]) == 10 == found["keys"]
    assert found["num_dbs"] == 4 and found["key"] == ["imo"]
    text = said("shards", "ships")
    assert f"Shards with rows: {len(found['shards'])} of 4." in text
    assert "shards/run_id=" in text


def test_context_is_for_routing_by_category(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    (tmp_path / "lading.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    sharding = Sharding(
        strategy="cel", hash_algorithm="xxh3_64", cel_expr="region",
        cel_columns={"region": "string"}, routing_values=("eu", "us"),
    )  # fmt: skip
    table = ServedTable(
        tmp_path / "warehouse" / "ships", num_dbs=2, sharding=sharding, format_version=3, encoding="raw"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Router, "route", lambda self, key, context=None: 1)
        table.publish({5: b"five", 6: b"\xff"})
    assert said("get", "ships", "5", "--context", "region=us") == "five\n"
    assert said("get", "ships", "6", "--context", "region=us", "--json")["value"] == "/w=="
    assert said("get", "ships", "5", "--context", "region=eu").startswith("not found")
    assert said("route", "ships", "5", "--context", "region=us", "--json")["shard"] == 1
    assert "five" in said("multiget", "ships", "5", "--context", "region=us")
    for context, kind in (((), "RoutingError"), (("--context", "region=x"), "UnknownRoutingTokenError")):
        assert said("get", "ships", "5", *context, "--json", code=3)["error"]["kind"] == kind
    assert (
        said("get", "ships", "5", "--context", "zone=eu", "--json", code=3)["error"]["kind"] == "RoutingError"
    )


def test_health_ends_with_nought_one_or_two(table: ServedTable, said: Any) -> None:
    assert said("health", "--json")["status"] == "ok"
    assert said("health", "ships", "--max-age", "1h", "--deep").endswith("ok.\n")
    assert said("health", "--max-age", "0s", "--json", code=1)["tables"][0]["status"] == "degraded"
    said("health", "--max-age", "soon", code=3)
    assert "there is no table" in said("health", "nothing", code=2)
    newest = table.root / table.store.list_manifests()[0].ref
    good = newest.read_bytes()
    newest.write_bytes(good[:100] + b"\xff" * 4000)
    found = said("health", "--json", code=1)["tables"][0]
    assert found["fallback_from"] is not None
    newest.write_bytes(good)
    file = table.file(next(iter(table.shards.values()))[1])
    os.truncate(file, 10)
    assert "is not the shard" in said("health", code=2)
    os.unlink(table.root / "_CURRENT")
    assert said("health", "--json", code=2)["tables"][0]["problems"]


def test_a_table_that_is_not_served_says_so(said: Any, table: ServedTable) -> None:
    published = table.publish({})
    with closing(sqlite3.connect(table.root / published.ref)) as connection, connection:
        connection.execute("UPDATE build_meta SET custom = json_remove(custom, '$.serve')")
    assert said("get", "ships", "1", "--json", code=1)["error"]["kind"] == "NotFound"
    assert "not served by key" in said("shards", "ships")
    assert said("shards", "ships", "--json")["served"] is False
    assert said("health", "--json")["status"] == "ok"
