"""Single members of a zip in a bucket, by ranges: a task fetches no more of a large archive than it reads.

Only for a zip that was gone through as a whole before, under the same ETag: what its members are called and
how large they are is known by then, and what is written is compared with its SHA-256 when it is read.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import IO, cast

from lading.errors import SourceError
from lading.formats.source_file import SourceFile
from lading.sources.archives.names import safe_name

_BUFFER = 1 << 20  # bytes of the zip that are asked for at once
_BITE = 4_096  # bytes of a member: some decompressors know no other bound


class ZipMembers:
    def __init__(self, file: SourceFile, password: bytes | None) -> None:
        self._file = file
        self._password = password
        try:
            raw = cast(io.RawIOBase, file.seekable())
            self._zip = zipfile.ZipFile(cast(IO[bytes], io.BufferedReader(raw, _BUFFER)))
            files = [info for info in self._zip.infolist() if not info.is_dir()]
            self._infos = {safe_name(info.orig_filename): info for info in files}
        except (FileNotFoundError, zipfile.BadZipFile, ValueError) as error:
            raise self._changed(error) from error

    def write(self, path: str, size: int, target: Path) -> bool:
        info = self._infos.get(path)
        if info is None:
            return False  # it comes out of an archive inside this one
        left = size
        try:
            with self._zip.open(info, pwd=self._password) as source, open(target, "wb") as out:
                while left and (data := source.read(min(_BITE, left))):
                    out.write(data)
                    left -= len(data)
        except (FileNotFoundError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise self._changed(error) from error
        return True

    def _changed(self, error: Exception) -> SourceError:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return SourceError(
            f"{self._file.key} is not the archive that it was when the run began ({said})",
            hint="run again; nothing was committed",
            file=self._file.key,
        )
