"""What a member is called: how a file's place is recorded, and how people may name it afterwards."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from lading.errors import ConfigError, NotFound
from lading.model import Place
from lading.storage.place import storage_of


def path_to_add(place: Place, file: str | os.PathLike[str]) -> str:
    """How the log writes down a file that somebody names: seen from here, or else from the collection."""
    storage = storage_of(place)
    if storage.folder is not None and not Path(file).exists() and (storage.folder / file).exists():
        return storage.recorded(storage.folder / file)
    return storage.recorded(file)


def one_member(
    place: Place, is_live: Callable[[str], bool], listed: Callable[[], Iterable[str]], name: str
) -> str:
    """The listed path that `name` means: that path, a way to the same file, or a file name that is unique.
    `listed` is only asked when it is neither of the first two."""
    for candidate in _ways_to(place, name):
        if is_live(candidate):
            return candidate
    paths = set(listed())
    same_name = sorted(path for path in paths if path.rsplit("/", 1)[-1] == name)
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        raise NotFound(
            f"{name} could be any of {len(same_name)} members of {place}",
            hint=f"give the path as it is listed: {', '.join(same_name[:5])}",
            file=name,
        )
    near = difflib.get_close_matches(name, paths, n=3, cutoff=0.3)
    raise NotFound(
        f"{name} is not a member of {place}",
        hint=f"did you mean {', '.join(near)}?" if near else f"`lading collection list {place}` lists them",
        file=name,
    )


def _ways_to(place: Place, name: str) -> tuple[str, ...]:
    try:
        return storage_of(place).ways_to(name)
    except ConfigError:  # no way to name a file in it
        return (name,)
