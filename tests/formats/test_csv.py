"""Delimited text: every record is read as it is, or is a bad row with its line and a reason."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import re
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.reading import Seen, columns_of, kept, pieces_of, read, source

from lading.errors import SchemaDrift, SourceError
from lading.formats import lines as lines_module
from lading.formats.csv import cut as cut_module
from lading.formats.csv.rows import CsvReader, may_be_cut
from lading.formats.reader import ReadSpec
from lading.formats.registry import reader_of
from lading.model import DRIFTS


def look(
    folder: Path,
    content: bytes,
    columns: str,
    *,
    name: str = "a.csv",
    fmt: Any = "csv",
    block: int = 1 << 20,
    cuts: tuple[int, ...] = (),
    inferred: bool = False,
    **options: Any,
) -> Seen:
    spec = ReadSpec(fmt, options, columns_of(columns, inferred=inferred))
    path = kept(folder, content, name)
    return read(spec, path, *pieces_of(len(content), cuts), reader=CsvReader(spec, block=block))


@dataclass(frozen=True)
class Case:
    name: str
    content: bytes
    rows: list[tuple[Any, ...]]
    columns: str = "a bigint; b string"
    bad: list[tuple[int, str | None, str]] = field(default_factory=list)  # line, column, reason
    fmt: str = "csv"
    options: dict[str, Any] = field(default_factory=dict)


NEVER = "a quote is opened and never closed"
ML = {"multiline": True}
CASES = [
    Case("quotes", b'a,b\n1,"say ""hi"", you"\n2,it\'s\n', [(1, 'say "hi", you'), (2, "it's")]),
    Case(
        "newlines",
        b'a,b\n1,"two\nlines"\n2,"with\r\nreturn"\n3,"a\rb"\r\n',
        [(1, "two\nlines"), (2, "with\r\nreturn"), (3, "a\rb")],
        options=ML,
    ),
    Case("bom", b"\xef\xbb\xbfa,b\n1,x\n", [(1, "x")]),
    Case("bom_headless", b"\xef\xbb\xbf1,x\n2,y\n", [(1, "x"), (2, "y")], options={"header": False}),
    Case(
        "bom_further_down",
        b"b,a\nx,1\n\xef\xbb\xbfy,2\n\xef\xbb\xbf,3\n",
        [(1, "x"), (2, "\ufeffy"), (3, "\ufeff")],
    ),
    Case("bom_first_record", b"b,a\n\xef\xbb\xbfy,2\n", [(2, "\ufeffy")]),
    Case("bom_quoted", b'b,a\n\xef\xbb\xbf"y",2\n', [(2, '\ufeff"y"')]),
    Case("bom_skipped", b"\xef\xbb\xbfReport\na,b\n1,x\n", [(1, "x")], options={"skip": 1}),
    Case("crlf", b"a,b\r\n1,x\r\n2,\r\n", [(1, "x"), (2, None)]),
    Case("latin", "a,b\n1,Ærø\n".encode("latin-1"), [(1, "Ærø")], options={"encoding": "latin-1"}),
    Case("windows", "a,b\n1,€ “x”\n".encode("cp1252"), [(1, "€ “x”")], options={"encoding": "cp1252"}),
    Case("empty_file", b"", []),
    Case("blank_file", b"\n \r\n\n", []),
    Case("header_only", b"a,b\n", []),
    Case("nothing_or_empty", b'a,b\n1,""\n2,\n"",z\n', [(1, ""), (2, None), (None, "z")]),
    Case("nul_bytes", b'a,b\n1,x\x00y\n2,"x\x00,"\n', [(1, "x\x00y"), (2, "x\x00,")]),
    Case(
        "decimal_commas",
        b"a;b\n1;1,5\n",
        [(1, 1.5)],
        "a bigint; b double",
        options={"delimiter": ";", "decimal": ","},
    ),
    Case(
        "tabs_alone",
        b"a\tb\nfoo\t1\n\t\nbar\t3\n\n \t5\n\r\n \t\n",
        [("foo", 1), (None, None), ("bar", 3), (" ", 5), (" ", None)],
        "a string; b bigint",
        fmt="tsv",
    ),
    Case("spaces_alone", b"a\nx\n  \ny\n\n", [("x",), ("  ",), ("y",)], "a string"),
    Case(
        "spaces_trimmed", b" \na\nx\n  \n y \n", [("x",), (None,), ("y",)], "a string", options={"trim": True}
    ),
    Case(
        "quotes_trimmed", b'a, b\n1 , "x, y" \n"2", " z "\n', [(1, "x, y"), (2, "z")], options={"trim": True}
    ),
    Case(
        "spaces_headless",
        "\n \nÆ\n".encode("latin-1"),
        [(" ",), ("Æ",)],
        "a string",
        options={"header": False, "encoding": "latin-1"},
    ),
    Case("skipped", b'Report "7\n\n\na,b\n1,x\n', [(1, "x")], options={"skip": 2}),
    Case("skipped_cr", b"Report\ra,b\r1,x\r2,y\r", [(1, "x"), (2, "y")], options={"skip": 1}),
    Case("skipped_all", b"Report\n", [], options={"skip": 3}),
    Case(
        "skipped_wide",
        "Report\r\na,b\r\n1,x\r\n".encode("utf-16"),
        [(1, "x")],
        options={"skip": 1, "encoding": "utf-16"},
    ),
    Case("skipped_headless", b"x\ny\n1,x\n", [(1, "x")], options={"skip": 2, "header": False}),
    Case("headless", b"1,x\n2,y\n", [(1, "x"), (2, "y")], options={"header": False}),
    Case(
        "null_text",
        b'a,b,c\n1,NA,NA\n2,"NA",-\n',
        [(1, None, None), (2, None, None)],
        "a bigint; b double; c string",
        options={"null": ["NA", "-"]},
    ),
    Case(
        "quoting",
        b"a|b\n1|'x|y'\n2|'it''s'\n3|''''\n",
        [(1, "x|y"), (2, "it's"), (3, "'")],
        options={"delimiter": "|", "quote": "'"},
    ),
    Case(
        "wide_characters",
        "a§b\n1§«x§y»\n2§z\n".encode(),
        [(2, "z")],
        bad=[(2, None, "has 3 fields, but the header has 2")],
        options={"delimiter": "§"},
    ),
    Case("wide_quote", "a,b\n1,‖x,y‖\n2,‖‖\n".encode(), [(1, "x,y"), (2, "")], options={"quote": "‖"}),
    Case("old_mac", b"a,b\r1,x\r2,y\r", [(1, "x"), (2, "y")]),
    Case("all_line_ends", b"a,b\r1,x\n2,y\r\n\r\n3,z\r\r4,w", [(1, "x"), (2, "y"), (3, "z"), (4, "w")]),
    Case(
        "quotes_inside",
        b'a,b\n1,6" pipe\n2,"x"y\n3,"a\\"\n4,"x,y"z\n',
        [(1, '6" pipe'), (2, '"x"y'), (3, "a\\"), (4, '"x,y"z')],
    ),
    Case(
        "escapes",
        b'a,b\n1,"a\\"b"\n2,"a\\\\b"\n3,a\\,b\n4,plain\n5,"a\\',
        [(1, 'a"b'), (2, "a\\b"), (3, "a,b"), (4, "plain")],
        bad=[(6, None, NEVER)],
        options={"escape": "\\"},
    ),
    Case(
        "escapes_over_lines",
        b'a,b\n1,"a\\"\nb"\n2,x\\\ny\n',
        [(1, 'a"\nb'), (2, "x\ny")],
        options={"escape": "\\", "multiline": True},
    ),
    Case(
        "comments",
        b'#"1\na,b\n#x\n1,"#y"\n #z,w\n',
        [(1, "#y")],
        bad=[(5, "a", "' #z' is not a bigint")],
        options={"comment": "#"},
    ),
    Case(
        "comments_over_lines",
        b'a,b\n#"x\n1,"\n#y"\n#z\n2,"""\n#w"\n',
        [(1, "\n#y"), (2, '"\n#w')],
        options={"comment": "#", "multiline": True},
    ),
    Case(
        "date_format",
        b"d,t\n31.01.2024,31.01.2024 10:30\n",
        [(date(2024, 1, 31), datetime(2024, 1, 31, 10, 30))],
        "d date; t timestamp_ntz",
        options={"date_format": "dd.MM.yyyy", "timestamp_format": "dd.MM.yyyy HH:mm"},
    ),
    Case(
        "numbers_as_written",
        b"i,f,d\n+5,.5,1.50\n-0,1e3,-2\n007,Inf,+0.250\n",
        [(5, 0.5, Decimal("1.50")), (0, 1000.0, Decimal("-2.00")), (7, float("inf"), Decimal("0.25"))],
        "i int; f double; d decimal(5,2)",
    ),
    Case("order", b"b,a\nx,1\n", [(1, "x")]),
    Case(
        "one_more",
        b"a,b\n1,x\n2,y,z\n3,w\n",
        [(1, "x"), (3, "w")],
        bad=[(3, None, "has 3 fields, but the header has 2")],
    ),
    Case(
        "one_less",
        b"a,b\n1,x\n2\n3,w\n",
        [(1, "x"), (3, "w")],
        bad=[(3, None, "has 1 field, but the header has 2")],
    ),
    Case(
        "padded",
        b"a,b\n1,x\n2\n3,w,v\n",
        [(1, "x"), (2, None)],
        bad=[(4, None, "has 3 fields, but the header has 2")],
        options={"ragged": "pad"},
    ),
    Case("padded_headless", b"1\n2,x\n", [(1, None), (2, "x")], options={"ragged": "pad", "header": False}),
    Case(
        "spaces_where_two",
        b"a,b\n1,2\n  \n3,4\n",
        [(1, "2"), (3, "4")],
        bad=[(3, None, "has 1 field, but the header has 2")],
    ),
    Case(
        "newline",
        b'a,b\n1,x\n2,"two\nlines"\n',
        [(1, "x")],
        bad=[(3, None, NEVER), (4, None, "has 1 field, but the header has 2")],
    ),
    Case(
        "return_in_quotes",
        b'a,b\n2,"two\rlines"\n',
        [],
        bad=[(2, None, NEVER), (3, None, "has 1 field, but the header has 2")],
    ),
    Case("unclosed", b'a,b\n1,"x\ny"\n2,"z\n3,w\n', [(1, "x\ny")], bad=[(4, None, NEVER)], options=ML),
    Case(
        "closed_by_the_next",
        b'a,b\n1,"x\n2,"y"\n3,z\n',
        [(3, "z")],
        bad=[(2, None, "text follows a closing quote")],
        options=ML,
    ),
    Case(
        "stray_over_lines",
        b'a,b\n1,6" x\n2,"y\n"\n3,"x"y\n4,"z"',
        [(1, '6" x'), (2, "y\n"), (3, '"x"y'), (4, "z")],
        options=ML,
    ),
    Case(
        "quotes_of_all_kinds",
        b'a,b\n1,""""\n2,""""""\n"3","a"""\n4,"""b"\n',
        [(1, '"'), (2, '""'), (3, 'a"'), (4, '"b')],
    ),
    Case(
        "bad_utf8",
        b"a,b\n1,x\n2,\xff\n3,\xc3\xa9\n",
        [(1, "x"), (3, "é")],
        bad=[(3, None, "bytes that are not UTF-8")],
    ),
    Case("surrogates", b"a,b\n1,\xed\xa0\x80\n", [], bad=[(2, None, "bytes that are not UTF-8")]),
    Case(
        "bad_cp1252",
        b"a,b\n1,x\n2,\x81\n",
        [(1, "x")],
        bad=[(3, None, "bytes that are not cp1252")],
        options={"encoding": "cp1252"},
    ),
    Case(
        "bad_ascii",
        b"a,b\n1,x\n2,\xc3\xa9\n",
        [(1, "x")],
        bad=[(3, None, "bytes that are not ascii")],
        options={"encoding": "ascii"},
    ),
    Case(
        "bad_utf16",
        "a,b\n1,x\n2,".encode("utf-16-le") + b"\x00\xd8" + "\n3,\ufffd\n".encode("utf-16-le"),
        [(1, "x"), (3, "\ufffd")],
        bad=[(3, None, "bytes that are not utf-16-le")],
        options={"encoding": "utf-16-le"},
    ),
    Case(
        "bad_utf8_over_lines",
        b'a,b\n1,"x\n\xff"\n2,y\n',
        [(2, "y")],
        bad=[(2, None, "bytes that are not UTF-8")],
        options=ML,
    ),
    Case(
        "wide_letters",
        "a,b\n1,Ærø\n2,\ufffd\n".encode("utf-16"),
        [(1, "Ærø"), (2, "\ufffd")],
        options={"encoding": "utf-16"},
    ),
    Case(
        "shift_jis",
        "a,b\n1,表\n2,ソ\n".encode("shift_jis"),
        [(1, "表"), (2, "ソ")],
        options={"encoding": "shift_jis"},
    ),
    Case(
        "misfits",
        b"a,b\nx,1\n2,y\nz,w\n3,4\n",
        [(3, 4)],
        "a bigint; b bigint",
        bad=[
            (2, "a", "'x' is not a bigint"),
            (3, "b", "'y' is not a bigint"),
            (4, "a", "'z' is not a bigint"),
        ],
    ),
    Case("first_in_the_file", b"b,a\ny,x\n", [], "a bigint; b bigint", bad=[(2, "b", "'y' is not a bigint")]),
    Case("spaces", b"a,b\n1, 1\n", [], "a string; b bigint", bad=[(2, "b", "' 1' is not a bigint")]),
    Case(
        "after_skip",
        b"one\ntwo\na\n1\nx\n",
        [(1,)],
        "a bigint",
        bad=[(5, "a", "'x' is not a bigint")],
        options={"skip": 2},
    ),
    Case(
        "seventh_digit",
        b"t\n2024-01-31 10:00:00.1234567\n2024-01-31 10:00:00.1234560\n",
        [(datetime(2024, 1, 31, 10, 0, 0, 123456),)],
        "t timestamp_ntz",
        bad=[(2, "t", "'2024-01-31 10:00:00.1234567' is not a timestamp_ntz")],
        options={"timestamp_format": "yyyy-MM-dd HH:mm:ss.SSSSSSS"},
    ),
    Case("quoted_elsewhere", b'a,b\n"1","x"\n"y","z"\n', [(1, "x")], bad=[(3, "a", "'y' is not a bigint")]),
    Case(
        "unnamed",
        b",a,\n7,1,x\n",
        [(7, 1, "x")],
        "column_1 bigint; a bigint; column_3 string",
        options={"unnamed": "name"},
    ),
    Case(
        "duplicates",
        b"a,a,a_2,a\n1,2,3,4\n",
        [(1, 2, 3, 4)],
        "a int; a_3 int; a_2 int; a_4 int",
        options={"duplicates": "rename"},
    ),
    Case(
        "unnamed_duplicates",
        b"column_2,,\n1,2,3\n",
        [(1, 2, 3)],
        "column_2 int; column_2_2 int; column_3 int",
        options={"unnamed": "name", "duplicates": "rename"},
    ),
    Case(
        "header_over_lines",
        b'a,"b\nc"\n1,x\n2,y,z\n',
        [(1, "x")],
        "a bigint; b\nc string",
        bad=[(4, None, "has 3 fields, but the header has 2")],
        options=ML,
    ),
    Case(
        "header_over_lines_wide",
        'a,"b\nc"\n1,x\n2,y,z\n'.encode("utf-16"),
        [(1, "x")],
        "a bigint; b\nc string",
        bad=[(4, None, "has 3 fields, but the header has 2")],
        options={**ML, "encoding": "utf-16"},
    ),
]


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_read_as_it_is_or_a_bad_row_says_why(tmp_path: Path, case: Case, block: int) -> None:
    found = look(tmp_path, case.content, case.columns, fmt=case.fmt, block=block, **case.options)
    assert found.values == case.rows
    assert [(bad.line, bad.column, bad.reason) for bad in found.bad] == case.bad
    encoding = case.options.get("encoding", "utf-8")
    text = case.content.decode(encoding, "replace")
    assert found.taken_lines == len(re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text))


CUTTABLE = [case for case in CASES if may_be_cut(ReadSpec("csv", case.options, ()), "a.csv")]


@pytest.mark.parametrize("case", CUTTABLE, ids=lambda case: case.name)
def test_pieces_give_what_the_whole_file_does(tmp_path: Path, case: Case) -> None:
    def found(*cuts: int) -> Seen:
        return look(tmp_path, case.content, case.columns, fmt=case.fmt, block=5, cuts=cuts, **case.options)

    whole = found()
    for cut in range(1, len(case.content)):
        assert found(cut) == whole, cut
    assert found(*range(1, len(case.content))) == whole


@pytest.mark.parametrize(
    ("path", "options", "wanted"),
    [
        ("a.csv", {}, True),
        ("a.csv", {"skip": 3, "encoding": "cp1252", "header": False}, True),
        ("a.csv", {"encoding": "ISO-8859-15"}, True),
        ("a.csv.gz", {}, False),
        ("a.csv", {"multiline": True}, False),
        ("a.csv", {"encoding": "utf-16"}, False),
        ("a.csv", {"encoding": "shift_jis"}, False),
        ("a.csv", {"encoding": "gb18030"}, False),
        ("a.csv", {"encoding": "iso2022_jp"}, False),
        ("a.csv", {"encoding": "cp037"}, False),
        ("a.csv", {"encoding": "utf-7"}, False),
    ],
)
def test_a_file_may_be_cut_where_a_line_end_is_a_byte_of_its_own(
    path: str, options: dict, wanted: bool
) -> None:
    assert may_be_cut(ReadSpec("csv", options, ()), path) == wanted


FIELDS = st.text(st.sampled_from("a1,\"\n\r \t;é\x00\ufeff'\\#"), max_size=4)


@given(
    st.lists(st.lists(FIELDS, min_size=2, max_size=2), max_size=8),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from([(",", '"'), (";", "'"), ("\t", '"'), ("§", '"'), (",", "‖")]),
    st.integers(1, 40),
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_python_writes_is_read_as_it_was(
    tmp_path: Path, records: list[list[str]], end: str, quoting: Any, marks: tuple[str, str], block: int
) -> None:
    text = io.StringIO(newline="")
    delimiter, quote = marks
    if re.search(r"[\r\n]", "".join(map("".join, records))):
        quoting = csv.QUOTE_ALL  # Python writes a CR without quotes, and then reads it as a line end
    writer = csv.writer(text, delimiter=delimiter, quotechar=quote, quoting=quoting, lineterminator=end)
    writer.writerows([["a", "b"], *records])
    content = text.getvalue().encode()
    options = {"delimiter": delimiter, "quote": quote, "multiline": True}
    found = look(tmp_path, content, "a string; b string", block=block, **options)
    assert not found.bad
    assert [tuple(value or "" for value in row) for row in found.values] == [tuple(row) for row in records]
    lines = io.StringIO(content.decode(), newline="")
    oracle = csv.reader(lines, delimiter=delimiter, quotechar=quote)
    next(oracle)
    starts = []
    for _ in records:
        starts.append(oracle.line_num + 1)
        next(oracle)
    assert [line for _, line, _ in found.places] == starts
    assert found.taken_lines == oracle.line_num


SOUP = st.text(st.sampled_from('a1,"\n\r #é\ufeff'), max_size=40)


@given(SOUP, st.booleans(), st.booleans(), st.sampled_from([None, "#"]), st.integers(1, 50))
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_any_text_each_line_is_what_python_says_or_a_bad_row(
    tmp_path: Path, soup: str, multiline: bool, pads: bool, comment: str | None, block: int
) -> None:
    options: dict[str, Any] = {"header": False, "multiline": multiline, "comment": comment}
    options |= {"ragged": "pad"} if pads else {}
    content = f"x,y\n{soup}".encode()
    columns = "a string; b string"
    found = look(tmp_path, content, columns, block=block, **options)
    assert found == look(tmp_path, content, columns, **options), "the size of a block changes nothing"
    if not multiline:
        cuts = tuple(range(3, len(content), 1 + block % 7))
        assert found == look(tmp_path, content, columns, block=block, cuts=cuts, **options)
        for (_, line, text), row in zip(found.places, found.values, strict=True):
            try:
                (fields,) = csv.reader([text], strict=True)
                assert [value or "" for value in row] == [*fields, ""][:2]
            except csv.Error:
                assert '"' in text  # text behind a closing quote, which RFC 4180 doesn't know
            assert content.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")[line - 1] == text
    for bad in found.bad:
        assert bad.reason in (NEVER, "text follows a closing quote") or "but the header has 2" in bad.reason


def test_texts_are_those_of_the_file(tmp_path: Path) -> None:
    content = b'a,b\r\n1,"x ""y"""\r\n\r\nx,\xff\r\n2,z'
    found = look(tmp_path, content, "a bigint; b string")
    assert found.places == [(1, 2, '1,"x ""y"""'), (3, 5, "2,z")]
    assert [(bad.record, bad.line, bad.text) for bad in found.bad] == [(2, 4, "x,\ufffd")]


def test_compressed_files_are_read_whole_and_digested(tmp_path: Path) -> None:
    content = b"a,b\n1,x\n2,y\n"
    for name, packed in (("a.csv.gz", gzip.compress(content)), ("a.csv.bz2", bz2.compress(content))):
        assert look(tmp_path, packed, "a bigint; b string", name=name).values == [(1, "x"), (2, "y")]
    file = source(kept(tmp_path, content))
    assert list(CsvReader(ReadSpec("csv", {}, columns_of("a bigint; b string"))).rows(file))
    assert file.sha256 == file.digest() and file.sha256 is not None


def test_inferred_types_take_less(tmp_path: Path) -> None:
    found = look(tmp_path, b"a\n1\n00501\nx\n", "a bigint", inferred=True)
    inferred = "does not fit the inferred type bigint: with it, another type would be inferred"
    assert [bad.reason for bad in found.bad] == [f"'00501' {inferred}", "'x' is not a bigint"]


REFUSED = [
    (b"a\n1\n", {}, SchemaDrift, "a.csv: column 'b' is missing"),
    (b"a,b,c\n1,x,y\n", {}, SchemaDrift, "a.csv: column 'c' is new"),
    (b"a,,b\n1,x,y\n", {}, SourceError, "a.csv: column 2 of the header has no name"),
    (b"a,b,b\n1,x,y\n", {}, SourceError, "a.csv: the header has two columns named 'b'"),
    (b"1,x,y\n", {"header": False}, SourceError, "a.csv: line 1 has 3 fields, the schema has 2 columns"),
    (b'a,"b\n1,x\n', {}, SourceError, "a quote is opened and never closed"),
    (b"a,\xff\n1,x\n", {}, SourceError, "the first record of a.csv is not valid UTF-8"),
    (b"PK\x03\x04rest", {}, SourceError, "a.csv is a zip archive or an Excel workbook"),
    ("a,b\n".encode("utf-16"), {}, SourceError, "a.csv is UTF-16 text, not utf-8"),
    (b"," * 100_000 + b"\n", {}, SourceError, "a.csv has 100,001 columns; lading reads up to 100,000"),
]


@pytest.mark.parametrize(("content", "options", "kind", "says"), REFUSED)
def test_a_file_that_does_not_do_is_refused(
    tmp_path: Path, content: bytes, options: dict[str, Any], kind: type[Exception], says: str
) -> None:
    wanted = columns_of("a bigint; b string")
    reader = reader_of(ReadSpec("csv", options, wanted))
    file = source(kept(tmp_path, content))
    for ask in (lambda: reader.head(file), lambda: list(reader.rows(file))):
        with pytest.raises(kind) as caught:
            ask()
        assert says in str(caught.value)


@pytest.mark.parametrize(("name", "says"), [("a.csv.gz", "can't be read"), ("gone.csv", "vanished")])
def test_a_file_that_can_not_be_read_is_refused(tmp_path: Path, name: str, says: str) -> None:
    wanted = columns_of("a bigint")
    file = source(kept(tmp_path, gzip.compress(b"a\n" + b"1\n" * 9999)[:-20], name))
    if name == "gone.csv":
        Path(file.path).unlink()
    with pytest.raises(SourceError, match=f"{name} {says}"):
        list(reader_of(ReadSpec("csv", {}, wanted)).rows(file))


def test_drift_decides_on_columns_that_are_new_or_missing(tmp_path: Path) -> None:
    spec = ReadSpec("csv", {}, columns_of("a bigint; b string"), policy=DRIFTS["ignore_new"])
    path = kept(tmp_path, b"c,b,a\nx,y,1\n")
    head = CsvReader(spec).head(source(path))
    assert head is not None and list(head.columns) == ["c", "b", "a"] and head.ignored == ("c",)
    assert read(spec, path).values == [(1, "y")]
    evolve = replace(spec, policy=DRIFTS["evolve"])
    assert read(evolve, kept(tmp_path, b"a\n1\n")).values == [(1, None)]
    assert CsvReader(spec).head(source(kept(tmp_path, b"\n"))) is None


def test_a_record_longer_than_is_held_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lines_module, cut_module):
        monkeypatch.setattr(module, "LONGEST", 100)
    for content, options in (
        (b"a\n" + b"x" * 500, {}),
        (b"a\n" + b"x" * 500, ML),
        (b'a\n"' + b"x\n" * 500 + b'"\n', ML),
    ):
        with pytest.raises(SourceError, match=r"a.csv: a \w+ is longer than"):
            look(tmp_path, content, "a string", block=10, **options)


def test_a_quote_that_is_never_closed_does_not_hold_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_module, "LONGEST", 100)
    content = b'a,b\n1,x\n2,"' + b"y\r\n" * 500 + b"z"
    found = look(tmp_path, content, "a bigint; b string", block=10, **ML)
    assert found.values == [(1, "x")] and found.taken_lines == 503
    assert [(bad.line, bad.reason) for bad in found.bad] == [(3, NEVER)]


def test_the_text_of_a_quote_that_is_never_closed_is_cut(tmp_path: Path) -> None:
    found = look(tmp_path, b'a\n"' + b"x\n" * 100_000, "a string", **ML)
    assert len(found.bad[0].text) == 65_536 and found.taken_lines == 100_001


def test_many_strange_records_are_read_all_the_same(tmp_path: Path) -> None:
    content = b"a,b\n" + b'1,"x"y\n2,"z\nw"\n' * 500
    found = look(tmp_path, content, "a bigint; b string", **ML)
    assert found.values == [(1, '"x"y'), (2, "z\nw")] * 500 and not found.bad
    assert found.places[-1][1] == 1 + 3 * 499 + 2
