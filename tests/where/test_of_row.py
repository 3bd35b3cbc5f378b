"""A row is named by a predicate that it satisfies, whatever its values and its columns are called."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lading.where.bind import bind, parse
from lading.where.filter import row_filter
from lading.where.of_row import of_row

TYPES = {
    "id": pa.int64(),
    "text": pa.string(),
    "and": pa.float64(),
    'we"ird ä': pa.float32(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "zoned": pa.timestamp("us", "UTC"),
    "money": pa.decimal128(20, 3),
    "raw": pa.binary(),
    "yes": pa.bool_(),
    "many": pa.list_(pa.int64()),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=220),
    "and": st.floats(allow_nan=True),
    'we"ird ä': st.floats(width=32),
    "day": st.dates(date(1, 1, 1)),
    "at": st.datetimes(datetime(1, 1, 1)),
    "zoned": st.integers(-(10**15), 10**15),
    "money": st.decimals(-(10**16), 10**16, places=3).map(lambda one: one.quantize(Decimal("0.001"))),
    "raw": st.binary(max_size=210),
    "yes": st.booleans(),
    "many": st.lists(st.integers(0, 9)),
}
ROWS = st.fixed_dictionaries({name: st.none() | one for name, one in VALUES.items()})


@given(ROWS, st.lists(ROWS, max_size=3))
def test_the_row_itself_is_always_found(row: dict[str, Any], others: list[dict[str, Any]]) -> None:
    schema = pa.schema(list(TYPES.items()))
    rows = pa.Table.from_pylist([row, *others], schema)
    where = of_row(rows.slice(0, 1))
    numbered = rows.to_batches()[0].append_column("n", pa.array(range(rows.num_rows), pa.int64()))
    keep = row_filter(bind(parse(where), numbered.schema), numbered.schema)
    assert keep is not None
    assert 0 in keep(numbered).column("n").to_pylist(), where
    for number, other in enumerate(others, 1):
        if other["id"] != row["id"]:
            assert number not in keep(numbered).column("n").to_pylist()
