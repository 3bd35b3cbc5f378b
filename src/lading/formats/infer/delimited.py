"""Columns of delimited text: every field read as text by Arrow, and classified in blocks."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lading.errors import SourceError
from lading.formats.heads import Dialect, delimited_header, first_record
from lading.formats.infer.fits import Fits
from lading.formats.infer.kinds import Kinds
from lading.formats.infer.trail import ColumnTrail, Step, shown
from lading.formats.opening import READ_ERRORS, open_plain, undecodable, unreadable
from lading.model import Column, Format, FoundFile

_BLOCK = 4 << 20
_LARGEST = 512 << 20


@dataclass(frozen=True, slots=True)
class DelimitedLook:
    """How to look at the files of a table. `pinned` are columns that values are to be held against."""

    read_options: Mapping[str, Any]
    format: Format
    names: tuple[str, ...] | None = None  # of files that have no header
    pinned: Mapping[str, Column] = field(default_factory=dict)
    limit: int | None = None  # bytes of each file

    def at(self, found: FoundFile) -> DelimitedFile:
        """What one file holds."""
        dialect = Dialect.of(self.read_options, self.format)
        names = delimited_header(found.path, self.read_options, self.format) if dialect.header else self.names
        record = first_record(found.path, dialect)
        if names is None or record is None:
            return DelimitedFile()
        if len(names) != len(record.fields):
            raise SourceError(
                f"{found.key}: line {record.last_line} has {len(record.fields)} fields, "
                f"the schema has {len(names)} columns",
                hint="without a header, columns follow the order of the schema; fix the file or the schema",
                file=found.key,
            )
        skip = record.last_line if dialect.header else dialect.skip
        block = _BLOCK
        while True:
            looker = _Looker(self, dialect, names)
            try:
                with open_plain(found.path) as plain:
                    for batch in looker.batches(_head(plain, self.limit), skip, block):
                        looker.see(batch)
                return looker.file
            except UnicodeDecodeError as error:
                raise undecodable(found.key, found.path, dialect.encoding) from error
            except READ_ERRORS as error:
                raise unreadable(found.path, error) from error
            except pa.ArrowInvalid as error:
                # A record longer than a block: pyarrow wants it whole.
                if "straddl" not in str(error) or block > _LARGEST:
                    raise SourceError(
                        f"{found.key} can't be read as delimited text: {error}",
                        hint="check `delimiter`, `quote` and `encoding` in the table's read_options",
                        file=found.key,
                    ) from error
                block *= 16


@dataclass(slots=True)
class DelimitedFile:
    rows: int = 0
    trails: dict[str, ColumnTrail] = field(default_factory=dict)
    misfits: dict[str, Step] = field(
        default_factory=dict
    )  # by pinned column: the first value of another type


class _Looker:
    """Goes through the blocks of one file."""

    def __init__(self, look: DelimitedLook, dialect: Dialect, names: tuple[str, ...]) -> None:
        self.file = DelimitedFile(trails={name: ColumnTrail() for name in names if name not in look.pinned})
        self._look = look
        self._dialect = dialect
        self._names = names
        self._kinds = Kinds.of(look.read_options)
        self._fits = Fits(self._kinds)
        self._ragged: list[int] = []  # rows that Arrow left out, counted from 1
        self._nulls = ["", *self._kinds.texts.nulls]

    def batches(self, stream: IO[bytes], skip: int, block: int) -> Any:
        dialect = self._dialect
        try:
            return pa_csv.open_csv(
                stream,
                read_options=pa_csv.ReadOptions(
                    column_names=self._names,
                    skip_rows=skip,
                    block_size=block,
                    use_threads=False,
                    encoding="utf8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=dialect.quote,
                    double_quote=dialect.escape is None,
                    escape_char=dialect.escape or False,
                    newlines_in_values=dialect.multiline,
                    # A ragged row is a bad row when it is read; here it says nothing of the types.
                    invalid_row_handler=self._left_out(skip),
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(self._names, pa.string()),
                    null_values=self._nulls,
                    strings_can_be_null=True,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return ()
            raise

    def see(self, batch: pa.RecordBatch) -> None:
        start = self.file.rows
        self.file.rows += batch.num_rows
        if self._dialect.comment is not None:
            comment = pc.fill_null(pc.starts_with(batch.column(0), self._dialect.comment), False)
            self.file.rows -= pc.sum(comment).as_py() or 0
            batch = batch.filter(pc.invert(comment))
        for position, name in enumerate(self._names):
            trail = self.file.trails.get(name)
            if trail is not None and trail.kind == "string":
                trail.values += batch.num_rows - batch.column(position).null_count
            elif trail is not None or name not in self.file.misfits:
                self._see_column(name, trail, batch.column(position), start)

    def _see_column(self, name: str, trail: ColumnTrail | None, column: pa.Array, start: int) -> None:
        present = pc.is_valid(column)
        values = column.filter(present)
        if self._dialect.trim:
            values = pc.utf8_trim_whitespace(values)
            said = pc.not_equal(values, "")
            values, present = values.filter(said), pc.and_(present, _spread(said, present))

        def row_of(place: int) -> int:
            return self._row(start + pc.indices_nonzero(present)[place].as_py())

        if trail is not None:
            trail.see(self._kinds, values, row_of)
            return
        at = self._fits.first_misfit(values, self._look.pinned[name])
        if at is not None:
            self.file.misfits[name] = Step("", row_of(at), shown(values[at]))

    def _row(self, place: int) -> int:
        """The row of the n-th record that Arrow took, from 1; those that it left out are rows too."""
        row = place + 1
        for left_out in self._ragged:
            row += left_out <= row
        return row

    def _left_out(self, skip: int) -> Callable[[Any], str]:
        def skipped(row: Any) -> str:
            if row.number is not None:
                self._ragged.append(row.number - skip)
            return "skip"

        return skipped


def _spread(said: pa.Array, present: pa.Array) -> pa.Array:
    """`said`, which has an entry for each place that is set in `present`, over all places."""
    places = pc.indices_nonzero(present).filter(said)
    return pc.is_in(pa.array(range(len(present)), pa.uint64()), value_set=places.cast(pa.uint64()))


def _head(plain: IO[bytes], limit: int | None) -> IO[bytes]:
    """The file, or whole lines from its first `limit` bytes."""
    if limit is None:
        return plain
    data = plain.read(limit)
    if len(data) == limit:
        data = data[: data.rfind(b"\n") + 1]
    return io.BytesIO(data)
