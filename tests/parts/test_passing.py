"""Parts that only pass: every value comes back, and nothing stays of one that fails."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lading.errors import PartError
from lading.layout.table import is_part_of, is_passing, kind_of
from lading.model import Member, Place
from lading.parts import passing as module
from lading.parts.fold import Fold, FoldSpec, Range, fold_parts, live_batches
from lading.parts.footer import Origin
from lading.parts.passing import PassingWriter, passing_marks
from lading.parts.rewrite import rewrite_members

ORIGIN = Origin("t", "run-1", "c", "k")
ROWS = pa.table(
    {
        "k": pa.array([-(2**63), 0, 2**63 - 1]),
        "_source": pa.array([1, -(2**63), 2**63 - 1]),
        "tiny": pa.array([-128, None, 127], pa.int8()),
        "day": pa.array([None, date(1, 1, 1), date(9999, 12, 31)]),
        "at": pa.array([None, -(2**62), 2**62], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "part": pa.array([{"n": "text"}, None, {"n": None}]),
        "part.n": pa.array([1, 2, None]),
    }
)


def made(folder: Path, rows: pa.Table = ROWS, bucket: int = 0) -> Member:
    writer = PassingWriter(Place(str(folder)), bucket, rows.schema, ORIGIN)
    writer.write(rows)
    return writer.close()


def spec(folder: Path, rows: pa.Table = ROWS) -> FoldSpec:
    return FoldSpec(Place(str(folder)), ORIGIN, rows.schema.serialize().to_pybytes())


def test_one_holds_every_kind_of_value_and_says_its_keys_and_sources(tmp_path: Path) -> None:
    member = made(tmp_path)
    found = pa.Table.from_batches(live_batches(Place(str(tmp_path)), [member], ROWS.schema))
    assert found.equals(ROWS)
    assert (member.rows, member.key_min, member.key_max, member.zones) == (3, -(2**63), 2**63 - 1, {})
    assert member.bytes == (tmp_path / member.path).stat().st_size
    assert dict(member.sources) == {1: 1, -(2**63): 1, 2**63 - 1: 1}


def test_a_name_tells_that_it_is_temporary_and_of_which_run(tmp_path: Path) -> None:
    path = made(tmp_path, bucket=-7).path
    assert path.startswith("bucket=-000007/.") and is_passing(path)
    assert is_part_of(path, "run-1") and not is_part_of(path, "run-2")
    assert kind_of(path, in_bucket=False) == ("temporary", None) and kind_of(path, in_bucket=True) is None


def test_one_that_is_given_up_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = PassingWriter(Place(str(tmp_path)), 0, ROWS.schema, ORIGIN)
    writer.write(ROWS)
    writer.abort()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    other = PassingWriter(Place(str(tmp_path)), 0, ROWS.schema, ORIGIN)
    monkeypatch.setattr(other, "_writer", None)  # closing it fails, as on a full disk
    with pytest.raises(AttributeError):
        other.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    member = made(tmp_path)
    (tmp_path / member.path).write_bytes((tmp_path / member.path).read_bytes()[:-20])
    with pytest.raises(PartError, match=r"\.arrow\.tmp can't be read"):
        fold_parts(Fold(0, (member,)), spec(tmp_path))
    with pytest.raises(PartError, match=r"\.arrow\.tmp can't be read"):
        rewrite(tmp_path, member, frozenset({7}))


def rewrite(folder: Path, member: Member, drop: frozenset[int]) -> list[Member]:
    return rewrite_members(
        Place(str(folder)), [member], drop, table_id="t", run_id="run-1", commit_id="c", order_by="k"
    )


def test_rows_of_a_source_can_leave_it_before_it_is_folded(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2, 3], "_source": [7, 8, 7]})
    member, other = made(tmp_path, rows), made(tmp_path, pa.table({"k": [0, 2], "_source": [9, 9]}))
    [kept] = rewrite(tmp_path, member, frozenset({7}))
    assert (kept.rows, kept.sources, is_passing(kept.path)) == (1, ((8, 1),), False)
    assert rewrite(tmp_path, member, frozenset({7, 8})) == []
    [folded] = fold_parts(Fold(0, (kept, other)), spec(tmp_path, rows))
    assert (folded.rows, folded.sources, folded.path[-8:]) == (3, ((8, 1), (9, 2)), ".parquet")


@pytest.mark.parametrize(("low", "high"), [(None, None), (3, None), (None, 3), (2, 5), (9, None), (4, 4)])
def test_a_range_takes_the_rows_from_its_low_end_to_before_its_high_one(
    tmp_path: Path, low: float | None, high: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROW_GROUP", 2)
    keys = [1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.5, float("nan")]
    rows = pa.table({"k": keys, "_source": [7] * len(keys)})
    member = made(tmp_path, rows)
    found = live_batches(Place(str(tmp_path)), [member], rows.schema, Range("k", low, high))
    got = [key for batch in found for key in batch.column("k").to_pylist()]
    wanted = [
        key
        for key in keys
        if (low is None or not key < low) and (high is None or key < high)  # NaN is beyond all numbers
    ]
    assert list(map(repr, got)) == list(map(repr, wanted))
    assert passing_marks(Place(str(tmp_path)), member.path, "k") == [(1.0, 2), (2.0, 2), (4.0, 2), (5.5, 2)]


def test_reading_one_copies_nothing(tmp_path: Path) -> None:
    rows = pa.table({"k": list(range(1_000_000)), "_source": [7] * 1_000_000})
    member = made(tmp_path, rows)
    before = pa.total_allocated_bytes()
    batches = list(live_batches(Place(str(tmp_path)), [member], rows.schema))
    assert pa.total_allocated_bytes() - before < 1 << 20
    assert pc.sum(pa.Table.from_batches(batches)["k"]).as_py() == sum(range(1_000_000))
