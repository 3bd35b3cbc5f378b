"""What a file holds, by its first bytes: a format that says so itself, JSON, or a text to look at further."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from lading.config.options import READ_OPTIONS
from lading.formats.magic import sign_of
from lading.formats.sniff.dialect import Undecided

HEAD = 1 << 16

_JSON = "convert it to one object per line, or to one array of objects"
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@dataclass(frozen=True, slots=True)
class Content:
    """`format` is None for a text that is not JSON."""

    format: str | None
    options: dict[str, Any] = field(default_factory=dict)
    because: dict[str, str] = field(default_factory=dict)


def content_of(head: bytes) -> Content | Undecided:
    """`head` is the first HEAD bytes, decompressed."""
    fmt = _binary(head)
    if fmt is not None and fmt in READ_OPTIONS:
        return Content(fmt, {}, {"format": "by its first bytes"})
    sign = sign_of(head)
    if sign is not None:
        what, remedy = sign
        return Undecided(f"it is {what}", remedy)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return _json(head)
    return Content(None)


def _binary(head: bytes) -> str | None:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ORC") and b"\x00" in head:
        return "orc"
    if head.startswith(b"Obj\x01"):
        return "avro"
    book = head.startswith(b"PK\x03\x04") and any(
        one in head for one in (b"xl/", b"[Content_Types].xml", b"oasis.opendocument.spreadsheet")
    )
    return "excel" if book or head.startswith(_OLD_OFFICE) else None


def _json(head: bytes) -> Content | Undecided:
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    cut = len(head) >= HEAD
    if text[0] == "[":
        if text[1:].lstrip()[:1] in ("{", "]"):
            return Content("json", {"multiline": True}, {"format": "it begins with [ and an object"})
        return Content(None)
    first, _, others = text.partition("\n")
    try:
        if isinstance(json.loads(first), dict):
            return Content("json", {}, {"format": "its first line is a JSON object"})
    except ValueError:
        if cut and not others:
            return Content("json", {}, {"format": "it begins with {, and its first line is long"})
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        if cut and text[1:].lstrip()[:1] == '"':
            return Content("json", {"multiline": True}, {"format": "it begins with { and a key"})
        return Content(None)
    if text[end:].strip():
        return Undecided("it holds JSON objects one behind the other, over several lines each", _JSON)
    return Content("json", {"multiline": True}, {"format": "it is one JSON object"})
