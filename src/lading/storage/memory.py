"""Objects in memory. For tests only: another process sees nothing."""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lading import clock
from lading.layout.beside import fresh_temporary
from lading.storage.protocol import Named, Replaced, SwapLost, TooLarge, in_folders, utf8_name


class MemoryStorage:
    """Objects that live as long as the object that holds them; `Storage` says what each method promises."""

    def __init__(self, url: str = "memory://") -> None:
        self.url = url
        self.prefix = ""
        self._objects: dict[str, tuple[bytes, Named]] = {}
        self._lock = threading.RLock()
        self._count = itertools.count(1)

    @property
    def folder(self) -> None:
        return None

    def get(self, name: str, *, limit: int | None = None) -> bytes:
        return self.get_with_etag(name, limit=limit)[0]

    def get_with_etag(self, name: str, *, limit: int | None = None) -> tuple[bytes, str]:
        data, found = self._find(name)
        if limit is not None and found.size > limit:
            error = TooLarge(f"{name} has {found.size} bytes, more than {limit}", hint="a test wrote it")
            error.etag = found.etag
            raise error
        return data, found.etag

    def get_range(self, name: str, start: int, length: int, *, etag: str | None = None) -> bytes:
        data, found = self._find(name)
        if etag not in (None, found.etag):
            raise Replaced(f"{name} was replaced while it was being read", hint="run again")
        return data[start : start + length]

    def head(self, name: str) -> Named:
        return self._find(name)[1]

    def has(self, name: str) -> bool:
        return name in self._objects

    def sha256(self, name: str) -> tuple[int, str]:
        data = self.get(name)
        return len(data), hashlib.sha256(data).hexdigest()

    def put_new(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        with self._lock:
            if name in self._objects:
                raise FileExistsError(name)
            self.put(name, data)

    def put(
        self, name: str, data: bytes, *, content_type: str | None = None, beside: str | None = None
    ) -> None:
        with self._lock:
            found = Named(name, len(data), str(next(self._count)), clock.now())
            self._objects[name] = (bytes(data), found)

    def put_same(self, objects: Mapping[str, bytes]) -> None:
        for name, data in objects.items():
            self.put(name, data)

    def sync(self, name: str) -> None: ...

    def touch(self, names: Iterable[str]) -> None:
        for name in names:
            if self.has(name):
                self.put(name, self.get(name))

    def swap(self, name: str, data: bytes, etag: str | None, *, content_type: str | None = None) -> str:
        with self._lock:
            if (self.head(name).etag if self.has(name) else None) != etag:
                raise SwapLost(name)
            self.put(name, data)
            return self.head(name).etag

    @contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        with self._lock:
            yield True

    def upload(self, name: str, file: Path) -> None:
        self.put_new(name, file.read_bytes())

    def download(self, name: str, file: Path) -> None:
        beside = file.with_name(fresh_temporary(file.name))
        beside.write_bytes(self.get(name))
        os.replace(beside, file)

    def draft(self, name: str) -> Path:
        handle, file = tempfile.mkstemp(prefix="lading-")
        os.close(handle)
        return Path(file)

    def keep(self, draft: Path, name: str, *, durable: bool = True) -> None:
        self.upload(name, draft)
        draft.unlink()

    def list(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        wanted: Callable[[str], bool] | None = None,
        links: bool = False,
    ) -> Iterator[Named]:
        below = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        for name in sorted(self._objects):
            if name.startswith(below) and name > (after or "") and (wanted is None or wanted(name)):
                yield self.head(name)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        below = f"{prefix}/" if prefix else ""
        rest = (one.name.removeprefix(below) for one in self.list(prefix))
        return tuple(sorted({name.partition("/")[0] for name in rest if "/" in name}))

    def newest(self, prefix: str, leaf: str, *, after: str = "") -> Iterator[str]:
        listed = self.list(prefix, after=f"{prefix}/{after}" if after else None)
        yield from (name for name in reversed(in_folders(listed, prefix, leaf)) if name > after)

    def rename(self, name: str, to: str) -> None:
        self.put(to, self.get(name))
        self.delete(name)

    def delete(self, name: str) -> None:
        self._objects.pop(name, None)

    def delete_found(self, found: Named) -> bool:
        with self._lock:
            if not self.has(found.name) or self.head(found.name) != found:
                return False
            self.delete(found.name)
            return True

    def drop_empty(self, name: str) -> bool:
        return False  # there are no folders

    def recorded(self, file: str | os.PathLike[str]) -> str:
        return utf8_name(os.fspath(file))

    def ways_to(self, file: str) -> tuple[str, ...]:
        return (file,)

    def _find(self, name: str) -> tuple[bytes, Named]:
        try:
            return self._objects[name]
        except KeyError:
            raise FileNotFoundError(name) from None
