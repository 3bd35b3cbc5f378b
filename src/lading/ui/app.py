"""The pages and their addresses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lading.errors import ConfigError, Conflict, LadingError, NotFound, PredicateError, Unexpected
from lading.signals.log import log_unexpected
from lading.signals.metrics import TEXT_TYPE, present
from lading.storage.folder import disk_failure
from lading.ui.catalog import catalog
from lading.ui.guard import KEY_FIELD, Guard, may_write
from lading.ui.page import Action, Page
from lading.ui.pages import history, layout, overview, plan, quarantine, rows, runs, serving
from lading.ui.project import Project
from lading.ui.show import Show, is_fragment

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    plan.PAGE,
    runs.PAGE,
    history.PAGE,
    rows.PAGE,
    quarantine.PAGE,
    layout.PAGE,
    serving.PAGE,
)

_LONGEST = 1 << 16  # bytes of a form
_STATUS = {NotFound: 404, ConfigError: 400, PredicateError: 400, Conflict: 409}

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(folder: Path, *, token: str, read_only: bool) -> Starlette:
    """The page of the project in `folder`. `token` is what a visitor must know."""
    project = Project(folder, read_only=read_only)
    show = Show(project, PAGES, token)
    routes: list[BaseRoute] = [
        Route("/events", _events(project)),
        Route("/favicon.ico", _icon),
        Route("/metrics", _metrics(project)),
        Mount("/static", StaticFiles(packages=[("lading.ui", "static")])),
        catalog(project.config, token),
    ]
    for page in PAGES:
        routes.append(Route(page.path, _page(project, show, page)))
        routes.append(Route(f"/{page.name}.json", _page(project, show, page)))
        for name, action in page.actions.items():
            path = f"/{page.name}/{name}"
            routes.append(Route(path, _action(project, show, action, token), methods=["POST"]))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        project.live.close()

    async def missing(request: Request, _error: Exception) -> Response:
        error = NotFound(f"there is no page {request.url.path}", hint="the pages are listed on the left")
        return show.error(request, error, 404)

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token, read_only=read_only)],
        exception_handlers={404: missing},
        lifespan=lifespan,
    )
    app.state.project = project
    return app


def wants_json(request: Request) -> bool:
    return (
        request.url.path.endswith(".json")
        or request.query_params.get("format") == "json"
        or request.headers.get("accept", "").startswith("application/json")
    )


def _waits_for_nothing(request: Request) -> bool:
    """Whether a browser asks for a page: scripts in it bring what takes time. `?now` is for those without."""
    return not (wants_json(request) or is_fragment(request) or "now" in request.query_params)


def _page(project: Project, show: Show, page: Page) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            made = page.at_once if page.at_once is not None and _waits_for_nothing(request) else page.value
            value = await run_in_threadpool(made, project, request.query_params)
            if wants_json(request):
                return _json(value)
            return await run_in_threadpool(show.page, request, page, value)
        except Exception as error:
            return _failed(project, show, request, error)

    return endpoint


def _action(project: Project, show: Show, action: Action, token: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            fields = await _fields(request)
            if not may_write(request, fields, token):
                raise ConfigError(
                    "this request doesn't have the key that this page's forms have",
                    hint="load the page again and try once more; scripts send Authorization: Bearer TOKEN",
                )
            fields.pop(KEY_FIELD, None)
            done = await run_in_threadpool(action, project, fields)
        except Exception as error:
            return _failed(project, show, request, error)
        if wants_json(request):
            return _json(done.value)
        project.notify(done.said)
        return RedirectResponse(done.then, 303)

    return endpoint


async def _fields(request: Request) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST:
            raise ConfigError("the form is too long", hint=f"at most {_LONGEST:,} bytes are read")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _failed(project: Project, show: Show, request: Request, error: Exception) -> Response:
    if not isinstance(error, LadingError):
        disk = disk_failure(error) if isinstance(error, OSError) else None
        error = disk if disk is not None else Unexpected.of(error)
    if isinstance(error, Unexpected):
        log_unexpected(project.folder, error)
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    if wants_json(request):
        return _json({"error": error.as_json()}, status)
    return show.error(request, error, status)


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), status, media_type="application/json")


async def _icon(_request: Request) -> Response:
    """Browsers ask for it whatever a page says."""
    return RedirectResponse("/static/icon.svg")


def _metrics(project: Project) -> Endpoint:
    async def endpoint(_request: Request) -> Response:
        text = await run_in_threadpool(lambda: present(project.config()).text())
        return Response(text, media_type=TEXT_TYPE)

    return endpoint


def _events(project: Project) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        seen = request.headers.get("last-event-id") or request.query_params.get("seen") or ""
        number = int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 15 else None
        return StreamingResponse(project.live.stream(number), media_type="text/event-stream")

    return endpoint
