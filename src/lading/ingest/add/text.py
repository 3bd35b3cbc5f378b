"""A table as text of lading.yaml, with the evidence as comments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH = 34  # where comments begin, if they can
_LONGEST = 120  # characters of a comment

# In the order of what is decided first.
_ORDER = (
    "encoding", "sheet", "skip", "comment", "header", "unnamed", "duplicates", "delimiter", "quote", "escape",
    "multiline", "records", "ragged", "trim", "null", "decimal", "date_format", "timestamp_format",
)  # fmt: skip


def table_text(
    name: str,
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
    because: Mapping[str, str],
    remarks: Sequence[str] = (),
) -> str:
    """`settings` are the table's keys in their order, `options` its read options."""
    lines = [f"{name}:", *(f"  # {comment(remark)}" for remark in remarks)]
    lines += [_line("  ", key, value, because.get(key)) for key, value in settings.items()]
    if options:
        lines.append("  read_options:")
        known = [key for key in _ORDER if key in options]
        for key in [*known, *(key for key in options if key not in known)]:
            lines.append(_line("    ", key, options[key], because.get(key)))
    return "".join(f"{line}\n" for line in lines)


def comment(text: str) -> str:
    """One line, of characters that YAML takes."""
    plain = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…"


def _line(indent: str, key: str, value: Any, why: str | None) -> str:
    text = f"{indent}{key}: {_value(key, value)}"
    return f"{text:<{_WIDTH}}  # {comment(why)}" if why else text


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(key, one) for one in value)}]"
    if key in ("format", "unnamed", "duplicates", "ragged", "encoding"):
        return str(value)
    # JSON's quotes are YAML's; a variable would be filled in.
    return json.dumps(str(value).replace("${", "$${"), ensure_ascii=not str(value).isprintable())
