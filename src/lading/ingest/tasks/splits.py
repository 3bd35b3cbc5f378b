"""Which task reads what: files become tasks by their names and sizes alone, nothing is opened.

Small files are packed together, large ones cut where their format allows it; a cut file is digested by a
task of its own, since a SHA-256 can't be put together from pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lading.formats.reader import WHOLE, Piece, ReadSpec
from lading.formats.registry import may_be_cut
from lading.formats.source_file import SourceFile
from lading.parts.packs import packed

SHARE = (16 << 20, 96 << 20)  # bytes of files that a task reads: less doesn't pay, more is sorted twice
_ROUNDS = 3  # of tasks a core: the slowest of them is then a small part of the whole
_FILES = 1_000  # that a task opens at most


@dataclass(frozen=True, slots=True)
class FilePiece:
    """What a task reads of one file. Without a piece, the file is only digested."""

    file: SourceFile
    source: int
    piece: Piece | None = WHOLE
    names: tuple[str | None, ...] = ()  # the values that its name gives, in the order of the columns
    together: str | None = None  # of files that are made together: one task had better read them all

    @property
    def is_cut(self) -> bool:
        return self.piece is not None and self.piece != WHOLE

    @property
    def bytes(self) -> int:
        if self.piece is None:
            return self.file.size // 8  # it is only hashed
        end = self.file.size if self.piece.end is None else self.piece.end
        return end - self.piece.start


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Files and pieces that one task reads, one after the other."""

    number: int
    pieces: tuple[FilePiece, ...]

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.pieces)


def make_tasks(files: Sequence[FilePiece], spec: ReadSpec, cores: int) -> list[ReadTask]:
    """Whole files, in their order, as tasks for so many cores; without any, one task reads them all: rows
    need no fold then."""
    if not cores:
        return [ReadTask(0, tuple(files))] if files else []
    total = sum(one.bytes for one in files)
    share = max(SHARE[0], min(SHARE[1], -(-total // (cores * _ROUNDS))))
    pieces = list(_pieces(files, spec, share))
    packs = packed(pieces, lambda piece: piece.bytes, share, most=_FILES, stays=_together)
    return [ReadTask(number, tuple(pack)) for number, pack in enumerate(packs)]


def _pieces(files: Iterable[FilePiece], spec: ReadSpec, share: int) -> Iterator[FilePiece]:
    for one in files:
        size = one.file.size
        whole = one.piece is None or one.file.made is not None  # who reads a piece would make all of it
        if size < 2 * share or whole or not may_be_cut(spec, one.file.path):
            yield one
            continue
        yield FilePiece(one.file, one.source, None)
        count = round(size / share)
        cuts = [size * number // count for number in range(count)]
        for start, end in zip(cuts, [*cuts[1:], None], strict=True):
            yield FilePiece(one.file, one.source, Piece(start, end), one.names)


def _together(before: FilePiece, piece: FilePiece) -> bool:
    return piece.together is not None and piece.together == before.together
