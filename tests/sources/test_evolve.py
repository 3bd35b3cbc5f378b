"""What new files make of pinned columns: what inference over all files gives, unless a person wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.model import Column, FoundFile
from lading.sources.evolve import Evolution, evolve


def _columns(text: str, *, inferred: bool = True) -> tuple[Column, ...]:
    return tuple(Column(*item.split(" ", 1), inferred=inferred) for item in text.split("; "))


def _found(root: Path, name: str, data: bytes | str) -> FoundFile:
    path = root / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return FoundFile(name, str(path), path.stat().st_size, 1, False)


def _evolved(
    root: Path, columns: str, new: str, old: str | None = None, format: str = "csv", **options: Any
) -> Evolution | None:
    fresh = _found(root, f"new.{format}", new)
    found = [fresh] if old is None else [fresh, _found(root, f"old.{format}", old)]
    return evolve(_columns(columns), [fresh], found, fmt=format, read_options=options)


def _types(evolution: Evolution | None) -> str:
    assert evolution is not None
    return "; ".join(f"{column.name} {column.type}" for column in evolution.columns)


@pytest.mark.parametrize(
    ("pinned", "old", "value", "becomes"),
    [
        ("bigint", "7", "5", None),
        ("bigint", "7", "1.5", "double"),
        ("bigint", "1234567890123456789", "1.5", "string"),
        ("bigint", "7", "99999999999999999999", "string"),
        ("bigint", "7", "x", "string"),
        ("double", "0.5", "5", None),
        ("double", "0.5", "1234567890123456789", "string"),
        ("boolean", "true", "TRUE", None),
        ("date", "2024-02-28", "2024-02-29", None),
        ("date", "2024-02-28", "2024-02-29 10:00:00", "timestamp_ntz"),
        ("timestamp_ntz", "2024-02-29 10:00", "2024-02-29", None),
        ("timestamp_ntz", "2024-02-29 10:00", "2024-02-29T10:00:00Z", "string"),
        ("string", "x", "00123", None),
    ],
)
def test_a_type_widens_only_when_a_value_does_not_fit(
    tmp_path: Path, pinned: str, old: str, value: str, becomes: str | None
) -> None:
    found = _evolved(tmp_path, f"a {pinned}; k string", f"a,k\n{value},1\n,2\n", f"a,k\n{old},x\n")
    assert found is None if becomes is None else _types(found) == f"a {becomes}; k string"


def test_a_type_that_a_person_wrote_stays(tmp_path: Path) -> None:
    file = _found(tmp_path, "a.csv", "a,b\nx,1\n")
    columns = _columns("a bigint; b decimal(5,2)", inferred=False)
    assert evolve(columns, [file], [file], fmt="csv", read_options={}) is None


def test_columns_are_added_at_the_end_and_missing_ones_change_nothing(tmp_path: Path) -> None:
    found = _evolved(tmp_path, "a bigint; b string", "z,a\n0.5,1\n", "a,b\n1,x\n")
    assert _types(found) == "a bigint; b string; z double"
    assert found is not None and found.changes == ("column 'z' is new (double in its only value)",)
    assert _evolved(tmp_path, "a bigint; b string", "a\n1\n") is None


def test_the_plan_can_name_the_value_that_widens(tmp_path: Path) -> None:
    found = _evolved(tmp_path, "a bigint", "a\n1\n2\n0.5\n")
    assert found is not None
    assert found.changes == ("column 'a' goes from bigint to double because of line 4 of new.csv: '0.5'",)
    assert found.because == {"a": "double because of line 4 of new.csv: '0.5'"}


def test_columns_from_names_and_broken_files_are_left_to_the_reader(tmp_path: Path) -> None:
    file = _found(tmp_path, "a.csv", "port,a\nx,1\n")
    columns = _columns("a bigint; port string")
    assert evolve(columns, [file], [file], fmt="csv", read_options={}, name_columns=("port",)) is None
    broken = _found(tmp_path, "b.csv", "a,a\n1,2\n")
    assert evolve(columns, [broken], [broken], fmt="csv", read_options={}) is None


def test_a_column_without_a_value_takes_the_type_of_its_first_ones(tmp_path: Path) -> None:
    file = _found(tmp_path, "a.csv", "a,b\n1,\n")
    found = evolve(_columns("a string; b string"), [file], [file], fmt="csv", read_options={}, empty="ab")
    assert _types(found) == "a bigint; b string"


def test_files_without_a_header_widen_too(tmp_path: Path) -> None:
    assert _types(_evolved(tmp_path, "a bigint; b string", "1.5,x\n", header=False)) == "a double; b string"


@pytest.mark.parametrize(
    ("pinned", "value", "becomes"),
    [
        ("bigint", "null", None),
        ("double", "5", None),
        ("string", '{"p": 1}', None),
        ("struct<p:bigint>", '{"q": "x"}', "struct<p:bigint,q:string>"),
        ("struct<p:bigint>", '{"p": 0.5, "q": {"r": 1}}', "struct<p:double,q:struct<r:bigint>>"),
        ("array<bigint>", "[1, 0.5]", "array<double>"),
        ("bigint", "[1]", "string"),
    ],
)
def test_json_grows_at_any_depth(tmp_path: Path, pinned: str, value: str, becomes: str | None) -> None:
    old = {"s": '{"p": 1}', "a": "[1]"}.get(pinned[0], "1") if pinned != "string" else '"x"'
    new = f'{{"a": {value}}}\n'
    found = _evolved(tmp_path, f"a {pinned}", new, f'{{"a": {old}}}\n', format="json")
    if becomes is None:
        assert found is None
    else:
        assert sorted(_types(found)) == sorted(f"a {becomes}"), "fields come in the order of the files' keys"


def _parquet(root: Path, name: str, **columns: pa.Array) -> FoundFile:
    pq.write_table(pa.table(columns), root / name)
    return FoundFile(name, str(root / name), 1, 1, False)


@pytest.mark.parametrize(
    ("pinned", "array", "becomes"),
    [
        (pa.int64(), pa.array([1], pa.int32()), None),
        (pa.int32(), pa.array([1], pa.int64()), "bigint"),
        (pa.int64(), pa.array([0.5]), "double"),
        (pa.float64(), pa.array([1], pa.int64()), None),
        (pa.float64(), pa.array([10**17], pa.int64()), "string"),
        (pa.int64(), pa.array(["x"]), "string"),
        (pa.string(), pa.array([1], pa.int64()), None),
    ],
)
def test_parquet_grows_by_its_footers(
    tmp_path: Path, pinned: pa.DataType, array: pa.Array, becomes: str | None
) -> None:
    kind = {"int32": "int", "int64": "bigint"}.get(str(pinned), str(pinned))
    new = _parquet(tmp_path, "new.parquet", a=array)
    old = _parquet(tmp_path, "old.parquet", a=pa.array([1 if kind != "string" else "1"], pinned))
    found = evolve(_columns(f"a {kind}"), [new], [new, old], fmt="parquet", read_options={})
    assert found is None if becomes is None else _types(found) == f"a {becomes}"
