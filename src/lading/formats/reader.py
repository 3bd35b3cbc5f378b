"""What every format says of itself, and what a reader gives: rows, and bad rows with their places.

A format is one file here. Its reader goes through a file, or a piece of one, in one pass and in bounded
memory, and gives blocks of rows; whatever does not fit is a bad row with its line, its column and the reason.
Nothing here knows Spark: the same code reads in a task, on the driver and in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lading.config.names import EXACT, Naming
from lading.formats.source_file import SourceFile
from lading.late import np, pa
from lading.model import STRICT, Column, ColumnRule, Format, Layout, Policy


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """How a table's files are read; travels to the workers."""

    format: Format
    options: Mapping[str, Any]  # the table's read_options
    columns: tuple[Column, ...]  # the schema's, without those that come from file names
    policy: Policy = STRICT
    layout: Layout | None = None  # of fixed-width lines
    name_columns: tuple[str, ...] = ()  # that come from file names: no file may hold them too
    naming: Naming = EXACT  # what the headers of files are called in the table
    rules: tuple[ColumnRule, ...] = ()  # what lading.yaml says of single columns


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes of a file from `start` up to `end`: the records that begin there, whole."""

    start: int = 0
    end: int | None = None  # None: to the end of the file


WHOLE = Piece()


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that does not fit."""

    record: int  # from 1 in the piece; the header, blank lines and comments don't count
    line: int | None  # from 1 in the piece, where the record begins; None where records have no lines
    column: str | None  # the one to blame, if one is
    reason: str
    text: str  # as it stands in the file; what can't be decoded is replaced
    quarantine: bool = False  # whether it is set aside whatever `on_bad` says


@dataclass(frozen=True, slots=True)
class Rows:
    """One block of a file."""

    batch: pa.RecordBatch  # the rows that fit: the columns of the spec, in its order, with its types
    records: np.ndarray  # the number of each of them, as in `Bad`
    lines: np.ndarray | None  # where each of them begins, as in `Bad`
    texts: Callable[[Sequence[int]], list[str]]  # of rows of the batch, by their places in it
    bad: tuple[Bad, ...] = ()
    taken_records: int = 0  # good and bad ones, in this block
    taken_lines: int = 0  # of the file, in this block: whoever reads the next piece adds them up
    ignored: int = 0  # rows that hold keys which the table leaves out
    # What stands in the file for a column, in rows of the batch; None where files hold values and not text.
    cells: Callable[[str, Sequence[int]], list[str | None]] | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says of its columns."""

    columns: Mapping[str, str | None]  # names in the file's order, with types where the file has them
    ignored: tuple[str, ...] = field(default=())  # those that the table leaves out


class Reader(Protocol):
    """How the files of one table are read. SourceError is for a file that can't be read at all, SchemaDrift
    for one whose columns don't do."""

    def head(self, file: SourceFile) -> Head | None:
        """None for a file without a record, or of a format in which every record speaks for itself."""
        ...

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        """The records that begin in the piece."""
        ...
