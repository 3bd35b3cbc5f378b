"""ORC: types from the footer, rows in batches from the start of the file to its end.

Where a stripe begins, pyarrow doesn't tell, and reading one at a time would hold all of it; so a file is
read whole, as a stream. ORC's timestamps have nanoseconds: one that is finer than a microsecond is a bad row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as orc

from lading.errors import SourceError
from lading.formats.file_types import columns_of
from lading.formats.reader import WHOLE, Head, Piece, ReadSpec, Rows
from lading.formats.source_file import SourceFile
from lading.formats.typed import FileTypes, Stored, rows_of

_BLOCK = 16 << 20  # bytes of a batch
_ROWS = 1 << 15  # of a batch, at most
_UNPACKED = 8  # times what a row takes in the file, roughly


def reader(spec: ReadSpec) -> OrcReader:
    return OrcReader(spec)


def may_be_cut(spec: ReadSpec, path: str) -> bool:
    return False


def types(file: SourceFile) -> FileTypes:
    """From the footer."""
    with _named(file), file.seekable() as raw:
        opened = orc.ORCFile(raw)
        return FileTypes(columns_of(file.key, opened.schema), opened.nrows)


@dataclass(frozen=True, slots=True)
class OrcReader:
    spec: ReadSpec
    block: int = _BLOCK

    def head(self, file: SourceFile) -> Head:
        return self._stored(file).head

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        assert piece.start == 0, "an ORC file is read whole"
        stored = self._stored(file)
        yield from rows_of(self.spec, stored, self._batches(file, stored.wanted(self.spec)))

    def _stored(self, file: SourceFile) -> Stored:
        with _named(file), file.seekable() as raw:
            return Stored.of(file.key, orc.ORCFile(raw).schema, self.spec)

    def _batches(self, file: SourceFile, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        with _named(file), file.seekable() as raw:
            opened = orc.ORCFile(raw)
            a_row = max(1, _UNPACKED * file.size // max(1, opened.nrows))
            scanner = (
                ds.OrcFileFormat()
                .make_fragment(raw)
                .scanner(
                    columns=wanted,
                    batch_size=max(1, min(_ROWS, self.block // a_row)),
                    batch_readahead=0,
                    use_threads=False,
                )
            )
            yield from scanner.to_reader()


@contextmanager
def _named(file: SourceFile) -> Iterator[None]:
    """What is wrong with the file is said of it, wherever in it that shows."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise SourceError(
            f"{file.key} can't be read as ORC: {error}",
            hint="check that the file is complete and that the table's `format` is right; "
            "timestamps must lie between the years 1678 and 2262",
            file=file.key,
        ) from error
