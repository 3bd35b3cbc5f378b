"""A project whose data lie in a folder and whose manifests lie elsewhere."""

from __future__ import annotations

import json
import logging
import os
import traceback
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.servers import PostgresServer, Proxy, S3Server

import lading
from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.errors import LadingError
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.postgres import connections as postgres_connections
from lading.storage import bucket as objects

TABLE = """
tables:
  voyages: {root: data, path: "*.csv", format: csv, order_by: id}
"""
SECRETS = (S3Server.secret_key, S3Server.access_key, "sentinel-password", "sentinel-token")


class Project:
    def __init__(self, folder: Path, kind: str, s3: S3Server, postgres: PostgresServer) -> None:
        self.folder = folder
        self.kind = kind
        self.proxy = Proxy(s3.port if kind == "s3" else postgres.socket)
        own = uuid.uuid4().hex[:8]
        if kind == "s3":
            self.store = f"{s3.bucket('projects')}/{own}"
            os.environ["TEST_STORE_KEY"] = s3.access_key
            os.environ["TEST_STORE_SECRET"] = s3.secret_key
            text = (
                f"store: {self.store}\n"
                f"s3: {{endpoint: '{self.proxy.endpoint}', region: us-east-1, allow_http: true,\n"
                "  access_key_id: '${TEST_STORE_KEY}', secret_access_key: '${TEST_STORE_SECRET}',\n"
                "  session_token: sentinel-token}\n"
            )
        else:
            self.store = postgres.url_through(self.proxy)
            os.environ["TEST_STORE_URL"] = self.store
            text = f"store: ${{TEST_STORE_URL}}\npostgres: {{prefix: p{own}}}\n"
        (folder / "lading.yaml").write_text(text + TABLE)
        self.put("a.csv", "id,ship\n1,Anna\n2,Bert\n")

    def put(self, name: str, text: str) -> None:
        path = self.folder / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (path.stat().st_mtime - 100,) * 2)

    def files_with_secrets(self) -> list[str]:
        files = (path for path in self.folder.rglob("*") if path.is_file() and path.name != "lading.yaml")
        return [str(path) for path in files if any(s.encode() in path.read_bytes() for s in SECRETS)]


@pytest.fixture(params=["postgres", "s3"])
def project(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    s3_server: S3Server,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("TEST_STORE_KEY", "TEST_STORE_SECRET", "TEST_STORE_URL"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.5)
    monkeypatch.setattr(objects, "RETRY", {**objects.RETRY, "max_retries": 1})
    made = Project(tmp_path, request.param, s3_server, postgres_server)
    yield made
    made.proxy.close()


@pytest.fixture
def cli(project: Project, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)

    def call(*args: str, code: int = 0) -> str:
        capfd.readouterr()
        got = invoke(["-C", str(project.folder), *args])
        out, err = capfd.readouterr()
        assert got == code, out + err
        assert not [secret for secret in SECRETS if secret in out + err + caplog.text]
        return out

    return call


def test_a_project_publishes_to_its_store_and_is_read_from_there(project: Project, cli, spark) -> None:
    assert json.loads(cli("run", "--json"))["tables"][0]["published"] is True
    table = project.folder / "warehouse" / "voyages"
    assert not (table / "_CURRENT").exists() and not (table / "manifests").exists()
    rows = [json.loads(line) for line in cli("scan", "voyages", "--format", "jsonl").splitlines()]
    assert [row["ship"] for row in rows] == ["Anna", "Bert"]
    assert json.loads(cli("lookup", "voyages", "2", "--json"))["row"]["ship"] == "Bert"
    assert [one["key"] for one in json.loads(cli("sources", "voyages", "--json"))["sources"]] == ["a.csv"]
    [status] = json.loads(cli("status", "--json"))["tables"]
    ref = status["current"]["manifest_ref"]
    assert ref.startswith(f"{project.store}/voyages/manifests/") if project.kind == "s3" else ref
    assert status["note"] is None and status["last_run"]["manifest_ref"] == ref

    project.put("a.csv", "id,ship\n1,Anna\n3,Cleo\n")
    cli("run")
    assert "Cleo" in cli("scan", "voyages", "--format", "csv")
    again = json.loads(cli("run", "--json"))
    assert again["spark_started"] is False and again["tables"][0]["published"] is False
    store = store_of(load_config(project.folder), "voyages")
    assert len(store.list_manifests()) == 2
    with lading.open(table, store=store) as reader:
        assert reader.scan(columns=["ship"]).to_table().column(0).to_pylist() == ["Anna", "Cleo"]
        store.set_current(store.list_manifests()[-1].ref)
        assert reader.refresh() and reader.lookup(2).found
    assert "held" in cli("status")

    (project.folder / "lading.yaml").write_text(  # a table that the config no longer has can still be read
        (project.folder / "lading.yaml").read_text().replace("voyages", "ships")
    )
    assert "Bert" in cli("scan", "voyages", "--format", "csv")
    assert project.files_with_secrets() == []
    assert not [one for one in store.list_manifests() if _holds_secret(store.load_manifest(one.ref))]


GATED = """
tables:
  voyages:
    root: data
    path: "*.csv"
    format: csv
    order_by: id
    replace: rewrite
    gate: {rows: {max_drop: 50%}}
    serve: {key: id, shards: 2}
"""


def test_snapshots_are_compared_rolled_back_forced_and_cleaned_in_any_store(
    project: Project, cli, spark
) -> None:
    """Every command that goes by manifests, through the command line, with the data in a folder."""
    file = project.folder / "lading.yaml"
    file.write_text(file.read_text().replace(TABLE, GATED))
    project.put("b.csv", "id,ship\n3,Cleo\n4,Dora\n5,Emil\n")
    cli("run")
    first = json.loads(cli("history", "voyages", "--json"))["snapshots"][0]
    project.put("b.csv", "id,ship\n3,Cleo\n4,Dirk\n5,Emil\n6,Finn\n")
    cli("run")
    project.put("b.csv", "id,ship\n")
    refused = json.loads(cli("run", "--json", code=1))["tables"][0]["error"]
    assert refused["kind"] == "GateFailed" and "lading publish voyages --run" in refused["hint"]

    told = json.loads(cli("history", "voyages", "--json"))["snapshots"]
    assert [(one["rows"], one["current"], bool(one["failed"])) for one in told] == [
        (2, False, True), (6, True, False), (5, False, False),
    ]  # fmt: skip
    assert [one["run_id"] for one in json.loads(cli("history", "voyages", "--limit", "1", "--json"))[
        "snapshots"]] == [told[0]["run_id"]]  # fmt: skip
    diff = json.loads(cli("diff", "voyages", "~1", "current", "--json"))
    assert [(one["key"], one["change"]) for one in diff["sources"]] == [("b.csv", "replaced")]
    assert (diff["rows_before"], diff["rows_after"]) == (5, 6)

    def ships(*options: str) -> list[str]:
        out = cli("scan", "voyages", "--format", "jsonl", "--columns", "ship", *options)
        return [json.loads(line)["ship"] for line in out.splitlines()]

    assert (
        "Dirk" in ships()
        and "Dora" in ships("--offset", "1")
        and "Dora" in ships("--ref", first["manifest_ref"])
    )
    assert "Dora" in ships("--as-of", first["published_at"]) and "Dirk" in ships("--as-of", "2100-01-01")
    assert json.loads(cli("get", "voyages", "4", "--json"))["value"]["ship"] == "Dirk"
    assert json.loads(cli("get", "voyages", "4", "--offset", "1", "--json"))["value"]["ship"] == "Dora"
    assert not json.loads(cli("lookup", "voyages", "6", "--offset", "1", "--json"))["found"]

    cli("rollback", "voyages", "--run-id", first["run_id"])
    assert "Dora" in ships()
    project.put("a.csv", "id,ship\n1,Anton\n2,Bert\n")
    project.put("b.csv", "id,ship\n3,Cleo\n4,Dirk\n5,Emil\n6,Finn\n")
    cli("run")
    assert "Dora" in ships(), "what was rolled back holds"
    assert json.loads(cli("status", "--json"))["tables"][0]["current"]["held"] is True
    cli("publish", "voyages", "--release")
    assert ships() == ["Anton", "Bert", "Cleo", "Dirk", "Emil", "Finn"]
    cli("publish", "voyages", "--release", code=1)
    bad = told[0]["run_id"]
    cli("publish", "voyages", "--run", bad, "--force", code=1)  # older than what readers see
    cli("rollback", "voyages", "--run-id", bad)
    assert ships() == ["Anna", "Bert"]
    cli("publish", "voyages", "--release")
    runs = json.loads(cli("runs", "voyages", "--json"))["runs"]
    assert [one["action"] for one in runs if one["action"]] == ["release", "rollback"] * 2
    assert {one["state"] for one in runs} == {"succeeded", "failed"}

    assert json.loads(cli("verify", "--deep", "--json"))["ok"] is True
    assert "nothing to repair" in cli("repair")
    told = json.loads(cli("clean", "--keep-runs", "1", "--older-than", "0s", "--apply", "--json"))["tables"][
        0
    ]
    assert {one["kind"] for one in told["files"]} >= {"old run", "replaced part"}
    assert all(one["deleted"] for one in told["files"])
    assert len(json.loads(cli("history", "voyages", "--json"))["snapshots"]) == 1
    assert json.loads(cli("verify", "--deep", "--json"))["ok"] is True
    assert json.loads(cli("get", "voyages", "1", "--json"))["value"]["ship"] == "Anton"
    assert project.files_with_secrets() == []


def test_a_store_that_is_away_fails_the_publish_and_the_next_run_heals(project: Project, cli, spark) -> None:
    cli("run")
    project.put("b.csv", "id,ship\n7,Dora\n")
    project.proxy.cut = lambda data: "before"
    answer = json.loads(cli("run", "--json", code=1).splitlines()[-1])
    assert answer["tables"][0]["error"]["kind"] in ("StoreUnreachable", "PublishCurrentError")
    assert answer["tables"][0]["error"]["hint"]
    [status] = json.loads(cli("status", "--json"))["tables"]
    assert status["rows"] == 3 and status["current"] is None and status["note"]
    cli("scan", "voyages", code=1)
    project.proxy.cut = lambda data: None
    assert "Dora" not in cli("scan", "voyages", "--format", "csv")
    healed = json.loads(cli("run", "--json"))
    assert healed["spark_started"] is False and healed["tables"][0]["published"] is True
    assert "Dora" in cli("scan", "voyages", "--format", "csv")
    assert project.files_with_secrets() == []


def test_no_error_shows_a_credential(project: Project) -> None:
    settings = load_config(project.folder)
    assert not [secret for secret in SECRETS if secret in repr(settings)]
    project.proxy.cut = lambda data: "before"
    store = store_of(settings, "voyages")
    for call in (store.load_current, store.list_manifests, lambda: store.publish(b"x", "r1", sequence=1)):
        with pytest.raises(LadingError) as caught:
            call()
        text = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caught.value.hint
        assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("project", ["s3"], indirect=True)  # libpq: tests/snapshots/test_postgres_store.py
@pytest.mark.parametrize("bad", ["InvalidToken", "InvalidAccessKeyId"])
def test_a_server_that_repeats_a_credential_is_not_quoted(project: Project, bad: str) -> None:
    class Repeats(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = 400 if bad == "InvalidToken" else 403
            body = f"<Error><Code>{bad}</Code><Token-0>{' '.join(SECRETS)}</Token-0></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Repeats)
    Thread(target=server.serve_forever, daemon=True).start()
    text = (project.folder / "lading.yaml").read_text()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    (project.folder / "lading.yaml").write_text(text.replace(project.proxy.endpoint, endpoint))
    with pytest.raises(LadingError, match=bad) as caught:
        store_of(load_config(project.folder), "voyages").load_current()
    server.shutdown()
    server.server_close()
    assert not [s for s in SECRETS if s in "".join(traceback.format_exception(caught.value))]


def _holds_secret(payload: bytes) -> bool:
    return any(secret.encode() in payload for secret in SECRETS)
