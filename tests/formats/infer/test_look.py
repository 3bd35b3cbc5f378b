"""What a look at one file finds: exact counts, wherever blocks end, and the first value of each kind."""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fastavro
import openpyxl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lading.errors import SourceError
from lading.formats.csv.rows import CsvReader
from lading.formats.evidence import EMPTY, ColumnEvidence, FileEvidence, Seen, decoded, encoded
from lading.formats.infer.kinds import LONG, Kinds
from lading.formats.infer.look import LookSpec, look
from lading.formats.json.records import records_of
from lading.formats.source_file import SourceFile

VALUES = st.sampled_from(
    ["1", "-20", "0.5", "00", "7.50", "1e5", "true", "TRUE", "2024-01-01", "2024-01-01 00:00:00", "x", "ü",
     "", "2024-01-01T00:00:00Z", str(10**17), "a,b", 'say "so"']
)  # fmt: skip
ANY_FILE = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def seen(
    root: Path,
    data: bytes | str,
    format: str = "csv",
    names: tuple[str, ...] | None = None,
    limit: int | None = None,
    **options: Any,
) -> FileEvidence:
    path = root / f"a.{format}"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    file = SourceFile(path.name, str(path), path.stat().st_size)
    return look(file, LookSpec(format, options, names, limit))


def column(evidence: FileEvidence, name: str) -> ColumnEvidence:
    return next(one for one in evidence.columns if one.name == name)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=40), st.integers(1, 200), st.booleans())
@ANY_FILE
def test_counts_are_exact_wherever_blocks_end(
    tmp_path: Path, rows: list[tuple[str, str]], block: int, quoted: bool
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL, lineterminator="\n")
    writer.writerows([("a", "b"), *rows])
    whole = seen(tmp_path, text.getvalue())
    with patch.dict(CsvReader.__init__.__kwdefaults__, block=block):
        assert seen(tmp_path, text.getvalue()) == whole
    assert decoded(encoded(whole)) == whole
    assert whole.rows == len(rows)
    for place, found in enumerate(whole.columns):
        texts = [row[place] for row in rows]
        assert found.nulls == (0 if quoted else texts.count(""))
        wanted: dict[str, list[int]] = {}
        for at, value in enumerate(texts, start=1):
            if value or quoted:
                kind = Kinds().of_text(pa.array([value])) if value else EMPTY
                wanted.setdefault(kind, []).append(at)
        assert [(one.kind, one.count, one.row, one.line) for one in found.seen] == [
            (kind, len(at), at[0], at[0] + 1) for kind, at in sorted(wanted.items())
        ]
        assert [one.value for one in found.seen] == [texts[one.row - 1] for one in found.seen]
        lengths = [len(value) for value in texts if value] or [0]
        assert (found.least, found.most) == (min(lengths), max(lengths))


@pytest.mark.parametrize(
    ("values", "kind", "plain"),
    [
        (["1", "-20", "0"], "bigint", True),
        (["1234567890123456"], LONG, True),
        (["0.5", "-12.25"], "double", True),
        (["0.5", "0.50"], "double", False),
        (["1e3"], "double", False),
        (["true", "false"], "boolean", True),
        (["true", "True"], "boolean", False),
        (["2024-01-31", "0001-01-01"], "date", True),
        (["2024-01-31 10:00"], "timestamp_ntz", False),
        (["2024-01-31 10:00Z"], "timestamp", False),
        (["x"], "string", False),
    ],
)
def test_plain_is_what_lading_would_write_itself(
    tmp_path: Path, values: list[str], kind: str, plain: bool
) -> None:
    found = column(seen(tmp_path, "\n".join(["v", *values, ""])), "v")
    assert [(one.kind, one.plain) for one in found.seen] == [(kind, plain)]
    assert found.plain == plain


def test_other_marks_and_formats_are_never_plain(tmp_path: Path) -> None:
    comma = column(seen(tmp_path, "v\n1;5\n2\n".replace(";", ","), delimiter=";", decimal=","), "v")
    assert [(one.kind, one.plain) for one in comma.seen] == [("bigint", True), ("double", False)]
    german = column(seen(tmp_path, "v\n31.01.2024\n", date_format="dd.MM.yyyy"), "v")
    assert [(one.kind, one.plain) for one in german.seen] == [("date", False)]
    both = column(seen(tmp_path, "v\n20240131\n", date_format="yyyyMMdd"), "v")
    assert [(one.kind, one.plain) for one in both.seen] == [("bigint or date", False)]


def test_an_empty_text_in_quotes_is_null_only_where_it_is_no_text(tmp_path: Path) -> None:
    found = column(seen(tmp_path, 'v,w\n1,\n"",\n2,\n,\n'), "v")
    assert found.seen == (Seen("bigint", 2, 1, 2, "1"), Seen(EMPTY, 1, 2, 3, "", False))
    assert (found.nulls, found.values, found.plain, found.least) == (1, 2, False, 1)


def test_lines_and_rows_are_those_of_the_file(tmp_path: Path) -> None:
    text = '\nskipped\n# note\na,b\n"1\n2",3\n\n# note\nragged\n4,5\nü,6\n'
    found = column(seen(tmp_path, text, multiline=True, comment="#", skip=2), "a")
    assert [(one.kind, one.row, one.line, one.value) for one in found.seen] == [
        ("bigint", 3, 10, "4"),
        ("string", 1, 5, "1\n2"),
    ]


def test_a_value_is_shown_by_its_beginning_and_a_head_of_the_file_by_a_limit(tmp_path: Path) -> None:
    assert column(seen(tmp_path, f"v\n{'ü' * 99}\n"), "v").seen[0].value == "ü" * 40
    assert seen(tmp_path, "v\n" + "1\n" * 10_000 + "x\n", limit=100).columns[0].seen[0].count < 100


def test_columns_without_a_header_have_the_names_that_are_given_or_numbers(tmp_path: Path) -> None:
    assert [one.name for one in seen(tmp_path, "1,2\n", header=False).columns] == ["column_1", "column_2"]
    assert [one.name for one in seen(tmp_path, "1,2\n", header=False, names=("x", "y")).columns] == ["x", "y"]
    assert seen(tmp_path, "", header=False) == FileEvidence(0, ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.sampled_from([0, 0.5, 1e300])
    | st.sampled_from(["x", "", "5", "2024-01-01", "2024-01-01 10:00", "true"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("pq"), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        exact = abs(value) < 10**15
        return "bigint" if exact else LONG if -(2**63) <= value < 2**63 else "string"
    if isinstance(value, str):
        return Kinds().of_text(pa.array([value]), numbers=False)
    return {float: "double", dict: "struct", list: "array"}[type(value)]


def _check(found: ColumnEvidence | None, values: list[tuple[int, Any]], lacking: int = 0) -> None:
    """Against values with their rows."""
    there = [(row, value) for row, value in values if value is not None]
    if found is None:
        assert not values
        return
    kinds = sorted({_kind(value) for _, value in there})
    assert [(one.kind, one.count, one.row) for one in found.seen] == [
        (kind, len(rows), rows[0])
        for kind in kinds
        if (rows := [row for row, value in there if _kind(value) == kind])
    ]
    assert found.nulls == len(values) - len(there) + lacking
    objects = [(row, value) for row, value in there if isinstance(value, dict)]
    names = list(dict.fromkeys(name for _, value in objects for name in value))
    assert [field.name for field in found.fields] == names
    for field in found.fields:
        inner = [(row, value[field.name]) for row, value in objects if field.name in value]
        _check(field, inner, len(objects) - len(inner))
    lists = [(row, value) for row, value in there if isinstance(value, list)]
    if lists:
        _check(found.items, [(row, inner) for row, value in lists for inner in value])


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), JSON), max_size=12), st.integers(1, 60), st.booleans()
)
@example([{"a": "x"}, {"a": 2**63}], 1, False)
@example([{"a": 2**63}, {"a": "x"}], 1, False)
@example([{"a": ""}, {"a": ""}], 60, False)
@ANY_FILE
def test_json_is_counted_at_any_depth(
    tmp_path: Path, records: list[dict[str, Any]], block: int, multiline: bool
) -> None:
    lines = [json.dumps(record) for record in records]
    text = "[" + ",\n".join(lines) + "]" if multiline else "\n".join(["nonsense", *lines, "[1]"])
    whole = seen(tmp_path, text, "json", multiline=multiline)
    with patch.dict(records_of.__kwdefaults__, block=block):
        assert seen(tmp_path, text, "json", multiline=multiline) == whole
    assert decoded(encoded(whole)) == whole
    assert whole.rows == len(records)
    root = ColumnEvidence("", (), fields=whole.columns)
    numbered = list(enumerate(records, start=1 if multiline else 2))
    names = list(dict.fromkeys(name for record in records for name in record))
    assert [one.name for one in root.fields] == names
    for one in root.fields:
        there = [(row, record[one.name]) for row, record in numbered if one.name in record]
        _check(one, there, len(records) - len(there))


def test_json_says_where_a_value_is_and_what_it_looks_like(tmp_path: Path) -> None:
    text = '{"a": 1}\n\nnonsense\n{"a": {"b": [1, "ü"]}, "c": -0}\n{"c": 0, "d": false, "e": 0.5}\n'
    found = seen(tmp_path, text, "json")
    assert column(found, "a").seen == (
        Seen("bigint", 1, 1, 1, "1"),
        Seen("struct", 1, 3, 4, '{"b":[1,"ü"]}', False),
    )
    assert column(found, "c").seen == (Seen("bigint", 2, 3, 4, "0", False),), "-0 is written otherwise"
    assert column(found, "d").seen == (Seen("boolean", 1, 4, 5, "false"),)
    assert column(found, "e").seen == (Seen("double", 1, 4, 5, "0.5", False),)
    safe = '{"a": 0, "b": "-0", "c": -0.5, "d": -0.0, "e": 10, "f": "2024-01-05"}\n'
    assert column(seen(tmp_path, safe, "json"), "a").seen[0].plain


def test_json_below_ten_levels_is_text(tmp_path: Path) -> None:
    deep: Any = {"x": 1}
    for _ in range(12):
        deep = {"x": deep}
    found = seen(tmp_path, json.dumps({"a": deep}), "json").columns[0]
    for _ in range(10):
        (found,) = found.fields
    assert [(one.kind, one.value) for one in found.seen] == [("string", "nested too deeply")]


def test_a_workbook_is_counted_by_its_cells(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    rows: list[tuple[Any, ...]] = [
        ("n", "t", "m"),
        (1, "x", date(2024, 1, 31)),
        (0.5, "long", datetime(2024, 1, 31, 10)),
        (10**15, None, True),
        (0.1 + 0.2, "5", None),
    ]
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    data = (tmp_path / "a.xlsx").read_bytes()
    found = seen(tmp_path, data, "excel")
    assert found.rows == 4
    assert column(found, "n").seen == (
        Seen("bigint", 1, 1, 2, "1"),
        Seen("double", 3, 2, 3, "0.5", False),
    )
    assert column(found, "t") == ColumnEvidence("t", (Seen("string", 3, 1, 2, "x", False),), 1, 1, 4)
    assert [(one.kind, one.row, one.line, one.plain) for one in column(found, "m").seen] == [
        ("boolean", 3, 4, True),
        ("date", 1, 2, True),
        ("timestamp_ntz", 2, 3, False),
    ]
    assert [one.name for one in seen(tmp_path, data, "excel", header=False).columns][-1] == "column_3"


def test_files_with_types_say_them_in_their_heads(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, None], pa.int64()),
            "large": pa.array([1, 10**15], pa.int64()),
            "nothing": pa.array([None, None], pa.int64()),
            "n": pa.array([1.5, None]),
            "s": pa.array([{"p": 1}, None]),
        }
    )
    pq.write_table(table, tmp_path / "p")
    found = seen(tmp_path, (tmp_path / "p").read_bytes(), "parquet")
    assert found.rows == 2
    assert [(one.name, *one.seen) for one in found.columns] == [
        ("small", Seen("bigint", 2, 0, 0, "", True)),
        ("large", Seen(LONG, 2, 0, 0, "", True)),
        ("nothing", Seen("bigint", 2, 0, 0, "", True)),
        ("n", Seen("double", 2, 0, 0, "", False)),
        ("s", Seen("struct<p:bigint>", 2, 0, 0, "", False)),
    ]
    pq.write_table(table, tmp_path / "p", write_statistics=False)
    unknown = seen(tmp_path, (tmp_path / "p").read_bytes(), "parquet")
    assert column(unknown, "small").seen[0].kind == LONG
    orc.write_table(table.select(["small"]), tmp_path / "o")
    assert column(seen(tmp_path, (tmp_path / "o").read_bytes(), "orc"), "small").seen[0].kind == LONG
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}
    with open(tmp_path / "v", "wb") as out:
        fastavro.writer(out, schema, [{"x": 1}])
    avro = seen(tmp_path, (tmp_path / "v").read_bytes(), "avro")
    assert avro == FileEvidence(-1, (ColumnEvidence("x", (Seen("int", 0, 0, 0, ""),)),))


@pytest.mark.parametrize(("format", "data"), [("csv", b"PK\3\4"), ("json", b"PK\3\4"), ("orc", b"nonsense")])
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, format: str, data: bytes) -> None:
    with pytest.raises(SourceError, match=rf"a\.{format}"):
        seen(tmp_path, data, format)


def test_evidence_takes_a_few_hundred_bytes(tmp_path: Path) -> None:
    names = [f"column number {place}" for place in range(40)]
    text = ",".join(names) + "\n" + ",".join(f"value {place}" for place in range(40)) + "\n"
    assert len(encoded(seen(tmp_path, text))) < 1_000
