"""Sizes as people write them."""

from __future__ import annotations

import re

from lading.errors import ConfigError

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_LONGEST = 30  # characters of a number that can be meant
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def byte_count(text: str, option: str) -> int:
    """`128MB` as a number of bytes; MB counts in thousands, MiB in 1,024s."""
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match and len(match[1]) <= _LONGEST:
        base = 1024 if match[3] else 1000
        size = int(float(match[1]) * base ** _POWERS[match[2].lower()])
    if size <= 0:
        raise ConfigError(f"{option} {text!r} is not a size", hint="write it as 500kB, 128MB, 1GB or 64MiB")
    return size
