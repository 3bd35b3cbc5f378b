"""Whether rows from two origins are the same, in whatever order they come.

Floats may differ by one part in 10^9, as sums of the same numbers do when they are added in another order.
So rows can't be sorted and held against each other: two sums whose last digits differ may change places, and
take the rest of their rows along. What a row has besides floats puts it into a group; there, each row has to
find one of the other side for itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

TOLERANCE = 1e-9

Row = tuple[Any, ...]
Floats = tuple[float, ...]


def plain_rows(rows: pa.RecordBatch | pa.Table) -> list[Row]:
    """Rows as Python has them, with times as numbers: it has neither a year 0 nor a year 10000."""
    columns = [column.cast(_without_times(column.type)).to_pylist() for column in rows.columns]
    return list(zip(*columns, strict=True))


def _without_times(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(dtype):
        return pa.int64()
    if pa.types.is_date32(dtype):
        return pa.int32()
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_without_times(field.type)) for field in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_without_times(dtype.value_type)))
    if pa.types.is_map(dtype):
        return pa.map_(_without_times(dtype.key_type), _without_times(dtype.item_type))
    return dtype


def same_rows(held: Sequence[Row], fresh: Sequence[Row], *, aside: int = 0) -> bool:
    """Whether `held` are the rows of `fresh`, without as many as were set `aside`."""
    if len(held) + aside != len(fresh):
        return False
    mine, theirs = _groups(held), _groups(fresh)
    return all(_found(floats, theirs.get(key, [])) for key, floats in mine.items())


def _groups(rows: Iterable[Row]) -> dict[Row, list[Floats]]:
    """The floats of each row, by all else that it has."""
    groups: dict[Row, list[Floats]] = {}
    for row in rows:
        floats: list[float] = []
        groups.setdefault(tuple(_rest(value, floats) for value in row), []).append(tuple(floats))
    return groups


def _rest(value: Any, floats: list[float]) -> Any:
    """A value with its floats taken out; NaN and infinity are like nothing but themselves."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return repr(value)
        floats.append(value)
        return float
    if isinstance(value, (list, tuple)):
        return tuple(_rest(one, floats) for one in value)
    if isinstance(value, dict):
        return tuple((name, _rest(one, floats)) for name, one in value.items())
    return value


def _found(mine: list[Floats], theirs: list[Floats]) -> bool:
    """Whether each of `mine` can be given one of `theirs` for itself."""
    if not mine[0]:
        return len(mine) <= len(theirs)
    return all(not few or _few_found(few, others) for few, others in _apart(mine, theirs))


def _apart(mine: list[Floats], theirs: list[Floats]) -> list[tuple[list[Floats], list[Floats]]]:
    """Both in pieces, so small that most have one row of either side: rows of different pieces are never the
    same."""
    pieces = [(mine, theirs)]
    while True:
        finer = pieces
        for at in range(len(mine[0])):
            finer = [piece for both in finer for piece in _apart_at(at, *both)]
        if len(finer) == len(pieces):
            return finer
        pieces = finer


def _apart_at(
    at: int, mine: list[Floats], theirs: list[Floats]
) -> Iterator[tuple[list[Floats], list[Floats]]]:
    """Cut where a float and the next larger one are not the same: none below is the same as any above."""
    piece: tuple[list[Floats], list[Floats]] = ([], [])
    last: float | None = None
    both = [*((row[at], 0, row) for row in mine), *((row[at], 1, row) for row in theirs)]
    for value, side, row in sorted(both, key=itemgetter(0)):
        if last is not None and not _near(last, value):
            yield piece
            piece = ([], [])
        piece[side].append(row)
        last = value
    yield piece


def _few_found(mine: list[Floats], theirs: list[Floats]) -> bool:
    """The same of rows that may be hard to tell apart: the simple cases first, of which there may be many."""
    if len(mine) > len(theirs):
        return False
    if all(_near(min(column), max(column)) for column in zip(*mine, *theirs, strict=True)):
        return True
    mine, theirs = sorted(mine), sorted(theirs)
    if len(mine) == len(theirs) and all(map(_same, mine, theirs)):
        return True
    return _can_be_given(mine, theirs)


def _can_be_given(mine: list[Floats], theirs: list[Floats]) -> bool:
    """Each takes one that is free, or one whose owner can be given another: along augmenting paths, which
    find a way if there is one. `theirs` are sorted."""
    first = [row[0] for row in theirs]
    owner: dict[int, int] = {}  # of theirs
    given: dict[int, int] = {}  # the same from the other side

    def same_as(row: Floats) -> Iterator[int]:
        wide = 2 * TOLERANCE * abs(row[0])
        around = range(bisect_left(first, row[0] - wide), bisect_right(first, row[0] + wide))
        return (number for number in around if _same(row, theirs[number]))

    def give(one: int) -> bool:
        asked: dict[int, int] = {}  # of theirs: for whom
        waiting = deque([one])
        while waiting:
            asking = waiting.popleft()
            for number in same_as(mine[asking]):
                if number in asked:
                    continue
                asked[number] = asking
                if number not in owner:
                    hand_on(number, asked)
                    return True
                waiting.append(owner[number])
        return False

    def hand_on(number: int | None, asked: dict[int, int]) -> None:
        while number is not None:
            taker = asked[number]
            left = given.get(taker)
            owner[number], given[taker] = taker, number
            number = left

    return all(give(one) for one in range(len(mine)))


def _same(one: Floats, other: Floats) -> bool:
    return all(map(_near, one, other))


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=TOLERANCE)
