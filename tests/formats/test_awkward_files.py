"""Files as they really arrive: each loads exactly as it is, or the error names file and line."""

from __future__ import annotations

import bz2
import gzip
import io
import re
from dataclasses import replace
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
    Case(
        "tabs_alone",
        {"a.tsv": b"a\tb\nfoo\t1\n\t\nbar\t3\n\n \t5\n\r\n \t\n"},
        [("foo", 1), (None, None), ("bar", 3), (" ", 5), (" ", None)],
        "tsv",
    ),
    Case("spaces_alone", {"a.csv": b"a\nx\n  \ny\n\n"}, [("x",), ("  ",), ("y",)]),
    Case("spaces_trimmed", {"a.csv": b" \na\nx\n  \n"}, [("x",), (None,)], options={"trim": True}),
    Case(
        "spaces_headless",
        {"a.csv": "\n \nÆ\n".encode("latin-1")},
        [(" ",), ("Æ",)],
        options={"header": False, "encoding": "latin-1"},
        schema="a string",
    ),
    Case("skipped_cr", {"a.csv": b"Report\ra,b\r1,x\r2,y\r"}, [(1, "x"), (2, "y")], options={"skip": 1}),
    Case(
        "skipped_wide",
        {"a.csv": "Report\r\na,b\r\n1,x\r\n".encode("utf-16")},
        [(1, "x")],
        options={"skip": 1, "encoding": "utf-16"},
    ),
    Case(
        "fixed_form_feed",
        {"a.dat": "Re\x0cport \x85\nabcÆøå\n".encode("latin-1")},
        [("abc", "Æøå")],
        "fixed_width",
        options={"skip": 1, "encoding": "latin-1"},
        spec=PLAIN,
    ),
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
    Case("tsv", {"a.tsv": b'\xef\xbb\xbfa\tb\r\n1\t"x\ty"\r\n2\t\r\n'}, [(1, "x\ty"), (2, None)], "tsv"),
    Case(
        "wide_letters",
        {"a.csv": "a,b\n1,Ærø\n2,x\n".encode("utf-16")},
        [(1, "Ærø"), (2, "x")],
        options={"encoding": "utf-16"},
    ),
    Case("only_header", {"a.csv": b"a,b\n"}, [], types="a string, b string"),
    Case("old_mac", {"a.csv": b"a,b\r1,x\r2,y\r"}, [(1, "x"), (2, "y")]),
    Case("empty_lines", {"a.csv": b"a,b\n1,x\n\n\r\n2,y"}, [(1, "x"), (2, "y")]),
    Case("spaces_stay", {"a.csv": b"a,b\n1, \n"}, [(1, " ")]),
    Case(
        "quotes_inside",
        {"a.csv": b'a,b\n1,6" pipe\n2,"x"y\n3,"a\\"\n'},
        [(1, '6" pipe'), (2, '"x"y'), (3, "a\\")],
    ),
    Case(
        "escapes",
        {"a.csv": b'a,b\n1,"a\\"b"\n2,"a\\\\b"\n'},
        [(1, 'a"b'), (2, "a\\b")],
        options={"escape": "\\"},
    ),
    Case("comments", {"a.csv": b'#"1\na,b\n#x\n1,"#y"\n'}, [(1, "#y")], options={"comment": "#"}),
    Case("gz_of_two", {"a.csv.gz": gzip.compress(b"a\n1\n") + gzip.compress(b"2\n")}, [(1,), (2,)]),
    Case(
        "odd_names",
        {
            "a[1].csv": b"a\n1\n",
            "_b.csv": b"a\n2\n",
            ".c.csv": b"a\n3\n",
            "d e%20.csv": b"a\n4\n",
            "é,{x}.csv": b"a\n5\n",
            "f=1/g.csv": b"a\n6\n",
        },
        [(number,) for number in range(1, 7)],
    ),
    Case("too_long_for_bigint", {"a.csv": b"a\n9223372036854775808\n"}, [("9223372036854775808",)]),
    Case(
        "all_digits",
        {"a.csv": b"a\n12345678901234567890.123456789012345678\n"},
        [(Decimal("12345678901234567890.123456789012345678"),)],
        schema="a decimal(38,18)",
    ),
    Case(
        "date_format",
        {"a.csv": b"d\n31.01.2024\n"},
        [(date(2024, 1, 31),)],
        options={"date_format": "dd.MM.yyyy"},
    ),
    Case(
        "json_strings",
        {"a.json": b'{"d": "2024-01-31", "b": "Y", "n": "1,5"}\n{"d": "31.01.2024", "b": "N", "n": "2"}\n'},
        [("2024-01-31", "Y", "1,5"), ("31.01.2024", "N", "2")],
        "json",
        types="d string, b string, n string",
    ),
    Case(
        "json_large",
        {"a.json": b'{"a": 9223372036854775808}\n{"a": 1.5}\n'},
        [("1.5",), ("9223372036854775808",)],
        "json",
    ),
    Case("json_less", {"a.json": b'{"a": 1, "b": 2}\n{"a": 2}\n'}, [(1, 2), (2, None)], "json"),
    Case(
        "json_nested_times",
        {"a.json": b'{"o": {"t": ["2024-01-01T10:00:00Z", null], "n": "2024-01-01T10:00:00"}}\n'},
        [({"t": [datetime(2024, 1, 1, 10, tzinfo=UTC), None], "n": datetime(2024, 1, 1, 10)},)],
        "json",
        schema="o struct<t:array<timestamp>,n:timestamp_ntz>",
    ),
    Case(
        "fixed_texts",
        {"a.dat": b"2024-01-31Y1,5\n31.01.2024N2,5\n"},
        [("2024-01-31", "Y", "1,5"), ("31.01.2024", "N", "2,5")],
        "fixed_width",
        spec={
            "columns": [
                {"name": "d", "start": 0, "length": 10},
                {"name": "b", "start": 10, "length": 1},
                {"name": "n", "start": 11, "length": 3},
            ]
        },
    ),
    Case(
        "fixed_long_line",
        {"a.dat": f"abcdef{LONG}\nghijkl\n".encode()},
        [("abc", "def"), ("ghi", "jkl")],
        "fixed_width",
        spec=PLAIN,
    ),
    Case(
        "parquet_texts",
        {"a.parquet": parquet(s=["x\x00y", "a\nb\r\n", '"', "", None, LONG])},
        [("x\x00y",), ("a\nb\r\n",), ('"',), ("",), (None,), (LONG,)],
        "parquet",
    ),
    Case(
        "numbers_as_written",
        {"a.csv": b"i,f,d\n+5,.5,1.50\n-0,1e3,-2\n007,NaN,+0.250\n"},
        [(0, 1000.0, Decimal("-2.00")), (5, 0.5, Decimal("1.50")), (7, float("nan"), Decimal("0.25"))],
        schema="i int; f double; d decimal(5,2)",
    ),
]

FAILS = [
    Case("spaces_where_two", {"a.csv": b"a,b\n1,2\n  \n3,4\n"}, "a.csv:3: has 1 field, but the header has 2"),
    Case("one_more", {"a.csv": b"a,b\n1,x\n2,y,z\n3,w\n"}, "a.csv:3: has 3 fields, but the header has 2"),
    Case("one_less", {"a.csv": b"a,b\n1,x\n2\n3,w\n"}, "a.csv:3: has 1 field, but the header has 2"),
    Case("newline", {"a.csv": b'a,b\n1,x\n2,"two\nlines"\n'}, "a.csv:3: a quote is opened and never closed"),
    Case("newline_alone", {"a.csv": b'a\n"two\nlines"\n'}, "a.csv:2: a quote is opened and never closed"),
    Case(
        "unclosed",
        {"a.csv": b'a,b\n1,"x\ny"\n2,"z\n3,w\n'},
        "a.csv:4: a quote is opened and never closed",
        options={"multiline": True},
    ),
    Case(
        "tsv_more", {"a.tsv": b"a\tb\n1\tx\ty\n"}, "a.tsv:2: has 3 fields", "tsv", schema="a bigint; b string"
    ),
    Case("too_large", {"a.csv": b"a\n9223372036854775808\n"}, "a.csv:2:", schema="a bigint"),
    Case("too_many_digits", {"a.csv": b"a\n" + b"1" * 42 + b"\n"}, "a.csv:2:", schema="a decimal(38,0)"),
    Case(
        "date_formats",
        {"a.csv": b"d\n31.01.2024\n2024-01-01\n"},
        "a.csv:3: '2024-01-01' is not a date",
        options={"date_format": "dd.MM.yyyy"},
        schema="d date",
    ),
    Case(
        "json_more",
        {"a.json": b'{"a": 1}\n{"a": 2, "b": 3}\n'},
        "a.json:2: the key 'b'",
        "json",
        schema="a bigint",
    ),
    Case(
        "json_twice", {"a.json": b'{"a": 1}\n{"a": 1, "a": 2}\n'}, "a.json:2: has the key 'a' twice", "json"
    ),
    Case(
        "json_yes",
        {"a.json": b'{"a": true}\n{"a": "Y"}\n'},
        'a.json:2: "Y" is not',
        "json",
        schema="a boolean",
    ),
    Case("json_date", {"a.json": b'{"a": "31.01.2024"}\n'}, "a.json:1:", "json", schema="a date"),
    Case("json_digits", {"a.json": b'{"d": 1234567.891}\n'}, "a.json:1:", "json", schema="d decimal(9,3)"),
    Case("json_infinite", {"a.json": b'{"a": 1}\n{"a": 1e400}\n'}, "a.json:2:", "json"),
    Case(
        "json_latin",
        {"a.json": '{"a": "Ærø"}\n'.encode("latin-1")},
        "a.json:1: bytes",
        "json",
        schema="a string",
    ),
    Case(
        "json_array_bytes",
        {"a.json": b'[{"a": "x"},\n{"a": "\xff"}]\n'},
        "a.json:2: bytes that are not UTF-8",
        "json",
        options={"multiline": True},
    ),
    Case(
        "json_array_more",
        {"a.json": b'[{"a": 1},\n\n{"a": 2, "b": 1}]\n'},
        "a.json:3: the key 'b'",
        "json",
        options={"multiline": True},
        schema="a bigint",
    ),
    Case(
        "json_array_nul",
        {"a.json": b'[{"a": "x"},\n{"a": "\x00"}]\n'},
        "a.json:2: is not one JSON object: Invalid control character at: line 1 column 8",
        "json",
        options={"multiline": True},
        schema="a string",
    ),
    Case(
        "fixed_typed",
        {"a.dat": b"1.5true \n1,5true \n"},
        "a.dat:2: '1,5' is not a double",
        "fixed_width",
        spec={
            "columns": [
                {"name": "n", "start": 0, "length": 3, "type": "double"},
                {"name": "b", "start": 3, "length": 5, "type": "boolean"},
            ]
        },
    ),
    Case(
        "parquet_bytes",
        {"a.parquet": parquet(a=[1, 2], s=pa.array([b"x", b"\xff"]).view(pa.string()))},
        "a.parquet: bytes that are not UTF-8 in column 's'",
        "parquet",
    ),
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
        "a.dat:2: has 5 characters, but the spec needs 6",
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


# Without a file that can be read there are no columns to set anything aside under.
SCHEMAS = {
    "torn_gz": "a bigint",
    "parquet_torn": "a bigint",
    "bad_cp1252": "a bigint; b string",
    "json_array_bytes": "a string",
}


def _aside(case: Case) -> Case:
    schema = case.schema or SCHEMAS.get(case.name)
    return replace(case, schema=schema, settings={**case.settings, "on_bad": "quarantine"})


@pytest.fixture(scope="module")
def loaded(tmp_path_factory, spark) -> Project:
    return Project(tmp_path_factory.mktemp("loads"), LOADS)


@pytest.fixture(scope="module")
def failed(tmp_path_factory, spark) -> Project:
    return Project(tmp_path_factory.mktemp("fails"), FAILS)


@pytest.fixture(scope="module")
def set_aside(tmp_path_factory, spark) -> Project:
    return Project(tmp_path_factory.mktemp("aside"), [_aside(case) for case in FAILS])


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


@pytest.mark.parametrize("case", FAILS, ids=lambda case: case.name)
def test_under_quarantine_it_is_set_aside_with_file_and_line(set_aside: Project, case: Case) -> None:
    set_aside.rows(case.name)  # what is left loads
    first, *_ = set_aside.aside(case.name)
    assert first["file"] in case.files and first["reason"]
    line = re.match(r"[^ :]+:(\d+):", case.want)
    if line is not None:
        assert first["line"] == int(line[1])
    if first["line"] is not None:
        assert first["text"] is not None
