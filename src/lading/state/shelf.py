"""Where the pages of a table lie: files below its root, or objects in a bucket, which are fetched once.

A copy of an object lies in the cache folder under the page's own name: the name says what it holds, so that a
copy is never out of date. Without a cache the last pages that were fetched are kept in memory.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from lading.layout.project import PAGE_COPIES
from lading.layout.table import fresh_page_name, page_path
from lading.model import Place
from lading.state.edit import PageRef
from lading.state.page import Read
from lading.storage.folder import make_dirs
from lading.storage.place import storage_of

_IN_MEMORY = 256 << 20  # bytes of pages of a bucket without a cache
_IN_CACHE = 2 << 30  # bytes of copies of one table's pages
_AT_ONCE = 16  # pages that are fetched at the same time
_MAY_STAY_OPEN = [None] * 128  # one for each file of a page that may; popping and appending are atomic


class _File:
    """A file that is read in pieces. The first ones stay open as long as somebody may ask, others are opened
    for each time: a table may have more pages than a process may have files."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None
        self._lock = threading.Lock()

    def __call__(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        fd = self._fd if self._fd is not None else self._open()
        try:
            return [os.pread(fd, length, start) for start, length in wanted]
        finally:
            if fd != self._fd:
                os.close(fd)

    def _open(self) -> int:
        with self._lock:
            if self._fd is None:
                fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    _MAY_STAY_OPEN.pop()
                except IndexError:
                    return fd
                self._fd = fd
            return self._fd

    def __del__(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            _MAY_STAY_OPEN.append(None)


def read_bytes(content: bytes) -> Read:
    return lambda wanted: [content[start : start + length] for start, length in wanted]


class PageShelf:
    """The pages below one table's root."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._fetched: OrderedDict[str, bytes] = OrderedDict()

    @cached_property
    def _folder(self) -> Path | None:
        """None in a bucket."""
        return storage_of(self._place).folder

    def path(self, name: str) -> str:
        """For people."""
        return f"{self._place}/{page_path(name)}" if str(self._place) else page_path(name)

    def reader(self, ref: PageRef) -> Read:
        """How a page is read; nothing is read yet."""
        if self._folder is not None:
            return _File(f"{self._folder}/{page_path(ref.name)}")
        return lambda wanted: self._local(ref)(wanted)

    def original(self, ref: PageRef) -> Read:
        """The page itself, whatever copies there are: for who checks it."""
        if self._folder is not None:
            return self.reader(ref)
        return lambda wanted: read_bytes(storage_of(self._place).get(page_path(ref.name)))(wanted)

    def forget(self, ref: PageRef) -> None:
        """A copy that isn't what it should be: it is fetched anew."""
        self._fetched.pop(ref.name, None)
        if self._place.cache is not None and self._folder is None:
            self._copy(ref).unlink(missing_ok=True)

    def fetch(self, refs: Iterable[PageRef]) -> None:
        """Have pages at hand that are about to be read: from a bucket, many at a time."""
        if self._folder is not None:
            return
        missing = [ref for ref in refs if not self._is_here(ref)]
        if len(missing) > 1:
            with ThreadPoolExecutor(min(_AT_ONCE, len(missing))) as pool:
                list(pool.map(self._try, missing))

    def put(self, pages: Mapping[str, bytes]) -> None:
        """Write pages, durably; what is there already is made to look new, so that cleaning leaves it."""
        if pages:
            storage_of(self._place).put_same({page_path(name): data for name, data in pages.items()})

    def keep(self, pages: Mapping[str, bytes]) -> dict[str, str]:
        """Write pages that no root names yet; the names that they got, where those are others. In a bucket
        nobody can keep an object that is being deleted from going, so there no name is used twice."""
        if self._folder is not None:
            self.put(pages)
            return {}
        names = {name: fresh_page_name(name) for name in pages}
        self.put({names[name]: content for name, content in pages.items()})
        return names

    def touch(self, names: Iterable[str]) -> None:
        """For pages that are about to be named by no checkpoint: from now on they are kept for a while."""
        storage_of(self._place).touch(map(page_path, names))

    def _try(self, ref: PageRef) -> None:
        with suppress(FileNotFoundError):  # told when it is read
            self._local(ref)

    def _is_here(self, ref: PageRef) -> bool:
        return ref.name in self._fetched or (self._place.cache is not None and self._copy(ref).exists())

    def _local(self, ref: PageRef) -> Read:
        if self._place.cache is not None:
            return _File(str(self._copied(ref)))
        content = self._fetched.get(ref.name)
        if content is None:
            content = storage_of(self._place).get(page_path(ref.name))
            self._fetched[ref.name] = content
            while len(self._fetched) > 1 and sum(map(len, list(self._fetched.values()))) > _IN_MEMORY:
                self._fetched.popitem(last=False)
        return read_bytes(content)

    def _copy(self, ref: PageRef) -> Path:
        assert self._place.cache is not None
        table = hashlib.sha256(self._place.url.encode()).hexdigest()[:32]
        return Path(self._place.cache) / PAGE_COPIES / table / ref.name

    def _copied(self, ref: PageRef) -> Path:
        path = self._copy(ref)
        try:
            whole = path.stat().st_size == ref.bytes
        except FileNotFoundError:
            whole = False
        if not whole:
            make_dirs(path.parent)
            storage_of(self._place).download(page_path(ref.name), path)
            _make_room(path)
        return path


def _make_room(newest: Path) -> None:
    """Drop the oldest copies; whoever reads one fetches it again."""
    copies = []
    with suppress(FileNotFoundError), os.scandir(newest.parent) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # other readers drop and rename theirs meanwhile
                copies.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    room = sum(size for _, size, _ in copies) - _IN_CACHE
    for _, size, path in sorted(copies):
        if room <= 0:
            return
        if path != str(newest):
            Path(path).unlink(missing_ok=True)
            room -= size
