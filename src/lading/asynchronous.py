"""The reader for services: the same one, without ever keeping an event loop waiting for the network.

A get from an open shard on disk takes microseconds, a hop to a thread fifty times that. So what is at
hand is answered at once, and what has to be fetched, hashed or read in bulk is done in a thread. There is
no second copy of any logic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from lading.api import Reader
from lading.api import open as open_reader

if TYPE_CHECKING:
    from lading.model import SnapshotRef
    from lading.read.lookup import Hit
    from lading.serve.keys import Key
    from lading.snapshots.manifest import ShardMeta

_T = TypeVar("_T")

_FEW = 16  # keys that are asked for at once without a thread, when their shards are at hand


class AsyncReader:
    """Reads one snapshot of a table, until `refresh`, from async code."""

    def __init__(self, reader: Reader) -> None:
        """`reader` belongs to this object from now on."""
        self._reader = reader

    @property
    def snapshot(self) -> SnapshotRef:
        """The snapshot that this reader sees."""
        return self._reader.snapshot

    async def get(self, key: Key, *, context: Mapping[str, Any] | None = None, decode: bool = False) -> Any:
        """`Reader.get`."""
        reader = self._reader
        if reader.is_at_hand(key, context=context):
            return reader.get(key, context=context, decode=decode)
        return await _in_thread(reader.get, key, context=context, decode=decode)

    async def multi_get(
        self, keys: Iterable[Key], *, context: Mapping[str, Any] | None = None, decode: bool = False
    ) -> dict[Key, Any]:
        """`Reader.multi_get`."""
        reader, wanted = self._reader, list(keys)
        if len(wanted) <= _FEW and all(reader.is_at_hand(key, context=context) for key in wanted):
            return reader.multi_get(wanted, context=context, decode=decode)
        return await _in_thread(reader.multi_get, wanted, context=context, decode=decode)

    async def lookup(self, key: Any) -> Hit:
        """`Reader.lookup`."""
        return await _in_thread(self._reader.lookup, key)

    async def refresh(self) -> bool:
        """`Reader.refresh`; gets in progress are not disturbed."""
        return await _in_thread(self._reader.refresh)

    async def health(self, *, max_age: float | None = None, deep: bool = False) -> dict[str, Any]:
        """`Reader.health`."""
        return await _in_thread(self._reader.health, max_age=max_age, deep=deep)

    async def info(self) -> dict[str, Any]:
        """`Reader.info`."""
        return await _in_thread(self._reader.info)

    def route(self, key: Key, *, context: Mapping[str, Any] | None = None) -> int:
        """`Reader.route`: nothing to wait for."""
        return self._reader.route(key, context=context)

    def shards(self) -> list[ShardMeta]:
        """`Reader.shards`: nothing to wait for."""
        return self._reader.shards()

    async def close(self) -> None:
        """`Reader.close`."""
        await _in_thread(self._reader.close)

    async def __aenter__(self) -> AsyncReader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def open_async(path: str | os.PathLike[str], *args: Any, **options: Any) -> AsyncReader:
    """`lading.open` for async code, with the same arguments."""
    return AsyncReader(await _in_thread(open_reader, path, *args, **options))


async def _in_thread(call: Callable[..., _T], *args: Any, **options: Any) -> _T:
    import asyncio  # here, since `import lading` has to be quick and whoever gets here has it

    return await asyncio.to_thread(call, *args, **options)
