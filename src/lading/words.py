"""Counts as people read them: `1 file`, `2 files`, `1.5 MB`, `2 new, 1 changed`."""

from __future__ import annotations

from collections.abc import Mapping

_VERDICT_ORDER = ("new", "changed", "reread", "touched", "failed", "vanished", "quarantined", "unchanged")


def count_words(count: int, one: str, many: str | None = None) -> str:
    """The number with what is counted; `many` where an `s` at the end doesn't make the plural."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def verdict_words(verdicts: Mapping[str, int]) -> str:
    """`2 new, 1 changed, 10 unchanged`."""
    words = [f"{verdicts[name]:,} {name}" for name in _VERDICT_ORDER if verdicts.get(name)]
    return ", ".join(words) or "no files"


def byte_words(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
