"""Fresh ids: the one place where chance comes in.

Call it as `ids.fresh()`, never by a name of your own: a simulation that replays a history puts its own
chance here.
"""

from __future__ import annotations

import os


def fresh() -> str:
    """128 random bits as 32 hex digits, which nothing else was ever called."""
    return random_bytes(16).hex()


def random_bytes(count: int) -> bytes:
    return os.urandom(count)
