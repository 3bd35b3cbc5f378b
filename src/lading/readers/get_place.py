"""From a key to its shard and its stored form in one step, for loops that count nanoseconds.

format/routing.py decides; for the commonest case, whole numbers spread by hash, the same is said here
without the questions whose answer depends on the table alone. Any other key goes the long way, which
also has the errors. A test holds the two against each other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import xxhash

from lading.format.routing import Router

_pack = struct.Struct("<q").pack
_hash = xxhash.xxh3_64_intdigest


def placer(router: Router) -> Callable[[Any], tuple[int, bytes]]:
    """key -> (shard, stored key), for keys that need nothing beside them to be routed."""
    route, encode, count = router.route, router.key.encoder(), router.num_dbs

    def place(key: Any) -> tuple[int, bytes]:
        return route(key), encode(key)

    widths = {"u64be": (8, 1 << 63), "u32be": (4, 1 << 32)}
    if not router.by_hash or router.key.is_composite:
        return place
    if router.key.encoding == "utf8":

        def place_text(key: Any) -> tuple[int, bytes]:
            if type(key) is not str or not key.isascii():
                return route(key), encode(key)
            stored = key.encode()
            return _hash(stored) % count, stored

        return place_text
    if router.key.encoding not in widths:
        return place
    width, limit = widths[router.key.encoding]

    def place_int(key: Any) -> tuple[int, bytes]:
        if type(key) is not int or not 0 <= key < limit:
            return route(key), encode(key)
        return _hash(_pack(key)) % count, key.to_bytes(width, "big")

    return place_int
