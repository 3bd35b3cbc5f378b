"""Files as they really arrive: each loads exactly as it is, or the error names file and line."""

from __future__ import annotations

import bz2
import gzip
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from support.formats import Case, Project


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


LONG = "x" * (50 << 20)
SHIPS = {
    "columns": [
        {"name": "kind", "start": 0, "length": 2},
        {"name": "ship", "start": 2, "length": 6},
        {"name": "tonnes", "start": 8, "length": 5, "type": "int"},
        {"name": "built", "start": 13, "length": 10, "type": "date"},
    ],
    "record_type_filter": {"position": 0, "length": 2, "value": "01"},
}
PLAIN = {"columns": [{"name": "a", "start": 0, "length": 3}, {"name": "b", "start": 3, "length": 3}]}

LOADS = [
    Case("quotes", {"a.csv": b'a,b\n1,"say ""hi"", you"\n2,it\'s\n'}, [(1, 'say "hi", you'), (2, "it's")]),
    Case(
        "newlines",
        {"a.csv": b'a,b\n1,"two\nlines"\n2,"with\r\nreturn"\n'},
        [(1, "two\nlines"), (2, "with\r\nreturn")],
        options={"multiline": True},
    ),
    Case("bom", {"a.csv": b"\xef\xbb\xbfa,b\n1,x\n"}, [(1, "x")]),
    Case(
        "bom_headless",
        {"a.csv": b"\xef\xbb\xbf1,x\n2,y\n"},
        [(1, "x"), (2, "y")],
        options={"header": False},
        schema="a bigint; b string",
    ),
    Case("crlf", {"a.csv": b"a,b\r\n1,x\r\n2,\r\n"}, [(1, "x"), (2, None)]),
    Case("latin", {"a.csv": "a,b\n1,Ærø\n".encode("latin-1")}, [(1, "Ærø")], options={"encoding": "latin-1"}),
    Case(
        "windows",
        {"a.csv": "a,b\n1,€ “x”\n".encode("cp1252")},
        [(1, "€ “x”")],
        options={"encoding": "cp1252"},
    ),
    Case("empty_file", {"a.csv": b"", "b.csv": b"a\n1\n"}, [(1,)]),
    Case("header_only", {"a.csv": b"a,b\n", "b.csv": b"a,b\n1,x\n"}, [(1, "x")]),
    Case("nothing_or_empty", {"a.csv": b'a,b\n1,""\n2,\n"",z\n'}, [(1, ""), (2, None), (None, "z")]),
    Case("nul_bytes", {"a.csv": b"a,b\n1,x\x00y\n"}, [(1, "x\x00y")]),
    Case(
        "three_dates",
        {"a.csv": b"d\n2024-01-31\n31.01.2024\n1/31/2024\n"},
        [("1/31/2024",), ("2024-01-31",), ("31.01.2024",)],
        types="d string",
    ),
    Case("decimal_commas", {"a.csv": b"a;b\n1;1,5\n"}, [(1, "1,5")], options={"delimiter": ";"}),
    Case("yes_no", {"a.csv": b"a,b\n1,Y\n2,N\n"}, [(1, "Y"), (2, "N")], types="a bigint, b string"),
    Case("leading_zeros", {"a.csv": b"a\n1\n00123\n"}, [("00123",), ("1",)], types="a string"),
    Case("gz", {"a.csv.gz": gzip.compress(b"a\n1\n")}, [(1,)]),
    Case("bz", {"a.csv.bz2": bz2.compress(b"a\n1\n")}, [(1,)]),
    Case("zst", {"a.csv.zst": zstd(b"a\n1\n")}, [(1,)]),
    Case("json_gz", {"a.jsonl.gz": gzip.compress(b'{"a": 1}\n')}, [(1,)], "json"),
    Case("json_bz", {"a.jsonl.bz2": bz2.compress(b'{"a": 1}\n')}, [(1,)], "json"),
    Case("json_zst", {"a.jsonl.zst": zstd(b'{"a": 1}\n')}, [(1,)], "json"),
    Case("skipped", {"a.csv": b'Report "7\n\n\na,b\n1,x\n'}, [(1, "x")], options={"skip": 2}),
    Case("skipped_gz", {"a.csv.gz": gzip.compress(b"x\na\n1\n")}, [(1,)], options={"skip": 1}),
    Case(
        "headless",
        {"a.csv": b"1,x\n2,y\n"},
        [(1, "x"), (2, "y")],
        options={"header": False},
        schema="a bigint; b string",
    ),
    Case(
        "null_text",
        {"a.csv": b'a,b,c\n1,NA,NA\n2,"NA",x\n'},
        [(1, None, None), (2, None, "x")],
        options={"null": "NA"},
        schema="a bigint; b double; c string",
    ),
    Case("tabs", {"a.tab": b"a\tb\n1\tx,y\n"}, [(1, "x,y")], "tab"),
    Case("quoting", {"a.csv": b"a|b\n1|'x|y'\n"}, [(1, "x|y")], options={"delimiter": "|", "quote": "'"}),
    Case("long_line", {"a.csv": f"a,b\n1,{LONG}\n2,y\n".encode()}, [(1, LONG), (2, "y")]),
    Case(
        "json_long_line", {"a.json": f'{{"a": "{LONG}"}}\n{{"a": "y"}}\n'.encode()}, [(LONG,), ("y",)], "json"
    ),
    Case(
        "json_lines",
        {"a.json": b'\xef\xbb\xbf{"a": 1, "b": "x\\ny"}\r\n\r\n{"a": 2, "b": null}\r\n'},
        [(1, "x\ny"), (2, None)],
        "json",
    ),
    Case(
        "json_array",
        {"a.json": b'[\n {"a": 1, "d": 12345678901234567.123},\n {"a": 2, "d": "0.5"}\n]\n', "b.json": b"[]"},
        [(1, Decimal("12345678901234567.123")), (2, Decimal("0.500"))],
        "json",
        options={"multiline": True},
        schema="a bigint; d decimal(30,3)",
    ),
    Case("json_nul", {"a.json": b'{"a": "x\\u0000y"}\n'}, [("x\x00y",)], "json"),
    Case("json_empty", {"a.json": b"", "b.json": b'{"a": 1}\n'}, [(1,)], "json"),
    Case(
        "fixed",
        {"a.dat": b"01Anna     121999-01-31 more\r\n02 no record\r\n01Bert" + b" " * 17 + b"\r\n"},
        [("01", "Anna", 12, date(1999, 1, 31)), ("01", "Bert", None, None)],
        "fixed_width",
        spec=SHIPS,
    ),
    Case(
        "fixed_latin",
        {"a.dat": "Ærøxyz\n".encode("latin-1")},
        [("Ærø", "xyz")],
        "fixed_width",
        options={"encoding": "latin-1"},
        spec=PLAIN,
    ),
    Case(
        "fixed_utf8",
        {"a.dat": "\ufeffÆrøxyz\nabcdef\n".encode()},
        [("abc", "def"), ("Ærø", "xyz")],
        "fixed_width",
        spec=PLAIN,
    ),
    Case(
        "fixed_untrimmed",
        {"a.dat": b" a  b \n"},
        [(" a ", "b")],
        "fixed_width",
        spec={"columns": [PLAIN["columns"][0] | {"trim": False}, PLAIN["columns"][1]]},
    ),
    Case("fixed_gz", {"a.dat.gz": gzip.compress(b"abcdef\n")}, [("abc", "def")], "fixed_width", spec=PLAIN),
    Case("fixed_empty", {"a.dat": b"", "b.dat": b"abcdef\n"}, [("abc", "def")], "fixed_width", spec=PLAIN),
    Case(
        "fixed_skipped",
        {"a.dat": b"=head=\nabcNA \n"},
        [("abc", None)],
        "fixed_width",
        options={"skip": 1, "null": "NA"},
        spec=PLAIN,
    ),
    Case("fixed_nul", {"a.dat": b"a\x00cdef\n"}, [("a\x00c", "def")], "fixed_width", spec=PLAIN),
    Case(
        "parquet",
        {"a.parquet": parquet(a=[1, None], t=[datetime(2024, 1, 1, tzinfo=UTC), None])},
        [(1, datetime(2024, 1, 1, tzinfo=UTC)), (None, None)],
        "parquet",
    ),
    Case("parquet_empty", {"a.parquet": parquet(a=pa.array([], pa.int64()))}, [], "parquet"),
    Case(
        "numbers_as_written",
        {"a.csv": b"i,f,d\n+5,.5,1.50\n-0,1e3,-2\n007,NaN,+0.250\n"},
        [(0, 1000.0, Decimal("-2.00")), (5, 0.5, Decimal("1.50")), (7, float("nan"), Decimal("0.25"))],
        schema="i int; f double; d decimal(5,2)",
    ),
]

FAILS = [
    Case("one_more", {"a.csv": b"a,b\n1,x\n2,y,z\n3,w\n"}, "a.csv:3: has 3 fields where the header has 2"),
    Case("one_less", {"a.csv": b"a,b\n1,x\n2\n3,w\n"}, "a.csv:3: has 1 fields where the header has 2"),
    Case("newline", {"a.csv": b'a,b\n1,x\n2,"two\nlines"\n'}, "a.csv:"),
    Case("bad_utf8", {"a.csv": b"a,b\n1,x\n2,\xff\n"}, "a.csv:3: bytes that are not UTF-8"),
    Case(
        "bad_cp1252",
        {"a.csv": b"a,b\n1,x\n2,\x81\n"},
        "a.csv:3: bytes that are not cp1252",
        options={"encoding": "cp1252"},
    ),
    Case(
        "bad_cp1252_read",
        {"a.csv": b"a,b\n1,x\n2,\x81\n"},
        "a.csv:3:",
        options={"encoding": "cp1252"},
        schema="a bigint; b string",
    ),
    Case(
        "comma",
        {"a.csv": b'a,b\n1,"1.5"\n2,"1,5"\n'},
        "a.csv:3: '1,5' is not a double in column 'b'",
        schema="a bigint; b double",
    ),
    Case(
        "comma_decimal",
        {"a.csv": b'a,b\n1,"1,5"\n'},
        "a.csv:2: '1,5' is not a decimal(9,2) in column 'b'",
        schema="a bigint; b decimal(9,2)",
    ),
    Case(
        "rounded",
        {"a.csv": b"a,b\n1,1.239\n"},
        "a.csv:2: '1.239' is not a decimal(9,2)",
        schema="a bigint; b decimal(9,2)",
    ),
    Case("suffix", {"a.csv": b"a\n1.0\n1d\n"}, "a.csv:3: '1d' is not a double", schema="a double"),
    Case("hexadecimal", {"a.csv": b"a\n0x1p3\n"}, "a.csv:2: '0x1p3' is not a double", schema="a double"),
    Case("infinite", {"a.csv": b"a\n1e999\n"}, "a.csv:2: '1e999' is not a double", schema="a double"),
    Case("spaces", {"a.csv": b"a,b\nx, 1\n"}, "a.csv:2: ' 1' is not a bigint", schema="a string; b bigint"),
    Case("nul_number", {"a.csv": b"a,b\nx,1\x00\n"}, "a.csv:2:", schema="a string; b bigint"),
    Case(
        "yes", {"a.csv": b"a,b\n1,true\n2,Y\n"}, "a.csv:3: 'Y' is not a boolean", schema="a bigint; b boolean"
    ),
    Case(
        "other_dates",
        {"a.csv": b"d\n2024-01-31\n31.01.2024\n"},
        "a.csv:3: '31.01.2024' is not a date",
        schema="d date",
    ),
    Case("nanoseconds", {"a.csv": b"t\n2024-01-31 10:00:00.1234567\n"}, "a.csv:2:", schema="t timestamp_ntz"),
    Case("zone", {"a.csv": b"t\n2024-01-31 10:00:00Z\n"}, "a.csv:2:", schema="t timestamp_ntz"),
    Case(
        "quoted_elsewhere",
        {"a.csv": b'a,b\n"1","x"\n"y","z"\n'},
        "a.csv:3: 'y' is not a bigint in column 'a'",
        schema="a bigint; b string",
    ),
    Case(
        "after_skip",
        {"a.csv": b"one\ntwo\na\n1\nx\n"},
        "a.csv:5: 'x' is not a bigint",
        options={"skip": 2},
        schema="a bigint",
    ),
    Case("missing_column", {"a.csv": b"a\n1\n"}, "a.csv: column 'b' is missing", schema="a bigint; b string"),
    Case(
        "headless_wider",
        {"a.csv": b"1,x,y\n"},
        "a.csv: line 1 has 3 fields",
        options={"header": False},
        schema="a bigint; b string",
    ),
    Case("torn_gz", {"a.csv.gz": gzip.compress(b"a\n" + b"1\n" * 9999)[:-20]}, "a.csv.gz"),
    Case("json_bad_line", {"a.json": b'{"a": 1}\n{"a": \n'}, "a.json:2: is not one JSON object", "json"),
    Case(
        "json_bad_utf8",
        {"a.json": b'{"a": "x"}\n{"a": "\xff"}\n'},
        "a.json:2: bytes that are not UTF-8",
        "json",
    ),
    Case(
        "json_element",
        {"a.json": b'[\n{"a": 1},\n{"a":\n "x"}\n]\n'},
        'a.json:3: "x" is not a bigint',
        "json",
        options={"multiline": True},
        schema="a bigint",
    ),
    Case(
        "json_nested_time",
        {"a.json": b'{"o": {"t": [12345]}}\n'},
        "a.json:1:",
        "json",
        schema="o struct<t:array<timestamp>>",
    ),
    Case(
        "json_rounded",
        {"a.json": b'{"o": [{"d": 1.239}]}\n'},
        "a.json:1:",
        "json",
        schema="o array<struct<d:decimal(5,2)>>",
    ),
    Case("json_comma", {"a.json": b'{"d": "1,5"}\n'}, "a.json:1:", "json", schema="d decimal(5,2)"),
    Case("json_nul_byte", {"a.json": b'{"a": 1}\n{"a": "\x00"}\n'}, "a.json:2:", "json", schema="a string"),
    Case(
        "fixed_short",
        {"a.dat": b"abcdef\nabcde\n"},
        "a.dat:2: has 5 characters where the spec needs 6",
        "fixed_width",
        spec=PLAIN,
    ),
    Case(
        "fixed_blank",
        {"a.dat": b"abcdef\n\nabcdef\n"},
        "a.dat:2: has 0 characters",
        "fixed_width",
        spec=PLAIN,
    ),
    Case(
        "fixed_value",
        {"a.dat": b"01Anna  12x  1999-01-31\n"},
        "a.dat:1: '12x' is not an int in column 'tonnes'",
        "fixed_width",
        spec=SHIPS,
    ),
    Case(
        "fixed_unfiltered", {"a.dat": b"01Anna     121999-01-31\n0\n"}, "a.dat:2:", "fixed_width", spec=SHIPS
    ),
    Case(
        "fixed_bad_utf8",
        {"a.dat": b"abcdef\nabc\xffef\n"},
        "a.dat:2: bytes that are not UTF-8",
        "fixed_width",
        spec=PLAIN,
    ),
    Case(
        "fixed_bad_cp1252",
        {"a.dat": b"abcdef\nabc\x81ef\n"},
        "a.dat:2: bytes that are not cp1252",
        "fixed_width",
        options={"encoding": "cp1252"},
        spec=PLAIN,
    ),
    Case("parquet_torn", {"a.parquet": parquet(a=[1])[:-9]}, "a.parquet can't be read as Parquet", "parquet"),
]


def _shown(row: tuple[Any, ...]) -> str:
    text = repr(row).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")
    return (
        text
        if len(text) < 1000
        else f"{len(text)} characters, xxh3 {xxhash.xxh3_64_hexdigest(text.encode())}"
    )


@pytest.fixture(scope="module")
def loaded(tmp_path_factory, spark) -> Project:
    return Project(tmp_path_factory.mktemp("loads"), LOADS)


@pytest.fixture(scope="module")
def failed(tmp_path_factory, spark) -> Project:
    return Project(tmp_path_factory.mktemp("fails"), FAILS)


@pytest.mark.parametrize("case", LOADS, ids=lambda case: case.name)
def test_it_loads_exactly_as_it_is(loaded: Project, case: Case) -> None:
    got, want = loaded.rows(case.name), sorted(case.want, key=repr)
    # As text, since NaN is not itself; and by hash, since nobody wants to see 50 MB of difference.
    assert [_shown(row) for row in got] == [_shown(row) for row in want]
    if case.types is not None:
        assert loaded.types(case.name) == case.types


@pytest.mark.parametrize("case", FAILS, ids=lambda case: case.name)
def test_it_fails_with_file_and_line(failed: Project, case: Case) -> None:
    error = failed.error(case.name)
    assert case.want in error.message
    assert error.hint
    assert not (failed.folder / "warehouse" / case.name / "_CURRENT").exists(), "nothing may be published"
