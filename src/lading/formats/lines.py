"""Lines of a text file: which bytes of a piece they are, and what they say as UTF-8, in blocks.

A line ends with LF, CR or both, and with nothing else. Bytes that are none of the file's encoding become
bytes that are none of UTF-8 either, so whoever reads a line sees for itself that it can't be decoded.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import IO

from lading.errors import SourceError
from lading.formats.opening import compression
from lading.formats.reader import Piece
from lading.formats.source_file import SourceFile

BLOCK = 8 << 20
LONGEST = 256 << 20  # bytes of a line, or of a record: it is held whole
BOM = codecs.BOM_UTF8

_LINE_END = re.compile(rb"\r\n?|\n")
_STATEFUL = ("utf", "iso2022", "hz", "punycode", "idna", "unicode", "raw_unicode")


def _undecodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end  # a lone surrogate, which UTF-8 has no bytes for


UNDECODABLE = "lading.undecodable"
codecs.register_error(UNDECODABLE, _undecodable)


def is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def encoding_name(encoding: str) -> str:
    """As a person reads it."""
    return "UTF-8" if is_utf8(encoding) else encoding


@lru_cache(64)
def is_bytewise(encoding: str) -> bool:
    """Whether CR and LF are one byte each, and part of nothing else, so that a file may be cut anywhere."""
    name = codecs.lookup(encoding).name
    if is_utf8(name) or name == "ascii":
        return True
    if name.startswith(_STATEFUL) or "\r\n".encode(name) != b"\r\n":
        return False
    return all(len(bytes([byte, 0x61]).decode(name, "replace")) == 2 for byte in range(256))


def may_be_cut(path: str, encoding: str) -> bool:
    return compression(path) is None and is_bytewise(encoding)


def text_lines(stream: IO[bytes], encoding: str) -> Iterator[tuple[str, int]]:
    """Each line with its end, and how many bytes it takes in what `utf8_chunks` counts by."""
    bytewise = is_bytewise(encoding)
    # Latin-1 has a character for every byte: its lines are those of the bytes.
    text = io.TextIOWrapper(
        stream, "latin-1" if bytewise else encoding, errors=UNDECODABLE, newline="", write_through=True
    )
    first = True
    while line := text.readline(LONGEST):
        raw = line.encode("latin-1" if bytewise else "utf-8", "strict" if bytewise else "surrogatepass")
        said = raw.decode(encoding.removesuffix("-sig"), UNDECODABLE) if bytewise else line
        yield said.removeprefix("\ufeff") if first else said, len(raw)
        first = False


def utf8_chunks(file: SourceFile, piece: Piece, encoding: str, size: int, after: int = 0) -> Iterator[bytes]:
    """The text of the lines that begin in a piece, and not before `after`, where a line begins. Where lines
    can't be told by bytes, `after` counts those of UTF-8."""
    bytewise = is_bytewise(encoding)
    chunks = _chunks(file, piece, size, after if bytewise else 0)
    if not is_utf8(encoding):
        chunks = _as_utf8(chunks, encoding)
    if not bytewise:
        chunks = _dropped(chunks, after)
    return _unmarked(chunks) if piece.start == after == 0 else chunks


def _unmarked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Without the mark at the very start of a file, which is none of its text."""
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= len(BOM):
            break
    yield start.removeprefix(BOM)
    yield from chunks


def line_blocks(chunks: Iterator[bytes], size: int, key: str) -> Iterator[bytes]:
    """Blocks of whole lines, each of which ends with LF alone."""
    held: list[bytes] = []
    total = 0
    for chunk in chunks:
        held.append(chunk)
        total += len(chunk)
        if total < size or not (b"\n" in chunk or b"\r" in chunk):
            if total > LONGEST:
                raise too_long(key, "line")
            continue
        data = b"".join(held)
        end = data.rfind(b"\n")
        end = max(end, data.rfind(b"\r", end + 1, len(data) - 1)) + 1  # a CR at the end may be half an end
        if end:
            yield _line_feeds(data[:end])
        held, total = [data[end:]], len(data) - end
    data = _line_feeds(b"".join(held))
    if data:
        yield data if data.endswith(b"\n") else data + b"\n"


def too_long(key: str, what: str) -> SourceError:
    return SourceError(
        f"{key}: a {what} is longer than {LONGEST >> 20} MiB",
        hint="check that it is a text file of the table's format, or split the file",
        file=key,
    )


def _line_feeds(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _chunks(file: SourceFile, piece: Piece, size: int, after: int) -> Iterator[bytes]:
    """The bytes from the first line that begins at `piece.start` or later up to the first that begins at
    `piece.end` or later: what neighbours read begins where this ends."""
    known = piece.start <= after
    at = 0 if piece.start == 0 else after if known else piece.start - 1
    with file.open(at) as stream:
        if known:
            while at < after and (passed := len(stream.read(min(size, after - at)))):
                at += passed  # read, not sought: whoever digests the file sees them too
            data = stream.read(size)
        else:
            at, data = _first_line(stream, at, size)
        if piece.end is not None and at >= piece.end:
            return
        while data:
            end = None
            if piece.end is not None and at + len(data) >= piece.end:
                end = _line_end(data, max(piece.end - 1 - at, 0))
                if end is not None:
                    yield data[:end]
                    return
                end = len(data) - data.endswith(b"\r")
            whole, data = (data, b"") if end is None else (data[:end], data[end:])
            if whole:
                yield whole
                at += len(whole)
            more = stream.read(size)
            if not more and data:
                yield data
                return
            data += more


def _first_line(stream: IO[bytes], at: int, size: int) -> tuple[int, bytes]:
    """Where the first line after the one at hand begins, and what was read of it."""
    data = b""
    while more := stream.read(size):
        data += more
        end = _line_end(data, 0)
        if end is not None:
            return at + end, data[end:] or stream.read(size)
        rest = data[-1:] if data.endswith(b"\r") else b""
        at, data = at + len(data) - len(rest), rest
    return at + len(data), b""


def _line_end(data: bytes, at: int) -> int | None:
    """Where the first line end at `at` or later is over; None if that is not to be seen yet."""
    found = _LINE_END.search(data, at)
    if found is None or (found.end() == len(data) and data.endswith(b"\r")):
        return None
    return found.end()


def _as_utf8(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(UNDECODABLE)
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "surrogatepass")
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")


def _dropped(chunks: Iterator[bytes], count: int) -> Iterator[bytes]:
    for chunk in chunks:
        left = chunk[count:]
        count -= min(count, len(chunk))
        if left:
            yield left
