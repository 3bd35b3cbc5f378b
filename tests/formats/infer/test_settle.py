"""A table's columns from the evidence of its files: one answer, whatever the order; a reason that is true."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lading.errors import SchemaDrift
from lading.formats.evidence import EMPTY, ColumnEvidence, FileEvidence, Seen
from lading.formats.infer.kinds import LONG
from lading.formats.infer.look import LookSpec, look
from lading.formats.infer.settle import Settled, misfits, settle
from lading.formats.source_file import SourceFile
from lading.formats.types import NO_VALUE, joined
from lading.formats.values import Texts
from lading.model import Column
from lading.sources.schema import was_inferred

TYPES = ("boolean", "bigint", "double", "date", "timestamp_ntz", "timestamp")
VALUES = st.sampled_from(
    ["1", "0.5", "00", "true", "2024-01-01", "2024-01-01 00:00:00", "2024-01-01T00:00:00Z", "x", str(10**17),
     "31.01.2024", "20240131", "", "#DIV/0!"]
)  # fmt: skip
COLUMNS = st.dictionaries(st.sampled_from("abcd"), st.lists(VALUES, max_size=6), min_size=1)


def files_of(*contents: dict[str, list[str]] | str, format: str = "csv", **options: Any) -> Any:
    """The evidence of files called 0, 1, …: of columns with their values, or of text."""

    def seen(root: Path) -> list[tuple[str, FileEvidence]]:
        found = []
        for number, content in enumerate(contents):
            path = root / f"{number}.{format}"
            path.write_text(content if isinstance(content, str) else written(content))
            file = SourceFile(path.name, str(path), path.stat().st_size)
            found.append((path.name, look(file, LookSpec(format, options))))
        return found

    return seen


def written(columns: dict[str, list[str]]) -> str:
    longest = max(map(len, columns.values()))
    rows = [[column[at] if at < len(column) else "" for column in columns.values()] for at in range(longest)]
    return "".join(",".join([*row, "|"]) + "\n" for row in [list(columns), *rows])


def settled(
    files: list[tuple[str, FileEvidence]], policy: str = "widen", format: str = "csv", **options: Any
) -> Settled:
    return settle(files, format, options, types=lambda _: policy)


def types(found: Settled) -> dict[str, str]:
    return {one.name: one.type for one in found.columns if one.name != "|"}


def oracle(values: list[str], texts: Texts) -> str:
    """The first type that the reader's rules let every value be, each for itself."""
    for kind in TYPES:
        column = Column("v", kind, inferred=True)
        if values and all(texts.all_fit(pa.array([value]), column) for value in values):
            return kind
    return "string"


@given(
    st.lists(COLUMNS, min_size=1, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from([{}, {"date_format": ["dd.MM.yyyy", "yyyyMMdd"]}]),
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_schema_is_that_of_all_values_together_in_whatever_order_files_come(
    tmp_path: Path, contents: list[dict[str, list[str]]], chance: random.Random, options: dict[str, Any]
) -> None:
    files = files_of(*contents, **options)(tmp_path)
    found = settled(files, **options)
    shuffled = chance.sample(files, len(files))
    for policy in ("strict", "widen", "quarantine"):
        assert settled(shuffled, policy, **options) == settled(files, policy, **options)
    texts = Texts.of(options, empty_is_null=False)
    held: dict[str, list[str]] = {name: [] for content in contents for name in content}
    for content in contents:
        for name, values in content.items():
            held[name] += [value for value in values if value]
    assert types(found) == {name: oracle(values, texts) for name, values in held.items()}
    assert [one.name for one in found.columns if one.name != "|"] == list(held), "in order of appearance"
    assert found.rows == sum(max(map(len, content.values())) for content in contents)
    for column in found.columns:
        assert was_inferred(column.type, found.because[column.name]) and column.inferred
        if column.name != "|":
            _is_true(found.because[column.name], column, contents)


def _is_true(because: str, column: Column, contents: list[dict[str, list[str]]]) -> None:
    """Whether the value that is named stands where it is said to."""
    if " of " not in because:
        return
    place, _, value = because.partition(": ")
    line, _, key = place.partition(" because of line ")[2].partition(" of ")
    assert repr(contents[int(key[0])][column.name][int(line) - 2]) == value


MANY = ["1"] * 8 + ["0.5"]
LARGE = str(10**17)
LATER = "2024-01-01 10:00"


@pytest.mark.parametrize(
    ("values", "policy", "because"),
    [
        (["1"], "widen", "bigint in its only value"),
        (["1", "2"], "strict", "bigint in all 2 values"),
        (["1", "0.5"], "widen", "double because of line 3 of 0.csv: '0.5'"),
        (["0.5", "1"], "widen", "double in all 2 values"),
        ([LARGE, "1"], "widen", "bigint in all 2 values"),
        ([LARGE, "0.5"], "widen", "string because of line 3 of 0.csv: '0.5'"),
        (["1", "00123", "x"], "widen", "string because of line 3 of 0.csv: '00123'"),
        (["x", "1"], "widen", "string because of line 2 of 0.csv: 'x'"),
        (["2024-01-01", "1"], "widen", "string because of line 3 of 0.csv: '1'"),
        (["2024-01-01", LATER], "widen", f"timestamp_ntz because of line 3 of 0.csv: '{LATER}'"),
        (["", ""], "quarantine", NO_VALUE),
        (["1", "2"], "quarantine", "bigint in all 2 values"),
        (["1", "0.5"], "quarantine", "double because of line 3 of 0.csv: '0.5'"),
        ([*MANY, "#DIV/0!"], "quarantine", "double: all but 1 of 10 values; line 11 of 0.csv: '#DIV/0!'"),
        (["n/a", *MANY], "quarantine", "double: all but 1 of 10 values; line 2 of 0.csv: 'n/a'"),
        ([*MANY, "#DIV/0!"], "widen", "string because of line 11 of 0.csv: '#DIV/0!'"),
        ([*MANY, "x", "y"], "quarantine", "string because of line 11 of 0.csv: 'x'"),
        ([*MANY * 3, "x", "true"], "quarantine", "double: all but 2 of 29 values; line 29 of 0.csv: 'x'"),
        ([LARGE] * 9 + ["0.5"], "quarantine", "bigint: all but 1 of 10 values; line 11 of 0.csv: '0.5'"),
    ],
)  # fmt: skip
def test_a_reason_begins_with_the_type_and_names_a_value(
    tmp_path: Path, values: list[str], policy: str, because: str
) -> None:
    found = settled(files_of({"v": values})(tmp_path), policy)
    assert found.because["v"] == because
    assert was_inferred(types(found)["v"], because)


def test_policies_are_by_column(tmp_path: Path) -> None:
    files = files_of({"a": [*MANY, "x"], "b": [*MANY, "x"]})(tmp_path)
    found = settle(files, "csv", {}, types=lambda name: "quarantine" if name == "a" else "widen")
    assert types(found) == {"a": "double", "b": "string"}


def test_it_widens_and_narrows_and_gains_and_loses_columns_with_the_files(tmp_path: Path) -> None:
    files = files_of({"a": ["1"], "b": ["x"]}, {"c": ["1"], "a": ["0.5"]})(tmp_path)
    assert types(settled(files)) == {"a": "double", "b": "string", "c": "bigint"}
    assert types(settled(files[1:])) == {"c": "bigint", "a": "double"}
    assert types(settled(files[:1])) == {"a": "bigint", "b": "string"}
    assert settled([]) == Settled((), {}, 0, 0)


def test_an_empty_text_in_quotes_has_no_say(tmp_path: Path) -> None:
    files = files_of('a,b\n"",""\n1,\n')(tmp_path)
    found = settled(files)
    assert types(found) == {"a": "bigint", "b": "string"}
    assert found.because == {"a": "bigint in its only value", "b": NO_VALUE}
    assert [one.kind for one in files[0][1].columns[1].seen] == [EMPTY]
    assert misfits(files[0][1].columns[0], "bigint", {}) == 0


def records(*values: Any) -> str:
    return "".join(json.dumps({"a": value}) + "\n" for value in values)


@pytest.mark.parametrize(
    ("values", "policy", "dtype", "because"),
    [
        ([{"p": 1}, {"q": [1]}], "widen", "struct<p:bigint,q:array<bigint>>", ": as the values are"),
        ([{"p": 1}, {"p": "x"}], "widen", "struct<p:string>", ": as the values are"),
        ([[1], [None, 0.5], []], "widen", "array<double>", ": as the values are"),
        ([[]], "widen", "array<string>", ": as the values are"),
        ([{}], "widen", "string", ": objects without keys; line 1 of 0.json: '{}'"),
        ([None, {}], "widen", "string", ": objects without keys; line 2 of 0.json: '{}'"),
        ([1, [1]], "widen", "string", ": a mix of objects, lists and plain values; line 2 of 0.json: '[1]'"),
        (
            [{"id": 1}, {"ID": 2}],
            "widen",
            "string",
            ": Spark can't tell apart its keys 'id' and 'ID'; line 2 of 0.json: '2'",
        ),
        (
            [{"id": 1, "ID": None}],
            "widen",
            "string",
            ": Spark can't tell apart its keys 'id' and 'ID'",
        ),
        ([[{"id": 1, "ID": 2}]], "widen", "array<string>", ": as the values are"),
        ([{"p": {"id": 1, "ID": 2}, "q": 1}], "widen", "struct<p:string,q:bigint>", ": as the values are"),
        (
            [{"a": 1, "A": 2}, 1],
            "widen",
            "string",
            ": a mix of objects, lists and plain values; line 2 of 0.json: '1'",
        ),
        ([1, 2], "widen", "bigint", " in all 2 values"),
        (["5"], "widen", "string", " because of line 1 of 0.json: '5'"),
        ([10**30], "widen", "string", f" because of line 1 of 0.json: '{10**30}'"),
        ([[1]] * 9 + [1], "quarantine", "array<bigint>", ": all but 1 of 10 values; line 10 of 0.json: '1'"),
        (
            [{"p": [0.5]}] * 9 + [{"p": ["n/a"]}],
            "quarantine",
            "struct<p:array<double>>",
            ": all but 1 of 10 values in p; line 10 of 0.json: 'n/a'",
        ),
    ],
)
def test_json_is_settled_at_any_depth(
    tmp_path: Path, values: list[Any], policy: str, dtype: str, because: str
) -> None:
    files = files_of(records(*values), format="json")(tmp_path)
    found = settled(files, policy, "json")
    assert types(found) == {"a": dtype}
    assert found.because["a"] == dtype + because
    assert was_inferred(dtype, found.because["a"])
    assert misfits(files[0][1].columns[0], dtype, {}) == (1 if policy == "quarantine" else 0)


def test_fields_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    files = files_of(records({"q": 1}), records({"p": 1, "q": 0.5}), format="json")(tmp_path)
    assert types(settled(files[::-1], "widen", "json")) == {"a": "struct<q:double,p:bigint>"}


def test_keys_of_several_files_that_differ_only_in_case_make_it_text(tmp_path: Path) -> None:
    files = files_of(records({"p": 1}), records(*[{"P": 1}] * 9, 5), format="json")(tmp_path)
    for policy in ("widen", "quarantine"):
        assert types(settled(files[:1], policy, "json")) == {"a": "struct<p:bigint>"}
    found = settled(files, "quarantine", "json")
    told = "string: Spark can't tell apart its keys 'p' and 'P'; line 1 of 1.json: '1'"
    assert found.because == {"a": told}
    assert types(found) == {"a": "string"} and misfits(files[1][1].columns[0], "string", {}) == 0


@pytest.mark.parametrize(
    ("dtype", "count"), [("bigint", 3), ("double", 1), ("date", 4), ("string", 0), ("boolean", 4)]
)
def test_misfits_are_the_values_that_are_none_of_a_type(tmp_path: Path, dtype: str, count: int) -> None:
    ((_, file),) = files_of({"a": ["1", "0.5", "x", "1.5", ""]})(tmp_path)
    assert misfits(file.columns[0], dtype, {}) == count


def typed(*kinds: str, rows: int = 5) -> list[tuple[str, FileEvidence]]:
    def column(kind: str) -> ColumnEvidence:
        return ColumnEvidence("x", () if kind == "void" else (Seen(kind, rows, 0, 0, ""),))

    return [(f"{at}.parquet", FileEvidence(rows, (column(kind),))) for at, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("kinds", "dtype", "because"),
    [
        (["int"], "int", "int: the footer of 0.parquet"),
        (["int", "int", "bigint"], "bigint", "bigint: the footer of 2.parquet"),
        (["bigint", "int"], "bigint", "bigint: the footer of 0.parquet"),
        (["bigint", "double"], "double", "double: the footer of 1.parquet"),
        (["bigint", "float"], "double", "double: bigint in 0.parquet, and float in 1.parquet"),
        ([LONG, "bigint"], "bigint", "bigint: the footer of 0.parquet"),
        (["double", LONG], "string", "string: doubles, and integers of more than 15 digits in 1.parquet"),
        (["int", "date"], "string", "string: int in 0.parquet, and date in 1.parquet"),
        (
            ["decimal(5,2)", "decimal(5,4)"],
            "decimal(7,4)",
            "decimal(7,4): decimal(5,2) in 0.parquet, and decimal(5,4) in 1.parquet",
        ),
        (["int", "void", "int"], "int", "int: the footer of 0.parquet"),
        (["void", "int"], "int", "int: the footer of 1.parquet"),
        (["void", "void"], "string", NO_VALUE),
        (["array<void>"], "array<string>", "array<string>: the footer of 0.parquet"),
        (["array<void>", "array<int>"], "array<int>", "array<int>: the footer of 1.parquet"),
        (["array<int>", "array<bigint>"], "array<bigint>", "array<bigint>: the footer of 1.parquet"),
        (["struct<`a or b`:int>"], "struct<`a or b`:int>", "struct<`a or b`:int>: the footer of 0.parquet"),
    ],
)
def test_types_of_files_are_joined(kinds: list[str], dtype: str, because: str) -> None:
    found = settled(typed(*kinds), format="parquet")
    assert types(found) == {"x": dtype}
    assert found.because == {"x": because}
    assert was_inferred(dtype, because)
    assert (found.files, found.rows) == (len(kinds), 5 * len(kinds))
    assert settled(typed(*kinds, rows=-1), format="avro").rows is None


def test_types_of_files_that_differ_are_drift_where_they_are_not_joined() -> None:
    def strict(*kinds: str) -> Settled:
        return settle(typed(*kinds), "parquet", {}, types=lambda _: "strict", join_types=False)

    assert types(strict("int", "bigint", "int")) == {"x": "bigint"}
    with pytest.raises(SchemaDrift, match=r"'x' is bigint in 1\.parquet and string in 2\.parquet"):
        strict("int", "bigint", "string")
    with pytest.raises(SchemaDrift, match=r"'x' is struct<a:int> in 0\.parquet and int in 1\.parquet"):
        settled(typed("struct<a:int>", "int"), format="parquet")
    with pytest.raises(SchemaDrift, match=r"'x' is struct<a:int> in 0\.parquet and struct<A:int> in 1"):
        settled(typed("struct<a:int>", "struct<A:int>"), format="parquet")


ALL = [
    "tinyint", "int", "bigint", "float", "double", "date", "timestamp_ntz", "timestamp", "boolean", "string",
    "binary", "decimal(5,2)", "decimal(5,4)", "decimal(10,4)", "decimal(38,0)", "array<int>",
]  # fmt: skip


@given(st.lists(st.sampled_from(ALL), min_size=3, max_size=3))
def test_joining_types_does_not_depend_on_the_order(kinds: list[str]) -> None:
    def join(one: str | None, other: str | None) -> str | None:
        return None if one is None or other is None else joined(one, other)

    a, b, c = kinds
    assert join(join(a, b), c) == join(a, join(b, c)) == join(join(c, a), b)
