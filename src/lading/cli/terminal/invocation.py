"""What every command is told before it starts, and how it finds its project and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Argument, Context, Option
from lading.config.file import load
from lading.config.project import Config
from lading.errors import ConfigError
from lading.layout.project import CONFIG

if TYPE_CHECKING:
    from lading.api import Reader


@dataclass(slots=True)
class Invocation:
    """One invocation. `project` follows `-C` as soon as it has been parsed."""

    as_json: bool = False
    project: Path = Path()

    @property
    def is_project(self) -> bool:
        return (self.project / CONFIG).is_file()


def invocation_of(ctx: Context) -> Invocation:
    session = ctx.find_object(Invocation)
    return session if session is not None else ctx.ensure_object(Invocation)


def config_of(ctx: Context, tables: Sequence[str] | None = None) -> Config:
    """The project's config; a name in `tables` that it doesn't have is NotFound before anything runs."""
    config = load(invocation_of(ctx).project)
    for name in tables or ():
        config.table(name)
    return config


def known_table(ctx: Context, name: str) -> Config:
    """The config, once `name` is known to be a table of it or of the warehouse: one that lading.yaml no
    longer has can still be looked after."""
    config = config_of(ctx)
    if name not in config.tables and not _is_in_warehouse(config, name) and not _is_published(config, name):
        config.table(name)
    return config


def source_word(config: Config, name: str) -> str:
    """What a table's rows come from: files, or slots of one made of tables."""
    table = config.tables.get(name)
    return "slot" if table is not None and table.derived is not None else "file"


def sources_word(config: Config, names: Iterable[str]) -> str:
    """The head of a column that counts what the rows of several tables come from."""
    words = {source_word(config, name) for name in names}
    return "files, slots" if len(words) > 1 else f"{words.pop()}s" if words else "files"


def open_published(
    config: Config, name: str, *, ref: str | None = None, offset: int | None = None, as_of: str | None = None
) -> Reader:
    """A reader of `name`; a table that lading.yaml no longer has can still be read."""
    from lading.api import open_in
    from lading.snapshots.stores.by_url import store_of

    store = store_of(config, name) if name in config.tables or _can_be_table(config, name) else None
    if store is None or (name not in config.tables and store.load_current() is None):
        config.table(name)
    return open_in(config, name, store, ref=ref, offset=offset, as_of=as_of)


def _is_in_warehouse(config: Config, name: str) -> bool:
    from lading.log.table import Table as LogTable
    from lading.storage.place import storage_of

    folder = storage_of(config.place(name)).folder
    return name.isidentifier() and (
        LogTable.exists(config.place(name)) if folder is None else folder.is_dir()
    )


def _can_be_table(config: Config, name: str) -> bool:
    """Whether there may be such a table although lading.yaml doesn't have it; one that lies in a bucket, or
    whose manifests do, may be another writer's and have no log."""
    from lading.storage.place import storage_of

    folder = storage_of(config.place(name)).folder
    return name.isidentifier() and (folder is None or config.store is not None or folder.is_dir())


def _is_published(config: Config, name: str) -> bool:
    from lading.snapshots.stores.by_url import store_of

    return _can_be_table(config, name) and store_of(config, name).load_current() is not None


def _table_names(incomplete: str) -> list[str]:
    try:
        return [name for name in load(Path()).tables if name.startswith(incomplete)]
    except ConfigError:
        return []  # no project here: there is nothing to complete


Tables = Annotated[
    list[str] | None,
    Argument(metavar="TABLE", help="Only these tables; all by default.", complete=_table_names),
]
Table = Annotated[str, Argument(metavar="TABLE", help="The table's name.", complete=_table_names)]
Ref = Annotated[str | None, Option("--ref", metavar="REF", help="Read this snapshot: a reference or a run.")]
Offset = Annotated[
    int | None,
    Option("--offset", metavar="N", min=0, help="Read the snapshot N before the current one."),
]
AsOf = Annotated[
    str | None, Option("--as-of", metavar="TIME", help="Read what was current at this time (UTC).")
]
Json = Annotated[bool, Option("--json", help="Print one JSON object, for scripts.")]
