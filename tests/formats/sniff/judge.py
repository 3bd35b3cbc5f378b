"""How lading and DuckDB read a file of the corpus, and whether that is what the file says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from formats.sniff.corpus import Case

from lading.errors import LadingError
from lading.formats.reader import ReadSpec
from lading.formats.registry import reader_of
from lading.formats.source_file import SourceFile
from lading.ingest.add.group import groups_of
from lading.ingest.add.look import look_at
from lading.ingest.add.table import table_of
from lading.model import FoundFile


def judge_lading(case: Case, folder: Path) -> str:
    """Empty if all is right; otherwise what is wrong."""
    path = folder / case.file
    path.write_bytes(case.data)
    try:
        look = look_at(FoundFile(case.file, str(path), len(case.data), 0, False))
        if look is None:
            return "" if case.refused == "empty" else "taken for empty"
        table = table_of(groups_of([look])[0])
    except LadingError as error:
        if not case.refused:
            return f"refused: {error}"
        return "" if case.refused in str(error) else f"refused for another reason: {error}"
    spec = ReadSpec(table.format, table.options, table.inferred.columns)
    blocks = list(reader_of(spec).rows(SourceFile(case.file, str(path), len(case.data))))
    names = [column.name for column in table.inferred.columns]
    rows = [tuple(row[name] for name in names) for block in blocks for row in block.batch.to_pylist()]
    bad = sum(len(block.bad) for block in blocks)
    wrong = _wrong(case, names, rows)
    return wrong or ("" if bad == case.bad == table.bad_count else f"{bad} bad rows, not {case.bad}")


def judge_duckdb(case: Case, folder: Path) -> str:
    """The same. Bad rows may be left out, if that is what it takes."""
    import duckdb

    path = folder / case.file
    path.write_bytes(case.data)
    skipping = ", ignore_errors = true" if case.bad else ""
    try:
        with duckdb.connect() as connection:
            connection.execute("set TimeZone = 'UTC'")
            query = f"select * from read_csv($path{skipping})"
            found = connection.sql(query, params={"path": str(path)}).to_arrow_table()
            names = found.column_names
            rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    except duckdb.Error as error:
        return "" if case.refused else f"refused: {str(error).splitlines()[0]}"
    return _wrong(case, names, rows)


def _wrong(case: Case, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if case.refused:
        return f"was read, but nobody can: {case.refused}"
    nothing = case.columns[-1:] == (None,) and all(row[-1] is None for row in case.rows)
    if nothing and len(names) == len(case.columns) - 1:
        # A column without a name and a value may as well be left out.
        rows = [(*row, None) for row in rows]
        names = [*names, ""]
    if len(names) != len(case.columns):
        return f"{len(names)} columns, not {len(case.columns)}: {list(names)[:5]}"
    for name, wanted in zip(names, case.columns, strict=True):
        if wanted is not None and name != wanted:
            return f"column {name!r} instead of {wanted!r}"
    if len(rows) != len(case.rows):
        return f"{len(rows)} rows, not {len(case.rows)}"
    for number, (row, wanted_row) in enumerate(zip(rows, case.rows, strict=True), start=1):
        for value, wanted in zip(row, wanted_row, strict=True):
            if not _same(value, wanted):
                return f"row {number} has {value!r} instead of {wanted!r}"
    return ""


def _same(value: Any, wanted: Any) -> bool:
    """Numbers of any width are the same; a date is a midnight, and a time of day is its text."""
    if isinstance(wanted, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return math.isclose(value, wanted)
    if isinstance(value, time) and isinstance(wanted, str):
        return value.isoformat().startswith(wanted)
    if isinstance(wanted, datetime):
        return isinstance(value, datetime) and value == wanted
    if isinstance(wanted, date) and isinstance(value, datetime):
        return value == datetime(wanted.year, wanted.month, wanted.day)
    return type(value) is type(wanted) and bool(value == wanted)
