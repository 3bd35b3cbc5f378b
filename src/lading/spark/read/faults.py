"""What is wrong with the text of a row that Spark could not read: the column and the reason. Pure.

Spark's answer to such a row is nulls. A value that is there in the text and null in the answer is the
one that doesn't fit; text that doesn't even have the right number of values says so itself. Runs where
rows are set aside, on many of them, so it asks Spark nothing.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lading.formats.reasons import is_not
from lading.layout.project import schema_file
from lading.model import DELIMITERS, Column, Format, Layout

MISFIT = "does not fit the schema"
TOO_DEEP = "is nested too deeply to be read"

Fault = tuple[str | None, str]  # the column, if one is to blame, and the reason


def fault(
    text: str,
    *,
    fmt: Format,
    options: Mapping[str, Any],
    names: Sequence[str],
    unread: Mapping[str, Column],
    layout: Layout | None = None,
) -> Fault:
    """`names` are the file's columns in its order; `unread` are those that Spark found nothing in."""
    if fmt == "json":
        return _json_fault(text, names, unread)
    if layout is not None:
        return _fixed_fault(text, layout, unread, options)
    if fmt in DELIMITERS:
        return _delimited_fault(text, fmt, options, names, unread)
    return _parquet_fault(text)


def advice(text: str, column: Column | None, *, table: str, fmt: Format, options: Mapping[str, Any]) -> str:
    """What to do about a row: `column` is the one to blame, if the schema has it."""
    if column is not None and column.inferred:
        return (
            f"fix the row, run `lading discover-schema {table} --full-scan` to infer types from all rows, "
            f"or claim {column.type} as yours by deleting the column's `because` in {schema_file(table)}"
        )
    if fmt == "json" and not options.get("multiline") and _is_of_an_array(text):
        return "if the file is one array, or has objects that span lines, set read_options: {multiline: true}"
    if fmt == "json" and column is None:
        return f"fix the record; if its keys are new, run `lading discover-schema {table}` or change `drift`"
    if fmt == "fixed_width" and column is None:
        return "fix the line, or `start` and `length` of the columns in the spec"
    if fmt in DELIMITERS and column is None:
        return (
            "fix the row, or read_options: `delimiter`, `quote`, `escape`; `comment` for lines that aren't "
            "records, `multiline` for values that span lines"
        )
    where = schema_file(table) if fmt != "fixed_width" else "the spec"
    return f"fix the row, or the type in {where}"


def _is_of_an_array(text: str) -> bool:
    """Whether a line looks like a piece of a document over many lines: `[`, `{`, or `{…},`."""
    bare = text.strip()
    return bare[:1] in ("[", "]") or bare in ("{", "}", "},") or bare.endswith("},")


def same_record(one: str, other: str, fmt: Format, options: Mapping[str, Any]) -> bool:
    """Whether two texts are of one record: quotes that need not be there don't count."""
    if fmt not in ("csv", "tsv"):
        return _one_newline(one) == _one_newline(other)
    mine, theirs = _fields(one, fmt, options), _fields(other, fmt, options)
    if mine is None or theirs is None:
        return _one_newline(one) == _one_newline(other)
    return [_one_newline(field).strip() for field in mine] == [
        _one_newline(field).strip() for field in theirs
    ]


def _delimited_fault(
    text: str, fmt: Format, options: Mapping[str, Any], names: Sequence[str], unread: Mapping[str, Column]
) -> Fault:
    fields = _fields(text, fmt, options)
    if fields is not None and len(fields) != len(names):
        return (
            None,
            f"has {len(fields)} field{'' if len(fields) == 1 else 's'}, but the header has {len(names)}",
        )
    for name, field in zip(names, fields or (), strict=False):
        if name in unread and _says_something(field, options):
            return name, f"{field!r} {is_not(field, unread[name])}"
    return None, MISFIT


def _fixed_fault(
    text: str, layout: Layout, unread: Mapping[str, Column], options: Mapping[str, Any]
) -> Fault:
    wanted = max(field.start + field.length for field in layout.fields)
    if len(text) < wanted:
        return None, f"has {len(text)} characters, but the spec needs {wanted}"
    for field in layout.fields:
        piece = text[field.start : field.start + field.length]
        if field.name in unread and _says_something(piece, options):
            return field.name, f"{piece.strip()!r} {is_not(piece, unread[field.name])}"
    return None, MISFIT


def _parquet_fault(text: str) -> Fault:
    """The row is JSON that Spark wrote, with a mark where bytes were no text."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None, MISFIT
    for name, value in row.items() if isinstance(row, dict) else ():
        if isinstance(value, str) and "\ufffd" in value:
            return name, "bytes that are not UTF-8"
    return None, MISFIT


def _json_fault(text: str, names: Sequence[str], unread: Mapping[str, Column]) -> Fault:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except ValueError as error:
        return None, f"is not one JSON object: {error}"
    except RecursionError:
        return None, TOO_DEEP
    if not isinstance(pairs, _Pairs):
        return None, "is not a JSON object"
    for name, _ in pairs:
        if name not in names:
            return name, f"the key {name!r} is not in the schema"
        if sum(other == name for other, _ in pairs) > 1:
            return name, f"has the key {name!r} twice"
    for name, value in pairs:
        if name in unread and value is not None:
            shown = _shown(value)
            return name, f"{shown} {is_not(value if isinstance(value, str) else shown, unread[name])}"
    return None, MISFIT


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its doubles."""


def _shown(value: Any) -> str:
    try:
        return json.dumps(_plain(value))
    except RecursionError:
        return "what is nested so deeply"


def _plain(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return {name: _plain(inner) for name, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _fields(text: str, fmt: Format, options: Mapping[str, Any]) -> list[str] | None:
    quote = options.get("quote", '"')
    escape = options.get("escape", quote)
    try:
        records = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=options.get("delimiter", DELIMITERS.get(fmt, ",")),
            quotechar=quote,
            doublequote=escape == quote,
            escapechar=None if escape == quote else escape,
        )
        return next(records, None)
    except csv.Error:
        return None


def _one_newline(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n\ufeff")


def _says_something(field: str, options: Mapping[str, Any]) -> bool:
    null = options.get("null")
    return bool(field.strip()) and field != null and field.strip() != null
