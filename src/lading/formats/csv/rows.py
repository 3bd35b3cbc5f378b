"""The reader of delimited text.

Arrow's parser gives every field as text; formats/values.py makes values of them. A record that is not plain
is taken out and scanned by itself, so that one of them doesn't slow down the others of its block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lading.formats.arrow_types import arrow_schema
from lading.formats.csv.cut import Cut, cut_lines, cut_records
from lading.formats.csv.head import Top, top_of
from lading.formats.csv.scan import Marks, Scanner
from lading.formats.dialect import Dialect
from lading.formats.drift import check_columns
from lading.formats.lines import BLOCK, BOM, encoding_name, line_blocks, utf8_chunks
from lading.formats.lines import may_be_cut as lines_may_be_cut
from lading.formats.opening import READ_ERRORS, unreadable
from lading.formats.reader import WHOLE, Bad, Head, Piece, Reader, ReadSpec, Rows
from lading.formats.reasons import NEVER_CLOSED, field_count, is_not, undecodable
from lading.formats.rules import Fault, Rules
from lading.formats.source_file import SourceFile
from lading.model import Column

_SHOWN = 1 << 16  # characters of a record whose quote is never closed
_BLANKS = " \t\n\r\v\f"


def reader(spec: ReadSpec) -> Reader:
    return CsvReader(spec)


def may_be_cut(spec: ReadSpec, path: str) -> bool:
    dialect = Dialect.of(spec.options, spec.format)
    return not dialect.multiline and lines_may_be_cut(path, dialect.encoding)


class CsvReader:
    """Reads the files of one table."""

    def __init__(self, spec: ReadSpec, *, block: int = BLOCK) -> None:
        self._spec = spec
        self._dialect = Dialect.of(spec.options, spec.format)
        self._marks = Marks.of(self._dialect)
        self._block = block

    def head(self, file: SourceFile) -> Head | None:
        try:
            top = top_of(file, self._spec)
        except READ_ERRORS as error:
            raise unreadable(file.key, error) from error
        return None if top.names is None else Head(dict.fromkeys(top.names), self._ignored(file, top.names))

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        try:
            top = top_of(file, self._spec)
            if top.names is not None:
                self._ignored(file, top.names)
            yield from self._rows(file, piece, top)
        except READ_ERRORS as error:
            raise unreadable(file.key, error) from error

    def _ignored(self, file: SourceFile, names: tuple[str, ...]) -> tuple[str, ...]:
        return check_columns(file.key, names, self._spec)

    def _rows(self, file: SourceFile, piece: Piece, top: Top) -> Iterator[Rows]:
        above = sum(piece.start <= start and (piece.end is None or start < piece.end) for start in top.starts)
        block = _Block(self._spec, self._marks, encoding_name(self._dialect.encoding), top.names or ())
        chunks = utf8_chunks(file, piece, self._dialect.encoding, self._block, top.size)
        records = 0
        lines = above
        for cut in self._cuts(chunks, file.key):
            rows = block.rows(cut, records, lines, above)
            records, lines, above = records + rows.taken_records, lines + cut.line_count, 0
            yield rows
        if above:
            yield block.nothing(above)

    def _cuts(self, chunks: Iterator[bytes], key: str) -> Iterator[Cut]:
        if self._dialect.multiline:
            return cut_records(chunks, self._marks, self._block, key)
        return (cut_lines(data, self._marks) for data in line_blocks(chunks, self._block, key))


@dataclass(slots=True)
class _Parsed:
    """Texts of the columns that are wanted, row by row, and what could not be parsed."""

    columns: dict[int, pa.Array]  # by their place in the file
    places: np.ndarray  # which record of the block each row is
    faults: dict[int, Fault]  # by record: the column, if one is to blame, and the reason


class _Block:
    """Makes rows of blocks, whose columns are `names`."""

    def __init__(self, spec: ReadSpec, marks: Marks, encoding: str, names: Sequence[str]) -> None:
        by_name = {column.name: column for column in spec.columns}
        self._wanted: dict[int, Column] = {
            place: by_name[name] for place, name in enumerate(names) if name in by_name
        }
        self._width = len(names)
        self._marks = marks
        self._encoding = encoding
        self._pads = spec.options.get("ragged") == "pad"
        self._rules = Rules(spec)
        self._texts = {column.name: self._rules.texts(column.name) for column in self._wanted.values()}
        self._scanner = Scanner(marks)
        self._columns = spec.columns
        self._schema = arrow_schema(spec.columns)
        self._places = {column.name: place for place, column in self._wanted.items()}

    def nothing(self, lines: int) -> Rows:
        none = np.empty(0, np.int64)
        batch = self._schema.empty_table().combine_chunks().to_batches()
        empty = batch[0] if batch else pa.RecordBatch.from_pylist([], self._schema)
        return Rows(empty, none, none, lambda _: [], taken_lines=lines)

    def rows(self, cut: Cut, records: int, lines: int, above: int) -> Rows:
        """`records` and `lines` are those of the piece before this block."""
        kept = np.flatnonzero(self._is_record(cut))
        parsed = self._parsed(cut, kept)
        values = self._values(parsed)
        numbers = np.full(len(cut.starts), 0, np.int64)
        numbers[kept] = np.arange(records + 1, records + 1 + len(kept))
        good = np.ones(len(parsed.places), bool)
        if parsed.faults:
            good = ~np.isin(parsed.places, np.fromiter(parsed.faults, np.int64))
        places = parsed.places[good]
        arrays = [
            values[column.name] if column.name in values else self._rules.lacking(column, len(parsed.places))
            for column in self._columns
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if len(places) != len(parsed.places):
            batch = batch.filter(pa.array(good))
        bad = [
            Bad(
                int(numbers[place]), int(cut.lines[place]) + lines + 1, column, reason,
                _text(cut, place)[: _SHOWN if reason == NEVER_CLOSED else None],
                self._rules.sets_aside(column),
            )
            for place, (column, reason) in sorted(parsed.faults.items())
        ]  # fmt: skip
        return Rows(
            batch,
            numbers[places],
            cut.lines[places] + lines + 1,
            lambda rows: [_text(cut, places[row]) for row in rows],
            tuple(bad),
            taken_records=len(kept),
            taken_lines=cut.line_count + above,
            cells=lambda name, rows: [self._cell(cut, places[row], name) for row in rows],
        )

    def _cell(self, cut: Cut, place: int, name: str) -> str | None:
        record = self._scanner.record(cut.data[cut.starts[place] : cut.ends[place]])
        at = self._places.get(name)
        if record is None or at is None or at >= len(record.fields):
            return None  # no column of the file, or of a line that ends before it
        cell = record.fields[at]
        text = None if cell is None else cell.decode()
        return text if text is None or not self._marks.trim else text.strip(_BLANKS)

    def _is_record(self, cut: Cut) -> np.ndarray:
        """Which are neither empty nor a comment."""
        said = cut.ends > cut.starts
        comment = self._marks.comment
        if comment is not None and comment in cut.data:
            codes = np.frombuffer(cut.data, np.uint8)
            maybe = np.flatnonzero(said & (codes[np.minimum(cut.starts, len(codes) - 1)] == comment[0]))
            begins = [place for place in maybe.tolist() if cut.data.startswith(comment, cut.starts[place])]
            said[begins] = False
        return said

    def _parsed(self, cut: Cut, kept: np.ndarray) -> _Parsed:
        faults: dict[int, Fault] = {}
        for place in self._undecodable(cut, kept):
            faults[place] = (None, undecodable(self._encoding))
        strange = cut.strange.copy()
        strange[self._marked(cut)] = True
        plain = np.zeros(len(cut.starts), bool)
        plain[kept] = ~strange[kept]
        if faults:
            plain[list(faults)] = False
        columns, ragged = self._by_arrow(_only(cut, plain))
        rows = np.flatnonzero(plain)
        alone = kept[~plain[kept]]
        if ragged:
            alone = np.union1d(alone, rows[ragged])
            rows = np.delete(rows, ragged)
        scanned = self._scanned(cut, [place for place in alone.tolist() if place not in faults], faults)
        if scanned:
            order = np.argsort(np.concatenate((rows, np.fromiter(scanned, np.int64))), kind="stable")
            rows = np.concatenate((rows, np.fromiter(scanned, np.int64)))[order]
            columns = {
                place: pa.concat_arrays(
                    [texts, pa.array([fields[place] for fields in scanned.values()], pa.string())]
                ).take(pa.array(order))
                for place, texts in columns.items()
            }
        return _Parsed(columns, rows, faults)

    def _undecodable(self, cut: Cut, kept: np.ndarray) -> Iterator[int]:
        if cut.data.isascii() or _is_utf8(cut.data):
            return
        for place in kept.tolist():
            if not _is_utf8(cut.data[cut.starts[place] : cut.ends[place]]):
                yield place

    def _marked(self, cut: Cut) -> list[int]:
        """Records that begin with a byte order mark, which Arrow would take for the file's."""
        if cut.data.isascii() or BOM not in cut.data:
            return []
        return [place for place, at in enumerate(cut.starts.tolist()) if cut.data.startswith(BOM, at)]

    def _by_arrow(self, data: bytes) -> tuple[dict[int, pa.Array], list[int]]:
        """The texts of plain records, and which of them have another number of fields."""
        ragged: list[int] = []
        names = [str(place) for place in range(self._width)]
        wanted = [str(place) for place in self._wanted] or [
            "0"
        ]  # which says at least how many rows there are
        if not data:
            return {place: pa.array([], pa.string()) for place in self._wanted}, ragged

        def left_out(row: pa_csv.InvalidRow) -> str:
            ragged.append(row.number - 1)
            return "skip"

        table = pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._marks.delimiter.decode(),
                quote_char=self._marks.quote.decode(),
                double_quote=self._marks.escape is None,
                newlines_in_values=True,
                invalid_row_handler=left_out,
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                check_utf8=False,
            ),
        )
        texts = (column.combine_chunks() for column in table.columns)
        return dict(zip(self._wanted, texts, strict=False)), ragged

    def _scanned(
        self, cut: Cut, places: Sequence[int], faults: dict[int, Fault]
    ) -> dict[int, list[str | None]]:
        """The fields of records that are taken apart one by one."""
        found: dict[int, list[str | None]] = {}
        for place in places:
            record = self._scanner.record(cut.data[cut.starts[place] : cut.ends[place]])
            assert record is not None
            fields = [None if one is None else one.decode() for one in record.fields]
            missing = self._width - len(fields)
            if record.problem is not None:
                faults[place] = (None, record.problem)
            elif missing < 0 or (missing and not self._pads):
                faults[place] = (None, field_count(len(fields), self._width))
            else:
                found[place] = [*fields, *[None] * missing]
        return found

    def _values(self, parsed: _Parsed) -> dict[str, pa.Array]:
        """By column; a record with a text that is no value is a fault of the first such column."""
        values: dict[str, pa.Array] = {}
        for place, column in self._wanted.items():
            texts = _trimmed(parsed.columns[place]) if self._marks.trim else parsed.columns[place]
            read, misfits = self._texts[column.name].read(texts, column)
            values[column.name] = self._rules.filled(read, column.name)
            for row in () if misfits is None else pc.indices_nonzero(misfits).to_pylist():
                text = texts[row].as_py()
                fault = (column.name, f"{text!r} {is_not(text, column)}")
                self._rules.blame(parsed.faults, int(parsed.places[row]), fault)
        return values


def _trimmed(texts: pa.Array) -> pa.Array:
    """A text of only spaces says as little as none."""
    bare = pc.utf8_trim(texts, _BLANKS)
    blank = pc.and_(pc.equal(bare, ""), pc.not_equal(texts, ""))
    return pc.if_else(blank, pa.scalar(None, pa.string()), bare)


def _only(cut: Cut, plain: np.ndarray) -> bytes:
    """The data of these records alone."""
    if plain.all():
        return cut.data[: cut.nexts[-1]] if len(cut.nexts) else b""
    codes = np.frombuffer(cut.data, np.uint8)[: cut.nexts[-1]]
    return bytes(codes[np.repeat(plain, cut.nexts - cut.starts)])


def _text(cut: Cut, place: int) -> str:
    return cut.data[cut.starts[place] : cut.ends[place]].decode(errors="replace")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
