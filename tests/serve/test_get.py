"""One value by key: right, quick, from one snapshot, and never from a file that isn't the published one."""

from __future__ import annotations

import random
import sqlite3
import string
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.handmade import ServedTable, touched
from support.opened import opened_among

import lading
from lading.errors import LadingError, NotFound, RoutingError, UnknownRoutingTokenError
from lading.serve.keys import KeySpec
from lading.serve.routing import Router
from lading.serve.routing_fast import grouper, placer
from lading.snapshots.manifest import Sharding


def values(count: int, mark: str = "") -> dict[int, bytes]:
    return {key: b'{"ship":"%d%s"}' % (key, mark.encode()) for key in range(count)}


@pytest.fixture
def table(tmp_path: Path) -> ServedTable:
    return ServedTable(tmp_path / "ships")


def test_a_get_gives_the_stored_bytes_and_none_for_an_absent_key(table: ServedTable) -> None:
    table.publish(values(100))
    with lading.open(table.root) as reader:
        assert reader.get(7) == b'{"ship":"7"}'
        assert reader.get(7, decode=True) == {"ship": "7"}
        assert reader.get(100) is None
        assert reader.get(100, decode=True) is None


def test_every_key_is_found_and_no_other(table: ServedTable) -> None:
    kept = {key: str(key).encode() for key in random.Random(1).sample(range(10_000), 3_000)}
    table.publish(kept)
    with lading.open(table.root) as reader:
        assert {key: reader.get(key) for key in range(10_000)} == dict.fromkeys(range(10_000)) | kept


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 17, 300, 2_000])
def test_multi_get_says_what_as_many_gets_say(table: ServedTable, count: int) -> None:
    table.publish(values(1_000))
    keys = random.Random(2).choices(range(1_500), k=count)
    with lading.open(table.root) as reader:
        assert reader.multi_get(keys) == {key: reader.get(key) for key in keys}
        assert reader.multi_get(iter(keys[:3]), decode=True) == {
            key: reader.get(key, decode=True) for key in keys[:3]
        }


@pytest.mark.parametrize(
    ("key_encoding", "keys"),
    [
        ("utf8", ["", "a", "IMO 9074729", "zü\N{SNOWMAN}", "a\0b", "x" * 500]),
        ("raw", [b"", b"\0", b"\xff\xfe", b"abc"]),
        ("u32be", [0, 1, 2**32 - 1]),
        ("u64be", [0, 1, 2**63 - 1]),
    ],
)
def test_keys_of_every_encoding_are_found(tmp_path: Path, key_encoding: str, keys: list[Any]) -> None:
    table = ServedTable(tmp_path / "t", key_encoding=key_encoding, encoding="raw", num_dbs=3)
    table.publish({key: repr(key).encode() for key in keys})
    with lading.open(table.root) as reader:
        for key in keys:
            assert reader.get(key, decode=True) == repr(key).encode()
        assert reader.multi_get(keys) == {key: repr(key).encode() for key in keys}


def test_the_short_way_to_a_shard_leads_where_the_long_way_does() -> None:
    chance = random.Random(3)
    letters = string.printable + "äß\N{SNOWMAN}"
    texts = ["".join(chance.choices(letters, k=chance.randrange(20))) for _ in range(2_000)]
    ints = [chance.randrange(2 ** chance.choice([8, 32, 63])) for _ in range(2_000)]
    for encoding, kind, keys in (("u64be", "int", ints), ("utf8", "str", texts)):
        spec = KeySpec(("imo",), (kind,), encoding)  # type: ignore[arg-type]
        router = Router(spec, 13, Sharding(hash_algorithm="xxh3_64"))
        place = placer(router)
        assert [place(key) for key in keys] == [(router.route(key), spec.stored(key)) for key in keys]
        for fast in (True, False):
            grouped = grouper(router, place, fast=fast)(keys)
            found = {
                (number, stored, key) for number, some in grouped.items() for stored, key in some.items()
            }
            assert found == {(router.route(key), spec.stored(key), key) for key in keys}


@pytest.mark.parametrize("key", ["7", 7.0, True, None, b"7", -1, 2**63])
def test_a_key_that_can_not_be_one_is_refused(table: ServedTable, key: Any) -> None:
    table.publish(values(10))
    with lading.open(table.root) as reader:
        for ask in (reader.get, reader.route, lambda key: reader.multi_get([1, key])):
            with pytest.raises(RoutingError):
                ask(key)


def test_a_table_that_is_not_served_says_so(table: ServedTable) -> None:
    published = table.publish({})
    with closing(sqlite3.connect(table.root / published.ref)) as connection, connection:
        connection.execute("UPDATE build_meta SET custom = json_remove(custom, '$.serve')")
    with lading.open(table.root) as reader:
        assert reader.info()["served"] is False
        for ask in (reader.get, reader.route, lambda key: reader.multi_get([key])):
            with pytest.raises(NotFound, match="ships is not served by key"):
                ask(1)
        with pytest.raises(NotFound):
            reader.get(1, context={"region": "eu"})
        with pytest.raises(NotFound):
            reader.multi_get([1], context={"region": "eu"})


def test_a_served_table_without_rows_answers_none(table: ServedTable) -> None:
    table.publish({})
    with lading.open(table.root) as reader:
        assert reader.get(1) is None
        assert reader.multi_get([1, 2]) == {1: None, 2: None}
        assert reader.shards() == []
        assert reader.health()["status"] == "ok"


def test_categories_need_their_context(tmp_path: Path) -> None:
    sharding = Sharding(
        strategy="cel", hash_algorithm="xxh3_64", cel_expr="region",
        cel_columns={"region": "string"}, routing_values=("eu", "us"),
    )  # fmt: skip
    table = ServedTable(tmp_path / "t", num_dbs=2, sharding=sharding, format_version=3)
    with pytest.MonkeyPatch.context() as patch:  # the key alone doesn't say where it goes
        patch.setattr(Router, "route", lambda self, key, context=None: 1)
        table.publish({5: b"five"})
    with lading.open(table.root) as reader:
        assert reader.get(5, context={"region": "us"}) == b"five"
        assert reader.get(5, context={"region": "eu"}) is None
        assert reader.multi_get([5, 6], context={"region": "us"}) == {5: b"five", 6: None}
        assert reader.route(5, context={"region": "us"}) == 1
        with pytest.raises(RoutingError, match="alone does not say"):
            reader.get(5)
        with pytest.raises(UnknownRoutingTokenError):
            reader.get(5, context={"region": "mars"})


@pytest.mark.acceptance("M20")
def test_a_reader_opens_with_two_reads_then_routes_and_lists_nothing(table: ServedTable) -> None:
    published = table.publish(values(100))
    with touched(table.root) as seen, lading.open(table.root) as reader:
        assert list(dict.fromkeys(seen)) == ["open _CURRENT", f"open {published.ref}"]
        seen.clear()
        assert reader.get(3) == b'{"ship":"3"}'
        [shard] = [one for one in reader.shards() if one.db_id == reader.route(3)]
        assert set(seen) == {f"open {shard.db_url}/shard.db"}
        seen.clear()
        assert reader.get(3) == b'{"ship":"3"}'
        assert reader.multi_get([3]) == {3: b'{"ship":"3"}'}
        assert seen == []


def test_what_a_reader_says_of_itself(table: ServedTable) -> None:
    table.publish(values(100))
    with lading.open(table.root) as reader:
        assert reader.info()["serve"] == {
            "key": ["imo"], "key_encoding": "u64be", "encoding": "json", "strategy": "hash", "context": {},
            "num_dbs": 4, "shards": 4, "keys": 100, "bytes": sum(one.db_bytes for one in reader.shards()),
        }  # fmt: skip
        assert [one.db_id for one in reader.shards()] == [0, 1, 2, 3]
        counts = [sum(reader.route(key) == number for key in range(100)) for number in range(4)]
        assert [one.row_count for one in reader.shards()] == counts


def test_a_reader_keeps_its_snapshot_until_it_is_refreshed(table: ServedTable) -> None:
    first = table.publish(values(10))
    with lading.open(table.root) as reader, lading.open(table.root) as other:
        second = table.publish({1: b"one"})
        assert (reader.get(1), reader.get(2)) == (b'{"ship":"1"}', b'{"ship":"2"}')
        assert reader.snapshot.ref == first.ref
        assert reader.refresh() is True
        assert (reader.get(1), reader.get(2)) == (b"one", None)
        assert reader.snapshot.ref == second.ref
        assert reader.refresh() is False
        assert other.get(2) == b'{"ship":"2"}'
    with lading.open(table.root, offset=1) as before:
        assert before.get(2) == b'{"ship":"2"}'


def test_a_refresh_closes_what_changed_and_keeps_open_what_did_not(table: ServedTable) -> None:
    table.publish(values(100))
    with lading.open(table.root) as reader:
        reader.multi_get(range(100))
        number = reader.route(5)
        before = reader._view.keys
        table.publish(values(100) | {5: b"changed"})
        with touched(table.root) as seen:
            assert reader.refresh()
            assert reader.multi_get(range(100)) == values(100) | {5: b"changed"}
        opened = [one for one in seen if one.endswith("shard.db")]
        assert set(opened) == {f"open {reader.shards()[number].db_url}/shard.db"}
        kept = {id(shard) for shard in reader._view.keys.opened()}
        for shard in before.opened():
            assert shard.retired == (id(shard) not in kept)
            assert not (shard.retired and shard.idle)


def test_a_closed_reader_says_so(table: ServedTable) -> None:
    table.publish(values(10))
    reader = lading.open(table.root)
    assert reader.get(1)
    reader.close()
    reader.close()
    for ask in (lambda: reader.get(1), lambda: reader.multi_get([1]), reader.refresh, reader.info):
        with pytest.raises(LadingError, match="this reader is closed"):
            ask()


def test_sixteen_threads_get_what_one_gets(table: ServedTable) -> None:
    table.publish(values(2_000))
    wrong: list[Any] = []

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(300):
            key = chance.randrange(2_500)
            if reader.get(key) != (b'{"ship":"%d"}' % key if key < 2_000 else None):
                wrong.append(key)
            keys = chance.sample(range(2_000), 20)
            if reader.multi_get(keys) != {key: b'{"ship":"%d"}' % key for key in keys}:
                wrong.append(keys)

    with lading.open(table.root) as reader:
        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        shards = reader._view.keys.opened()
        assert all(len(shard.idle) <= 16 for shard in shards)
    assert all(shard.idle == [] for shard in shards)


def test_a_get_opens_no_file_that_is_open(table: ServedTable) -> None:
    table.publish(values(5_000))
    keys = random.Random(4).choices(range(5_000), k=20_000)
    files = [path for path in table.root.rglob("*") if path.is_file()]
    with lading.open(table.root) as reader:
        reader.multi_get(keys)
        with opened_among(files) as opened:
            for key in keys:
                reader.get(key)
    assert opened == set()
