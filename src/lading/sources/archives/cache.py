"""What lies in the cache, and whether a table still needs it.

Everything here can be made again, at a price. Needed is what a run of a configured table would use as
it is; when a table's files can't be listed, all that is known to be its own counts as needed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lading import clock
from lading.config.archives import UNZIP
from lading.config.project import Config, TableConfig
from lading.errors import LadingError
from lading.layout.beside import leftover_of, lock_of
from lading.layout.project import ARCHIVES, AT_WORK, INDEXES, OBJECTS, PREPROCESSED, made_folder, work_folder
from lading.sources.archives.extractions import Archives, is_archive, relative_path
from lading.sources.archives.index import read_index
from lading.sources.discover import discover
from lading.storage.folder import is_locked, locked

Kind = Literal["extraction", "preprocessed", "index", "objects", "leftover"]


@dataclass(frozen=True, slots=True)
class Cached:
    """One thing in the cache."""

    kind: Kind
    path: Path
    made_from: str | None
    files: int
    bytes: int
    tables: tuple[str, ...]  # that use it, or did
    needed: bool
    why: str
    lock: Path


def cache_contents(config: Config) -> list[Cached]:
    """Everything in the cache that lading's sources put there, sorted by path."""
    of_files = {name: table for name, table in config.tables.items() if table.derived is None}
    expected = {name: _expected(config, table) for name, table in of_files.items()}
    found = [*_extractions(config, expected), *_preprocessed(config, expected), *_passing(config)]
    return sorted(found, key=lambda one: str(one.path))


def clear_cache(config: Config) -> list[Cached]:
    """Remove what no table needs; what was removed. What a run holds is left to it."""
    removed = []
    for one in cache_contents(config):
        if one.needed or is_locked(one.lock):
            continue
        with locked(one.lock):
            if not one.path.exists():
                continue  # taken away meanwhile by the run that had left it
            shutil.rmtree(one.path)
        removed.append(one)
    _forget(config, {one.path for one in removed if one.kind in ("extraction", "index")})
    return removed


def _expected(config: Config, table: TableConfig) -> set[Path] | None:
    """The folders that a run of the table would use; None when that can't be told."""
    script = table.preprocess is not None and table.preprocess.action != UNZIP
    parent = config.cache / PREPROCESSED / table.name if script else config.cache / ARCHIVES
    if script and table.preprocess is not None and table.preprocess.scope == "global":
        name = made_folder("all", relative_path(config.project, table.root, table.path, table.url))
        return {parent / name, config.cache / INDEXES / PREPROCESSED / table.name / name}
    if table.url is not None:
        return None  # a bucket isn't asked for the sake of a cache
    try:
        keys = [file.key for file in discover(table.root, table.path, now_ns=clock.wall_ns())]
    except LadingError:
        return None
    gz = table.inside is not None or table.preprocess is not None
    wanted = keys if script else [key for key in keys if is_archive(key, gz=gz)]
    return {parent / made_folder(key, relative_path(config.project, table.root, key, None)) for key in wanted}


def _extractions(config: Config, expected: dict[str, set[Path] | None]) -> Iterator[Cached]:
    archives = Archives(config.project, config.cache, config.archives)
    users = {config.project / one.extracted_dir: one.used_by_tables for one in archives.load().values()}
    for folder in _folders(archives.folder):
        yield _made("extraction", folder, users.get(folder, ()), expected)
    for folder in _folders(config.cache / INDEXES / ARCHIVES):
        yield _made("index", folder, users.get(folder, ()), expected)


def _preprocessed(config: Config, expected: dict[str, set[Path] | None]) -> Iterator[Cached]:
    for parent in _folders(config.cache / PREPROCESSED):
        for folder in _folders(parent):
            yield _made("preprocessed", folder, (parent.name,), expected)
    for parent in _folders(config.cache / INDEXES / PREPROCESSED):
        for folder in _folders(parent):
            yield _made("index", folder, (parent.name,), expected)


def _made(kind: Kind, folder: Path, users: tuple[str, ...], expected: dict[str, set[Path] | None]) -> Cached:
    made = leftover_of(folder.name)
    if made is not None:
        lock = folder.with_name(lock_of(made))
        return _cached("leftover", folder, users, False, "left behind by a killed run", lock)
    wanted = [name for name, paths in expected.items() if paths is not None and folder in paths]
    unsure = [name for name in users if name in expected and expected[name] is None]
    lock = folder.with_name(lock_of(folder.name))
    if wanted:
        return _cached(kind, folder, tuple(wanted), True, f"used by {', '.join(wanted)}", lock)
    if unsure:
        why = f"the files of {', '.join(unsure)} can't be listed here"
        return _cached(kind, folder, users, True, why, lock)
    return _cached(kind, folder, users, False, "no table uses it", lock)


def _passing(config: Config) -> Iterator[Cached]:
    """What only a run at work needs."""
    for folder in _folders(config.cache / OBJECTS):
        busy = _at_work(config, folder.name)
        why = "a run uses them" if busy else "copies that have been read"
        yield _cached("objects", folder, (folder.name,), busy, why, folder.with_name(lock_of(folder.name)))


def _at_work(config: Config, table: str) -> bool:
    locks = (config.cache / AT_WORK).glob(lock_of(work_folder("*", table)))
    return any(is_locked(lock) for lock in locks)


def _cached(kind: Kind, folder: Path, tables: tuple[str, ...], needed: bool, why: str, lock: Path) -> Cached:
    index = read_index(folder)
    files, size = _size(folder)
    made_from = index.made_from if index is not None else None
    return Cached(kind, folder, made_from, files - (index is not None), size, tables, needed, why, lock)


def _size(folder: Path) -> tuple[int, int]:
    files = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a run replaces it just now
                size += os.lstat(os.path.join(parent, name)).st_size
                files += 1
    return files, size


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def _forget(config: Config, folders: set[Path]) -> None:
    if not folders:
        return
    archives = Archives(config.project, config.cache, config.archives)
    entries = archives.load()
    archives.forget({key for key, one in entries.items() if config.project / one.extracted_dir in folders})
