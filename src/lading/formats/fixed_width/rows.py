"""The reader of fixed-width lines: columns are slices of an array of lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.arrow_types import arrow_schema
from lading.formats.lines import BLOCK, encoding_name, line_blocks, text_lines, utf8_chunks
from lading.formats.lines import may_be_cut as lines_may_be_cut
from lading.formats.magic import HEAD, refuse_no_text
from lading.formats.opening import READ_ERRORS, unreadable
from lading.formats.reader import WHOLE, Bad, Head, Piece, ReadSpec, Rows
from lading.formats.reasons import is_not, too_short, undecodable
from lading.formats.rules import Fault, Rules
from lading.formats.source_file import SourceFile
from lading.model import Column, Field, Layout

_LF = 0x0A


class FixedWidthReader:
    """Reads the files of one table, whose layout is the spec's."""

    def __init__(self, spec: ReadSpec, *, block: int = BLOCK) -> None:
        assert spec.layout is not None, "a fixed-width table has a layout"
        self._spec = spec
        self._layout: Layout = spec.layout
        self._encoding = str(spec.options.get("encoding", "utf-8"))
        self._rules = Rules(spec)
        self._columns = {column.name: column for column in spec.columns}
        self._schema = arrow_schema(spec.columns)
        self._block = block

    def head(self, file: SourceFile) -> Head | None:
        """None: lines say nothing of their columns. A file that is no text is refused all the same."""
        self._skipped(file)
        return None

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        starts, size = self._skipped(file)
        above = sum(piece.start <= start and (piece.end is None or start < piece.end) for start in starts)
        records, lines = 0, above
        try:
            chunks = utf8_chunks(file, piece, self._encoding, self._block, size)
            for data in line_blocks(chunks, self._block, file.key):
                rows = self._rows(_Lines(data), records, lines, above)
                records, lines, above = records + rows.taken_records, lines + rows.taken_lines - above, 0
                yield rows
            if above:
                yield self._rows(_Lines(b""), 0, 0, above)
        except READ_ERRORS as error:
            raise unreadable(file.key, error) from error

    def _skipped(self, file: SourceFile) -> tuple[list[int], int]:
        """Where the lines begin that are left out at the start, and how long they are together."""
        try:
            with file.open() as stream:
                start = stream.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
                refuse_no_text(file.key, start, self._spec.format, self._encoding)
                skip = int(self._spec.options.get("skip", 0))
                lengths = [length for _, length in islice(text_lines(stream, self._encoding), skip)]
        except READ_ERRORS as error:
            raise unreadable(file.key, error) from error
        ends = np.cumsum([0, *lengths]).tolist()
        return ends[:-1], ends[-1]

    def _rows(self, lines: _Lines, records: int, before: int, above: int) -> Rows:
        """`records` and `before` are the records and lines of the piece before this block."""
        kept = np.flatnonzero(self._is_record(lines))
        short = lines.lengths < self._layout.width
        faults: dict[int, Fault] = {
            place: (None, undecodable(encoding_name(self._encoding))) for place in lines.undecodable
        }
        for place in kept[short[kept]].tolist():
            faults.setdefault(place, (None, too_short(int(lines.lengths[place]), self._layout.width)))
        full = kept[~np.isin(kept, np.fromiter(faults, np.int64))] if faults else kept
        values = self._values(lines, full, faults)
        good = ~np.isin(full, np.fromiter(faults, np.int64)) if faults else np.ones(len(full), bool)
        batch = pa.RecordBatch.from_arrays([values[name] for name in self._schema.names], schema=self._schema)
        places = full[good]
        numbers = np.zeros(len(lines.lengths), np.int64)
        numbers[kept] = np.arange(records + 1, records + 1 + len(kept))
        bad = [
            Bad(
                int(numbers[place]), place + before + 1, column, reason, lines.text(place),
                self._rules.sets_aside(column),
            )
            for place, (column, reason) in sorted(faults.items())
            if numbers[place]
        ]  # fmt: skip
        return Rows(
            batch if good.all() else batch.filter(pa.array(good)),
            numbers[places],
            places + before + 1,
            lambda rows: [lines.text(int(places[row])) for row in rows],
            tuple(bad),
            taken_records=len(kept),
            taken_lines=len(lines.lengths) + above,
            cells=lambda name, rows: [self._cell(lines.text(int(places[row])), name) for row in rows],
        )

    def _cell(self, line: str, name: str) -> str | None:
        field = next((one for one in self._layout.fields if one.name == name), None)
        return None if field is None else line[field.start : field.start + field.length].strip(" ")

    def _is_record(self, lines: _Lines) -> np.ndarray:
        """Which lines the filter lets through. One too short to tell is a bad row, not another record."""
        if self._layout.filter is None:
            return np.ones(len(lines.lengths), bool)
        position, length, value = self._layout.filter
        same = pc.equal(lines.slices(lines.array, position, length), value)
        found: np.ndarray = same.to_numpy(zero_copy_only=False) | (lines.lengths < position + length)
        return found

    def _values(self, lines: _Lines, places: np.ndarray, faults: dict[int, Fault]) -> dict[str, pa.Array]:
        """By column, of the lines at `places`; a text that is no value is a fault of its line."""
        array = lines.array if len(places) == len(lines.array) else lines.array.take(pa.array(places))
        values: dict[str, pa.Array] = {}
        for field in self._layout.fields:
            column = self._columns.get(field.name, Column(field.name, field.type))
            texts = _bare(lines.slices(array, field.start, field.length), field)
            read, misfits = self._rules.texts(field.name).read(texts, column)
            values[field.name] = self._rules.filled(read, field.name)
            for row in () if misfits is None else pc.indices_nonzero(misfits).to_pylist():
                text = texts[row].as_py()
                fault = (field.name, f"{text!r} {is_not(text, column)}")
                self._rules.blame(faults, int(places[row]), fault)
        return values


def _bare(texts: pa.Array, field: Field) -> pa.Array:
    if field.type == "string" and not field.trim:
        return texts
    bare = pc.utf8_trim(texts, " ")
    return (
        pc.if_else(pc.equal(bare, ""), pa.scalar(None, bare.type), bare) if field.type == "string" else bare
    )


class _Lines:
    """The lines of a block, each of which ends with LF."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LF) + 1
        self._starts = np.concatenate(([0], ends)).astype(np.int32)
        self._ascii = data.isascii()
        self.undecodable: list[int] = []
        # As they lie in the block, line ends and all, so that nothing is copied.
        buffers = [None, pa.py_buffer(self._starts), pa.py_buffer(data)]
        self.array = pa.Array.from_buffers(pa.string(), len(ends), buffers)
        if not self._ascii and not _is_utf8(data):
            self._decode()
        lengths = pc.binary_length(self.array) if self._ascii else pc.utf8_length(self.array)
        self.lengths: np.ndarray = lengths.to_numpy(zero_copy_only=False) - 1

    def text(self, place: int) -> str:
        return str(self.array[place].as_py())[:-1]

    def slices(self, array: pa.Array, start: int, length: int) -> pa.Array:
        """A slice of each of these lines, by characters; too short where the line is."""
        if self._ascii:
            return pc.binary_slice(array.view(pa.binary()), start, start + length).view(pa.string())
        return pc.utf8_slice_codeunits(array, start, start + length)

    def _decode(self) -> None:
        """With a mark in place of what can't be decoded."""
        texts = []
        for place in range(len(self.array)):
            line = self._data[self._starts[place] : self._starts[place + 1]]
            texts.append(line.decode(errors="replace"))
            if "\ufffd" in texts[-1] and not _is_utf8(line):
                self.undecodable.append(place)
        self.array = pa.array(texts, pa.string())


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def reader(spec: ReadSpec) -> FixedWidthReader:
    return FixedWidthReader(spec)


def may_be_cut(spec: ReadSpec, path: str) -> bool:
    return lines_may_be_cut(path, str(spec.options.get("encoding", "utf-8")))
