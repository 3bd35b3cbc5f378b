"""`/metrics` over HTTP, for a Prometheus that asks. Nothing else is served, and nothing can be changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lading.errors import ConfigError
from lading.signals.metrics import TEXT_TYPE


@contextmanager
def serving(text: Callable[[], str], port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Answer on that port meanwhile; 0 takes a free one. The port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = text().encode() if found else b"only /metrics is here\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", TEXT_TYPE if found else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OverflowError:
        raise ConfigError(f"--metrics-port {port} is no port", hint="choose one up to 65535") from None
    except OSError as error:
        raise ConfigError(
            f"--metrics-port {port}: {error.strerror}", hint="choose a port that is free"
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="lading-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
