"""What every command is told before it starts, and how it finds its project and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lading.config import FILE_NAME, Config, load
from lading.errors import ConfigError

POINTER_NAME = "_CURRENT"


@dataclass(slots=True)
class Session:
    """One invocation. `project` follows `-C` as soon as it has been parsed."""

    as_json: bool = False
    project: Path = Path()

    @property
    def is_project(self) -> bool:
        return (self.project / FILE_NAME).is_file()


def session_of(ctx: typer.Context) -> Session:
    session = ctx.find_object(Session)
    return session if session is not None else ctx.ensure_object(Session)


def config_of(ctx: typer.Context, tables: Sequence[str] | None = None) -> Config:
    """The project's config; a name in `tables` that it doesn't have is NotFound before anything runs."""
    config = load(session_of(ctx).project)
    for name in tables or ():
        config.table(name)
    return config


def published_folder(config: Config, name: str) -> Path:
    """Where `name` lies; a table that lading.yaml no longer has can still be read."""
    dropped = name.isidentifier() and (config.table_dir(name) / POINTER_NAME).is_file()
    return config.table_dir(name if dropped else config.table(name).name)


def _table_names(incomplete: str) -> list[str]:
    try:
        return [name for name in load(Path()).tables if name.startswith(incomplete)]
    except ConfigError:
        return []  # no project here: there is nothing to complete


Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE", help="Only these tables; all when left out.", autocompletion=_table_names
    ),
]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.", autocompletion=_table_names)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for scripts.")]
