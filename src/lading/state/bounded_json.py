"""JSON that somebody else may have written: nesting without end is a fault of the text, not of the reader.

Decoders recurse, and so does whoever writes a value again. What comes out of here is shallow enough for both.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_DEPTH = 100


def decode(data: bytes | str | msgspec.Raw, dtype: Any = Any) -> Any:
    """As `msgspec.json.decode`; a text that is nested too deeply is a `msgspec.DecodeError`, too."""
    try:
        value = msgspec.json.decode(data, type=dtype)
    except RecursionError:
        raise _too_deep() from None
    refuse_deep(value)
    return value


def refuse_deep(value: Any) -> None:
    """msgspec.DecodeError where objects and lists are nested deeper than any file of lading's."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> msgspec.DecodeError:
    return msgspec.DecodeError(f"it is nested more than {MAX_DEPTH} levels deep")
