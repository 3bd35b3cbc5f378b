"""The read options each format has.

Only what the pipeline honours is valid: an option that Spark knows and lading would drop in silence
is worse than an error.
"""

from __future__ import annotations

from typing import Any

from lading.config_section import Section

_FLAGS = frozenset({"header", "multiline", "trim"})
_CHARACTERS = frozenset({"delimiter", "quote", "escape", "comment"})
_DELIMITED = (
    "header",
    "delimiter",
    "quote",
    "escape",
    "encoding",
    "null",
    "multiline",
    "comment",
    "date_format",
    "timestamp_format",
    "trim",
)

READ_OPTIONS: dict[str, tuple[str, ...]] = {
    "csv": _DELIMITED,
    "tsv": _DELIMITED,
    "json": ("multiline", "date_format", "timestamp_format"),
    "parquet": (),
}


def read_options(table: Section, format: str) -> dict[str, Any]:
    """The options that were given, checked; defaults are the reader's."""
    if not READ_OPTIONS[format]:
        if "read_options" in table.lines:
            table.complain("read_options", f"{format} files have no read options; leave it out")
        return {}
    section = table.section("read_options", READ_OPTIONS[format])
    found: dict[str, Any] = {}
    for name in READ_OPTIONS[format]:
        value = section.flag(name) if name in _FLAGS else _text_option(section, name)
        if value is not None:
            found[name] = value
    _report_clashes(section, found, {"delimiter": "\t" if format == "tsv" else ",", "quote": '"'})
    return found


def _text_option(section: Section, name: str) -> str | None:
    if name in _CHARACTERS:
        return section.checked(name, lambda text: None if len(text) == 1 else "must be exactly one character")
    if name == "encoding":
        return section.checked(name, _encoding_problem)
    if name == "null":
        return section.text(name)
    return section.checked(name, lambda text: None if text else "is empty")


def _encoding_problem(text: str) -> str | None:
    try:
        "".encode(text)  # refuses what is a codec but no encoding of text, such as base64
    except LookupError:
        return f"{text!r} is not a known encoding; try utf-8, latin-1 or windows-1252"
    return None


def _report_clashes(section: Section, options: dict[str, Any], defaults: dict[str, str]) -> None:
    seen: dict[str, str] = {}
    for name in ("delimiter", "quote", "comment"):
        character = options.get(name, defaults.get(name))
        if character is None:
            continue
        if character in seen:
            section.complain(name, f"is the same character as {seen[character]}")
        seen[character] = name
