"""A table's columns when nobody has written them down: from all its files, not from the first.

Whole files are looked at up to a total budget; beyond it, an equal head of each. What comes out is
pinned in `schema/<table>.yaml`, so a wrong guess is an edit, not a surprise in the next run.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lading.errors import ConfigError, SchemaDrift, SourceError
from lading.model import Column, FoundFile
from lading.sources.heads import (
    RESERVED,
    Dialect,
    delimited_header,
    first_record,
    parquet_columns,
)
from lading.sources.infer_json import json_columns
from lading.sources.kinds import NULL, Kinds, spark_type
from lading.sources.opening import READ_ERRORS, open_plain, unreadable
from lading.sources.spark_types import widens

BUDGET = 512 << 20
_BLOCK = 4 << 20
_THREADS = 4


def infer(
    files: Sequence[FoundFile],
    *,
    format: str,
    read_options: Mapping[str, Any],
    name_columns: Sequence[str] = (),
) -> tuple[Column, ...]:
    """The columns of all files, in order of first appearance; those from file names come last, as strings."""
    if format == "parquet":
        types = _parquet(files)
    elif format == "json":
        types = json_columns(files, read_options, limit=_limit(files))
    else:
        types = _delimited(files, read_options, format)
    if not types:
        raise SourceError(
            "no columns can be inferred: the table has no file with a record in it",
            hint="add a file, or write the table's schema file by hand",
        )
    for name in types:
        if name in RESERVED or name in name_columns:
            whose = "lading's own" if name in RESERVED else "taken by a group of columns_from_name"
            raise SourceError(
                f"the column name {name!r}, found in the files, is {whose}",
                hint="rename the column in the files, or the group",
            )
    found = tuple(Column(name, kind) for name, kind in types.items())
    return found + tuple(Column(name, "string") for name in name_columns)


def _limit(files: Sequence[FoundFile]) -> int | None:
    """Bytes to look at in each file; None for all of it."""
    if sum(found.size for found in files) <= BUDGET:
        return None
    return max(BUDGET // len(files), 1 << 12)


def _parquet(files: Sequence[FoundFile]) -> dict[str, str]:
    types: dict[str, str] = {}
    first: dict[str, str] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for found, columns in zip(files, pool.map(lambda f: parquet_columns(f.path), files), strict=True):
            for name, kind in columns.items():
                known = types.setdefault(name, kind)
                first.setdefault(name, found.key)
                if widens(known, kind):
                    types[name] = kind
                elif not widens(kind, known):
                    raise SchemaDrift(
                        f"column {name!r} is {known} in {first[name]} and {kind} in {found.key}",
                        hint="write one of the two files anew with the other's type",
                        file=found.key,
                    )
    return types


def _delimited(files: Sequence[FoundFile], read_options: Mapping[str, Any], format: str) -> dict[str, str]:
    dialect = Dialect.of(read_options, format)
    if not dialect.header:
        raise ConfigError(
            "columns can't be inferred from files without a header",
            hint="write the table's schema file: under `columns:` one `- {name: …, type: …}` for each",
        )
    kinds = Kinds.of(read_options)
    limit = _limit(files)

    def look(found: FoundFile) -> dict[str, str]:
        return _file_kinds(found, dialect, read_options, format, kinds, limit)

    joined: dict[str, str] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for of_file in pool.map(look, files):
            for name, kind in of_file.items():
                joined[name] = kinds.join(joined.get(name, NULL), kind)
    return {name: spark_type(kind) for name, kind in joined.items()}


def _file_kinds(
    found: FoundFile,
    dialect: Dialect,
    read_options: Mapping[str, Any],
    format: str,
    kinds: Kinds,
    limit: int | None,
) -> dict[str, str]:
    header = delimited_header(found.path, read_options, format)
    record = first_record(found.path, dialect)
    if header is None or record is None:
        return {}
    nulls = [""] + ([read_options["null"]] if "null" in read_options else [])
    block = _BLOCK
    while True:
        seen = dict.fromkeys(header, NULL)
        try:
            with open_plain(found.path) as plain:
                for batch in _batches(_head(plain, limit), dialect, header, record.last_line, nulls, block):
                    _join_batch(seen, batch, dialect, kinds)
            return seen
        except READ_ERRORS as error:
            raise unreadable(found.path, error) from error
        except pa.ArrowInvalid as error:
            # A record longer than a block: pyarrow wants it whole.
            if "straddl" not in str(error) or block > BUDGET:
                raise SourceError(
                    f"{found.key} can't be read as delimited text: {error}",
                    hint="check `delimiter`, `quote` and `encoding` in the table's read_options",
                    file=found.key,
                ) from error
            block *= 16


def _head(plain: IO[bytes], limit: int | None) -> IO[bytes]:
    """The file, or whole lines from its first `limit` bytes."""
    if limit is None:
        return plain
    data = plain.read(limit)
    if len(data) == limit:
        data = data[: data.rfind(b"\n") + 1]
    return io.BytesIO(data)


def _batches(
    stream: IO[bytes], dialect: Dialect, header: tuple[str, ...], skip: int, nulls: list[str], block: int
) -> Any:
    try:
        return pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(
                column_names=header,
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
                invalid_row_handler=lambda row: "skip",
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=nulls,
                strings_can_be_null=True,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return ()
        raise


def _join_batch(seen: dict[str, str], batch: pa.RecordBatch, dialect: Dialect, kinds: Kinds) -> None:
    if dialect.comment is not None:
        comment = pc.fill_null(pc.starts_with(batch.column(0), dialect.comment), False)
        batch = batch.filter(pc.invert(comment))
    for name in seen:
        if seen[name] == "string":
            continue
        values = batch.column(name).drop_null()
        if dialect.trim:
            values = pc.utf8_trim_whitespace(values)
            values = values.filter(pc.not_equal(values, ""))
        seen[name] = kinds.join(seen[name], kinds.of_text(values))
