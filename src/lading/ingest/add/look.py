"""One file that was never read before: what it holds, and the read options it needs, with the evidence."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from lading.errors import SourceError
from lading.formats.json.path import path_option
from lading.formats.opening import READ_ERRORS, open_plain, unreadable
from lading.formats.sniff.content import HEAD, Content, content_of
from lading.formats.sniff.dialect import NO_QUOTE, DelimitedText, Undecided, dialect_of
from lading.formats.sniff.encoding import Encoding, encoding_of
from lading.formats.sniff.json_rows import rows_below
from lading.formats.sniff.workbook import workbook_of
from lading.formats.source_file import SourceFile
from lading.model import DELIMITERS, Format, FoundFile

_BLOCK = 1 << 20
_SAMPLE = 1 << 20
_LARGEST = 64 << 20  # of a sample: a file of a million columns has long lines
_LINES = 20  # that a sample should have
_BUDGET = 512 << 20  # bytes of a file whose encoding is looked at


@dataclass(frozen=True, slots=True)
class FileLook:
    """What one file says. Options that are the default are there only if the file decides them."""

    found: FoundFile
    format: Format
    options: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # of its columns as they stand there; made up if `options` has no header
    because: dict[str, str] = field(default_factory=dict)
    ascii: bool = False  # reads the same in other encodings
    quoted: bool = False  # whether `quote` makes a difference to it


def look_at(found: FoundFile) -> FileLook | None:
    """None for a file that holds nothing. SourceError for one that can't be told what it is."""
    try:
        with open_plain(found.path) as plain:
            head = plain.read(HEAD)
        if not head.strip(b"\xef\xbb\xbf \t\r\n"):
            return None
        content = content_of(head)
        if isinstance(content, Undecided):
            raise _refused(found, content)
        if content.format == "json":
            return _json(found, content)
        if content.format == "excel":
            return _workbook(found, content)
        if content.format is not None:
            return FileLook(found, cast(Format, content.format), content.options, because=content.because)
        return _delimited(found)
    except READ_ERRORS as error:
        raise unreadable(found.key, error) from error


def _json(found: FoundFile, content: Content) -> FileLook:
    with open_plain(found.path) as plain:
        below = rows_below(plain)
    if below is None:
        return FileLook(found, "json", content.options, because=content.because)
    because = {"format": "it is one JSON document", "records": below.because}
    return FileLook(found, "json", {"records": path_option(below.path)}, because=because)


def _workbook(found: FoundFile, content: Content) -> FileLook | None:
    book = workbook_of(SourceFile(found.key, found.path, found.size))
    if book is None:
        return None
    options, because = dict(book.options), content.because | book.because
    _name_all(book.names, options, because)
    return FileLook(found, "excel", options, book.names, because)


def _delimited(found: FoundFile) -> FileLook:
    encoding = encoding_of(_blocks(found))
    if encoding.name is None:
        raise _refused(
            found,
            Undecided(
                f"its encoding can't be told: {encoding.because}",
                "convert it to UTF-8, or write the table by hand with the `encoding` that is right",
            ),
        )
    text, cut = _sample(found, encoding.name)
    dialect = dialect_of(text, cut=cut)
    if isinstance(dialect, Undecided):
        raise _refused(found, dialect)
    return _written_down(found, encoding, dialect, text)


def _written_down(found: FoundFile, encoding: Encoding, dialect: DelimitedText, text: str) -> FileLook:
    way = dialect.way
    fmt: Format = "tsv" if way.delimiter == DELIMITERS["tsv"] else "csv"
    options: dict[str, Any] = {"header": dialect.header}
    because = dict(dialect.because)
    if encoding.name != "utf-8":
        options["encoding"] = encoding.name
    because["encoding"] = encoding.because
    if fmt == "csv":
        options["delimiter"] = way.delimiter
    if way.quote != '"':
        options["quote"] = NO_QUOTE if way.quote is None else way.quote
    if way.escape is not None:
        options["escape"] = way.escape
    if way.multiline:
        options["multiline"] = True
    if dialect.skip:
        options["skip"] = dialect.skip
    if dialect.comment is not None:
        options["comment"] = dialect.comment
    if dialect.header:
        _name_all(dialect.names, options, because)
    return FileLook(found, fmt, options, dialect.names, because, encoding.ascii, (way.quote or '"') in text)


def _name_all(names: tuple[str, ...], options: dict[str, Any], because: dict[str, str]) -> None:
    """Columns without a name of their own get one."""
    bare = [name.strip() for name in names]
    blank = [at for at, name in enumerate(bare, start=1) if not name]
    if blank:
        options["unnamed"] = "name"
        because["unnamed"] = f"column {blank[0]} of the header has no name: it becomes column_{blank[0]}"
    seen: dict[str, str] = {}
    for name in filter(None, bare):
        other = seen.get(name.lower())
        if other is not None:
            what = "is there twice" if other == name else f"differs from {other!r} only in case"
            options["duplicates"] = "rename"
            because["duplicates"] = f"{name!r} {what}: the second becomes {name}_2"
            return
        seen[name.lower()] = name


def _blocks(found: FoundFile) -> Iterator[bytes]:
    seen = 0
    with open_plain(found.path) as plain:
        while seen < _BUDGET and (block := plain.read(_BLOCK)):
            seen += len(block)
            yield block


def _sample(found: FoundFile, encoding: str) -> tuple[str, bool]:
    """The beginning of the text, and whether it goes on."""
    size = _SAMPLE
    while True:
        with open_plain(found.path) as plain:
            data = plain.read(size + 1)
        cut = len(data) > size
        text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(data[:size], final=not cut)
        if not cut or size >= _LARGEST or text.count("\n") + text.count("\r") >= _LINES:
            return text, cut
        size *= 8


def _refused(found: FoundFile, why: Undecided) -> SourceError:
    return SourceError(f"{found.key}: {why.message}", hint=why.hint, file=found.key)
