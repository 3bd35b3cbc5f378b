"""Named bytes: what a folder, a bucket and memory have in common, and all that lading asks of any of them.

Names are relative, with "/". Everything is written once under a fresh name (`put_new`); the one thing
that moves is moved by `swap`, which succeeds only if it still is what the caller saw. An answer that
got lost shows up as FileExistsError or SwapLost like somebody else's write would: the caller reads
the object back and decides by its content whose it is.

What only some can do is said here too: `folder` (other programs can open the files), `prefix` (whether a
reference holds the place itself) and `lock` (whether others can be kept waiting). Nobody needs to ask what
kind of place it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from lading.errors import ConfigError, StorageError


@dataclass(frozen=True, slots=True)
class Named:
    """One object in a listing."""

    name: str
    size: int
    etag: str  # tells it from any other that had the name or will have it
    modified: datetime  # UTC


class SwapLost(Exception):
    """The object is no longer what the caller saw: read it again."""


class TooLarge(StorageError):
    """The object is longer than the caller is ready for."""

    etag = ""  # to hand to `swap` for something better


class Replaced(StorageError):
    """Another object lies there by now than the one that was asked for."""


class NotPlain(OSError):
    """A link, a folder or a device where a file of ours should be."""


class Storage(Protocol):
    """A root and the objects below it. A missing object is FileNotFoundError everywhere."""

    @property
    def url(self) -> str:
        """The root, without credentials: safe to print."""
        ...

    @property
    def folder(self) -> Path | None:
        """Where other programs (Spark, SQLite, an append to a log) find the files; None if none can."""
        ...

    @property
    def prefix(self) -> str:
        """What a reference to an object begins with: nothing in a folder, which can be moved with all that
        refers to it; the root's URL in a bucket."""
        ...

    def get(self, name: str, *, limit: int | None = None) -> bytes:
        """`limit` is for what a stranger may have put there: TooLarge for a longer object, before its content
        is fetched, and NotPlain for what isn't a regular file."""
        ...

    def get_with_etag(self, name: str, *, limit: int | None = None) -> tuple[bytes, str]:
        """The content and the etag to hand to `swap`."""
        ...

    def get_range(self, name: str, start: int, length: int, *, etag: str | None = None) -> bytes:
        """With `etag`, only of that very object: Replaced when another lies there by now."""
        ...

    def head(self, name: str) -> Named: ...

    def has(self, name: str) -> bool: ...

    def sha256(self, name: str) -> tuple[int, str]:
        """Size and checksum of the content, which is never held whole."""
        ...

    def put_new(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        """Create, durable and whole; FileExistsError if the name is taken."""
        ...

    def put(
        self, name: str, data: bytes, *, content_type: str | None = None, beside: str | None = None
    ) -> None:
        """Create or replace, whole: for what is never the truth, such as reports. `beside` is what a folder
        calls it until it is complete."""
        ...

    def put_same(self, objects: Mapping[str, bytes]) -> None:
        """Keep objects whose names say what they hold, durably. One that is there already is left as it is if
        it holds that, and counts as written just now."""
        ...

    def sync(self, name: str) -> None:
        """Let what is there under `name` outlive a power cut: whoever wrote it may not have come that far."""
        ...

    def touch(self, names: Iterable[str]) -> None:
        """Let objects count as written just now, where that can be said; those that aren't there don't."""
        ...

    def swap(self, name: str, data: bytes, etag: str | None, *, content_type: str | None = None) -> str:
        """Replace what had `etag` (None: what was not there); SwapLost otherwise. The new etag."""
        ...

    def lock(self, name: str) -> AbstractContextManager[bool]:
        """Keep others from swapping `name` meanwhile; False where nobody can be kept waiting."""
        ...

    def upload(self, name: str, file: Path) -> None:
        """Create from a local file, in parts where it is large; FileExistsError if the name is taken."""
        ...

    def download(self, name: str, file: Path) -> None:
        """Copy into a local file, whole or not at all."""
        ...

    def draft(self, name: str) -> Path:
        """A local file to write what will be `name`; nobody sees it before `keep`."""
        ...

    def keep(self, draft: Path, name: str, *, durable: bool = True) -> None:
        """Give a complete draft its name, durably unless that doesn't matter; the draft is gone.
        FileExistsError if it is taken."""
        ...

    def list(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        wanted: Callable[[str], bool] | None = None,
        links: bool = False,
    ) -> Iterator[Named]:
        """Everything below `prefix` (a folder), sorted by name; `after` skips names up to and with it, and
        `wanted` those that it doesn't take. Links are no objects, unless `links` has those that name files;
        folders behind links are never entered."""
        ...

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The names of what lies directly below `prefix` and has something below itself, sorted."""
        ...

    def newest(self, prefix: str, leaf: str, *, after: str = "") -> Iterator[str]:
        """The folders below `prefix` that hold an object called `leaf`, the greatest name first; only those
        greater than `after`."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Killed in between, both may be there."""
        ...

    def delete(self, name: str) -> None:
        """Remove; a name that isn't there is no error."""
        ...

    def delete_found(self, found: Named) -> bool:
        """Remove what a listing found if it still is that very object, untouched since; a link is never
        followed."""
        ...

    def drop_empty(self, name: str) -> bool:
        """Remove the folder `name` if there is such a thing and it is empty."""
        ...

    def recorded(self, file: str | os.PathLike[str]) -> str:
        """The name by which a file is written down so that it is found again: relative below the root, so
        that both can be moved together; absolute, or by its URL, elsewhere. ConfigError if it has none."""
        ...

    def ways_to(self, file: str) -> tuple[str, ...]:
        """The names that somebody may mean by `file`, the likeliest first."""
        ...


def utf8_name(path: str) -> str:
    """`path`, if a log that others read can hold it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"the name {os.fsencode(path)!r} is not UTF-8",
            hint="rename the file: a log that others read can't hold it",
        ) from None
    return path


def in_folders(listed: Iterable[Named], prefix: str, leaf: str) -> list[str]:
    """Of what was listed below `prefix`, the folders that hold an object called `leaf`."""
    steps = (one.name.removeprefix(f"{prefix}/").split("/") for one in listed)
    return [names[0] for names in steps if len(names) == 2 and names[1] == leaf]
