"""Named bytes: what an object store and a folder have in common, and all that lading asks of either.

Names are relative, with "/". Everything is written once under a fresh name (`put_new`); the one thing
that moves is moved by `swap`, which succeeds only if it still is what the caller saw. An answer that
got lost shows up as FileExistsError or SwapLost like somebody else's write would: the caller reads
the object back and decides by its content whose it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Named:
    """One object in a listing."""

    name: str
    size: int
    etag: str
    modified: datetime  # UTC


class SwapLost(Exception):
    """The object is no longer what the caller saw: read it again."""


class Storage(Protocol):
    """A root and the objects below it. A missing object is FileNotFoundError everywhere."""

    @property
    def url(self) -> str:
        """The root, without credentials: safe to print."""
        ...

    def get(self, name: str) -> bytes: ...

    def get_with_etag(self, name: str) -> tuple[bytes, str]:
        """The content and the etag to hand to `swap`."""
        ...

    def get_range(self, name: str, start: int, length: int) -> bytes: ...

    def head(self, name: str) -> Named: ...

    def put_new(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        """Create, durable and whole; FileExistsError if the name is taken."""
        ...

    def swap(self, name: str, data: bytes, etag: str | None) -> str:
        """Replace what had `etag` (None: what was not there); SwapLost otherwise. The new etag."""
        ...

    def upload(self, name: str, file: Path) -> None:
        """Create from a local file, in parts where it is large; FileExistsError if the name is taken."""
        ...

    def download(self, name: str, file: Path) -> None:
        """Copy into a local file, whole or not at all."""
        ...

    def list(self, prefix: str = "", *, after: str | None = None) -> Iterator[Named]:
        """Everything below `prefix` (a folder), sorted by name; `after` skips names up to and with it."""
        ...

    def delete(self, name: str) -> None:
        """Remove; a name that isn't there is no error."""
        ...
