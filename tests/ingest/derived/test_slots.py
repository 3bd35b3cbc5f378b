"""A row's slot: the same wherever it is worked out, for every type, and stated for null, NaN and -0.0."""

from __future__ import annotations

import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from lading.ingest.derived import slots
from lading.ingest.derived.slots import Cut
from lading.layout.table import slot_key, slot_of
from lading.sources.fingerprint import source_id

LITTLE = struct.Struct("<q")
DAY = date(2024, 3, 1)


def one(value: Any, dtype: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([value], dtype)], names=["x"])


@pytest.mark.parametrize(
    ("value", "dtype", "content"),
    [
        (7, pa.int64(), LITTLE.pack(7)),
        (-7, pa.int32(), LITTLE.pack(-7)),
        (True, pa.bool_(), LITTLE.pack(1)),
        ("hamburg", pa.string(), b"hamburg"),
        ("", pa.string(), b""),
        (b"\0\1", pa.binary(), b"\0\1"),
        (DAY, pa.date32(), LITTLE.pack((DAY - date(1970, 1, 1)).days)),
        (datetime(1969, 12, 31, 23), pa.timestamp("us"), LITTLE.pack(-3600 * 10**6)),
        (2.5, pa.float64(), struct.pack("<d", 2.5)),
        (2.5, pa.float32(), struct.pack("<d", 2.5)),
        (-0.0, pa.float64(), struct.pack("<d", 0.0)),
        (Decimal("-1.50"), pa.decimal128(10, 2), (-150).to_bytes(16, "little", signed=True)),
    ],
)
def test_the_slot_is_the_hash_of_the_canonical_bytes(value, dtype, content):
    assert Cut(("x",), 251).of(one(value, dtype)).tolist() == [xxhash.xxh3_64_intdigest(content) % 251]


def test_a_null_has_slot_0_and_every_nan_the_same_one():
    assert Cut(("x",), 251).of(one(None, pa.string())).tolist() == [0]
    strange = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0001))[0]
    nans = pa.RecordBatch.from_arrays([pa.array([float("nan"), -float("nan"), strange])], names=["x"])
    assert len(set(Cut(("x",), 65_536).of(nans).tolist())) == 1


def test_several_columns_are_folded_from_left_to_right():
    batch = pa.RecordBatch.from_pydict({"a": ["x", None], "b": [5, 5]})
    wanted = []
    for first in (xxhash.xxh3_64_intdigest(b"x"), 0):
        folded = (first * 31 + xxhash.xxh3_64_intdigest(LITTLE.pack(5))) % 2**64
        wanted.append(xxhash.xxh3_64_intdigest(folded.to_bytes(8, "little")) % 97)
    assert Cut(("a", "b"), 97).of(batch).tolist() == wanted
    assert Cut(("b", "a"), 97).of(batch).tolist() != wanted


def test_where_rows_are_cut_into_batches_makes_no_difference():
    texts = pa.array(np.random.default_rng(1).integers(0, 50, 1000).astype(str))
    whole = pa.RecordBatch.from_arrays([texts], names=["x"])
    cut = Cut(("x",), 16)
    pieces = np.concatenate([cut.of(whole.slice(at, 7)) for at in range(0, 1000, 7)])
    assert (pieces == cut.of(whole)).all()


def test_by_bucket_a_slot_is_the_bucket_below_zero_too():
    days = pa.RecordBatch.from_arrays(
        [pa.array([-31, -30, -1, 0, 29, 30], pa.int32()).cast(pa.date32())], ["d"]
    )
    assert Cut(("d",), width=30).of(days).tolist() == [-2, -1, -1, 0, 0, 1]


@pytest.mark.parametrize("few", [0, 1, 8])
@pytest.mark.parametrize("missing", [None, "null"])
def test_rows_of_some_slots_are_found_by_their_values_or_by_the_numbers_of_those(missing, few, monkeypatch):
    monkeypatch.setattr(slots, "_FEW", few)
    values = [*"abcdefgha", missing if missing is None else "null"]
    plain = pa.array(values, pa.string())
    cut = Cut(("x",), 4)
    for column in (plain, plain.dictionary_encode()):
        batch = pa.RecordBatch.from_arrays([column], names=["x"])
        assert cut.of(batch).tolist() == cut.of(pa.RecordBatch.from_arrays([plain], names=["x"])).tolist()
        for wanted in [set(), {0}, {1}, {2}, {3}, {0, 2}, {0, 1, 2, 3}]:
            assert cut.within(batch, wanted).tolist() == [one in wanted for one in cut.of(batch).tolist()]


def test_several_columns_are_cut_alike_whether_their_texts_are_numbered_or_not():
    texts, days = pa.array(["a", None, "a", "b"]), pa.array([1, 2, 2, None])
    cut = Cut(("x", "d"), 64)
    plain = pa.RecordBatch.from_arrays([texts, days], names=["x", "d"])
    coded = pa.RecordBatch.from_arrays([texts.dictionary_encode(), days], names=["x", "d"])
    assert cut.of(plain).tolist() == cut.of(coded).tolist()


def test_a_slot_is_a_source_by_its_key():
    batch = pa.RecordBatch.from_pydict({"x": ["a", "b"]})
    cut = Cut(("x",), 256)
    keys = [f"slot={slot:05d}" for slot in cut.of(batch).tolist()]
    assert cut.sources(batch).tolist() == [source_id(key) for key in keys]


@pytest.mark.parametrize(
    ("key", "slot"),
    [("slot=00017", 17), ("17", 17), ("slot=-000003", -3), ("slot=", None), ("x", None), ("slot=1x", None)],
)
def test_a_slot_is_found_by_its_key_or_its_number(key, slot):
    assert slot_of(key) == slot


def test_keys_of_buckets_are_those_of_their_folders():
    assert (slot_key(17), slot_key(17, of_bucket=True), slot_key(-3, of_bucket=True)) == (
        "slot=00017",
        "slot=000017",
        "slot=-000003",
    )
