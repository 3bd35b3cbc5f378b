"""What a member is called: how a file's place is recorded, and how people may name it afterwards."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from lading.errors import ConfigError, NotFound
from lading.model import Place
from lading.storage.place import Where


def recorded_path(where: Where, file: str | os.PathLike[str]) -> str:
    """How the log writes down a file so that it is found again: relative inside the collection, so that
    both can be moved together; absolute, or by its URL, elsewhere."""
    name = os.fspath(file)
    if isinstance(where, Place):
        return _in_bucket(where, name)
    if "://" in name:
        raise ConfigError(
            f"{name} is not a file here",
            hint="files in a bucket go into a collection in a bucket: lading collection add s3://bucket/prefix",
        )
    path = os.path.abspath(name)
    # The folder may be reached through a link; the file's own name is kept even if it is one.
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    root = os.path.realpath(where)
    found = os.path.relpath(place, root).replace(os.sep, "/") if place.startswith(f"{root}/") else place
    return readable(found)


def path_to_add(where: Where, file: str | os.PathLike[str]) -> str:
    """`recorded_path` of a file as somebody names it: seen from here, or else from the collection."""
    if not isinstance(where, Place) and "://" not in os.fspath(file):
        there = where / file
        if not Path(file).exists() and there.exists():
            return recorded_path(where, there)
    return recorded_path(where, file)


def one_member(
    where: Where, is_live: Callable[[str], bool], listed: Callable[[], Iterable[str]], name: str
) -> str:
    """The listed path that `name` means: that path, a way to the same file, or a file name that is unique.
    `listed` is only asked when it is neither of the first two."""
    for candidate in _ways_to(where, name):
        if is_live(candidate):
            return candidate
    paths = set(listed())
    same_name = sorted(path for path in paths if path.rsplit("/", 1)[-1] == name)
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        raise NotFound(
            f"{name} could be any of {len(same_name)} members of {where}",
            hint=f"give the path as it is listed: {', '.join(same_name[:5])}",
            file=name,
        )
    near = difflib.get_close_matches(name, paths, n=3, cutoff=0.3)
    raise NotFound(
        f"{name} is not a member of {where}",
        hint=f"did you mean {', '.join(near)}?" if near else f"`lading collection list {where}` lists them",
        file=name,
    )


def _ways_to(where: Where, name: str) -> list[str]:
    try:
        if isinstance(where, Place):
            return [name, _in_bucket(where, name)]
        return [name, recorded_path(where, name), recorded_path(where, where / name)]
    except ConfigError:  # no way to name a file in it
        return [name]


def _in_bucket(place: Place, name: str) -> str:
    scheme, found, rest = name.partition("://")
    if found and (scheme != "s3" or "/" not in rest):
        raise ConfigError(f"{name} is not s3://bucket/name", hint="name an object of a bucket")
    path = name.removeprefix(f"{place.url}/") if found else name.removeprefix("./")
    steps = path.partition("://")[2].split("/") if "://" in path else path.split("/")
    if any(step in ("", ".", "..") for step in steps) or os.path.isabs(name):
        raise ConfigError(
            f"{name} is not a file in {place}",
            hint="name it as it lies there, or by its URL, s3://…; upload what is on this disk first",
        )
    return readable(path)


def readable(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"the name {os.fsencode(path)!r} is not UTF-8",
            hint="rename the file: a log that others read can't hold it",
            file=os.fsdecode(os.fsencode(path)),
        ) from None
    return path
