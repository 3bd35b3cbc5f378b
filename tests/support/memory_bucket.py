"""A bucket in memory: nobody can be kept waiting, references are URLs, and a test may get between any two
requests."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from lading.errors import StorageError
from lading.storage.memory import MemoryStorage
from lading.storage.protocol import utf8_name

Hook = Callable[[str, str], None]  # of a request's kind and its object


class MemoryBucket(MemoryStorage):
    """`before` and `after` are called around each request; what they raise is the answer."""

    def __init__(self) -> None:
        url = f"s3://memory/{uuid.uuid4().hex}"  # copies in caches outlive a test
        super().__init__(url)
        self.prefix = f"{url}/"
        self.before: Hook = lambda kind, name: None
        self.after: Hook = lambda kind, name: None

    def lock(self, name: str) -> contextlib.AbstractContextManager[bool]:
        return contextlib.nullcontext(False)

    def recorded(self, file: str | os.PathLike[str]) -> str:
        return utf8_name(os.fspath(file).removeprefix(self.prefix))

    def get_with_etag(self, name: str, *, limit: int | None = None) -> tuple[bytes, str]:
        return self._asked("get", name, lambda: super(MemoryBucket, self).get_with_etag(name, limit=limit))

    def put_new(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        self._asked("put_new", name, lambda: super(MemoryBucket, self).put_new(name, data))

    def swap(self, name: str, data: bytes, etag: str | None, *, content_type: str | None = None) -> str:
        return self._asked("swap", name, lambda: super(MemoryBucket, self).swap(name, data, etag))

    def delete(self, name: str) -> None:
        self._asked("delete", name, lambda: super(MemoryBucket, self).delete(name))

    def _asked(self, kind: str, name: str, do: Callable[[], Any]) -> Any:
        self.before(kind, name)
        done = do()
        self.after(kind, name)
        return done


def connect(bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place in a bucket is in this one."""
    import lading.storage.place as place

    real = place._connected
    monkeypatch.setattr(
        place, "_connected", lambda url, options: bucket if "://" in url else real(url, options)
    )


def once(kind: str, name: str, do: Callable[[], None]) -> Hook:
    """`do` at the first such request; what it asks for itself passes."""
    done: list[bool] = []

    def hook(asked: str, of: str) -> None:
        if not done and asked == kind and of.endswith(name):
            done.append(True)
            do()

    return hook


def no_answer() -> None:
    raise StorageError("error sending request", hint="check the network")
