"""Whether values are told apart by where they stand in the line. Only recognised: people write the spec."""

from __future__ import annotations

from collections.abc import Sequence

_LOOKED = 500
_LEAST = 3  # lines


def columns_by_place(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Start and length of each column; empty for what does not look like fixed width."""
    bare = [line.rstrip("\r\n") for line in lines[:_LOOKED] if line.strip()]
    wide = sum("  " in line.strip() for line in bare)
    if len(bare) < _LEAST or 2 * wide < len(bare):
        return []
    width = max(map(len, bare))
    blank = [all(line[at : at + 1] in ("", " ") for line in bare) for at in range(width)]
    columns: list[tuple[int, int]] = []
    start = None
    for at, empty in enumerate([*blank, True]):
        if not empty and start is None:
            start = at
        elif empty and start is not None:
            columns.append((start, at - start))
            start = None
    return columns if len(columns) > 1 else []
