"""Rows that are picked are those that reading everything and filtering leaves, however parts are stored."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.errors import PartError
from lading.model import Member
from lading.parts import pick
from lading.parts.pick import picked
from lading.parts.rows import WantedRows, read_part

SCHEMA = pa.schema(
    [("port", pa.string()), ("day", pa.int64()), ("note", pa.string()), ("_source", pa.int64())]
)


def rows_of(seed: int, count: int) -> pa.Table:
    chance = random.Random(seed)
    ports = [chance.choice(["hh", "ro", "", None, "si"]) for _ in range(count)]
    return pa.table(
        {
            "port": pa.array(ports, pa.string()),
            "day": pa.array([chance.choice([1, 2, None]) for _ in range(count)], pa.int64()),
            "note": pa.array([f"n{number}" for number in range(count)], pa.string()),
            "_source": pa.array([chance.choice([7, 8, 9]) for _ in range(count)], pa.int64()),
        }
    )


def stored(
    folder: Path, table: pa.Table, minus: tuple[int, ...] = (), name: str = "part.parquet", **options: object
) -> Member:
    pq.write_table(table, folder / name, **options)
    size = (folder / name).stat().st_size
    return Member(name, len(table), size, 0, 0, 0, None, None, "", {}, minus=minus)


def wants_port(batch: pa.RecordBatch) -> np.ndarray:
    return np.array([one in ("hh", None) for one in batch.column(0).to_pylist()], bool)


def expected(folder: Path, member: Member, columns: list[str]) -> list[dict[str, object]]:
    needed = list(dict.fromkeys([*columns, "port"]))
    found = [
        row
        for batch in read_part(folder, member, WantedRows(SCHEMA, needed))
        for row in batch.to_pylist()
        if row["port"] in ("hh", None)
    ]
    return [{name: row[name] for name in columns} for row in found]


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(0, 60),
    group=st.sampled_from([1, 7, 1000]),
    coded=st.lists(st.sampled_from([True, False, ["port"], ["note"]]), min_size=1, max_size=3),
    minus=st.sampled_from([(), (7,), (7, 8), (7, 8, 9)]),
    columns=st.sampled_from([["day", "note"], ["port"], ["note", "port", "_source"], ["_source"]]),
    few=st.sampled_from([0, 20, 1 << 20]),
    whole=st.sampled_from([0, 1 << 20]),
)
def test_what_is_picked_is_what_a_filter_leaves(
    tmp_path_factory, seed, count, group, coded, minus, columns, few, whole
):
    folder = tmp_path_factory.mktemp("part")
    members = [
        stored(
            folder,
            rows_of(seed + number, count),
            minus,
            f"{number}.parquet",
            row_group_size=group,
            use_dictionary=one,
        )
        for number, one in enumerate(coded)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pick, "_FEW", few)  # row groups that are read at once
        patch.setattr(pick, "_WHOLE", whole)  # row groups that are too large are read in batches
        batches = list(picked(folder, members, SCHEMA, columns, ["port"], wants_port))
    assert all(batch.schema.names == columns for batch in batches)
    assert all(
        batch.schema.field(name).type == SCHEMA.field(name).type for batch in batches for name in columns
    )
    found = [row for batch in batches for row in batch.to_pylist()]
    assert found == [row for member in members for row in expected(folder, member, columns)]


def test_a_part_older_than_the_columns_has_nulls_there(tmp_path):
    table = rows_of(1, 20)
    member = stored(tmp_path, table.select(["day", "_source"]))
    [batch] = picked(tmp_path, [member], SCHEMA, ["port", "day"], ["port"], wants_port)
    assert (
        batch.column("port").null_count == 20 and batch.column("day").to_pylist() == table["day"].to_pylist()
    )
    member = stored(tmp_path, table.select(["note"]))
    [batch] = picked(tmp_path, [member], SCHEMA, ["day"], ["port"], wants_port)
    assert batch.column("day").null_count == 20


def test_values_are_chosen_and_given_in_the_table_s_types(tmp_path):
    table = pa.table(
        {
            "port": pa.array([1, 2, 2], pa.int32()),
            "day": pa.array([5, 6, 7], pa.int16()),
            "_source": [7, 7, 8],
        }
    )
    seen: list[pa.DataType] = []

    def second(batch: pa.RecordBatch) -> np.ndarray:
        seen.append(batch.column(0).type)
        return np.array([one == "2" for one in batch.column(0).to_pylist()], bool)

    [batch] = picked(tmp_path, [stored(tmp_path, table)], SCHEMA, ["day", "port"], ["port"], second)
    assert seen == [pa.string()]
    assert batch.to_pydict() == {"day": [6, 7], "port": ["2", "2"]}
    assert batch.schema.types == [pa.int64(), pa.string()]


def test_dead_rows_need_not_have_values_of_the_table_s_types(tmp_path):
    table = pa.table({"port": ["x", "y"], "day": ["none", "2"], "_source": [7, 8]})
    member = stored(tmp_path, table, minus=(7,))
    by_day = picked(tmp_path, [member], SCHEMA, ["day"], ["day"], lambda batch: np.ones(batch.num_rows, bool))
    assert [batch.to_pydict() for batch in by_day] == [{"day": [2]}]


def test_other_columns_are_read_only_of_row_groups_with_a_chosen_row(tmp_path, monkeypatch):
    table = pa.table(
        {"port": ["hh", "ro", "si"], "day": [1, 2, 3], "note": ["a", "b", "c"], "_source": [7, 7, 7]}
    )
    monkeypatch.setattr(pick, "_FEW", 0)
    member = stored(tmp_path, table, row_group_size=1)
    read: list[tuple[int, list[str]]] = []
    real = pick._Part._read
    monkeypatch.setattr(pick._Part, "_read", lambda self, g, c: read.append((g, c)) or real(self, g, c))
    assert len(list(picked(tmp_path, [member], SCHEMA, ["note"], ["port"], wants_port))) == 1
    assert read == [(0, ["port"]), (0, ["note"]), (1, ["port"]), (2, ["port"])]
    read.clear()
    monkeypatch.setattr(pick, "_FEW", 1)  # few rows: all at once
    assert len(list(picked(tmp_path, [member], SCHEMA, ["note"], ["port"], wants_port))) == 1
    assert read == [(group, ["note", "port"]) for group in range(3)]


def test_a_part_older_than_a_column_may_come_after_one_that_has_it(tmp_path):
    """Its dictionaries were to be those of the part before, of which one is of a column that it lacks."""
    newer = stored(tmp_path, rows_of(1, 20), name="newer")
    older = stored(tmp_path, rows_of(2, 20).select(["day", "_source"]), name="older")
    for few in (0, 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pick, "_FEW", few)
            members = [newer, older, newer]
            found = [
                row
                for batch in picked(tmp_path, members, SCHEMA, ["day"], ["port"], wants_port)
                for row in batch.to_pylist()
            ]
        assert found == [row for member in members for row in expected(tmp_path, member, ["day"])]


def opened_of(monkeypatch) -> list[str]:
    opened: list[str] = []
    real = pick.open_parquet
    monkeypatch.setattr(
        pick,
        "open_parquet",
        lambda root, path, *rest, **more: opened.append(path) or real(root, path, *rest, **more),
    )
    return opened


def test_parts_that_are_stored_alike_are_opened_once(tmp_path, monkeypatch):
    monkeypatch.setattr(pick, "_FEW", 10)
    opened = opened_of(monkeypatch)
    members = [stored(tmp_path, rows_of(1, 20), (), name) for name in ("a", "b", "c")]
    assert len(list(picked(tmp_path, members, SCHEMA, ["day"], ["port"], wants_port))) == 3
    assert opened == ["a", "a", "b", "c"]


def test_a_part_of_few_rows_is_opened_once_however_it_is_stored(tmp_path, monkeypatch):
    """A changed file leaves one in each bucket, between large ones, each with dictionaries of its own."""
    monkeypatch.setattr(pick, "_FEW", 10)
    opened = opened_of(monkeypatch)
    large = stored(tmp_path, rows_of(1, 20), (), "large")
    small = [stored(tmp_path, rows_of(2, 9), (), name, use_dictionary=False) for name in ("a", "b")]
    members = [small[0], large, small[1], large]
    found = list(picked(tmp_path, members, SCHEMA, ["port", "day"], ["port"], wants_port))
    assert opened == ["a", "large", "large", "b", "large"]
    assert [row for batch in found for row in batch.to_pylist()] == [
        row for member in members for row in expected(tmp_path, member, ["port", "day"])
    ]


def test_a_part_that_is_gone_or_damaged_says_so(tmp_path):
    member = stored(tmp_path, rows_of(1, 20))
    (tmp_path / "part.parquet").unlink()
    with pytest.raises(PartError, match="is missing"):
        list(picked(tmp_path, [member], SCHEMA, ["day"], ["port"], wants_port))
    (tmp_path / "part.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(PartError, match="can't be read"):
        list(picked(tmp_path, [member], SCHEMA, ["day"], ["port"], wants_port))
    with pytest.raises(PartError, match="points outside"):
        list(
            picked(
                tmp_path,
                [msgspec.structs.replace(member, path="../x")],
                SCHEMA,
                ["day"],
                ["port"],
                wants_port,
            )
        )
