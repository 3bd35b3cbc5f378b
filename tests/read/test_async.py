"""The asynchronous reader says what the other one says, and keeps no event loop waiting for the network."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from support.handmade import ServedTable

import lading
from lading.errors import NotFound, RoutingError
from lading.serve.open.places import ShardPlaces


@pytest.fixture
def table(tmp_path: Path) -> ServedTable:
    table = ServedTable(tmp_path / "ships")
    table.publish({key: b'{"n":%d}' % key for key in range(500)})
    return table


def test_it_says_what_the_reader_says(table: ServedTable) -> None:
    async def ask() -> None:
        async with await lading.open_async(table.root) as reader:
            with lading.open(table.root) as plain:
                assert await reader.get(7) == plain.get(7)
                assert await reader.get(7, decode=True) == {"n": 7}
                assert await reader.get(500) is None
                for count in (3, 400):
                    assert await reader.multi_get(range(count)) == plain.multi_get(range(count))
                assert await reader.info() == plain.info()
                assert (await reader.health())["status"] == "ok"
                assert reader.route(7) == plain.route(7)
                assert reader.shards() == plain.shards()
                assert reader.snapshot == plain.snapshot
            with pytest.raises(RoutingError):
                await reader.get("seven")
            table.publish({7: b"new"})
            assert await reader.get(7) == b'{"n":7}'
            assert await reader.refresh() is True
            assert (await reader.get(7), await reader.get(8)) == (b"new", None)

    asyncio.run(ask())


def test_many_gets_at_once_are_all_right(table: ServedTable) -> None:
    async def ask() -> list[Any]:
        async with await lading.open_async(table.root) as reader:
            return await asyncio.gather(*(reader.get(key) for key in range(500)))

    assert asyncio.run(ask()) == [b'{"n":%d}' % key for key in range(500)]


def test_a_shard_is_opened_in_a_thread_and_asked_on_the_loop(
    table: ServedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []
    plain = ShardPlaces.open

    def noted(self: ShardPlaces, shard: Any) -> Any:
        opened.append(threading.current_thread() is threading.main_thread())
        return plain(self, shard)

    monkeypatch.setattr(ShardPlaces, "open", noted)

    async def ask() -> None:
        async with await lading.open_async(table.root) as reader:
            await reader.get(1)
            assert opened == [False]
            threads = threading.active_count()
            for _ in range(100):
                await reader.get(1)
            assert threading.active_count() == threads and opened == [False]

    asyncio.run(ask())


def test_what_is_not_there_is_said_when_it_is_opened(tmp_path: Path) -> None:
    async def ask() -> None:
        with pytest.raises(NotFound):
            await lading.open_async(tmp_path / "nothing")

    asyncio.run(ask())
