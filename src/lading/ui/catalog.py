"""The Iceberg REST catalog below `/iceberg`: what readers see now, for engines that ask a catalog. Read-only.

It follows the published specification (`rest-catalog-open-api.yaml`): config, namespaces and tables, listed
by pages, and errors in its model. A project is one namespace. No credentials are handed out: an engine reads
the files with its own. Nothing is kept here, so every answer is what the pointer says at that moment.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from lading.config.project import Config
from lading.errors import LadingError, NotFound, Unexpected
from lading.iceberg.follow import shown_now, where
from lading.iceberg.snapshot import location_of
from lading.snapshots.stores.by_url import store_of

NAMESPACE = "lading"
_SEPARATOR = "\x1f"  # between the levels of a namespace, by the specification
_PAGE = 100  # entries of a page whose size nobody chose
_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLES = f"{_NAMESPACE}/tables"
_TABLE = f"{_TABLES}/{{table}}"
_ENDPOINTS = [
    f"GET {_NAMESPACES}", f"GET {_NAMESPACE}", f"HEAD {_NAMESPACE}",
    f"GET {_TABLES}", f"GET {_TABLE}", f"HEAD {_TABLE}",
]  # fmt: skip

LoadConfig = Callable[[], Config]


def catalog(load: LoadConfig, token: str) -> Mount:
    """`load` gives the project as it is now; `token` is what a client has to bear."""
    answers = _Catalog(load)
    at = {
        "/v1/config": answers.config,
        "/v1/namespaces": answers.namespaces,
        "/v1/namespaces/{namespace}": answers.namespace,
        "/v1/namespaces/{namespace}/tables": answers.tables,
        "/v1/namespaces/{namespace}/tables/{table}": answers.table,
        "/{path:path}": _nothing_here,
    }
    routes: list[BaseRoute] = [
        Route(path, _answering(answer, token), methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
        for path, answer in at.items()
    ]
    return Mount("/iceberg", routes=routes)


def refusal(code: int, kind: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error as the specification spells it."""
    return JSONResponse({"error": {"message": message, "type": kind, "code": code}}, code, headers)


class _Refused(Exception):
    def __init__(self, code: int, kind: str, message: str) -> None:
        self.code, self.kind, self.message = code, kind, message


def _answering(answer: Callable[[Request], Response], token: str) -> Callable[[Request], Response]:
    """In a thread of its own, since it isn't `async`: answers wait for disks and stores."""
    expected = f"bearer {token}".encode()

    def endpoint(request: Request) -> Response:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if not secrets.compare_digest(f"{kind.lower()} {given}".encode(), expected):
            message = "give the token of `lading ui` as a bearer token: TOKEN in DuckDB, token in pyiceberg"
            return refusal(401, "NotAuthorizedException", message, {"WWW-Authenticate": "Bearer"})
        try:
            if request.method not in ("GET", "HEAD"):
                raise _Refused(
                    406,
                    "UnsupportedOperationException",
                    "this catalog is read-only: tables change when lading runs",
                )
            found = answer(request)
        except _Refused as refused:
            return refusal(refused.code, refused.kind, refused.message)
        except LadingError as error:
            return refusal(503, "ServiceUnavailableException", str(error))
        except Exception as error:
            return refusal(500, "InternalServerError", str(Unexpected.of(error)))
        # The specification's answer to "does it exist?"
        return Response(status_code=204) if request.method == "HEAD" else found

    return endpoint


def _nothing_here(request: Request) -> Response:
    raise _Refused(404, "NotFoundException", f"this catalog has no {request.url.path}")


class _Catalog:
    def __init__(self, load: LoadConfig) -> None:
        self.load = load

    def config(self, request: Request) -> Response:
        return JSONResponse({"defaults": {}, "overrides": {}, "endpoints": _ENDPOINTS})

    def namespaces(self, request: Request) -> Response:
        parent = request.query_params.get("parent")
        if parent:
            _known_namespace(parent)
        found = [] if parent else [NAMESPACE]
        names, token = _page(found, request)
        return JSONResponse({"namespaces": [[name] for name in names], "next-page-token": token})

    def namespace(self, request: Request) -> Response:
        _known_namespace(request.path_params["namespace"])
        return JSONResponse({"namespace": [NAMESPACE], "properties": self._properties()})

    def tables(self, request: Request) -> Response:
        _known_namespace(request.path_params["namespace"])
        config = self.load()
        shown = sorted(
            name for name, cfg in config.tables.items() if cfg.iceberg and where(config.place(name))
        )
        names, token = _page(shown, request)
        found = [{"namespace": [NAMESPACE], "name": name} for name in names]
        return JSONResponse({"identifiers": found, "next-page-token": token})

    def table(self, request: Request) -> Response:
        """All kept snapshots are tagged, so that `snapshots=refs` asks for the same as `all`."""
        _known_namespace(request.path_params["namespace"])
        name = request.path_params["table"]
        config = self.load()
        try:
            is_shown = config.table(name).iceberg
        except NotFound as error:
            raise _no_table(str(error)) from error
        found = shown_now(store_of(config, name), config.place(name)) if is_shown else None
        if found is None:
            raise _no_table(f"{name} has no Iceberg metadata: it was not published, or has `iceberg: false`")
        at, metadata = found
        tag = f'"{hashlib.sha256(metadata).hexdigest()}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        told = {
            "metadata-location": f"{location_of(config.place(name))}/{at.path}",
            "metadata": json.loads(metadata),
            "config": {},
        }
        return JSONResponse(told, headers={"ETag": tag})

    def _properties(self) -> dict[str, str]:
        return {"location": location_of(self.load().warehouse)}


def _known_namespace(text: str) -> None:
    if text != NAMESPACE:
        shown = ".".join(text.split(_SEPARATOR))
        raise _Refused(
            404,
            "NoSuchNamespaceException",
            f"there is no namespace {shown}: all tables are in {NAMESPACE}",
        )


def _no_table(message: str) -> _Refused:
    return _Refused(404, "NoSuchTableException", message)


def _page(names: list[str], request: Request) -> tuple[list[str], str | None]:
    """All of them, unless the client asks for pages: those behind the token, and the next token. A token says
    behind which name to go on, so that a table that comes or goes meanwhile moves no other."""
    token = request.query_params.get("pageToken")
    if token is None:
        return names, None
    size = _page_size(request.query_params.get("pageSize"))
    behind = _read_token(token)
    left = [name for name in names if name > behind]
    more = len(left) > size
    return left[:size], _token(left[size - 1]) if more else None


def _page_size(text: str | None) -> int:
    if text is None:
        return _PAGE
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1:
        raise _Refused(400, "BadRequestException", f"pageSize is a number from 1 on, not {text!r}")
    return int(text[:9])


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _read_token(token: str) -> str:
    try:
        return base64.b64decode(token.encode(), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError) as error:
        raise _Refused(
            400, "BadRequestException", f"pageToken {token!r} is none that this catalog gave"
        ) from error
