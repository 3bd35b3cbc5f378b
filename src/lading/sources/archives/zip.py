"""Zip files: the directory at the end names the members, the data says what they are."""

from __future__ import annotations

import copy
import stat
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lading.words import count_words

if TYPE_CHECKING:
    from lading.sources.archives.extract import Extraction

_ENCRYPTED = 0x1
_STRONG = 0x40
_AES = 99
# zipfile hands these to their decompressors without a bound on what comes out: small bites only.
_UNBOUNDED = (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def unpack_zip(job: Extraction, archive: Path, below: str, depth: int) -> None:
    with open(archive, "rb") as file:
        directory = find_directory(job, file)
        with zipfile.ZipFile(file) as opened:
            if directory is not None:
                check_layout(job, file, directory, opened.infolist())
            for info in opened.infolist():
                _unpack_member(job, opened, info, below, depth)


def _unpack_member(
    job: Extraction, opened: zipfile.ZipFile, info: zipfile.ZipInfo, below: str, depth: int
) -> None:
    # The name as it is stored: zipfile cuts its own copy at a NUL.
    name = job.entry(info.orig_filename)
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        kind = "a link" if stat.S_ISLNK(mode) else "a device or a pipe"
        raise job.refused(f"is {kind}, not a file")
    if info.is_dir():
        return
    if not name:
        raise job.refused("has no name")
    # A size of our own making lets the stream run to its real end; then both are compared.
    endless = copy.copy(info)
    endless.file_size = 1 << 62
    bite = 4_096 if info.compress_type in _UNBOUNDED else 1 << 16
    with _opened(job, opened, endless) as source:
        size = job.file(name, source, below, depth, chunk=bite)
    if size != info.file_size:
        raise job.refused(f"claims {count_words(info.file_size, 'byte')} but has {size:,}")


def _opened(job: Extraction, opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.compress_type == _AES or info.flag_bits & _STRONG:
        hint = "unpack it yourself, or ask for a zip with classic encryption"
        raise job.refused("is encrypted with AES, which lading can't read", hint=hint)
    if info.flag_bits & _ENCRYPTED and job.password is None:
        raise job.refused("is encrypted", hint="put the password in a file and set password_file")
    try:
        return opened.open(info, pwd=job.password if info.flag_bits & _ENCRYPTED else None)
    except RuntimeError as error:
        raise job.refused("can't be decrypted: the password is wrong", hint="check password_file") from error
    except NotImplementedError as error:
        raise job.refused(f"uses a compression that lading can't read ({error})") from error


_TAIL = 66_000  # bytes that the end of a zip lies in, with the longest comment
_END = b"PK\x05\x06"
_WIDE_END, _WIDE_LOCATOR = b"PK\x06\x06", b"PK\x06\x07"
_MEMBER = b"PK\x03\x04"
_DIRECTORY_ENTRY = 1_000  # bytes; far more than an entry of a listed member needs on average
_SIZES_FOLLOW = 0x8  # the member's CRC and sizes stand behind its data
_WIDE = 0xFFFFFFFF  # the number is elsewhere, in 64 bits
_CHUNK = 1 << 16

_STUB_HINT = (
    "if it is a self-extracting program, set `archives: {self_extracting: true}` in lading.yaml; "
    "otherwise get a good copy, and split zips that were joined into one file; nothing was extracted"
)


@dataclass(frozen=True, slots=True)
class Directory:
    """What the end of a zip says of its directory."""

    start: int  # where it begins, in the file as it lies there
    entries: int


def find_directory(job: Extraction, file: IO[bytes]) -> Directory | None:
    """Where the directory lies; None if this is no zip. A huge one is refused before it is parsed: a
    million entries would be a gigabyte of memory."""
    size = file.seek(0, 2)
    begin = max(0, size - _TAIL)
    file.seek(begin)
    data = file.read()
    at = data.rfind(_END)
    if at < 0 or len(data) < at + 22:
        return None
    entries, length, _, comment = struct.unpack("<HLLH", data[at + 10 : at + 22])
    behind = len(data) - at - 22 - comment
    if behind:
        what = f"is followed by {count_words(behind, 'byte')} too many" if behind > 0 else "is cut off"
        raise job.refused(what)
    end = at
    if at >= 76 and data[at - 20 : at - 16] == _WIDE_LOCATOR and data[at - 76 : at - 72] == _WIDE_END:
        entries, length = struct.unpack("<QQ", data[at - 76 + 32 : at - 76 + 48])
        end = at - 76
    limit = job.limits.max_members
    if entries > limit:
        raise job.over(f"lists {entries:,} members, more than {limit:,}", "max_members")
    if length > max(1_000_000, limit * _DIRECTORY_ENTRY):
        raise job.over(f"has a directory of {length:,} bytes, too much for {limit:,} members", "max_members")
    return Directory(begin + end - length, entries)


def check_layout(
    job: Extraction, file: IO[bytes], directory: Directory, members: list[zipfile.ZipInfo]
) -> None:
    """Refuse a zip whose directory doesn't account for the whole file."""
    if len(members) % 65_536 != directory.entries % 65_536:  # old writers count no further
        raise job.refused(f"has {count_words(len(members), 'member')} but claims {directory.entries:,}")
    ordered = sorted(members, key=lambda info: info.header_offset)
    at = ordered[0].header_offset if ordered else directory.start
    if at > 0:
        _check_front(job, file, at)
    begins = [*(info.header_offset for info in ordered), directory.start]
    for info, end in zip(ordered, begins[1:], strict=True):
        behind = _end_of(job, file, info)
        if behind > end:
            raise job.refused(f"has a member, {info.filename!r}, that overlaps what follows it")
        behind += _sizes_behind(file, info, behind, end)
        _check_padding(job, file, behind, end, info.filename)


def _check_front(job: Extraction, file: IO[bytes], length: int) -> None:
    if not job.limits.self_extracting:
        stray = count_words(length, "byte that belongs", "bytes that belong")
        raise job.refused(f"starts with {stray} to no member", hint=_STUB_HINT)
    file.seek(0)
    if file.read(len(_MEMBER)) == _MEMBER:
        raise job.refused(
            f"starts with {length:,} bytes of zip that its directory doesn't list, not with a program",
            hint="get a good copy, and split zips that were joined into one file; nothing was extracted",
        )
    begin = max(0, length - _TAIL)
    file.seek(begin)
    front = file.read(length - begin)
    at = front.rfind(_END)
    if 0 <= at <= len(front) - 22 and at + 22 + struct.unpack("<H", front[at + 20 : at + 22])[0] == len(
        front
    ):
        raise job.refused("is two zips in one file", hint="split them; nothing was extracted")


def _end_of(job: Extraction, file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Behind the member's data. What it says of itself has to be what the directory says of it."""
    file.seek(info.header_offset)
    head = file.read(30)
    if len(head) < 30 or head[:4] != _MEMBER:
        raise job.refused(f"has no member where its directory says that {info.filename!r} is")
    flags, method, _, _, crc, packed, size, name, extra = struct.unpack("<HHHHLLLHH", head[6:])
    told = [(crc, info.CRC), (packed, info.compress_size)]  # its size is counted when it is unpacked
    if flags & _SIZES_FOLLOW or not (crc or packed or size):
        told = []
    if method != info.compress_type or any(own not in (listed, _WIDE) for own, listed in told):
        raise job.refused(
            f"describes {info.filename!r} differently in its directory and at the member itself"
        )
    return info.header_offset + 30 + int(name) + int(extra) + info.compress_size


def _sizes_behind(file: IO[bytes], info: zipfile.ZipInfo, at: int, end: int) -> int:
    """The length of the CRC and sizes that stand behind a member's data, in any of their forms."""
    if not info.flag_bits & _SIZES_FOLLOW:
        return 0
    file.seek(at)
    data = file.read(min(24, end - at))
    for mark in (b"PK\x07\x08", b""):
        for form in ("<LQQ", "<LLL"):
            largest = 2**64 if form == "<LQQ" else 2**32
            if max(info.compress_size, info.file_size) >= largest:
                continue
            told = mark + struct.pack(form, info.CRC, info.compress_size, info.file_size)
            if data.startswith(told):
                return len(told)
    return 0


def _check_padding(job: Extraction, file: IO[bytes], at: int, end: int, name: str) -> None:
    """Between members there may be zeros, which align what follows."""
    file.seek(at)
    left = end - at
    while left > 0:
        data = file.read(min(_CHUNK, left))
        if not data or data.strip(b"\0"):
            stray = count_words(end - at, "byte that belongs", "bytes that belong")
            raise job.refused(f"has {stray} to no member after its member {name!r}")
        left -= len(data)
