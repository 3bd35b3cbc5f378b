"""One member's rows in the table's terms: its columns, its types, without what no longer counts.

Scan and lookup both read parts through here, so a `minus`, an older schema and a damaged file mean
the same to both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from lading.errors import PartError
from lading.model import Member, Place
from lading.parts.footer_zones import FOOTERS, OpenPart
from lading.parts.live import columns_to_read, without_sources
from lading.parts.open import row_batches, shown_path
from lading.parts.schema import conformed
from lading.where.bind import Predicate, columns_of
from lading.where.filter import row_filter

_BATCH_ROWS = 128 * 1024
_HINT = (
    "`lading verify` (`lading collection check` for a collection) lists what is damaged; "
    "`lading run --full` builds a table again from its sources"
)


@dataclass
class Tally:
    """What was touched so far; readers report it."""

    files: int = 0
    row_groups: int = 0
    row_groups_total: int = 0


@dataclass(frozen=True)
class WantedRows:
    """What to read of every part."""

    schema: pa.Schema  # the table's
    columns: Sequence[str]
    where: Predicate | None = None  # bound
    tally: Tally = field(default_factory=Tally)


def read_part(root: Place, member: Member, wanted: WantedRows) -> Iterator[pa.RecordBatch]:
    """The matching rows of one member, batch by batch; only row groups that may hold any are read."""
    path = _inside(root, member.path)
    needed = _needed(wanted)
    keep = row_filter(wanted.where, needed)
    file, part = _opened(root, member, path)
    with file:
        wanted.tally.files += 1
        for batch in _stored(root, file, part, path, needed, wanted, member.minus):
            live = without_sources(batch, member.minus)
            if not live.num_rows:
                continue
            rows = conformed(live, needed, path, _HINT)
            kept = rows if keep is None else keep(rows)
            if kept.num_rows:
                yield kept.select(list(wanted.columns))


def _opened(root: Place, member: Member, path: str) -> tuple[pq.ParquetFile, OpenPart]:
    try:
        return FOOTERS.open(root, member)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


def _stored(
    root: Place,
    file: pq.ParquetFile,
    part: OpenPart,
    path: str,
    needed: pa.Schema,
    wanted: WantedRows,
    minus: Sequence[int],
) -> Iterator[pa.RecordBatch]:
    """What the part has of these columns, as it is stored, and where each row comes from if some are dead."""
    groups = _groups(part, wanted)
    if not groups:
        return
    columns = columns_to_read(part.names, needed.names, sources=bool(minus))
    if not columns:  # older than all of them: that it has rows is all there is to say
        yield from _nulls(needed, sum(part.metadata.row_group(group).num_rows for group in groups))
        return
    batches = row_batches(root, file, _BATCH_ROWS, groups=groups, columns=columns)
    while (batch := _next(batches, path)) is not None:
        yield batch


def _nulls(schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, rows - at)
        yield pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in schema], schema=schema)


def _inside(root: Place, path: str) -> str:
    # An absolute path is one that somebody added from elsewhere; a relative one never leaves the root.
    if ".." in path.split("/"):
        raise PartError(f"the member path {path} points outside {root}", hint=_HINT, file=path)
    return shown_path(root, path)


def _needed(wanted: WantedRows) -> pa.Schema:
    names = dict.fromkeys(wanted.columns)
    if wanted.where is not None:
        names |= dict.fromkeys(sorted(columns_of(wanted.where)))
    return pa.schema([wanted.schema.field(name) for name in names])


def _groups(part: OpenPart, wanted: WantedRows) -> list[int]:
    count = part.metadata.num_row_groups
    wanted.tally.row_groups_total += count
    groups = list(range(count)) if wanted.where is None else part.groups(wanted.where, wanted.schema)
    wanted.tally.row_groups += len(groups)
    return groups


def _next(batches: Iterator[pa.RecordBatch], path: str) -> pa.RecordBatch | None:
    try:
        return next(batches, None)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: Exception) -> PartError:
    if isinstance(error, FileNotFoundError):
        return PartError(f"the part {path} is missing", hint=_HINT, file=path)
    return PartError(f"the part {path} can't be read: {error}", hint=_HINT, file=path)
