"""HTTP between a client and an S3 server, with the faults that a network and a busy store have.

Each request may be refused before it arrives (409, 503), arrive and lose its answer, arrive and be answered
with 412 (what a client sees that tries again after a lost answer), or take its time.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import unquote

_REFUSED = {"409": (409, "ConditionalRequestConflict"), "503": (503, "SlowDown")}
_PASSED_ON = ("content-length", "content-type", "etag", "last-modified", "content-range", "accept-ranges")

# What becomes of a request: None, or one of 409, 503, lost, 412, slow, cut.
Plan = Callable[[str, str], str | None]

_Card = TypeVar("_Card", bool, str)


class FaultyHttp:
    """A server on loopback that forwards to `port`. `plan(method, path)` says what goes wrong; `requests`
    counts what was asked for, `faults` what went wrong, `sent` the bytes of bodies that were answered."""

    def __init__(self, port: int, plan: Plan = lambda method, path: None) -> None:
        self.plan = plan
        self.requests: list[tuple[str, str]] = []
        self.faults: Counter[str] = Counter()
        self.sent = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def _serve(self) -> None:
                owner._serve(self, port)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815 (http.server's names)

        class Server(ThreadingHTTPServer):
            def handle_error(self, *args: object) -> None:
                pass  # a client that was killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, one: BaseHTTPRequestHandler, port: int) -> None:
        body = one.rfile.read(int(one.headers.get("Content-Length") or 0))
        path = unquote(one.path)
        fault = self.plan(one.command, path)
        self.requests.append((one.command, path))
        if fault is not None:
            self.faults[fault] += 1
        if fault in _REFUSED:
            self._refuse(one, *_REFUSED[fault])
            return
        if fault == "cut":
            one.close_connection = True
            return
        if fault == "slow":
            time.sleep(random.uniform(0.05, 0.3))
        status, headers, answer = _forwarded(one, body, port)
        if fault == "lost":
            one.close_connection = True
        elif fault == "412" and status == 200:
            self._refuse(one, 412, "PreconditionFailed")
        else:
            self.sent += len(answer)
            _answer(one, status, headers, answer)

    def _refuse(self, one: BaseHTTPRequestHandler, status: int, code: str) -> None:
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        _answer(one, status, {"content-length": str(len(text)), "content-type": "application/xml"}, text)


class Weather:
    """A plan that makes things go wrong at random, on one part of the requests. Of each method one request in
    so many, and each fault in its turn: how many of which there are does not depend on who comes first."""

    def __init__(self, seed: int, share: float, marker: str = "") -> None:
        self._random = random.Random(seed)
        self._every, self._marker = round(1 / share), marker
        self._lock = threading.Lock()
        self._turns: dict[str, list[bool]] = {}  # by method: both are dealt like cards
        self._left: dict[str, list[str]] = {}

    def __call__(self, method: str, path: str) -> str | None:
        with self._lock:
            if self._marker not in path:
                return None
            turns = self._dealt(self._turns, method, [True, *[False] * (self._every - 1)])
            if not turns.pop():
                return None
            faults = ["503", "slow", "cut", *(["409", "lost", "412"] if method == "PUT" else [])]
            return self._dealt(self._left, method, faults).pop()

    def _dealt(self, hands: dict[str, list[_Card]], method: str, cards: list[_Card]) -> list[_Card]:
        hand = hands.setdefault(method, [])
        if not hand:
            hand += cards
            self._random.shuffle(hand)
        return hand


def _forwarded(one: BaseHTTPRequestHandler, body: bytes, port: int) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        headers = {k: v for k, v in one.headers.items() if k.lower() not in ("connection", "content-length")}
        connection.request(one.command, one.path, body or None, headers)
        got = connection.getresponse()
        answer = got.read()
        kept = {k.lower(): v for k, v in got.getheaders() if k.lower() in _PASSED_ON}
        if one.command != "HEAD":
            kept["content-length"] = str(len(answer))
        return got.status, kept, answer
    finally:
        connection.close()


def _answer(one: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
    one.send_response(status)
    for name, value in headers.items():
        one.send_header(name, value)
    one.end_headers()
    if one.command != "HEAD":
        one.wfile.write(body)
