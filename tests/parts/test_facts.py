"""What is told of many short runs of rows at once is what each of them would have told alone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading import ids
from lading.parts import cut, write
from lading.parts.cut import Limits
from lading.parts.facts import facts_of_runs
from lading.parts.footer import Origin
from lading.parts.task import TaskSpec, written
from lading.zones.bounds import zone_of

VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.string(): st.text(max_size=3)
    | st.sampled_from(["x" * 70, "x" * 64 + "\U0010ffff", "\U0001f600", "ä"]),
    pa.large_string(): st.sampled_from(["a", "b", ""]),
    pa.binary(): st.binary(max_size=2),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC)),
    pa.timestamp("ns"): st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0]),
    pa.bool_(): st.booleans(),
    pa.decimal128(10, 2): st.decimals(-99, 99, places=2),
    pa.list_(pa.int64()): st.lists(st.integers(0, 3), max_size=2),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data(), nulls=st.booleans())
def test_each_run_has_the_facts_that_it_has_alone(kind, data, nulls):
    value = VALUES[kind] | st.none() if nulls else VALUES[kind]
    runs = data.draw(st.lists(st.lists(value, min_size=1, max_size=5), min_size=1, max_size=6))
    ends = [0]
    for run in runs:
        ends.append(ends[-1] + len(run))
    sources = data.draw(st.lists(st.sampled_from([-5, 7, 9]), min_size=ends[-1], max_size=ends[-1]))
    column = pa.array([one for run in runs for one in run], kind)
    table = pa.table({"x": column, "_source": pa.array(sources, pa.int64())})
    found = facts_of_runs(table, ends[:-1])
    for (begin, end), facts in zip(pairwise(ends), found, strict=True):
        alone = table.slice(begin, end - begin)
        assert facts.sources == Counter(alone.column("_source").to_pylist())
        assert {"_source"} <= facts.zones.keys() == facts.repeating.keys() <= {"x", "_source"}
        for name, zone in facts.zones.items():
            assert zone == zone_of(alone.column(name))
            assert [type(one) for one in (zone.min, zone.max)] == [
                type(one) for one in (zone_of(alone.column(name)).min, zone_of(alone.column(name)).max)
            ]
            assert facts.repeating[name] == write._repeats(alone.column(name))


def test_parts_that_are_described_at_once_are_the_same_bytes_and_members(tmp_path, monkeypatch):
    rows = pa.table(
        {
            "k": [number * 7 % 1_000 for number in range(600)],
            "ship": [f"ship-{number * 3 % 40}" for number in range(600)],
            "note": [None if number % 5 else f"note {number}" for number in range(600)],
            "share": [number / 3 for number in range(600)],
            "_source": [5 if number % 3 else -6 for number in range(600)],
        }
    )
    told = []
    for folder, few in (("one by one", 0), ("at once", 4_096)):
        (tmp_path / folder).mkdir()
        count = iter(range(1_000))
        monkeypatch.setattr(ids, "random_bytes", lambda size, count=count: next(count).to_bytes(size))
        monkeypatch.setattr(cut, "_FEW", few)
        asked: list[str] = []
        monkeypatch.setattr(
            write, "zone_of", lambda column, asked=asked: asked.append("x") or zone_of(column)
        )
        members = written(iter(rows.to_batches()), _spec(tmp_path / folder, rows.schema))
        assert len(members) == 20
        members = [msgspec.structs.replace(one, created_at="") for one in members]
        told.append((members, [(tmp_path / folder / one.path).read_bytes() for one in members], len(asked)))
    assert told[0][:2] == told[1][:2]
    assert (told[0][2], told[1][2]) == (20 * 5, 20 * 2), "only of `note` and `share` each part is asked"


def test_a_task_all_of_whose_rows_were_bad_writes_no_part(tmp_path):
    rows = pa.record_batch({"k": pa.array([], pa.int64()), "_source": pa.array([], pa.int64())})
    assert written(iter([rows]), _spec(tmp_path, rows.schema)) == []


def _spec(folder, schema: pa.Schema) -> TaskSpec:
    origin = Origin("t", "run", "c", "k")
    return TaskSpec(str(folder), origin, schema.serialize().to_pybytes(), 50, 1 << 20, Limits())
