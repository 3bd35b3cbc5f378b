"""Workbooks: cells as they are, with their row in the sheet; errors and what doesn't fit are bad rows."""

from __future__ import annotations

import io
import json
import math
import re
import sys
import zipfile
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import Seen, read, source, spec_of

from lading.errors import MissingExtra, SchemaDrift, SourceError
from lading.formats.excel.rows import ExcelReader
from lading.formats.infer.columns import infer
from lading.formats.registry import may_be_cut, reader_of
from lading.model import FoundFile

SHIPS = Path(__file__).parent / "files" / "ships.xls"


def write(tmp_path: Path, cells: dict[str, Any], *, sheet: str = "Ships", name: str = "a.xlsx") -> Path:
    book = openpyxl.Workbook()
    page = book.active
    page.title = sheet
    for place, value in cells.items():
        page[place] = value
        if value in ("#N/A", "#DIV/0!"):
            page[place].data_type = "e"
    book.save(tmp_path / name)
    return tmp_path / name


def table(tmp_path: Path, *rows: tuple[Any, ...], **options: Any) -> Path:
    cells = {
        f"{chr(65 + column)}{row}": value
        for row, values in enumerate(rows, start=1)
        for column, value in enumerate(values)
        if value is not None
    }
    return write(tmp_path, cells, **options)


def found(path: Path) -> FoundFile:
    return FoundFile(path.name, str(path), path.stat().st_size, 1, False)


def read_column(tmp_path: Path, kind: str, *cells: Any, inferred: bool = False, **options: Any) -> Seen:
    path = table(tmp_path, ("n", "a"), *((number, cell) for number, cell in enumerate(cells, start=1)))
    return read(spec_of("excel", f"n bigint; a {kind}", inferred=inferred, **options), path)


WHEN = datetime(2024, 2, 29, 1, 2, 3, 456_000)


@pytest.mark.parametrize(
    ("kind", "cells", "reads"),
    [
        ("bigint", [1, 2.0, None, -(10**14)], [1, 2, None, -(10**14)]),
        ("tinyint", [127, -128], [127, -128]),
        ("double", [1, 0.1, 1e300], [1.0, 0.1, 1e300]),
        ("float", [0.5], [0.5]),
        ("decimal(5,2)", [1.5, 0.1, 123], [Decimal("1.50"), Decimal("0.10"), Decimal("123.00")]),
        ("boolean", [True, False, None], [True, False, None]),
        ("date", [date(2024, 2, 29), date(1900, 1, 1)], [date(2024, 2, 29), date(1900, 1, 1)]),
        ("timestamp_ntz", [WHEN, date(2024, 2, 29)], [WHEN, datetime(2024, 2, 29)]),
        ("timestamp", [WHEN, WHEN], [WHEN.replace(tzinfo=UTC)] * 2),
        ("string", ["x", " y ", "00501", None], ["x", " y ", "00501", None]),
        ("string", [1, 1.0, 0.1, 1e22, True], ["1", "1", "0.1", "1e+22", "true"]),
        ("string", [date(2024, 2, 29), WHEN], ["2024-02-29", "2024-02-29 01:02:03.456"]),
        ("string", [time(10, 30), timedelta(hours=36, minutes=15)], ["10:30:00", "36:15:00"]),
        ("bigint", ["007", "+5"], [7, 5]),
        ("double", ["1.5"], [1.5]),
        ("decimal(5,2)", ["1.50"], [Decimal("1.50")]),
        ("date", ["2024-02-29"], [date(2024, 2, 29)]),
        ("timestamp", ["2024-02-29T01:02:03+01:00"], [datetime(2024, 2, 29, 0, 2, 3, tzinfo=UTC)]),
        ("timestamp_ntz", ["2024-02-29 01:02"], [datetime(2024, 2, 29, 1, 2)]),
        ("boolean", ["True"], [True]),
    ],
)
def test_cells_are_read_exactly_as_a_type_that_somebody_wrote(
    tmp_path: Path, kind: str, cells: list[Any], reads: list[Any]
) -> None:
    seen = read_column(tmp_path, kind, *cells)
    assert seen.table["a"].to_pylist() == reads and not seen.bad
    assert seen.records == list(range(1, len(cells) + 1))
    assert seen.lines == [number + 1 for number in seen.records]


@pytest.mark.parametrize(
    ("kind", "cell", "inferred", "says"),
    [
        ("bigint", 1.5, False, "'1.5' is not a bigint"),
        ("tinyint", 128, False, "'128' is not a tinyint"),
        ("bigint", True, False, "'true' is not a bigint"),
        ("bigint", "x", False, "'x' is not a bigint"),
        ("bigint", "007", True, "'007' does not fit the inferred type bigint: with it, another type would"),
        ("decimal(5,2)", 1.239, False, r"'1.239' is not a decimal\(5,2\)"),
        ("decimal(3,2)", 10, False, r"'10' is not a decimal\(3,2\)"),
        ("double", date(2024, 2, 29), False, "'2024-02-29' is not a double"),
        ("date", WHEN, False, "'2024-02-29 01:02:03.456' is not a date"),
        ("date", 45351, False, "'45351' is not a date"),
        ("timestamp_ntz", "yesterday", False, "'yesterday' is not a timestamp_ntz"),
        ("boolean", 1, False, "'1' is not a boolean"),
        ("boolean", time(10, 30), False, "'10:30:00' is not a boolean"),
        ("bigint", "#N/A", False, "the cell holds the error #N/A"),
        ("string", "#DIV/0!", False, "the cell holds the error #DIV/0!"),
        ("bigint", "=1+1", False, "the cell holds a formula without a saved value"),
    ],
)
def test_what_does_not_fit_is_a_bad_row_with_its_place(
    tmp_path: Path, kind: str, cell: Any, inferred: bool, says: str
) -> None:
    seen = read_column(tmp_path, kind, None, cell, None, inferred=inferred)
    assert [row["n"] for row in seen.rows] == [1, 3] and seen.lines == [2, 4]
    [bad] = seen.bad
    assert (bad.record, bad.line, bad.column) == (2, 3, "a")
    assert re.match(says, bad.reason)
    assert json.loads(bad.text)["n"] == 2 and "a" in json.loads(bad.text)
    assert [json.loads(text) for text in seen.texts] == [{"n": 1}, {"n": 3}]


def test_a_saved_value_counts_for_its_formula_and_an_empty_text_is_null(tmp_path: Path) -> None:
    path = table(tmp_path, ("n", "a"), (1, "=A2"), (2, "=X"))
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    sheet = members["xl/worksheets/sheet1.xml"]
    sheet = re.sub(rb"<f>A2</f><v ?/?>(</v>)?", b"<f>A2</f><v>7</v>", sheet)
    members["xl/worksheets/sheet1.xml"] = sheet.replace(b'<c r="B3"><f>X', b'<c r="B3" t="str"><f>X')
    with zipfile.ZipFile(path, "w") as new:
        for name, data in members.items():
            new.writestr(name, data)
    seen = read(spec_of("excel", "n bigint; a bigint"), path)
    assert seen.rows == [{"n": 1, "a": 7}, {"n": 2, "a": None}] and not seen.bad


NOTES = {"A1": "Ships of 2024", "B3": "id", "C3": "name", "B4": 1, "C4": "x", "B7": 2, "D9": "total", "B9": 3}


@pytest.mark.parametrize(
    ("options", "rows", "lines", "bad"),
    [
        ({"range": "B3:C8"}, [(1, "x"), (2, None)], [4, 7], []),
        ({"range": "b:c", "header": 3}, [(1, "x"), (2, None), (3, None)], [4, 7, 9], []),
        ({"header": 3}, [(1, "x"), (2, None)], [4, 7], [9]),
        ({"skip": 2}, [(1, "x"), (2, None)], [4, 7], [9]),
        ({"range": "B4:C9", "header": False}, [(1, "x"), (2, None), (3, None)], [4, 7, 9], []),
        ({"range": "B3:C", "header": True}, [(1, "x"), (2, None), (3, None)], [4, 7, 9], []),
    ],
)
def test_header_range_and_skip_say_where_the_table_is(
    tmp_path: Path, options: dict[str, Any], rows: list[Any], lines: list[int], bad: list[int]
) -> None:
    path = write(tmp_path, NOTES)
    seen = read(spec_of("excel", "id bigint; name string", **options), path)
    assert [(row["id"], row["name"]) for row in seen.rows] == rows and seen.lines == lines
    assert [one.line for one in seen.bad] == bad
    if bad:
        assert seen.bad[0].reason == "has 'total' beside the columns that the header names"
    if options.get("header") is not False:
        head = reader_of(spec_of("excel", "id bigint; name string", **options)).head(source(path))
        assert head is not None and list(head.columns) == ["id", "name"]


def test_sheets_are_chosen_by_name_or_number(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    for name, value in (("Sheet", 1), ("Zwei & drei", 2)):
        page = book[name] if name in book.sheetnames else book.create_sheet(name)
        page["A1"], page["A2"], page["A3"] = "a", value, "#N/A"
        page["A3"].data_type = "e"
    book.create_chartsheet("Chart", 0)
    book.save(path)
    for options, value in (({}, 1), ({"sheet": 2}, 2), ({"sheet": "Zwei & drei"}, 2), ({"sheet": 1}, 1)):
        seen = read(spec_of("excel", "a bigint", **options), path)
        assert seen.rows == [{"a": value}] and [one.line for one in seen.bad] == [3]
    for sheet in ("Drei", 3, "Chart"):
        with pytest.raises(SourceError, match=r"has no sheet .*; its sheets are 'Sheet', 'Zwei & drei'"):
            read(spec_of("excel", "a bigint", sheet=sheet), path)


def test_headers_are_checked_and_repaired_where_asked(tmp_path: Path) -> None:
    path = table(tmp_path, ("a", None, "a", 2024, " b "), (1, 2, 3, 4, 5))
    with pytest.raises(SourceError, match=r"a\.xlsx:1: column 2 of the header has no name"):
        read(spec_of("excel", "a bigint"), path)
    with pytest.raises(SourceError, match=r"a\.xlsx:1: the header has two columns named 'a'"):
        read(spec_of("excel", "a bigint", unnamed="name"), path)
    options = {"unnamed": "name", "duplicates": "rename", "trim": True}
    columns = "a bigint; column_2 bigint; a_2 bigint; 2024 bigint; b bigint"
    seen = read(spec_of("excel", columns, **options), path)
    assert list(seen.rows[0].values()) == [1, 2, 3, 4, 5]


def test_columns_come_in_any_order_and_drift_says_which(tmp_path: Path) -> None:
    path = table(tmp_path, ("b", "c", "a"), ("x", "#N/A", 1))
    with pytest.raises(SchemaDrift, match="column 'c' is new"):
        read(spec_of("excel", "a bigint; b string"), path)
    lenient = spec_of("excel", "a bigint; b string", drift="ignore_new")
    head = reader_of(lenient).head(source(path))
    assert head is not None and head.ignored == ("c",)
    assert read(lenient, path).rows == [{"a": 1, "b": "x"}]
    with pytest.raises(SchemaDrift, match="column 'd' is missing"):
        read(spec_of("excel", "a bigint; b string; c string; d date"), path)


def test_null_texts_and_spaces_go_where_asked(tmp_path: Path) -> None:
    path = table(tmp_path, ("a",), (" 5 ",), ("-",), (" n/a",), (1,))
    several = spec_of("excel", "a bigint", trim=True, null=["-", "n/a"])
    assert read(several, path).table["a"].to_pylist() == [5, None, None, 1]
    one = spec_of("excel", "a string", null="-")
    assert read(one, path).table["a"].to_pylist() == [" 5 ", None, " n/a", "1"]


def test_an_old_workbook_is_read_with_its_errors(tmp_path: Path) -> None:
    columns = "id bigint; built date; seen timestamp_ntz; steam boolean; name string"
    seen = read(spec_of("excel", columns, sheet="Ships"), SHIPS)
    assert list(seen.rows[0].values()) == [
        1,
        date(1912, 4, 10),
        datetime(2024, 2, 29, 1, 2, 3),
        True,
        "Titanic",
    ]
    assert seen.rows[1]["name"] == "Ärger" and seen.rows[1]["steam"] is False
    assert seen.lines == [2, 3, 5]
    [bad] = seen.bad
    assert (bad.line, bad.column, bad.reason) == (4, "name", "the cell holds the error #N/A")
    cut = tmp_path / "cut.xls"
    cut.write_bytes(SHIPS.read_bytes()[:3_000])
    with pytest.raises(SourceError, match=r"^cut\.xls can't be read as a workbook"):
        read(spec_of("excel", columns, sheet="Ships"), cut)


ODS = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0" office:version="1.2">
<office:body><office:spreadsheet><table:table table:name="Ships">{rows}</table:table>
</office:spreadsheet></office:body></office:document-content>"""


def ods(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "a.ods"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", MANIFEST)
        archive.writestr("content.xml", ODS.format(rows="".join(rows)))
    return path


MANIFEST = """<?xml version="1.0" encoding="UTF-8"?>
<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">
<manifest:file-entry manifest:full-path="/"
 manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/>
<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>
</manifest:manifest>"""


def cell(kind: str, value: str, shown: str = "") -> str:
    name = {"string": "string-value", "date": "date-value", "boolean": "boolean-value"}.get(kind, "value")
    return (
        f'<table:table-cell office:value-type="{kind}" office:{name}="{value}">'
        f"<text:p>{shown or value}</text:p></table:table-cell>"
    )


def row(*cells: str) -> str:
    return f"<table:table-row>{''.join(cells)}</table:table-row>"


ERROR = (
    '<table:table-cell table:formula="of:=NA()" office:value-type="string" office:string-value=""'
    ' calcext:value-type="error"><text:p>#N/A</text:p></table:table-cell>'
)


def test_a_sheet_of_open_document_is_read_with_its_errors(tmp_path: Path) -> None:
    path = ods(
        tmp_path,
        row(cell("string", "a"), cell("string", "d")),
        row(cell("float", "1"), cell("date", "2024-02-29")),
        '<table:table-row table:number-rows-repeated="3"><table:table-cell/></table:table-row>',
        row(cell("float", "2"), ERROR),
        row(cell("float", "3"), cell("date", "2024-02-28")),
    )
    seen = read(spec_of("excel", "a bigint; d string"), path)
    assert [one["a"] for one in seen.rows] == [1, 3] and seen.lines == [2, 7]
    assert [(one.line, one.column, one.reason) for one in seen.bad] == [
        (6, "d", "the cell holds the error #N/A")
    ]


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@pytest.mark.parametrize("content", [b"", b"id,name\n", b"PK\x03\x04nonsense", OLE, None])
def test_what_is_no_workbook_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.xlsx"
    if content is not None:
        path.write_bytes(content)
    says = "can't be read" if content is not None else "vanished"
    spec = spec_of("excel", "a bigint")
    for look in (lambda: reader_of(spec).head(source(path)), lambda: read(spec, path)):
        with pytest.raises(SourceError, match=rf"^a\.xlsx {says}") as caught:
            look()
        assert caught.value.file == "a.xlsx"


def test_damage_in_a_workbook_is_an_error_not_rows(tmp_path: Path) -> None:
    path = table(tmp_path, ("a",), *((number,) for number in range(2_000)))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        at = archive.getinfo("xl/worksheets/sheet1.xml").header_offset
    content[at + 500 : at + 600] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"^a\.xlsx can't be read as a workbook"):
        read(spec_of("excel", "a bigint"), path)


def test_a_cell_far_off_and_a_bomb_are_refused_not_held(tmp_path: Path) -> None:
    path = write(tmp_path, {"A1": "a", "A2": 1, "XFD1048576": 2})
    with pytest.raises(SourceError, match="a sheet of 17,179,869,184 cells"):
        read(spec_of("excel", "a bigint"), path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/bomb.xml", bytes(50_000_000))
    with pytest.raises(SourceError, match="it unpacks to 50,"):
        read(spec_of("excel", "a bigint"), path)


def test_a_binary_workbook_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsb", "w") as archive:
        archive.writestr("xl/workbook.bin", b"x")
    with pytest.raises(SourceError, match="xlsb") as caught:
        read(spec_of("excel", "a bigint"), tmp_path / "a.xlsb")
    assert caught.value.hint == "save it as xlsx"


def test_an_empty_sheet_has_no_columns_and_a_header_alone_no_rows(tmp_path: Path) -> None:
    empty = write(tmp_path, {}, name="empty.xlsx")
    assert reader_of(spec_of("excel", "a bigint")).head(source(empty)) is None
    assert read(spec_of("excel", "a bigint"), empty).rows == []
    alone = write(tmp_path, {"A1": "a"}, name="alone.xlsx")
    assert read(spec_of("excel", "a bigint"), alone).rows == []
    with pytest.raises(SourceError, match="row 3, which is to be the header, is empty"):
        read(spec_of("excel", "a bigint", header=3), write(tmp_path, {"A1": "a", "A4": 1}, name="gap.xlsx"))


def test_types_are_inferred_from_cells_with_evidence(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        ("i", "f", "b", "d", "t", "s", "m", "o", "e"),
        (1, 1, True, date(2024, 1, 1), WHEN, "x", 1, None, "#N/A"),
        (2, 0.5, False, date(2024, 1, 2), date(2024, 1, 1), "1", "00501", None, 5),
    )
    inferred = infer([found(path)], fmt="excel", read_options={})
    assert {column.name: column.type for column in inferred.columns} == {
        "i": "bigint",
        "f": "double",
        "b": "boolean",
        "d": "date",
        "t": "timestamp_ntz",
        "s": "string",
        "m": "string",
        "o": "string",
        "e": "bigint",
    }
    assert inferred.because["i"] == "bigint in all 2 values"
    assert inferred.because["e"] == "bigint in its only value"
    assert inferred.because["f"] == "double because of row 3 of a.xlsx: '0.5'"
    assert inferred.because["m"] == "string because of row 3 of a.xlsx: '00501'"
    assert inferred.because["o"] == "string: no value in any file"
    assert inferred.rows == 2 and inferred.files == 1 and inferred.whole


def test_inferred_types_read_what_they_were_inferred_from(tmp_path: Path) -> None:
    rows = [(1, 2.5, WHEN, "x"), (None, 3, date(2024, 1, 1), 7), (10**15, None, None, True)]
    path = table(tmp_path, ("a", "b", "c", "d"), *rows)
    inferred = infer([found(path)], fmt="excel", read_options={})
    text = "; ".join(f"{column.name} {column.type}" for column in inferred.columns)
    assert text == "a double; b double; c timestamp_ntz; d string"
    assert not read(spec_of("excel", text, inferred=True), path).bad


def test_sheets_without_a_header_take_their_names_from_the_schema_or_are_numbered(tmp_path: Path) -> None:
    path = table(tmp_path, (1, "x"))
    inferred = infer([found(path)], fmt="excel", read_options={"header": False})
    assert [(column.name, column.type) for column in inferred.columns] == [
        ("column_1", "bigint"),
        ("column_2", "string"),
    ]
    inferred = infer([found(path)], fmt="excel", read_options={"header": False}, names=("a", "b"))
    assert [column.type for column in inferred.columns] == ["bigint", "string"]


def test_a_schema_is_what_all_workbooks_hold(tmp_path: Path) -> None:
    old = found(table(tmp_path, ("a", "b"), (1, 1)))
    new = found(table(tmp_path, ("a", "b", "c"), (1.5, 7, "x"), name="new.xlsx"))
    both = infer([old, new], fmt="excel", read_options={})
    assert [(column.name, column.type) for column in both.columns] == [
        ("a", "double"),
        ("b", "bigint"),
        ("c", "string"),
    ]
    assert both.because["a"].startswith("double because of row 2 of new.xlsx: '1.5'")


def test_without_python_calamine_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, ("a",), (1,))
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtra) as caught:
        read(spec_of("excel", "a bigint"), path)
    assert caught.value.hint == "pip install 'lading[formats]'"


LETTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"])
TEXT = st.text(LETTERS, min_size=1, max_size=6)
CELLS = st.none() | st.booleans() | st.integers(-(10**14), 10**14) | st.floats(-1e6, 1e6) | TEXT


@given(st.lists(st.tuples(st.none() | st.integers(0, 99), CELLS), max_size=15), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_blocks_give_what_the_sheet_holds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]], block: int
) -> None:
    folder = tmp_path_factory.mktemp("x")
    rows = [row for row in rows if not (isinstance(row[1], str) and row[1].startswith(("=", "#")))]
    path = table(folder, ("n", "a"), *rows)
    spec = spec_of("excel", "n bigint; a string")
    assert not may_be_cut(spec, str(path))
    book = openpyxl.load_workbook(path)
    expected = []
    for number, (n, a) in enumerate(book.active.iter_rows(min_row=2, values_only=True), start=2):
        if n is not None or a is not None:
            text = a if a is None or isinstance(a, str) else json.dumps(a)
            expected.append((number, n, text))
    seen = read(spec, path, reader=ExcelReader(spec, block))
    got = [(line, one["n"], one["a"]) for line, one in zip(seen.lines, seen.rows, strict=True)]
    assert [(line, n, _same(a)) for line, n, a in got] == [(line, n, _same(a)) for line, n, a in expected]
    assert seen.records == list(range(1, len(got) + 1)) and seen.taken_lines == (seen.lines or [0])[-1]


def _same(text: str | None) -> Any:
    """Numbers by their values: there is more than one way to write one."""
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return text
    return number if number is None or math.isfinite(number) else text  # `NAN` is a word
