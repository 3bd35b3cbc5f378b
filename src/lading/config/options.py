"""The formats, and the read options each of them has.

Only what the pipeline honours is valid: an option that Spark knows and lading would drop in silence
is worse than an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from lading.config.date_patterns import date_pattern
from lading.config.excel_options import EXCEL_OPTIONS, EXCEL_OWN, excel_option
from lading.config.section import Section
from lading.config.yaml import Line
from lading.model import DELIMITERS, Format

_FLAGS = frozenset({"header", "multiline", "trim"})
_CHARACTERS = frozenset({"delimiter", "quote", "escape", "comment"})
_NUMBERS = frozenset({"skip"})
_LISTS = frozenset({"null", "date_format", "timestamp_format"})  # one text, or several
_CHOICES = {  # the first is the default
    "decimal": (".", ","),
    "unnamed": ("fail", "name"),
    "duplicates": ("fail", "rename"),
    "ragged": ("fail", "pad"),
}
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
    "decimal",
    "trim",
    "unnamed",
    "duplicates",
    "ragged",
)

READ_OPTIONS: dict[str, tuple[str, ...]] = {
    "csv": _DELIMITED,
    "tsv": _DELIMITED,
    "json": ("multiline", "records", "date_format", "timestamp_format"),
    "parquet": (),
    "orc": (),
    "avro": (),
    "excel": EXCEL_OPTIONS,
    "fixed_width": ("skip", "encoding", "null", "date_format", "timestamp_format", "decimal"),
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
    if "records" in found:
        _report_lines(section, found)
    if fmt in DELIMITERS:
        _report_clashes(section, found, {"delimiter": DELIMITERS[fmt], "quote": '"'})
    return found


def _option(section: Section, name: str) -> Any:
    if name in _FLAGS:
        return section.flag(name)
    if name in _LISTS:
        texts = texts_of(section, name)
        return texts if texts is None else texts[0] if len(texts) == 1 else list(texts)  # no other recipe
    if name == "records":
        return _path(section)
    if name in _CHOICES:
        found = section.choice(name, _CHOICES[name])
        return None if found == _CHOICES[name][0] else found  # the default: no other recipe
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
        return section.checked(name, _character_problem)
    return section.checked(name, _encoding_problem)


def texts_of(
    section: Section,
    name: str,
    problem_of: Callable[[str], str | None] | None = None,
    *,
    may_be_empty: bool = False,
) -> tuple[str, ...] | None:
    """One text or a list of them, each of them checked: patterns as such, unless `problem_of` says how."""
    check = problem_of or (lambda text: _problem_of(name, text))
    listed = section.lines.get(name)
    if listed is None or not isinstance(listed.value, list):
        text = section.checked(name, check)
        return None if text is None else (text,)
    each = Section(
        Line(dict(_numbered(listed.value)), listed.line), f"{section.key}.{name}", None, section.problems
    )
    found = [each.checked(number, check) for number in each.lines]
    if not listed.value and not may_be_empty:
        section.complain(name, "is an empty list; remove the key")
        return None
    return tuple(dict.fromkeys(text for text in found if text is not None))


def _path(section: Section) -> str | list[str] | None:
    """Keys with dots between them, or a list; a list that could be written with dots is: no other recipe."""
    listed = section.lines.get("records")
    if listed is None or not isinstance(listed.value, list):
        return section.checked("records", _path_problem)
    each = Section(
        Line(dict(_numbered(listed.value)), listed.line), f"{section.key}.records", None, section.problems
    )
    keys = [each.text(number) for number in each.lines]
    if not keys:
        section.complain("records", "is an empty list; for a file that is one array, set multiline: true")
    if not keys or None in keys:
        return None
    known = [key for key in keys if key is not None]
    return known if any(not key or "." in key for key in known) else ".".join(known)


def _path_problem(text: str) -> str | None:
    if all(text.split(".")):
        return None
    return "must be the keys that lead to the array, such as data.rows; a list for keys with dots in them"


def _report_lines(section: Section, found: dict[str, Any]) -> None:
    """A document is never read by lines, so that `multiline` says nothing new."""
    if found.pop("multiline", True) is False:
        section.complain("multiline", "must be true with `records`, which reads whole documents; remove it")


def _numbered(values: list[Line]) -> Iterator[tuple[str, Line]]:
    return ((str(number), line) for number, line in enumerate(values, start=1))


def _problem_of(name: str, text: str) -> str | None:
    if name == "null":
        return None
    try:
        date_pattern(text)
    except ValueError as error:
        return str(error)
    return None


def _character_problem(text: str) -> str | None:
    if len(text) != 1:
        return "must be exactly one character"
    return "can't be a line break" if text in "\r\n" else None


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
