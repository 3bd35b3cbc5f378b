"""Zip files: the directory at the end names the members, the data says what they are."""

from __future__ import annotations

import copy
import stat
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lading.sources.extract_zip_layout import check_layout, find_directory

if TYPE_CHECKING:
    from lading.sources.extract import Extraction

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
        raise job.refused(f"says that it has {info.file_size:,} bytes and has {size:,}")


def _opened(job: Extraction, opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.compress_type == _AES or info.flag_bits & _STRONG:
        hint = "unpack it elsewhere, or ask for a zip with classic encryption"
        raise job.refused("is encrypted with AES, which lading can't read", hint=hint)
    if info.flag_bits & _ENCRYPTED and job.password is None:
        raise job.refused("is encrypted", hint="put the password in a file and name it: password_file")
    try:
        return opened.open(info, pwd=job.password if info.flag_bits & _ENCRYPTED else None)
    except RuntimeError as error:
        raise job.refused("can't be decrypted: the password is wrong", hint="check password_file") from error
    except NotImplementedError as error:
        raise job.refused(f"is packed in a way that can't be read ({error})") from error
