"""A project without Spark, its page on a real server, and requests as browsers and scripts send them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from lading.config.file import load
from lading.run import RunReport, run
from lading.ui.app import make_app
from lading.ui.guard import write_key
from lading.ui.project import Project

TOKEN = "a-token-of-tests"
CONFIG = """\
warehouse: warehouse
spark: {in_process_below: 1GB}
tables:
  voyages:
    root: data
    path: "voyages/**/*.csv"
    format: csv
    order_by: day
    bucket_size: 10
    on_bad: quarantine
  ports:
    root: data
    path: "ports/*.csv"
    format: csv
"""
SCHEMAS = {
    "voyages": "columns:\n  - {name: ship, type: string}\n  - {name: day, type: bigint}\n"
    "  - {name: tonnes, type: bigint}\n",
    "ports": "columns:\n  - {name: port, type: string}\n  - {name: country, type: string}\n",
}


class Shown:
    """A project below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "schema").mkdir(parents=True)
        (folder / "data" / "voyages").mkdir(parents=True)
        (folder / "data" / "ports").mkdir()
        (folder / "lading.yaml").write_text(CONFIG)
        for name, text in SCHEMAS.items():
            (folder / "schema" / f"{name}.yaml").write_text(text)
        (folder / "data" / "ports" / "ports.csv").write_text("port,country\nsantos,BR\nhamburg,DE\n")

    def put(self, name: str, *rows: tuple[str, object, object]) -> Path:
        path = self.folder / "data" / "voyages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ["ship,day,tonnes", *(f'"{ship}",{day},{tonnes}' for ship, day, tonnes in rows)]
        path.write_text("\n".join(lines) + "\n")
        return path

    def run(self, *tables: str) -> RunReport:
        report = run(load(self.folder), tables)
        assert report.error is None, report.error
        return report


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    project: Project

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """With the token, as `lading ui` prints it."""
        return f"{self.origin}/?token={TOKEN}"

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: str | None = None) -> Answer:
        """Just what is said here: no token, no cookie, no origin."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **query: object) -> Answer:
        """As somebody who may."""
        target = f"{path}?{urlencode(query)}" if query else path
        return self.ask("GET", target, {"Authorization": f"Bearer {TOKEN}"})

    def post(self, path: str, **fields: object) -> Answer:
        """As a form of the page does, for a script that wants JSON back."""
        headers = {
            "Cookie": f"lading_{self.port}={TOKEN}",
            "Origin": self.origin,
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        return self.ask("POST", path, headers, urlencode({**fields, "key": write_key(TOKEN)}))


@contextmanager
def served(folder: Path, *, read_only: bool = False) -> Iterator[Server]:
    """The page of the project in `folder`, on a port of its own."""
    app = make_app(folder, token=TOKEN, read_only=read_only)
    project: Project = app.state.project
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        settings = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=3)
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        listener.listen(16)
        thread.start()
        try:
            yield Server(listener.getsockname()[1], project)
        finally:
            project.live.close()
            project.live.wait(60)
            server.should_exit = True
            thread.join(30)
