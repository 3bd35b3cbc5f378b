"""What one Spark task does with rows that are set aside: say what is wrong with each, and write them.

Rows come sorted by source and by their number in the file, so one walk through each file finds all of
their lines, and nothing but the rows at hand is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lading.layout.table import SOURCE, quarantine_path
from lading.model import Column, Format, Layout, Member, Place
from lading.parts.footer import Origin
from lading.parts.write import PartWriter
from lading.spark.read.faults import fault, same_record
from lading.spark.tally import CheckSpec, rejected_bits

ASIDE = pa.schema(
    [
        pa.field(SOURCE, pa.int64()),
        pa.field("file", pa.string()),
        pa.field("record", pa.int64()),  # from 1; the header, blank lines and comments don't count
        pa.field("line", pa.int64()),  # from 1, where the record begins
        pa.field("column", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("text", pa.string()),
    ]
)

_CHUNK = 4096  # rows written at a time

_Row = tuple[int, int | None, str | None, list[bool] | None, int, bool]


@dataclass(frozen=True, slots=True)
class SourceFile:
    key: str
    path: str
    names: tuple[str, ...]  # its columns, in its order


@dataclass(frozen=True, slots=True)
class AsideSpec:
    """All that a task has to know; travels to the workers."""

    table_dir: Place
    origin: Origin
    format: Format
    read_options: Mapping[str, Any]
    columns: tuple[Column, ...]
    layout: Layout | None
    order_by: str | None
    checks: CheckSpec
    check_columns: tuple[str | None, ...]
    files: dict[int, SourceFile]
    records: Callable[[str, str, Mapping[str, Any]], Iterator[tuple[int, str]]]


def write_aside(batches: Iterator[pa.RecordBatch], spec: AsideSpec) -> Iterator[pa.RecordBatch]:
    """Write a task's bad rows, one file a source; yields a member for each."""
    for source, rows in groupby(_rejected(batches, spec), key=lambda row: row[0]):
        described = _Describing(spec, spec.files[source]).described(rows)
        member = write_rows(described, spec.table_dir, spec.origin)
        if member is not None:
            encoded = pa.array([msgspec.msgpack.encode(member)], pa.binary())
            yield pa.RecordBatch.from_arrays([encoded], names=["member"])


def write_rows(rows: Iterator[dict[str, Any]], table_dir: Place, origin: Origin) -> Member | None:
    """A Parquet file of rows that were set aside; None if there are none."""
    writer: PartWriter | None = None
    try:
        while chunk := list(islice(rows, _CHUNK)):
            if writer is None:
                path = quarantine_path(origin.run_id)
                writer = PartWriter(table_dir, 0, ASIDE, origin, path=path)
            writer.write(pa.Table.from_pylist(chunk, ASIDE))
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
    return None if writer is None else writer.close()


def _rejected(batches: Iterator[pa.RecordBatch], spec: AsideSpec) -> Iterator[_Row]:
    """The rows that have to go: a check may reject rows of some sources and tolerate those of others."""
    for batch in batches:
        source = batch.column(0).to_numpy(zero_copy_only=False)
        bits = batch.column(4).to_numpy(zero_copy_only=False) & rejected_bits(source, spec.checks)
        unread = ~np.asarray(batch.column(3).is_null())
        unkeyed = np.asarray(batch.column(5))
        keep = unread | unkeyed | (bits != 0)
        rows = batch.filter(pa.array(keep))
        columns = [column.to_pylist() for column in rows.columns]
        columns[4] = bits[keep].tolist()
        yield from zip(*columns, strict=True)


class _Describing:
    """One file's bad rows, in order, with their lines."""

    def __init__(self, spec: AsideSpec, file: SourceFile) -> None:
        self._spec = spec
        self._file = file
        self._records = spec.records(file.path, spec.format, spec.read_options)
        self._at = 0
        self._found: tuple[int, str] | None = None

    def described(self, rows: Iterator[_Row]) -> Iterator[dict[str, Any]]:
        for source, record, text, nulls, bits, unkeyed in rows:
            place = self._place(record)
            if nulls is not None and place is not None and not self._same(place[1], text or ""):
                place = None  # the two readers disagree on what a record is: no line rather than a wrong one
                self._records = iter(())
                self._found = None
            column, reason = self._why(text or "", nulls, bits, unkeyed)
            yield {
                SOURCE: source,
                "file": self._file.key,
                "record": record,
                "line": place[0] if place else None,
                "column": column,
                "reason": reason,
                "text": text if place is None else place[1],
            }

    def _same(self, one: str, other: str) -> bool:
        return same_record(one, other, self._spec.format, self._spec.read_options)

    def _place(self, record: int | None) -> tuple[int, str] | None:
        """Line and text of a record; they are asked for in ascending order."""
        if record is None:
            return None
        while self._at < record:
            self._found = next(self._records, None)
            self._at = record if self._found is None else self._at + 1
        return self._found

    def _why(self, text: str, nulls: list[bool] | None, bits: int, unkeyed: bool) -> tuple[str | None, str]:
        spec = self._spec
        if nulls is not None:
            unread = {c.name: c for c, is_null in zip(spec.columns, nulls, strict=True) if is_null}
            return fault(
                text,
                fmt=spec.format,
                options=spec.read_options,
                names=self._file.names,
                unread=unread,
                layout=spec.layout,
            )
        if unkeyed:
            return spec.order_by, f"the order column {spec.order_by!r} is null"
        broken = [number for number in range(len(spec.checks.names)) if bits & (1 << number)]
        said = ", ".join(repr(spec.checks.names[number]) for number in broken)
        return spec.check_columns[broken[0]], f"fails the check {said}"
