"""The id that every row carries of the file it came from.

It is a function of the key alone, so that it stays the same across writers, merges and rebuilds,
and nobody has to hand out numbers. 64 bits make a collision improbable, not impossible: two files
with one id would replace each other's rows, so a collision stops the plan.
"""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

from lading.errors import SourceError


def source_id(key: str) -> int:
    """xxh3_64 of the key's UTF-8 bytes, seed 0, as a signed 64-bit integer."""
    unsigned = xxhash.xxh3_64_intdigest(key.encode())
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned


def check_collisions(keys: Iterable[str]) -> None:
    """Refuse two files with one key, and two keys with one id."""
    holders: dict[int, str] = {}
    for key in keys:
        source = source_id(key)
        other = holders.setdefault(source, key)
        if other is key:
            continue
        if other == key:
            raise SourceError(
                f"two source files have the key {key!r}",
                hint="a key is the path below the table's root: let each file be found under one root only",
                file=key,
            )
        raise SourceError(
            f"the keys {other!r} and {key!r} have the same source id {source}",
            hint="rename one of the two files: the id is a hash of the key",
            file=key,
        )
