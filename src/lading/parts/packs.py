"""Things of various sizes, in packs of about the same: what one task after the other takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Thing = TypeVar("_Thing")


def packed(
    things: Sequence[_Thing],
    size: Callable[[_Thing], int],
    share: int,
    *,
    most: int | None = None,
    stays: Callable[[_Thing, _Thing], bool] = lambda before, thing: False,
) -> Iterator[list[_Thing]]:
    """In their order, no more packs than `share` calls for: a short last one, or one too many, would keep a
    core waiting. `most` is how many a pack may hold; one that `stays` with the one before it isn't parted
    from it."""
    total = sum(map(size, things))
    count = max(1, -(-total // max(1, share)))
    each = max(1.0, total / count)
    pack: list[_Thing] = []
    held = number = 0
    for thing in things:
        its = min(int((held + size(thing) / 2) / each), count - 1)  # what has no size goes with the last
        full = most is not None and len(pack) >= most
        if pack and (its > number or full) and not stays(pack[-1], thing):
            yield pack
            pack, number = [], its
        pack.append(thing)
        held += size(thing)
    if pack:
        yield pack
