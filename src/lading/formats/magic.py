"""What a file is that was given as text and is none, by its first bytes.

Such bytes are not of another encoding, and a hint to set one would make a schema of garbage.
"""

from __future__ import annotations

import codecs
import re

from lading.errors import SourceError
from lading.formats.opening import READ_ERRORS, open_plain, unreadable
from lading.model import Format

HEAD = 512  # bytes of a file by which it is known
_UNPACK = "unpack it; compressed text must end in .gz, .bz2, .zst or .xz"
_EXPORT = "export it as CSV or Parquet, and match that in the table's `path`"
_LEAVE_OUT = "exclude it from the table's `path`"


def _set(fmt: Format) -> str:
    return f"set the table's format: {fmt}"


# First bytes, what has them, what to do. None of them begins a text.
_SIGNS: tuple[tuple[bytes, str, str], ...] = (
    (
        b"PK\x03\x04",
        "a zip archive or an Excel workbook (xlsx)",
        "for a workbook, set the table's format: excel; rename an archive to .zip to have its members read",
    ),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "an old Office file, such as an Excel workbook (xls)",
        _set("excel"),
    ),
    (b"\x1f\x8b\x08", "compressed with gzip", "rename it to end in .gz"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "rename it to end in .zst"),
    (b"\xfd7zXZ\x00", "compressed with xz", "rename it to end in .xz"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a rar archive", _UNPACK),
    (b"\x04\x22\x4d\x18", "compressed with lz4", _UNPACK),
    (b"\xff\x06\x00\x00sNaPpY", "compressed with snappy", _UNPACK),
    (b"\x89PNG\r\n\x1a\n", "an image (PNG)", _LEAVE_OUT),
    (b"\xff\xd8\xff", "an image (JPEG)", _LEAVE_OUT),
    (b"Obj\x01", "an Avro file", _set("avro")),
    (b"ARROW1\x00\x00", "an Arrow file", _EXPORT),
    (b"SQLite format 3\x00", "an SQLite database", _EXPORT),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _EXPORT),
    (b"%PDF-", "a PDF document", _EXPORT),
)
# Letters of ASCII in UTF-16 whose writer left the mark out. No line of text has so many NULs.
_UNMARKED = (
    (re.compile(rb"(?:[\x09-\x7e]\x00){4}"), "utf-16-le"),
    (re.compile(rb"(?:\x00[\x09-\x7e]){4}"), "utf-16-be"),
)
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def refuse_what_is_no_text(key: str, path: str, fmt: Format, encoding: str = "utf-8") -> None:
    """SourceError for a file of text that begins like something else, saying what it is and what to do."""
    try:
        with open_plain(path) as plain:
            head = plain.read(HEAD)
    except READ_ERRORS as error:
        raise unreadable(path, error) from error
    refuse_no_text(key, head, fmt, encoding)


def refuse_no_text(key: str, head: bytes, fmt: Format, encoding: str = "utf-8") -> None:
    """The same of a file's first bytes."""
    found = sign_of(head)
    if found is not None:
        what, remedy = found
        raise SourceError(f"{key} is {what}, not {fmt}", hint=remedy, file=key)
    wide = wide_encoding(head)
    if wide is not None and not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
        remedy = "convert it to UTF-8" if fmt == "json" else f"set read_options: {{encoding: {wide}}}"
        raise SourceError(f"{key} is {wide.upper()} text, not {encoding}", hint=remedy, file=key)


def sign_of(head: bytes) -> tuple[str, str] | None:
    """What begins so, and what to do about it; None for what may be a text."""
    for sign, what, remedy in _SIGNS:
        if head.startswith(sign):
            return what, remedy
    if head[:3] == b"BZh" and head[4:10] == b"1AY&SY":
        return "compressed with bzip2", "rename it to end in .bz2"
    if head[257:262] == b"ustar":
        return "a tar archive", "rename it to .tar to have its members read"
    # These begin with letters, so a header might too: binary files have a NUL soon.
    if head.startswith(b"PAR1") and b"\x00" in head:
        return "a Parquet file", _set("parquet")
    if head.startswith(b"ORC") and b"\x00" in head:
        return "an ORC file", _set("orc")
    return None


def wide_encoding(head: bytes) -> str | None:
    """The encoding of a text whose characters take more than a byte each."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    return next((name for pattern, name in _UNMARKED if pattern.match(head)), None)
