"""Counts as people read them: `1 file`, `2 files`, `1 row has`, `1,200 rows have`."""

from __future__ import annotations


def count_words(count: int, one: str, many: str | None = None) -> str:
    """The number with what is counted; `many` where an `s` at the end doesn't make the plural."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
