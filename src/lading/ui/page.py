"""What a page is: a value from a command's own calls, a template over it, and what can be done there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lading.config.project import Config
from lading.errors import ConfigError, NotFound
from lading.ui.project import Project

Query = Mapping[str, str]


class PageValue(msgspec.Struct, frozen=True, kw_only=True):
    """What every page's value has: the command that says the same."""

    command: str


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did: for a script as a value, for a person in words and with the page to go on to."""

    value: dict[str, Any]
    said: str
    then: str  # a path of this server


Action = Callable[[Project, Query], Done]


@dataclass(frozen=True, slots=True)
class Page:
    """`templates/<name>.html` shows `value` at `/<name>`, and JSON has it at `/<name>.json`."""

    name: str
    title: str
    value: Callable[[Project, Query], PageValue]
    of_table: bool = True  # whether it shows one table, chosen by `?table=`
    actions: Mapping[str, Action] = field(default_factory=dict)  # POST /<name>/<action>
    at_once: Callable[[Project, Query], PageValue] | None = None  # for a browser, until `value` is made

    @property
    def path(self) -> str:
        return "/" if self.name == "overview" else f"/{self.name}"


def command_line(*words: str) -> str:
    """A command for people to copy: as a shell takes it, and in double quotes where that reads better."""
    return " ".join(
        f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word) for word in words
    )


def table_of(config: Config, query: Query) -> str:
    """The table that a query names; the first one if it names none."""
    if not config.tables:
        raise NotFound(
            f"there is no table in {config.file}", hint="lading add FOLDER writes one", file=str(config.file)
        )
    name = query.get("table") or next(iter(config.tables))
    return config.table(name).name


def number_of(query: Query, name: str, default: int, *, least: int = 0, most: int = 1 << 40) -> int:
    """A whole number in a query."""
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) < 15):
        raise ConfigError(f"{name}={text!r} is not a number", hint=f"leave it out, or write {name}={default}")
    return min(max(int(text), least), most)
