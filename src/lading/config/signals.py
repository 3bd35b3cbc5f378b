"""What other systems are told of runs: `metrics:` and `openlineage:`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lading.config.section import Section

METRICS_KEYS = ("file",)
OPENLINEAGE_KEYS = ("file", "url", "namespace", "api_key")


@dataclass(frozen=True, slots=True)
class OpenLineage:
    """Where events go; both may be given."""

    namespace: str
    file: Path | None = None  # absolute; one event a line
    url: str | None = field(default=None, repr=False)  # may hold a password: never shown
    api_key: str | None = field(default=None, repr=False)


def metrics_file(project: Path, section: Section) -> Path | None:
    return _path(project, section.section("metrics", METRICS_KEYS))


def openlineage_of(project: Path, section: Section) -> OpenLineage | None:
    if "openlineage" not in section.lines:
        return None
    given = section.section("openlineage", OPENLINEAGE_KEYS)
    file, url = _path(project, given), given.checked("url", _url_problem)
    if "file" not in given.lines and "url" not in given.lines:
        section.complain("openlineage", "give a file or a url that events go to")
    return OpenLineage(given.text("namespace") or project.name, file, url, given.text("api_key"))


def _path(project: Path, section: Section) -> Path | None:
    text = section.text("file")
    return None if text is None else Path(os.path.abspath(project / Path(text).expanduser()))


def _url_problem(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    return None if known else "must be http://host/path or https://host/path"
