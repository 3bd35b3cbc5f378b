from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.reading import Seen, kept, pieces_of, read, source

from lading.errors import ConfigError, SourceError
from lading.formats.fixed_width.rows import FixedWidthReader, may_be_cut
from lading.formats.fixed_width.spec import layout_columns, load_layout
from lading.formats.reader import ReadSpec
from lading.formats.registry import reader_of
from lading.model import Column, Field, Layout


def _load(tmp_path: Path, text: str):
    (tmp_path / "x.yaml").write_text(text)
    return load_layout(tmp_path, "x.yaml")


def test_a_spec_says_where_columns_are_and_which_lines_are_records(tmp_path: Path) -> None:
    layout = _load(
        tmp_path,
        "columns:\n"
        "  - {name: ship, start: 0, length: 12}\n"
        "  - {name: tonnes, start: 12, length: 8, type: LONG, trim: false}\n"
        "record_type_filter: {position: 20, length: 2, value: '01'}\n",
    )
    assert layout.fields == (Field("ship", 0, 12, "string"), Field("tonnes", 12, 8, "bigint", trim=False))
    assert layout.filter == (20, 2, "01")
    assert layout.width == 22
    assert layout_columns(layout) == (Column("ship", "string"), Column("tonnes", "bigint"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("columns: []\n", r"x\.yaml:1: columns: must list"),
        ("columns:\n  - {name: a, start: 0}\n", r"x\.yaml:2: columns\[0\]\.length: is missing"),
        ("columns:\n  - {name: a, start: -1, length: 2}\n", r"start: must be a whole number, 0 or more"),
        ("columns:\n  - {name: a, start: 0, length: 0}\n", r"length: must be a whole number, 1 or more"),
        ("columns:\n  - {name: a, start: 0, length: 1, typ: int}\n", r"unknown key; did you mean 'type'"),
        ("columns:\n  - {name: a, start: 0, length: 1, type: money}\n", "'money' is not a type"),
        (
            "columns:\n  - {name: a, start: 0, length: 1, type: array<int>}\n",
            "can't be read from text",
        ),
        ("columns:\n  - {name: _source, start: 0, length: 1}\n", "reserved for lading"),
        (
            "columns:\n  - {name: a, start: 0, length: 1}\n  - {name: a, start: 1, length: 1}\n",
            r"x\.yaml:3: columns\[1\]\.name: there are two columns named 'a'",
        ),
        (
            "columns:\n  - {name: a, start: 0, length: 1}\n"
            "record_type_filter: {position: 0, length: 2, value: '1'}\n",
            "has 1 character, but `length` is 2",
        ),
        ("columns:\n  - {name: a, start: 0, length: 1\n", "x.yaml"),
        ("", "the file is empty"),
    ],
)
def test_what_is_wrong_with_a_spec_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        _load(tmp_path, text)


def test_a_spec_that_is_not_there_or_not_inside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load_layout(tmp_path, "nowhere.yaml")
    (tmp_path / "project").mkdir()
    (tmp_path / "x.yaml").write_text("")
    with pytest.raises(ConfigError, match="outside the project"):
        load_layout(tmp_path / "project", "../x.yaml")


def at(name: str, start: int, length: int, type: str = "string", *, trim: bool = True) -> Field:
    return Field(name, start, length, type, trim)


PLAIN = Layout((at("a", 0, 3), at("b", 3, 3)))
SHIPS = Layout(
    (at("kind", 0, 2), at("ship", 2, 6), at("tonnes", 8, 5, "int"), at("built", 13, 10, "date")),
    (0, 2, "01"),
)
TYPED = Layout((at("n", 0, 3, "double"), at("b", 3, 5, "boolean")))


def look(
    tmp_path: Path,
    content: bytes,
    layout: Layout,
    *,
    block: int = 1 << 20,
    cuts: Sequence[int] = (),
    **options: Any,
) -> Seen:
    spec = ReadSpec("fixed_width", options, layout_columns(layout), layout=layout)
    path = kept(tmp_path, content, "a.dat")
    return read(spec, path, *pieces_of(len(content), cuts), reader=FixedWidthReader(spec, block=block))


CASES: dict[str, tuple[bytes, Layout, dict[str, Any], list[Any], list[Any]]] = {
    "plain": (b"abcdef\nghijkl", PLAIN, {}, [("abc", "def"), ("ghi", "jkl")], []),
    "filter": (
        b"01Anna     121999-01-31 more\r\n02 no record\r\n01Bert" + b" " * 17 + b"\r\n",
        SHIPS,
        {},
        [("01", "Anna", 12, date(1999, 1, 31)), ("01", "Bert", None, None)],
        [],
    ),
    "too_short_to_tell": (
        b"01Anna     121999-01-31\n0\n\n02\n",
        SHIPS,
        {},
        [("01", "Anna", 12, date(1999, 1, 31))],
        [
            (2, None, "has 1 character, but the spec needs 23"),
            (3, None, "has 0 characters, but the spec needs 23"),
        ],
    ),
    "latin": ("Ærøxyz\n".encode("latin-1"), PLAIN, {"encoding": "latin-1"}, [("Ærø", "xyz")], []),
    "latin_form_feed": (
        "Re\x0cport \x85\nabc\x0cøå\n".encode("latin-1"),
        PLAIN,
        {"skip": 1, "encoding": "latin-1"},
        [("abc", "\x0cøå")],
        [],
    ),
    "utf8": (
        "\ufeffÆrøxyz\nabcdef\n\ufeffabcde\n".encode(),
        PLAIN,
        {},
        [("Ærø", "xyz"), ("abc", "def"), ("\ufeffab", "cde")],
        [],
    ),
    "utf16": (
        "Ærøxyz\r\n\r\n".encode("utf-16"),
        PLAIN,
        {"encoding": "utf-16"},
        [("Ærø", "xyz")],
        [(2, None, "has 0 characters, but the spec needs 6")],
    ),
    "wide": ("a😀bdef\n".encode(), PLAIN, {}, [("a😀b", "def")], []),
    "untrimmed": (
        b" a  b \n      \n",
        Layout((at("a", 0, 3, trim=False), at("b", 3, 3))),
        {},
        [(" a ", "b"), ("   ", None)],
        [],
    ),
    "skipped": (b"=head=\rabcNA \r", PLAIN, {"skip": 1, "null": "NA"}, [("abc", None)], []),
    "short": (
        b"abcdef\nabcde\nghijkl\n",
        PLAIN,
        {},
        [("abc", "def"), ("ghi", "jkl")],
        [(2, None, "has 5 characters, but the spec needs 6")],
    ),
    "blank": (
        b"abcdef\n\nghijkl\n",
        PLAIN,
        {},
        [("abc", "def"), ("ghi", "jkl")],
        [(2, None, "has 0 characters, but the spec needs 6")],
    ),
    "typed": (
        b"1.5true \n1,5true \n  1 FALSE\n",
        TYPED,
        {},
        [(1.5, True)],
        [(2, "n", "'1,5' is not a double"), (3, "b", "'FALS' is not a boolean")],
    ),
    "comma": (b"1,5true \n", TYPED, {"decimal": ","}, [(1.5, True)], []),
    "bad_utf8": (
        b"abcdef\nabc\xffef\nab\xc3\xa9def\n",
        PLAIN,
        {},
        [("abc", "def"), ("abé", "def")],
        [(2, None, "bytes that are not UTF-8")],
    ),
    "bad_cp1252": (
        b"abcdef\nabc\x81ef\n",
        PLAIN,
        {"encoding": "cp1252"},
        [("abc", "def")],
        [(2, None, "bytes that are not cp1252")],
    ),
    "bad_but_no_record": (
        b"02\xff\n01Anna\xff    121999-01-31\n",
        SHIPS,
        {},
        [],
        [(2, None, "bytes that are not UTF-8")],
    ),
    "replaced_already": ("ab\ufffddef\n".encode(), PLAIN, {}, [("ab\ufffd", "def")], []),
    "empty": (b"", PLAIN, {}, [], []),
    "value": (b"01Anna  12x  1999-01-31\n", SHIPS, {}, [], [(1, "tonnes", "'12x' is not an int")]),
}


@pytest.mark.parametrize("block", [1, 9, 1 << 20])
@pytest.mark.parametrize("name", CASES)
def test_lines_are_rows_or_bad_rows_with_a_reason(tmp_path: Path, name: str, block: int) -> None:
    content, layout, options, rows, bad = CASES[name]
    found = look(tmp_path, content, layout, block=block, **options)
    assert found.values == rows
    assert [(one.line, one.column, one.reason) for one in found.bad] == bad
    lines = io.StringIO(content.decode(options.get("encoding", "utf-8"), "replace"), newline="")
    assert found.taken_lines == sum(1 for _ in lines)


@pytest.mark.parametrize("name", [name for name in CASES if name != "utf16"])
def test_pieces_give_what_the_whole_file_does(tmp_path: Path, name: str) -> None:
    content, layout, options, _, _ = CASES[name]
    assert may_be_cut(ReadSpec("fixed_width", options, ()), "a.dat")
    whole = look(tmp_path, content, layout, **options)
    for cut in range(1, len(content)):
        assert look(tmp_path, content, layout, block=4, cuts=[cut], **options) == whole, cut
    assert look(tmp_path, content, layout, block=4, cuts=range(1, len(content)), **options) == whole


def test_compressed_and_wide_files_are_not_cut() -> None:
    assert not may_be_cut(ReadSpec("fixed_width", {}, ()), "a.dat.gz")
    assert not may_be_cut(ReadSpec("fixed_width", {"encoding": "utf-16"}, ()), "a.dat")


@given(
    st.lists(st.text(st.sampled_from("ab é😀\x0c\x85\u2028"), max_size=9)),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_are_slices_of_characters(tmp_path: Path, texts: list[str], end: str) -> None:
    layout = Layout((at("a", 1, 3, trim=False), at("b", 2, 4)))
    found = look(tmp_path, "".join(text + end for text in texts).encode(), layout)
    long = [text for text in texts if len(text) >= 6]
    assert found.values == [(text[1:4], text[2:6].strip(" ") or None) for text in long]
    assert [text for _, _, text in found.places] == long
    assert [bad.text for bad in found.bad] == [text for text in texts if len(text) < 6]


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    file = source(kept(tmp_path, b"PK\x03\x04rest", "a.dat"))
    reader = reader_of(ReadSpec("fixed_width", {}, layout_columns(PLAIN), layout=PLAIN))
    for ask in (lambda: reader.head(file), lambda: list(reader.rows(file))):
        with pytest.raises(SourceError, match=r"a\.dat is a zip archive"):
            ask()
