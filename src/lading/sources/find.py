"""The files of a table: where they are, which there are right now, and what their bytes hash to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lading.config.project import Config, TableConfig
from lading.errors import ConfigError, SourceError
from lading.formats.opening import bound_below
from lading.model import Digest, FoundFile
from lading.sources.discover import discover
from lading.sources.fingerprint import digest, digest_all
from lading.sources.objects import Objects
from lading.storage.bucket import ObjectStorage


def objects_of(config: Config, cfg: TableConfig) -> Objects | None:
    """The bucket that a table's files are in; None when they are in a folder."""
    return None if cfg.url is None else Objects(ObjectStorage(cfg.url, config.s3), cfg.root)


def discover_files(config: Config, cfg: TableConfig, objects: Objects | None) -> list[FoundFile]:
    for folder in (config.project, cfg.root):
        bound_below(str(folder), config.archives)
    if objects is not None:
        found = objects.discover(cfg.path)
        _refuse_own_files(config, ((file.key, f"{objects.url}/{file.key}") for file in found))
        return found
    found = discover(cfg.root, cfg.path, now_ns=time.time_ns())
    if any(_may_meet(cfg.root, own) for own in (config.warehouse, config.cache)):
        _refuse_own_files(config, ((file.key, file.path) for file in found))
    return found


def _may_meet(root: Path, own: object) -> bool:
    path = Path(str(own))
    return path.is_relative_to(root) or root.is_relative_to(path)


def _refuse_own_files(config: Config, found: Iterable[tuple[str, str]]) -> None:
    """A glob that reaches into the warehouse or the cache would feed a table its own parts."""
    own = (f"{config.warehouse}/", f"{config.cache}/")
    for key, path in found:
        if path.startswith(own):
            raise ConfigError(
                f"`path` matches {path}, which lading itself wrote",
                hint="set `root` to the folder of the raw files, or narrow `path`, in lading.yaml",
                file=key,
            )


def digests_of(
    cfg: TableConfig, files: Sequence[FoundFile], tick: Callable[[int], None] | None = None
) -> dict[str, Digest]:
    text = cfg.format != "parquet"
    encoding = str(cfg.read_options.get("encoding") or "utf-8").lower()
    utf8 = text and encoding in ("utf-8", "utf8", "utf_8")
    try:
        return digest_all(files, utf8=utf8, text=text, tick=tick)
    except SourceError:
        if cfg.on_bad != "quarantine":
            raise
    return {file.key: _tolerant_digest(file, utf8, text) for file in files}


def _tolerant_digest(file: FoundFile, utf8: bool, text: bool) -> Digest:
    """A file that can't be decompressed still has bytes, and so a fingerprint to be set aside under."""
    try:
        return digest(file.path, utf8=utf8, text=text)
    except SourceError as error:
        return replace(digest(file.path, utf8=False, text=False), unreadable=error.message)
