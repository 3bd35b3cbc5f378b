"""A few files of a table by their keys, as a listing would find them; nothing else is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from lading.model import FoundFile
from lading.sources.discover import RACY_NS
from lading.sources.fingerprint import FIRST_NS, Spots, time_ns
from lading.sources.glob import compile_glob


def named_files(root: Path, pattern: str, keys: Iterable[str], *, now_ns: int) -> list[FoundFile] | None:
    """Those of `keys` that are there and match the glob, sorted by key. None when only a listing can tell:
    of links, of what can't be looked at, and of a root that is gone."""
    top = os.path.abspath(root)
    matches = compile_glob(pattern).match
    real_top = os.path.realpath(top)
    spots = Spots()
    found = []
    try:
        if not S_ISDIR(os.stat(top).st_mode):
            return None
        for key in sorted(set(keys)):
            if not matches(key):
                continue
            key.encode()
            if not _is_plain(real_top, key):
                return None
            try:
                stat = os.lstat(f"{real_top}/{key}")
            except (FileNotFoundError, NotADirectoryError):
                continue
            if not S_ISREG(stat.st_mode):
                return None
            at = time_ns(stat)
            racy = at > now_ns - RACY_NS or stat.st_mtime_ns < FIRST_NS
            lies = spots.file(f"{real_top}/{key}", stat)
            found.append(FoundFile(key, f"{top}/{key}", stat.st_size, at, racy, spot=lies))
    except (OSError, UnicodeEncodeError):
        return None
    return found


def _is_plain(top: str, key: str) -> bool:
    """Whether no folder on the way is a link: a listing follows those by rules of its own."""
    folder = os.path.dirname(f"{top}/{key}")
    return os.path.realpath(folder) == folder
