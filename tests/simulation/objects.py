"""A bucket in memory that answers as obstore does: what `lading.storage.bucket` talks to in a simulation.

A put that asks for a condition is decided when it reaches the bucket, which may be later than its answer. A
listing comes page by page and is no moment in time: it has all that was there when it was asked for, and of
what came since any part, so that it may leave out an object and have one that was created after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore.exceptions as exceptions

from simulation.kernel import Process, World, current_task

_PAGE = 3


class Bucket:
    """The objects: name -> (content, meta)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.objects: dict[str, tuple[bytes, dict[str, Any]]] = {}
        self.written = 0
        self.before_write: Callable[[str, bytes], None] = lambda name, data: None
        self._created: dict[str, int] = {}  # by name: how many writes there were by then

    def write(self, name: str, data: bytes) -> dict[str, Any]:
        self.before_write(name, data)
        self.written += 1
        if name not in self.objects:
            self._created[name] = self.written
        meta = {
            "path": name,
            "size": len(data),
            "e_tag": f'"{hashlib.md5(data).hexdigest()}"',  # as S3's: equal content has equal tags
            "last_modified": self.world.time(),
            "version": str(self.written),
        }
        self.objects[name] = (data, meta)
        return meta

    def names(self, below: str, since: int) -> list[str]:
        """What a listing that was asked for after `since` writes has, in order."""
        found = [one for one in self.objects if one.startswith(below)]
        return sorted(one for one in found if self._created[one] <= since or not self._left_out())

    def _left_out(self) -> bool:
        return not self.world.calm and self.world.chance.random() < 0.5


class Prefix:
    """A bucket and a prefix in it: what obstore calls a store."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""


class Result:
    def __init__(self, data: bytes, meta: dict[str, Any]) -> None:
        self.meta, self._data = meta, data

    def bytes(self) -> bytes:
        return self._data

    def stream(self, min_chunk_size: int = 0) -> Iterator[bytes]:
        yield self._data


class Obstore:
    """The functions of the module `obstore` that lading calls."""

    exceptions = exceptions

    def get(self, store: Prefix, name: str, options: dict[str, Any] | None = None) -> Result:
        data, meta = self._found(store, "get", name)
        if options and "range" in options:
            start, end = options["range"]
            data = data[start:end]
        return Result(data, meta)

    def get_range(self, store: Prefix, name: str, *, start: int, length: int) -> bytes:
        return self._found(store, "get", name)[0][start : start + length]

    def head(self, store: Prefix, name: str) -> dict[str, Any]:
        return self._found(store, "head", name)[1]

    def put(self, store: Prefix, name: str, data: Any, *, mode: Any = None, **_: Any) -> dict[str, Any]:
        content = data.read_bytes() if isinstance(data, Path) else bytes(data)
        bucket, path = store.bucket, store.prefix + name
        world = bucket.world

        def arrive() -> dict[str, Any]:
            there = bucket.objects.get(path)
            if mode == "create" and there is not None:
                raise exceptions.AlreadyExistsError(path)
            if isinstance(mode, dict) and (there is None or there[1]["e_tag"] != mode["e_tag"]):
                raise exceptions.PreconditionError(path)
            return bucket.write(path, content)

        world.effect("put" if mode is None else "put-if", path)
        if world.happens("refused"):
            raise exceptions.GenericError(f"error sending request: put {path}")
        if world.happens("late"):
            self._later(world, path, arrive)
            raise exceptions.GenericError(f"error sending request: put {path}, which is on its way")
        meta = arrive()
        if world.happens("lost"):
            world.effect("lost", path)
            raise exceptions.GenericError(f"error sending request: put {path}, which arrived")
        if world.happens("doubled"):
            world.effect("doubled", path)
            meta = arrive()
        return {"e_tag": meta["e_tag"], "version": meta["version"]}

    def list(self, store: Prefix, prefix: str | None = None, offset: str | None = None) -> Iterator[Any]:
        below = store.prefix + (f"{prefix}/" if prefix else "")
        last = store.prefix + offset if offset else ""
        asked = store.bucket.written
        while True:
            store.bucket.world.effect("list", below)
            if store.bucket.world.happens("refused"):
                raise exceptions.GenericError(f"error sending request: list {below}")
            names = [one for one in store.bucket.names(below, asked) if one > last][:_PAGE]
            if not names:
                return
            last = names[-1]
            yield [self._outside(store, store.bucket.objects[one][1]) for one in names]

    def list_with_delimiter(self, store: Prefix, prefix: str | None = None) -> dict[str, Any]:
        below = store.prefix + (f"{prefix}/" if prefix else "")
        asked = store.bucket.written
        store.bucket.world.effect("list", below)
        rest = (one.removeprefix(below) for one in store.bucket.names(below, asked))
        shown = {one.partition("/")[0] for one in rest if "/" in one}
        return {"common_prefixes": [f"{prefix}/{one}" if prefix else one for one in sorted(shown)]}

    def delete(self, store: Prefix, name: str) -> None:
        world, path = store.bucket.world, store.prefix + name
        world.effect("delete", path)
        if world.happens("refused"):
            raise exceptions.GenericError(f"error sending request: delete {path}")
        store.bucket.objects.pop(path, None)
        if world.happens("lost"):
            raise exceptions.GenericError(f"error sending request: delete {path}, which arrived")

    def _found(self, store: Prefix, kind: str, name: str) -> tuple[bytes, dict[str, Any]]:
        world, path = store.bucket.world, store.prefix + name
        world.effect(kind, path)
        if world.happens("refused"):
            raise exceptions.GenericError(f"error sending request: {kind} {path}")
        if path not in store.bucket.objects:
            raise exceptions.NotFoundError(path)
        data, meta = store.bucket.objects[path]
        return data, self._outside(store, meta)

    @staticmethod
    def _outside(store: Prefix, meta: dict[str, Any]) -> dict[str, Any]:
        return {**meta, "path": meta["path"].removeprefix(store.prefix)}

    @staticmethod
    def _later(world: World, path: str, arrive: Any) -> None:
        def deliver() -> None:
            world.sleep(world.chance.choice((0.01, 0.2, 5, 300)))
            try:
                arrive()
                world.tell("network", "delivered", path)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                world.tell("network", "too late", path)

        assert current_task() is not None
        world.spawn(Process("network"), "network", deliver)
