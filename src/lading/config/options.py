"""The formats, and the read options each of them has.

Only what the pipeline honours is valid: an option that Spark knows and lading would drop in silence
is worse than an error.
"""

from __future__ import annotations

import os
from typing import Any

from lading.config.excel_options import EXCEL_OPTIONS, EXCEL_OWN, excel_option
from lading.config.section import Section
from lading.model import DELIMITERS, Format

_FLAGS = frozenset({"header", "multiline", "trim"})
_CHARACTERS = frozenset({"delimiter", "quote", "escape", "comment"})
_NUMBERS = frozenset({"skip"})
_ALIASES = {"tab": "tsv"}
_DELIMITED = (
    "header",
    "skip",
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
    "orc": (),
    "avro": (),
    "excel": EXCEL_OPTIONS,
    "fixed_width": ("skip", "encoding", "null", "date_format", "timestamp_format"),
}


def format_of(table: Section) -> str:
    """One of `READ_OPTIONS`; `tab` is another name for `tsv`."""
    text = table.choice("format", (*READ_OPTIONS, *_ALIASES), required=True)
    return _ALIASES.get(text, text)


def spec_of(table: Section, fmt: Format) -> str | None:
    """The file that says where the columns of fixed-width lines are."""
    if fmt != "fixed_width":
        if "spec" in table.lines:
            table.complain("spec", "is only for format: fixed_width; remove this key")
        return None
    return table.checked("spec", _spec_problem, required=True)


def _spec_problem(text: str) -> str | None:
    path = os.path.normpath(text)
    if not text.strip() or not path.endswith((".yaml", ".yml")):
        return "must be a YAML file in the project, such as specs/ships.yaml"
    return "must be inside the project" if os.path.isabs(path) or path.startswith(("..", "~")) else None


def read_options(table: Section, fmt: Format) -> dict[str, Any]:
    """The options that were given, checked; defaults are the reader's."""
    if not READ_OPTIONS[fmt]:
        if "read_options" in table.lines:
            table.complain("read_options", f"{fmt} files have no read options; remove this key")
        return {}
    section = table.section("read_options", READ_OPTIONS[fmt])
    found: dict[str, Any] = {}
    for name in READ_OPTIONS[fmt]:
        own = fmt == "excel" and name in EXCEL_OWN
        value = excel_option(section, name) if own else _option(section, name)
        if value is not None:
            found[name] = value
    if fmt in DELIMITERS:
        _report_clashes(section, found, {"delimiter": DELIMITERS[fmt], "quote": '"'})
    return found


def _option(section: Section, name: str) -> Any:
    if name in _FLAGS:
        return section.flag(name)
    return _line_count(section, name) if name in _NUMBERS else _text_option(section, name)


def _line_count(section: Section, name: str) -> int | None:
    line = section.lines.get(name)
    if line is None:
        return None
    if isinstance(line.value, int) and not isinstance(line.value, bool) and 0 <= line.value <= 1_000_000:
        return line.value or None  # 0 lines are the default: no other recipe
    section.complain(name, "must be a number of lines, up to 1,000,000")
    return None


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
