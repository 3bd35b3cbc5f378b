"""From a page's value to HTML. Everything is escaped: file names and rows may hold anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from lading import clock
from lading.errors import LadingError
from lading.ui.guard import KEY_FIELD, write_key
from lading.ui.page import Page, PageValue
from lading.ui.project import Project
from lading.words import byte_words, count_words, verdict_words

_SPANS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


class Show:
    def __init__(self, project: Project, pages: Sequence[Page], token: str) -> None:
        self._project = project
        self._pages = pages
        self._key = write_key(token)
        self._templates = Environment(
            loader=PackageLoader("lading.ui"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "number": lambda value: "" if value is None else f"{value:,}",
            "change": lambda value: "" if value is None else f"{value:+,}",
            "bytes": byte_words,
            "ago": ago,
            "moment": moment,
            "seconds": span_words,
        }
        self._templates.globals |= {
            "link": link,
            "count": count_words,
            "verdict_words": verdict_words,
            "version": version("lading"),
        }

    def page(self, request: Request, page: Page, value: PageValue) -> HTMLResponse:
        return HTMLResponse(self._rendered(f"{page.name}.html", request, page, value=value))

    def error(self, request: Request, error: LadingError, status: int) -> HTMLResponse:
        name = request.url.path.strip("/").partition("/")[0] or "overview"
        page = next((one for one in self._pages if one.name == name), None)
        return HTMLResponse(self._rendered("error.html", request, page, error=error), status)

    def _rendered(self, template: str, request: Request, page: Page | None, **more: Any) -> str:
        query = dict(request.query_params)
        return self._templates.get_template(template).render(
            project=self._project,
            pages=self._pages,
            page=page,
            tables=self._tables(),
            query=query,
            key=self._key,
            key_field=KEY_FIELD,
            json_link=link(page.name + ".json", **query) if page is not None else None,
            notices=self._project.take_notices() if not is_fragment(request) else [],
            **more,
        )

    def _tables(self) -> list[str]:
        """For choosing one; a config that can't be read is the error page's to tell."""
        try:
            return list(self._project.config().tables)
        except LadingError:
            return []


def is_fragment(request: Request) -> bool:
    """Whether the page that is there asks for a piece of it, and not a browser for a page."""
    return request.headers.get("hx-request") == "true"


def link(page: str, /, **query: Any) -> str:
    """The address of a page; what is None or empty is left out."""
    told = {
        name: value
        for name, value in query.items()
        if not isinstance(value, Undefined) and value not in (None, "")
    }
    path = "/" if page == "overview" else f"/{page}"
    return f"{path}?{urlencode(told)}" if told else path


def moment(value: str | datetime | None) -> datetime | None:
    """A time in UTC, from its text."""
    if value is None or isinstance(value, datetime):
        return value
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def ago(value: str | datetime | None) -> str:
    """`3 minutes ago`."""
    at = moment(value)
    if at is None:
        return ""
    seconds = (clock.now() - at).total_seconds()
    for size, word in _SPANS:
        if seconds >= size:
            return f"{count_words(int(seconds // size), word)} ago"
    return "just now"


def span_words(seconds: float | None) -> str:
    """`0.42 s`, `3 min 5 s`."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
