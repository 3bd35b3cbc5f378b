"""Numbers that stand for nested values: equal just where the values are, whatever batch these come in."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.parts import digest
from lading.parts.digest import digests

SMALL = st.integers(-3, 3)
TEXT = st.text("ab\0é", max_size=3)
# Types, with values that come often more than once. Days and moments lie beyond Python's calendar too.
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), SMALL),
    "int64": (pa.int64(), SMALL),
    "float": (pa.float32(), st.sampled_from([0.0, -0.0, 1.5])),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5])),
    "text": (pa.string(), TEXT),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "decimal": (pa.decimal128(38, 1), st.sampled_from([Decimal("0.5"), Decimal(2**64), Decimal(-1)])),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | SMALL, max_size=3)),
    "lists": (pa.list_(pa.list_(pa.string())), st.lists(st.none() | st.lists(TEXT, max_size=2), max_size=2)),
    "map": (pa.map_(pa.string(), pa.int16()), st.lists(st.tuples(TEXT, st.none() | SMALL), max_size=2)),
    "struct": (
        pa.struct({"a": pa.int32(), "b": pa.list_(pa.int8())}),
        st.fixed_dictionaries({"a": st.none() | SMALL, "b": st.none() | st.lists(SMALL, max_size=2)}),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_equal_just_where_values_are(kind):
    dtype, values = KINDS[kind]

    @given(st.lists(st.none() | values, min_size=1, max_size=20), st.integers(0, 19))
    def holds(rows, cut):
        table = pa.table({"x": pa.array(rows, dtype)})
        found = digests(table, ["x"])
        same: dict[str, set[int]] = {}
        for row, number in zip(table.column(0).to_pylist(), found.tolist(), strict=True):
            same.setdefault(repr(row), set()).add(number)
        assert all(len(numbers) == 1 for numbers in same.values())
        assert len(set(found.tolist())) == len(same)
        assert digests(table.slice(cut), ["x"]).tolist() == found.tolist()[cut:]
        chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        assert digests(chunked, ["x"]).tolist() == found.tolist()
        backwards = np.arange(len(rows))[::-1]
        assert digests(table, ["x"], backwards).tolist() == found.tolist()[::-1]

    holds()


def test_what_lies_under_a_null_does_not_count():
    values = pa.array([1, 2, 3, 4], pa.int64())
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 3, 4], pa.int32()), values, mask=pa.array([True, False, True])
    )
    plain = pa.array([None, [3], None], pa.list_(pa.int64()))
    assert digests(pa.table({"x": hidden}), ["x"]).tolist() == digests(pa.table({"x": plain}), ["x"]).tolist()


def test_the_order_of_a_list_and_of_columns_counts():
    table = pa.table({"a": [[1, 2], [2, 1], [1], [1]], "b": [[1], [1], [2], [1]], "c": [[1], [1], [1], [2]]})
    assert len(set(digests(table, ["a"]).tolist())) == 3
    assert len(set(digests(table.slice(2), ["b", "c"]).tolist())) == 2


def test_nulls_empty_values_and_zeros_are_different():
    lists = pa.array([None, [], [None], [0], [[], None][0], [None, None]], pa.list_(pa.int64()))
    assert len(set(digests(pa.table({"x": lists}), ["x"]).tolist())) == 5
    structs = pa.array([None, {"a": None}, {"a": 0}], pa.struct({"a": pa.int64()}))
    assert len(set(digests(pa.table({"x": structs}), ["x"]).tolist())) == 3


def test_moments_beyond_pythons_calendar_are_no_matter():
    far = pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())
    moments = pa.array([2**63 - 1, -(2**63)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.StructArray.from_arrays([far, moments], ["day", "at"])
    assert len(set(digests(pa.table({"x": rows}), ["x"]).tolist())) == 2


def test_numbers_stay_what_they_are_however_many_rows_are_taken_at_a_time(monkeypatch):
    """The same rows give the same file, today and in the next version."""
    table = pa.table({"x": pa.array([[1, None], [], None], pa.list_(pa.int64())), "y": [{"a": "b"}] * 3})
    pinned = [5764786404945694454, 4229508621580482764, 18359573569166993419]
    assert digests(table, ["x", "y"]).tolist() == pinned
    monkeypatch.setattr(digest, "_SLICE", 2)
    assert digests(table, ["x", "y"]).tolist() == pinned
    assert digests(table, ["x", "y"], np.array([2, 1, 0])).tolist() == pinned[::-1]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.decimal128(9, 2), [Decimal(1), Decimal(2), Decimal(3)]),
        (pa.int16(), [1, 2, 3]),
        (pa.bool_(), [True, False, True]),
        (pa.string(), ["a", "b", "c"]),
        (pa.list_(pa.int64()), [[1], [2], [3]]),
    ],
)
def test_values_that_lie_within_a_longer_array_are_found(kind, values):
    long = pa.array(values, kind)
    whole = digests(pa.table({"x": pa.StructArray.from_arrays([long], ["a"])}), ["x"]).tolist()
    part = pa.StructArray.from_arrays([long.slice(1)], ["a"])
    assert digests(pa.table({"x": part}), ["x"]).tolist() == whole[1:]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), long.slice(1))
    same = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.concat_arrays([long.slice(1)]))
    assert digests(pa.table({"x": lists}), ["x"]).tolist() == digests(pa.table({"x": same}), ["x"]).tolist()
