"""Position deletes: which rows of a part no longer count, for readers that don't know of `minus`.

One file a part, named by the part and the sources that it leaves out, so that it is written once for each
`minus` and used by every snapshot that has it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lading.errors import PartError
from lading.iceberg.manifests import PATH_ID, POSITION_ID
from lading.layout.table import SOURCE
from lading.model import Member, Place
from lading.parts.open import open_parquet, row_batches, shown_path

_BATCH_ROWS = 1 << 20
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_ID)}),
    ]
)


def dead_rows(root: Place, member: Member) -> pa.Array:
    """The positions of rows that no longer count, from 0, in the order of the file."""
    gone = pa.array(member.minus, pa.int64())
    found: list[pa.Array] = []
    start = 0
    try:
        with open_parquet(root, member.path, member.bytes) as file:
            for batch in row_batches(root, file, _BATCH_ROWS, columns=[SOURCE]):
                dead = pc.indices_nonzero(pc.is_in(batch.column(SOURCE), value_set=gone))
                found.append(pc.add(dead.cast(pa.int64()), start))
                start += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        path = shown_path(root, member.path)
        raise PartError(
            f"the part {path} can't be read: {error}", hint="`lading verify` lists what is damaged", file=path
        ) from error
    return pa.concat_arrays(found) if found else pa.array([], pa.int64())


def positions_file(path: str, positions: pa.Array) -> bytes:
    """A file of position deletes for the part at `path`, as its manifest names it."""
    table = pa.Table.from_arrays(
        [pa.repeat(path, len(positions)).cast(pa.string()), positions], schema=_SCHEMA
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())
