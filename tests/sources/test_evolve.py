"""What new files make of pinned columns: never narrower, never wider than they have to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.formats.infer.fits import Fits
from lading.formats.infer.kinds import Kinds
from lading.model import Column, FoundFile
from lading.sources.evolve import Evolution, evolve, grown


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*item.split(" ", 1)) for item in text.split("; "))


def _found(root: Path, name: str, data: bytes | str) -> FoundFile:
    path = root / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return FoundFile(name, str(path), path.stat().st_size, 1, False)


def _evolved(
    root: Path, columns: str, new: str, old: str | None = None, format: str = "csv", **options: Any
) -> Evolution | None:
    suffix = {"csv": "csv", "json": "json"}[format]
    fresh = _found(root, f"new.{suffix}", new)
    found = [fresh] if old is None else [fresh, _found(root, f"old.{suffix}", old)]
    return evolve(_columns(columns), [fresh], found, fmt=format, read_options=options)


def _types(evolution: Evolution | None) -> str:
    assert evolution is not None
    return "; ".join(f"{column.name} {column.type}" for column in evolution.columns)


@pytest.mark.parametrize(
    ("pinned", "value", "becomes"),
    [
        ("int", "5", None),
        ("int", "+005", None),
        ("int", "3000000000", "bigint"),
        ("tinyint", "300", "bigint"),
        ("bigint", "1.5", "double"),
        ("bigint", "99999999999999999999", "string"),
        ("bigint", "x", "string"),
        ("double", "x", "string"),
        ("double", "1d", "string"),
        ("double", "NaN", None),
        ("double", "-.5e3", None),
        ("float", "1.5", None),
        ("decimal(5,2)", "123.450", None),
        ("decimal(5,2)", "1.239", "string"),
        ("boolean", "TRUE", None),
        ("boolean", "Y", "string"),
        ("date", "2024-02-29", None),
        ("date", "2024-02-29 10:00:00", "timestamp_ntz"),
        ("timestamp_ntz", "2024-02-29", None),
        ("timestamp_ntz", "2024-02-29T10:00:00Z", "string"),
        ("timestamp", "2024-02-29T10:00:00+0200", None),
        ("timestamp", "2024-02-29 10:00", None),
        ("string", "00123", None),
    ],
)
def test_a_type_widens_only_when_a_value_does_not_fit(
    tmp_path: Path, pinned: str, value: str, becomes: str | None
) -> None:
    found = _evolved(tmp_path, f"a {pinned}; k string", f"a,k\n{value},1\n,2\n")
    assert found is None if becomes is None else _types(found) == f"a {becomes}; k string"


def test_old_files_have_a_say_in_the_new_type(tmp_path: Path) -> None:
    assert _types(_evolved(tmp_path, "a bigint", "a\n1.5\n", "a\n7\n")) == "a double"
    long = _evolved(tmp_path, "a bigint", "a\n1.5\n", "a\n1234567890123456789\n")
    assert _types(long) == "a string", "a double would lose digits of the old file"


def test_columns_are_added_at_the_end_and_missing_ones_change_nothing(tmp_path: Path) -> None:
    found = _evolved(tmp_path, "a bigint; b string", "z,a\n0.5,1\n", "a,b\n1,x\n")
    assert _types(found) == "a bigint; b string; z double"
    assert found is not None and found.changes == ("column 'z' (double) is new (new.csv)",)
    assert _evolved(tmp_path, "a bigint; b string", "a\n1\n") is None


def test_the_plan_can_name_the_value_that_widens(tmp_path: Path) -> None:
    found = _evolved(tmp_path, "a bigint", "a\n1\n2\n0.5\n")
    assert found is not None
    assert found.changes == ("column 'a' goes from bigint to double (row 3 of new.csv: '0.5')",)
    assert found.because == {"a": "double because of row 3 of new.csv: '0.5'"}


def test_columns_from_names_and_broken_files_are_left_to_the_reader(tmp_path: Path) -> None:
    file = _found(tmp_path, "a.csv", "port,a\nx,1\n")
    columns = _columns("a bigint; port string")
    assert evolve(columns, [file], [file], fmt="csv", read_options={}, name_columns=("port",)) is None
    broken = _found(tmp_path, "b.csv", "a,a\n1,2\n")
    assert evolve(columns, [broken], [broken], fmt="csv", read_options={}) is None


def test_files_without_a_header_widen_too(tmp_path: Path) -> None:
    assert _types(_evolved(tmp_path, "a bigint; b string", "1.5,x\n", header=False)) == "a double; b string"


@pytest.mark.parametrize(
    ("pinned", "value", "becomes"),
    [
        ("bigint", "1", None),
        ("bigint", "null", None),
        ("int", "3000000000", "bigint"),
        ("int", "5", None),
        ("bigint", "0.5", "double"),
        ("double", "5", None),
        ("float", "5", None),
        ("bigint", '"x"', "string"),
        ("string", '{"p": 1}', None),
        ("decimal(9,2)", "1.5", None),
        ("timestamp", '"2024-01-01"', None),
        ("struct<p:bigint>", '{"q": "x"}', "struct<p:bigint,q:string>"),
        ("struct<p:bigint>", '{"p": 0.5, "q": {"r": 1}}', "struct<p:double,q:struct<r:bigint>>"),
        ("array<bigint>", "[1, 0.5]", "array<double>"),
        ("array<struct<x:bigint>>", '[{"y": null}]', "array<struct<x:bigint,y:string>>"),
        ("struct<p:bigint>", '{"P": 1}', "string"),
        ("map<string,bigint>", '{"any": 1, "key": 2}', None),
        ("map<string,bigint>", '{"any": 0.5}', "map<string,double>"),
        ("bigint", "[1]", "string"),
    ],
)
def test_json_grows_at_any_depth(tmp_path: Path, pinned: str, value: str, becomes: str | None) -> None:
    found = _evolved(tmp_path, f"a {pinned}", f'{{"a": {value}}}\n', format="json")
    assert found is None if becomes is None else _types(found) == f"a {becomes}"


def test_new_keys_are_columns_and_broken_lines_say_nothing(tmp_path: Path) -> None:
    found = _evolved(tmp_path, "a bigint", '{"a": 1, "b": [1]}\nnonsense\n', format="json")
    assert _types(found) == "a bigint; b array<bigint>"


def _parquet(root: Path, name: str, **columns: pa.Array) -> FoundFile:
    pq.write_table(pa.table(columns), root / name)
    return FoundFile(name, str(root / name), 1, 1, False)


@pytest.mark.parametrize(
    ("pinned", "array", "becomes"),
    [
        ("int", pa.array([1], pa.int32()), None),
        ("bigint", pa.array([1], pa.int32()), None),
        ("int", pa.array([1], pa.int64()), "bigint"),
        ("bigint", pa.array([0.5]), "double"),
        ("double", pa.array([1], pa.int64()), None),
        ("double", pa.array([10**17], pa.int64()), "string"),
        ("bigint", pa.array(["x"]), "string"),
        ("string", pa.array([1], pa.int64()), None),
        ("struct<p:bigint>", pa.array([{"q": "x"}]), "struct<p:bigint,q:string>"),
    ],
)
def test_parquet_grows_by_its_footers(
    tmp_path: Path, pinned: str, array: pa.Array, becomes: str | None
) -> None:
    file = _parquet(tmp_path, "new.parquet", a=array)
    found = evolve(_columns(f"a {pinned}"), [file], [file], fmt="parquet", read_options={})
    assert found is None if becomes is None else _types(found) == f"a {becomes}"


@given(
    st.lists(st.sampled_from(["1", "-5", "00", "1.5", "x", "+7", "1e3", " 1", "9" * 25]), max_size=30),
    st.data(),
)
def test_the_first_misfit_is_the_first_value_that_does_not_fit(
    values: list[str], data: st.DataObject
) -> None:
    type = data.draw(st.sampled_from(["bigint", "double", "decimal(9,1)", "date", "boolean", "string"]))
    column = Column("v", type, inferred=data.draw(st.booleans()))
    fits = Fits(Kinds())
    array = pa.array(values, pa.string())
    slow = next((i for i, v in enumerate(values) if not fits.all_fit(pa.array([v]), column)), None)
    assert fits.first_misfit(array, column) == slow


def test_growing_never_loses_what_was_there() -> None:
    kinds = [
        "tinyint",
        "int",
        "bigint",
        "double",
        "string",
        "date",
        "timestamp",
        "struct<a:int>",
        "array<int>",
    ]
    for pinned in kinds:
        for seen in kinds:
            once = grown(pinned, seen)
            assert grown(once, seen) == once, (pinned, seen)
