"""What a member is called: how a file's place is recorded, and how people may name it afterwards."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

from lading.errors import ConfigError, NotFound


def recorded_path(folder: Path, file: str | os.PathLike[str]) -> str:
    """How the log writes down a file so that it is found again: relative inside the collection, so that
    both can be moved together; absolute elsewhere."""
    path = os.path.abspath(file)
    # The folder may be reached through a link; the file's own name is kept even if it is one.
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    root = os.path.realpath(folder)
    found = os.path.relpath(place, root).replace(os.sep, "/") if place.startswith(f"{root}/") else place
    try:
        found.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"the name {os.fsencode(found)!r} is not UTF-8",
            hint="rename the file: a log that others read can't hold it",
            file=os.fsdecode(os.fsencode(found)),
        ) from None
    return found


def place_of(folder: Path, file: str | os.PathLike[str]) -> Path:
    """Where a file that somebody named lies: seen from here, or else from the collection."""
    here = Path(file)
    there = folder / file
    return there if not here.exists() and there.exists() else here


def one_member(folder: Path, paths: Iterable[str], name: str) -> str:
    """The listed path that `name` means: that path, a way to the same file, or a file name that is unique."""
    listed = set(paths)
    for candidate in (name, recorded_path(folder, name), recorded_path(folder, folder / name)):
        if candidate in listed:
            return candidate
    same_name = sorted(path for path in listed if path.rsplit("/", 1)[-1] == name)
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        raise NotFound(
            f"{name} could be any of {len(same_name)} members of {folder}",
            hint=f"give the path as it is listed: {', '.join(same_name[:5])}",
            file=name,
        )
    near = difflib.get_close_matches(name, listed, n=3, cutoff=0.3)
    raise NotFound(
        f"{name} is not a member of {folder}",
        hint=f"did you mean {', '.join(near)}?" if near else f"`lading collection list {folder}` lists them",
        file=name,
    )
