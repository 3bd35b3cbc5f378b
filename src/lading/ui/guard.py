"""Who may see the page, and who may change anything.

The server listens on this machine alone, but every program and every web page on it can reach it. So each
request must name this machine as its host (a page elsewhere can't point its own name here), must come from
this page if a browser says where it comes from, and must know the token that `lading ui` printed: in the
address once, in a cookie after that, or as `Authorization: Bearer`. A write is a POST with the key that the
page's own forms have.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OPEN = ("/static/", "/favicon.ico")  # nothing in there is anybody's secret
_CATALOG = "/iceberg/"  # asks for the token itself, and refuses in words that its clients understand
KEY_FIELD = "key"  # of a form
KEY_HEADER = "X-Lading-Key"


def write_key(token: str) -> str:
    """What a POST must have: who can read a page has it, and can't log in with it elsewhere."""
    return hmac.new(token.encode(), b"lading ui: write", hashlib.sha256).hexdigest()


class Guard:
    """Asked before anything else."""

    def __init__(self, app: ASGIApp, *, token: str, read_only: bool) -> None:
        self._app = app
        self._token = token
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._refusal(request) or self._welcome(request)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (answer or self._app)(scope, receive, send_safely)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        if not _HERE.fullmatch(headers.get("host", "")):
            return _refused(421, "This page is for this machine alone: open it as 127.0.0.1 or localhost.")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers['host']}":
            return _refused(403, f"Requests from {origin} are not answered.")
        if request.url.path.startswith(_CATALOG):
            return None
        if request.method not in ("GET", "HEAD", "POST"):
            return _refused(405, f"{request.method} does nothing here.")
        if request.method == "POST" and self._read_only:
            return _refused(403, "This page was started with --read-only: nothing can be changed from it.")
        if request.url.path.startswith(_OPEN) or self._is_known(request):
            return None
        return HTMLResponse(_LOCKED, 401)

    def _is_known(self, request: Request) -> bool:
        shown = [_bearer(request.headers), request.query_params.get("token"), _cookie(request)]
        return any(one is not None and _same(one, self._token) for one in shown)

    def _welcome(self, request: Request) -> Response | None:
        """Who comes with the token in the address gets a cookie, and an address without it. Not by a
        redirect: browsers send no strict cookie along one that began on another site."""
        if request.method != "GET" or not _same(request.query_params.get("token", ""), self._token):
            return None
        rest = [(name, value) for name, value in parse_qsl(request.url.query) if name != "token"]
        target = quote(request.url.path) + (f"?{urlencode(rest)}" if rest else "")
        page = _MOVED.replace("TARGET", target.replace("&", "&amp;"))
        answer = HTMLResponse(page)
        answer.set_cookie(_cookie_name(request), self._token, httponly=True, samesite="strict", path="/")
        return answer


def may_write(request: Request, fields: dict[str, str], token: str) -> bool:
    """Whether a POST has the key of this page's forms, or the token itself."""
    bearer = _bearer(request.headers)
    if bearer is not None and _same(bearer, token):
        return True
    key = fields.get(KEY_FIELD) or request.headers.get(KEY_HEADER, "")
    return request.headers.get("origin") is not None and _same(key, write_key(token))


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _bearer(headers: Headers) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _cookie_name(request: Request) -> str:
    """Browsers don't tell ports apart, and there may be two pages."""
    return f"lading_{request.url.port or 80}"


def _cookie(request: Request) -> str | None:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(_cookie_name(request))
    except CookieError:
        return None
    return found.value if found is not None else None


def _refused(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


_MOVED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>lading</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<meta http-equiv="refresh" content="0;url=TARGET"></head>
<body><p><a href="TARGET">Go on</a></p></body></html>
"""
_LOCKED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>lading: locked</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/lading.css"></head>
<body class="locked"><main><h1>This page is locked</h1>
<p>Open it with the address that <code>lading ui</code> printed: it has the key in it.</p></main>
</body></html>
"""
