"""Archives, preprocessing and roots in a bucket, as lading.yaml says them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from lading.config.section import Section
from lading.config.stores import BUCKETS, scheme_of
from lading.config.yaml import Line

LIMIT_KEYS = ("max_members", "max_bytes", "max_ratio", "max_nesting", "max_line")
ARCHIVE_KEYS = (*LIMIT_KEYS, "self_extracting")
RATIO_FLOOR = 10_000_000  # below this a ratio says nothing: a log of one repeated line is no bomb
_SIZES = ("max_bytes", "max_line")
PREPROCESS_KEYS = ("action", "scope", "where", "options")
UNZIP = "unzip"

_SCRIPT = re.compile(r"(?P<file>[^:]+\.py):(?P<function>[A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What an archive may hold, all its nested archives included, and a compressed file."""

    max_members: int = 100_000
    max_bytes: int = 100_000_000_000
    max_ratio: int = 200
    max_nesting: int = 1
    max_line: int = 256_000_000  # of a compressed file: whoever reads a line holds it whole
    self_extracting: bool = False  # whether a zip may have a program in front


@dataclass(frozen=True, slots=True)
class Preprocess:
    """What is done to a table's files before they are read."""

    action: str  # "unzip", or "scripts/decode.py:process", relative to the project
    scope: Literal["per_file", "global"] = "per_file"
    where: Literal["driver", "cluster"] = "driver"
    options: dict[str, Any] = field(default_factory=dict)


def archive_limits(project: Section) -> ArchiveLimits:
    section = project.section("archives", ARCHIVE_KEYS)
    given = {key: value for key in LIMIT_KEYS if (value := _limit(section, key)) is not None}
    return ArchiveLimits(**given, self_extracting=bool(section.flag("self_extracting")))


def preprocess(table: Section) -> Preprocess | None:
    if "preprocess" not in table.lines:
        return None
    section = table.section("preprocess", PREPROCESS_KEYS)
    action = section.checked("action", _action_problem, required=True) or UNZIP
    scope = section.choice("scope", ("per_file", "global"))
    options = section.section("options", None)
    if action == UNZIP and scope == "global":
        section.complain("scope", "unzip works file by file; remove this key")
    if action == UNZIP and options.lines:
        section.complain("options", "unzip has no options; set limits under `archives:`")
    for name in options.lines:
        if not name.isidentifier() or name in ("path", "out_dir"):
            options.complain(name, "can't be used as an argument name in the script")
    return Preprocess(
        action=action,
        scope=cast(Literal["per_file", "global"], scope),
        where=cast(Literal["driver", "cluster"], section.choice("where", ("driver", "cluster"))),
        options={name: _plain(line) for name, line in options.lines.items()},
    )


def password_file(table: Section, project: Path) -> Path | None:
    text = table.checked("password_file", lambda text: None if text.strip() else "is empty; name a file")
    return None if text is None else Path(os.path.abspath(project / Path(text).expanduser()))


def is_bucket(root: str) -> bool:
    return scheme_of(root) in BUCKETS


def _limit(section: Section, name: str) -> int | None:
    if name in _SIZES:
        return section.size(name)
    line = section.lines.get(name)
    if line is None:
        return None
    if isinstance(line.value, int) and not isinstance(line.value, bool) and line.value > 0:
        return line.value
    section.complain(name, "must be a number above 0")
    return None


def _action_problem(text: str) -> str | None:
    if text == UNZIP:
        return None
    match = _SCRIPT.fullmatch(text)
    if not match:
        return "must be unzip, or a file in the project and a function in it: scripts/decode.py:process"
    path = os.path.normpath(match["file"])
    if os.path.isabs(path) or path.startswith(("..", "~")):
        return "must be inside the project: code from elsewhere is never run"
    return None


def _plain(line: Line) -> Any:
    if isinstance(line.value, dict):
        return {name: _plain(one) for name, one in line.value.items()}
    if isinstance(line.value, list):
        return [_plain(one) for one in line.value]
    return line.value
