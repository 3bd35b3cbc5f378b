"""A folder of files that lading made: by extraction, or by a preprocess script.

It is filled under a name nobody looks at and renamed into place when complete, together with an index
of what it holds and what it was made from. No index, or an index that doesn't fit: not there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from lading.layout.beside import fresh_temporary, leftover_of, replaced_name
from lading.layout.project import INDEX
from lading.model import FoundFile
from lading.sources.archives.extract import ExtractedFile
from lading.sources.fingerprint import time_ns
from lading.sources.glob import compile_glob
from lading.storage.folder import fsync_dir, make_dirs, write_atomic


class Index(msgspec.Struct, frozen=True):
    """What a folder holds."""

    made_from: str  # the input, relative to the project
    made_by: str  # "unzip" and its settings, or the script's code and options, hashed
    sha256: str  # of the input
    outputs: tuple[ExtractedFile, ...]


_decoder = msgspec.json.Decoder(Index)


def read_index(folder: Path) -> Index | None:
    """None when the folder isn't there or isn't lading's work: it is then made anew."""
    try:
        return _decoder.decode((folder / INDEX).read_bytes())
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_whole(folder: Path, index: Index) -> bool:
    """Whether every file still is there as it was made: one stat each, none opened."""
    for output in index.outputs:
        try:
            stat = os.stat(folder / output.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if (stat.st_size, time_ns(stat)) != (output.size, output.mtime_ns):
            return False
    return True


def fill_fresh(
    folder: Path,
    fill: Callable[[Path], Sequence[ExtractedFile]],
    *,
    made_from: str,
    made_by: str,
    sha256: str,
) -> Path:
    """Fill a fresh folder beside `folder`, with its index; on any failure nothing stays behind."""
    make_dirs(folder.parent)
    fresh = folder.with_name(fresh_temporary(folder.name))
    try:
        fresh.mkdir()
        outputs = tuple(sorted(fill(fresh), key=lambda one: one.path))
        write_atomic(fresh / INDEX, msgspec.json.encode(Index(made_from, made_by, sha256, outputs)))
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return fresh


def put_in_place(fresh: Path, folder: Path) -> Index:
    """`fresh` becomes `folder`. A folder can't be renamed over another one: killed in between, it is made
    again. The caller holds the folder's lock."""
    old = folder.with_name(replaced_name(folder.name))
    if folder.exists():
        os.rename(folder, old)
    os.rename(fresh, folder)
    fsync_dir(folder.parent)
    sweep(folder)
    index = read_index(folder)
    assert index is not None
    return index


def put_index(folder: Path, index: Index) -> None:
    """For files that only tasks make: a folder that says what they are."""
    make_dirs(folder)
    write_atomic(folder / INDEX, msgspec.json.encode(index))


def found_in(
    folder: Path, index: Index, made_from: str, pattern: str | None, shown: str | None = None
) -> list[FoundFile]:
    """The files as source files: their keys start with the folder's name, their content is their
    fingerprint. `shown` is what stands for the folder in their paths when they aren't there."""
    below = str(folder) if shown is None else shown
    matches = compile_glob(pattern).match if pattern is not None else lambda _: True
    return [
        FoundFile(
            f"{folder.name}/{one.path}", f"{below}/{one.path}", one.size, one.mtime_ns, False,
            archive=made_from, fingerprint=one.sha256,
        )
        for one in index.outputs
        if matches(one.path)
    ]  # fmt: skip


def sweep(folder: Path) -> None:
    """Drop what a killed run left beside `folder`. The caller holds the folder's lock."""
    if not folder.parent.is_dir():
        return
    for one in folder.parent.iterdir():
        if leftover_of(one.name) == folder.name:
            shutil.rmtree(one, ignore_errors=True)
