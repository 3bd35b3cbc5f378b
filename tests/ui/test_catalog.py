"""The Iceberg REST catalog: engines that attach it see what `lading scan` shows, whatever has happened."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import yaml
from support.catalog import SAIL, DuckDB, PyIceberg, Sail
from support.iceberg import SOAK, by_lading, seen
from support.page import CONFIG, TOKEN, Answer, Server, served
from support.page import Shown as Sailing
from support.servers import S3Server
from support.shown import Shown, lines

from lading.config.file import load
from lading.run import run
from lading.snapshots.history import Wanted
from lading.snapshots.stores.by_url import store_of
from lading.upkeep.rollback import release_hold, roll_back


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    shown = Shown(tmp_path / "project")
    shown.put("a", lines(range(25)))
    shown.put("b", lines(range(25)))
    shown.run()
    return shown


@pytest.fixture
def server(shown: Shown) -> Iterator[Server]:
    with served(shown.folder) as running:
        yield running


def test_a_warehouse_in_a_bucket_is_read_with_keys_of_ones_own(tmp_path: Path, s3_server: S3Server) -> None:
    options = s3_server.options()
    there = f"{s3_server.bucket('warehouse')}/{uuid.uuid4().hex}"
    project = Sailing(tmp_path / "shipping")
    config = CONFIG.replace("warehouse: warehouse\n", f"warehouse: {there}\ns3: {json.dumps(options)}\n")
    (project.folder / "lading.yaml").write_text(config)
    project.put("one.csv", ("Astrid", 1, 900), ("Fram", 2, 400))
    project.run("voyages")
    rows = [{"ship": "Astrid", "day": 1, "tonnes": 900}, {"ship": "Fram", "day": 2, "tonnes": 400}]
    keys = {"key-id": options["access_key_id"], "secret": options["secret_access_key"]}
    with served(project.folder) as server:
        told = ask(server, "/v1/namespaces/lading/tables/voyages")
        assert told.json["metadata-location"] == f"{there}/voyages/metadata/v1.metadata.json"
        assert told.json["config"] == {}
        assert not [one for one in keys.values() if one in told.text]
        url = f"{server.origin}/iceberg"
        pyiceberg = PyIceberg(
            url,
            **{
                "s3.endpoint": options["endpoint"],
                "s3.region": options["region"],
                "s3.access-key-id": keys["key-id"],
                "s3.secret-access-key": keys["secret"],
            },
        )
        assert pyiceberg.read("voyages").to_pylist() == rows
        pyiceberg.close()
        duckdb = DuckDB(url)
        duckdb.connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{keys['key-id']}', SECRET '{keys['secret']}', USE_SSL false, "
            f"REGION 'us-east-1', URL_STYLE 'path', ENDPOINT '{urlsplit(options['endpoint']).netloc}')"
        )
        assert duckdb.read("voyages").to_pylist() == rows
        duckdb.close()


@pytest.fixture(params=["duckdb", "pyiceberg", "sail"])
def engine(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Any]:
    if request.param == "sail" and not (SOAK and SAIL.is_dir()):
        pytest.skip("`make soak` installs Sail")
    url = f"{server.origin}/iceberg"
    made = Sail(url, tmp_path) if request.param == "sail" else None
    made = made or (DuckDB(url) if request.param == "duckdb" else PyIceberg(url))
    yield made
    made.close()


def ask(server: Server, path: str, method: str = "GET", token: str | None = TOKEN, **more: str) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
    return server.ask(method, f"/iceberg{path}", headers | bearer)


def error(answer: Answer) -> tuple[int, str]:
    """Its code and kind, when the answer is an error as the specification has it."""
    told = answer.json["error"]
    assert set(told) == {"message", "type", "code"} and told["code"] == answer.status
    return told["code"], told["type"]


def test_an_engine_sees_the_rows_of_scan_after_an_edit_a_deletion_and_a_rollback(
    shown: Shown, engine: Any
) -> None:
    states = []

    def look() -> None:
        wanted = seen(by_lading(shown.table))
        assert seen(engine.read("t")) == wanted
        states.append(wanted)

    look()
    shown.put("b", lines(range(5, 20), a=lambda n: n + 1))
    shown.run()
    assert list(shown.metadata.glob("*-deletes.avro")), "the edit was to leave position deletes"
    look()
    shown.drop("a")
    shown.put("c", lines(range(3), a=lambda n: f"{n}.5"))  # another type
    shown.run()
    look()
    assert len({repr(state) for state in states}) == 3
    roll_back(shown.config, "t", Wanted(offset=2))
    look()
    assert states[-1] == states[0]
    release_hold(shown.config, "t")
    look()
    assert states[-1] == states[2]


def test_the_metadata_is_the_file_that_its_location_names(shown: Shown, server: Server) -> None:
    answer = ask(server, "/v1/namespaces/lading/tables/t")
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    location = answer.json["metadata-location"].removeprefix("file://")
    assert answer.json["metadata"] == json.loads(Path(location).read_bytes())
    assert answer.json["config"] == {}, "no credentials are handed out"
    again = ask(server, "/v1/namespaces/lading/tables/t", If_None_Match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    shown.put("b", lines(range(3)))
    shown.run()
    assert ask(server, "/v1/namespaces/lading/tables/t", If_None_Match=answer.headers["etag"]).status == 200


def test_a_snapshot_that_readers_no_longer_see_is_never_shown(shown: Shown, server: Server) -> None:
    """As after a kill between the pointer's move and the metadata's."""
    shown.put("b", lines(range(3)))
    shown.run()
    store = store_of(shown.config, "t")
    older = store.list_manifests()[1]
    store.set_current(older.ref, expected=store.load_current())
    answer = ask(server, "/v1/namespaces/lading/tables/t")
    assert error(answer) == (503, "ServiceUnavailableException")
    assert "--rewrite" in answer.json["error"]["message"]
    shown.run()
    assert ask(server, "/v1/namespaces/lading/tables/t").status == 200


def test_the_config_lists_what_can_be_asked(server: Server) -> None:
    told = ask(server, "/v1/config?warehouse=anything").json
    assert told["defaults"] == told["overrides"] == {}
    assert all(line.partition(" ")[0] in ("GET", "HEAD") for line in told["endpoints"])
    for line in told["endpoints"]:
        method, _, path = line.partition(" ")
        path = path.replace("{prefix}/", "").format(namespace="lading", table="t")
        assert ask(server, path, method).status == (204 if method == "HEAD" else 200), line


def test_a_project_is_one_namespace_with_nothing_below(server: Server) -> None:
    assert ask(server, "/v1/namespaces").json == {"namespaces": [["lading"]], "next-page-token": None}
    assert ask(server, "/v1/namespaces?parent=").json["namespaces"] == [["lading"]]
    assert ask(server, "/v1/namespaces?parent=lading").json["namespaces"] == []
    told = ask(server, "/v1/namespaces/lading").json
    assert told["namespace"] == ["lading"] and told["properties"]["location"].startswith("file:///")
    for other in ("other", "lading\x1ft", "LADING", "<b>"):
        name = quote(other, safe="")
        missing = (404, "NoSuchNamespaceException")
        assert error(ask(server, f"/v1/namespaces?parent={name}")) == missing
        assert error(ask(server, f"/v1/namespaces/{name}")) == missing
        assert ask(server, f"/v1/namespaces/{name}", "HEAD").status == 404
        assert error(ask(server, f"/v1/namespaces/{name}/tables")) == missing
        assert error(ask(server, f"/v1/namespaces/{name}/tables/t")) == missing


def test_what_is_not_a_table_or_not_shown_is_no_such_table(shown: Shown, server: Server) -> None:
    tables = "/v1/namespaces/lading/tables"
    assert error(ask(server, f"{tables}/nope")) == (404, "NoSuchTableException")
    assert ask(server, f"{tables}/{quote('../t', safe='')}").status == 404
    assert ask(server, f"{tables}/nope", "HEAD").status == 404
    shown.configure("iceberg: false")
    assert error(ask(server, f"{tables}/t")) == (404, "NoSuchTableException")
    assert ask(server, tables).json["identifiers"] == []


def test_nothing_can_be_changed(shown: Shown, server: Server) -> None:
    before = sorted(shown.folder.rglob("*"))
    for method, path in [
        ("POST", "/v1/namespaces"),
        ("DELETE", "/v1/namespaces/lading"),
        ("POST", "/v1/namespaces/lading/properties"),
        ("POST", "/v1/namespaces/lading/tables"),
        ("POST", "/v1/namespaces/lading/tables/t"),
        ("DELETE", "/v1/namespaces/lading/tables/t?purgeRequested=true"),
        ("POST", "/v1/tables/rename"),
        ("POST", "/v1/transactions/commit"),
        ("PUT", "/v1/config"),
    ]:
        assert error(ask(server, path, method)) == (406, "UnsupportedOperationException"), (method, path)
    for path in ("/", "/v1", "/v2/config", "/v1/namespaces/lading/views", "/v1/oauth/tokens"):
        assert error(ask(server, path)) == (404, "NotFoundException"), path
    assert sorted(shown.folder.rglob("*")) == before


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", "\xe9"])
def test_without_the_token_nothing_is_told(server: Server, token: str | None) -> None:
    for path in ("/v1/config", "/v1/namespaces", "/v1/namespaces/lading/tables/t", "/x"):
        answer = ask(server, path, token=token)
        assert error(answer) == (401, "NotAuthorizedException")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert ask(server, "/v1/namespaces/lading", "HEAD", token=token).status == 401


def test_only_this_machine_and_no_other_page_may_ask(server: Server) -> None:
    tables = "/v1/namespaces/lading/tables"
    assert ask(server, tables, Host="evil.example").status == 421
    assert ask(server, tables, Origin="http://evil.example").status == 403
    cookie = f"lading_{server.port}={TOKEN}"
    assert error(ask(server, tables, token=None, Cookie=cookie)) == (401, "NotAuthorizedException")


def test_tables_are_listed_by_pages_when_asked(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d", "e"]
    table = {"path": "*.csv", "format": "csv"}
    tables = {name: {"root": f"data/{name}"} | table for name in [*reversed(names), "never_run"]}
    for name in tables:
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        (folder / "f.csv").write_text("id\n1\n")
    told = {"spark": {"in_process_below": "1GB"}, "tables": tables}
    (tmp_path / "lading.yaml").write_text(yaml.safe_dump(told))
    assert run(load(tmp_path), names).error is None
    with served(tmp_path) as server:
        url = "/v1/namespaces/lading/tables"

        def page(query: str) -> tuple[list[str], str | None]:
            told = ask(server, f"{url}{query}").json
            assert all(one["namespace"] == ["lading"] for one in told["identifiers"])
            return [one["name"] for one in told["identifiers"]], told["next-page-token"]

        assert page("") == (names, None)
        assert page("?pageSize=2") == (names, None), "pages are for those who send a token"
        assert page("?pageToken=") == (names, None)
        first, token = page("?pageToken=&pageSize=2")
        second, following = page(f"?pageToken={token}&pageSize=2")
        third, end = page(f"?pageToken={following}&pageSize=2")
        assert [first, second, third, end] == [["a", "b"], ["c", "d"], ["e"], None]
        assert page(f"?pageToken={following}&pageSize=1") == (["e"], None)
        for wrong in ("pageToken=%FF", "pageToken=a", "pageToken=&pageSize=0", "pageToken=&pageSize=x"):
            assert error(ask(server, f"{url}?{wrong}")) == (400, "BadRequestException"), wrong
