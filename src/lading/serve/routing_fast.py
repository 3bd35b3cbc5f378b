"""From keys to their shards and stored forms in one step, for loops that count nanoseconds.

serve/routing.py decides; for the commonest case, whole numbers spread by hash, the same is said here
without the questions whose answer depends on the table alone. Any other key goes the long way, which
also has the errors. A test holds the ways against each other.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import xxhash

from lading.serve.routing import Router

# By shard: the stored form of each key, and the key.
Grouped = Mapping[int, dict[bytes, Any]]

_WIDTHS = {"u64be": (8, 1 << 63), "u32be": (4, 1 << 32)}

_pack = struct.Struct("<q").pack
_hash = xxhash.xxh3_64_intdigest


def placer(router: Router) -> Callable[[Any], tuple[int, bytes]]:
    """key -> (shard, stored key), for keys that need nothing beside them to be routed."""
    route, encode, count = router.route, router.key.encoder(), router.num_dbs

    def place(key: Any) -> tuple[int, bytes]:
        return route(key), encode(key)

    if not router.by_hash or router.key.is_composite:
        return place
    if router.key.encoding == "utf8":

        def place_text(key: Any) -> tuple[int, bytes]:
            if type(key) is not str or not key.isascii():
                return route(key), encode(key)
            stored = key.encode()
            return _hash(stored) % count, stored

        return place_text
    if router.key.encoding not in _WIDTHS:
        return place
    width, limit = _WIDTHS[router.key.encoding]

    def place_int(key: Any) -> tuple[int, bytes]:
        if type(key) is not int or not 0 <= key < limit:
            return route(key), encode(key)
        return _hash(_pack(key)) % count, key.to_bytes(width, "big")

    return place_int


def grouper(
    router: Router, place: Callable[[Any], tuple[int, bytes]], *, fast: bool
) -> Callable[[Iterable[Any]], Grouped]:
    """`place` of many keys; without a call for each where `fast` allows it, that is where `place` is what
    `placer` gives."""
    count = router.num_dbs

    def group(keys: Iterable[Any]) -> Grouped:
        found: defaultdict[int, dict[bytes, Any]] = defaultdict(dict)
        for key in keys:
            number, stored = place(key)
            found[number][stored] = key
        return found

    if not fast or not router.by_hash or router.key.is_composite or router.key.encoding not in _WIDTHS:
        return group
    width, limit = _WIDTHS[router.key.encoding]

    def group_ints(keys: Iterable[Any]) -> Grouped:
        found: defaultdict[int, dict[bytes, Any]] = defaultdict(dict)
        for key in keys:
            if type(key) is int and 0 <= key < limit:
                found[_hash(_pack(key)) % count][key.to_bytes(width, "big")] = key
            else:
                number, stored = place(key)
                found[number][stored] = key
        return found

    return group_ints
