"""JSON as rows: one object a line, or an array; nothing forced, nothing dropped, wherever a file is cut."""

from __future__ import annotations

import gzip
import io
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import ConfigError, SourceError
from lading.formats.json.rows import may_be_cut, reader
from lading.formats.json.structure import LEVELS, keys_in, outside_strings
from lading.formats.reader import WHOLE, Bad, Piece, ReadSpec
from lading.formats.registry import reader_of
from lading.formats.source_file import SourceFile
from lading.model import DRIFTS, Column

SCHEMA = (
    "a bigint; s string; t timestamp; o struct<p:bigint,q:string>; r array<bigint>; "
    "l array<struct<x:bigint>>; m map<string,int>"
)


class InMemory(SourceFile):
    """A file whose bytes are its path."""

    def _raw(self) -> Any:
        return io.BytesIO(self.path.encode("latin-1"))

    @property
    def compression(self) -> str | None:
        return None


@dataclass
class Read:
    rows: list[dict[str, Any]] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    places: list[tuple[int, int, str]] = field(default_factory=list)  # record, line and text of each row
    records: int = 0
    lines: int = 0
    ignored: int = 0


def columns(schema: str, *, inferred: bool = False) -> tuple[Column, ...]:
    pairs = (part.strip().split(" ", 1) for part in schema.split(";"))
    return tuple(Column(name, dtype, inferred=inferred) for name, dtype in pairs)


def read(
    data: bytes | str,
    schema: str = SCHEMA,
    *,
    pieces: tuple[Piece, ...] = (WHOLE,),
    block: int = 1 << 20,
    drift: str = "strict",
    inferred: bool = False,
    **options: Any,
) -> Read:
    """All pieces, one behind the other, as if they had been read in one."""
    data = data if isinstance(data, bytes) else data.encode()
    spec = ReadSpec("json", options, columns(schema, inferred=inferred), DRIFTS[drift])
    file = InMemory("x.json", data.decode("latin-1"), len(data))
    found = Read()
    for piece in pieces:
        records, lines = found.records, found.lines
        for rows in reader(spec, block=block).rows(file, piece):
            rows.batch.validate(full=True)
            assert rows.lines is not None
            texts = rows.texts(range(rows.batch.num_rows))
            found.rows += rows.batch.to_pylist()
            found.places += zip(
                (rows.records + records).tolist(), (rows.lines + lines).tolist(), texts, strict=True
            )
            found.bad += [
                Bad(bad.record + records, (bad.line or 0) + lines, bad.column, bad.reason, bad.text)
                for bad in rows.bad
            ]
            found.ignored += rows.ignored
            found.records += rows.taken_records
            found.lines += rows.taken_lines
    return found


def value(text: str, dtype: str, *, inferred: bool = False, **options: Any) -> Any:
    """What a value is read as; the reason, as an exception, when it is none."""
    found = read(f'{{"v": {text}}}\n', f"v {dtype}", inferred=inferred, **options)
    if found.bad:
        raise ValueError(found.bad[0].reason)
    return found.rows[0]["v"]


def test_nested_values_numbers_as_text_and_blank_lines_are_read():
    found = read(
        '{"a":1,"s":"x","t":"2024-01-31T10:00:00Z","o":{"p":1,"q":"z"},"r":[1,null],"l":[{"x":1},{},null],'
        '"m":{"k":1,"":null}}\n\n \t\n   {"a":2,"s":12}\r\n{}\n{"o":null,"r":null,"m":{},"r":null}'
    )
    assert found.rows[0] == {
        "a": 1,
        "s": "x",
        "t": datetime(2024, 1, 31, 10, tzinfo=UTC),
        "o": {"p": 1, "q": "z"},
        "r": [1, None],
        "l": [{"x": 1}, {"x": None}, None],
        "m": [("k", 1), ("", None)],
    }
    assert found.rows[1] == {"a": 2, "s": "12", "t": None, "o": None, "r": None, "l": None, "m": None}
    assert [(record, line) for record, line, _ in found.places] == [(1, 1), (2, 4), (3, 5)]
    assert found.places[1][2] == '   {"a":2,"s":12}'
    assert [(bad.record, bad.line, bad.reason) for bad in found.bad] == [(4, 6, "has the key 'r' twice")]
    assert (found.records, found.lines) == (4, 6)


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ('{"a":"12"}', "a", '"12" is not a bigint'),
        ('{"a":1.0}', "a", "1.0 is not a bigint"),
        ('{"a":1e2}', "a", "1e2 is not a bigint"),
        ('{"a":true}', "a", "true is not a bigint"),
        ('{"a":[1]}', "a", "[1] is not a bigint"),
        ('{"a":9223372036854775808}', "a", "9223372036854775808 is not a bigint"),
        ('{"a":1,"new":3}', "new", "the key 'new' is not in the schema"),
        ('{"a":1,"":3}', "", "the key '' is not in the schema"),
        ('{"A":1}', "A", "the key 'A' is not in the schema"),
        ('{"a":1,"a":2}', "a", "has the key 'a' twice"),
        ('{"a":1,"\\u0061":1}', "a", "has the key 'a' twice"),
        ('{"a":null,"a":1}', "a", "has the key 'a' twice"),
        ('{"a":1,"t":12345}', "t", "12345 is not a timestamp"),
        ('{"a":1,"t":"12:30"}', "t", '"12:30" is not a timestamp'),
        ('{"a":1,"t":""}', "t", '"" is not a timestamp'),
        ('{"a":1,"r":[1,"x"]}', "r", '[1, "x"] is not an array<bigint>'),
        ('{"a":1,"r":{}}', "r", "{} is not an array<bigint>"),
        ('{"a":1,"o":[]}', "o", "[] is not a struct<p:bigint,q:string>"),
        ('{"o":{"p":"bad","q":"z"}}', "o", '{"p": "bad", "q": "z"} is not a struct<p:bigint,q:string>'),
        ('{"o":{"p":1,"zz":2}}', "o", "'o' has a key that is not in its type struct<p:bigint,q:string>"),
        ('{"o":{"p":1,"p":1}}', "o", "'o' has the key 'p' twice"),
        ('{"l":[{"x":1},{"y":1}]}', "l", "'l' has a key that is not in its type array<struct<x:bigint>>"),
        ('{"l":[{"x":1},{"x":1,"x":2}]}', "l", "'l' has the key 'x' twice"),
        ('{"m":{"k":1,"k":1}}', "m", "'m' has the key 'k' twice"),
        ('{"m":{"k":128.5}}', "m", '{"k": 128.5} is not a map<string,int>'),
        ('{"m":{"\\ud800":1}}', "m", "'m' has half of a character"),
        ('{"s":"\\ud800"}', "s", "'s' has half of a character"),
        ('{"s":"\\udc00\\ud800"}', "s", "'s' has half of a character"),
        ('{"\\ud800":1}', "\ud800", "the key '\\ud800' is not in the schema"),
        ('{"a":1} garbage', None, "is not one JSON object: Extra data"),
        ('{"a":1}{"a":2}', None, "is not one JSON object: Extra data"),
        ('{"a":1},{"a":2}', None, "is not one JSON object"),
        ('{"a":1}} x', None, "is not one JSON object"),
        ("{'a':1}", None, "is not one JSON object: Expecting property name"),
        ('{"a":NaN}', None, "is not one JSON object: NaN"),
        ('{"a":-Infinity}', None, "is not one JSON object: -Infinity"),
        ('{"s":"\t"}', None, "is not one JSON object: Invalid control character"),
        ('{"s":"\x00"}', None, "is not one JSON object: Invalid control character"),
        ('{"s":"\\x"}', None, "is not one JSON object: Invalid \\escape"),
        ('{"a":01}', None, "is not one JSON object"),
        ('[{"a":1}]', None, "is not a JSON object"),
        ("5", None, "is not a JSON object"),
        ("null", None, "is not a JSON object"),
        ("{", None, "is not one JSON object"),
        ('\ufeff{"a":1}', None, "is not one JSON object"),
    ],
)
def test_a_line_that_does_not_fit_is_a_bad_row(text, column, reason):
    found = read(f'{{"a":7}}\n{text}\n{{"a":8}}\n')
    assert [row["a"] for row in found.rows] == [7, 8]
    assert [line for _, line, _ in found.places] == [1, 3]
    (bad,) = found.bad
    assert (bad.record, bad.line, bad.column, bad.text) == (2, 2, column, text)
    assert bad.reason.startswith(reason)


@pytest.mark.parametrize(
    ("text", "dtype", "want"),
    [
        ("1.50", "string", "1.50"),
        ("1E400", "string", "1E400"),
        ("123456789012345678.5", "string", "123456789012345678.5"),
        ("12345678901234567890", "string", "12345678901234567890"),
        ("-0", "string", "-0"),
        ("true", "string", "true"),
        ("null", "string", None),
        ('"null"', "string", "null"),
        ('""', "string", ""),
        ('"\\u0000\\n\\"\\ud83d\\ude00é"', "string", '\0\n"😀é'),
        ('{ "k":[1,  2.50], "k" : "\\u0061" }', "string", '{ "k":[1,  2.50], "k" : "\\u0061" }'),
        ("[ ]", "string", "[ ]"),
        ("127", "tinyint", 127),
        ("-32768", "smallint", -32768),
        ("-0", "bigint", 0),
        ("-9223372036854775808", "bigint", -(2**63)),
        ("1", "double", 1.0),
        ("1e-500", "double", 0.0),
        ("12345678901234567890", "double", 12345678901234567890.0),
        ('"-Infinity"', "double", float("-inf")),
        ("0.1", "float", 0.10000000149011612),
        ("false", "boolean", False),
        ("1.50", "decimal(5,2)", Decimal("1.50")),
        ("1.5000000000000000000000000000000000000000000000", "decimal(5,2)", Decimal("1.50")),
        ('"-1.5"', "decimal(5,2)", Decimal("-1.50")),
        ("1e2", "decimal(5,2)", Decimal("100.00")),
        ("0e1000000000", "decimal(5,2)", Decimal("0.00")),
        ("12345678901234567.123", "decimal(20,3)", Decimal("12345678901234567.123")),
        ('"2024-02-29"', "date", date(2024, 2, 29)),
        ('"2024-01-31T10:00:00.1234560"', "timestamp_ntz", datetime(2024, 1, 31, 10, 0, 0, 123456)),
        ('"2024-01-31"', "timestamp_ntz", datetime(2024, 1, 31)),
        ('"AAEC"', "binary", b"\x00\x01\x02"),
        ('["2024-01-01",null]', "array<date>", [date(2024, 1, 1), None]),
        ('{"k":{"x":[1.5]}}', "map<string,struct<x:array<double>>>", [("k", {"x": [1.5]})]),
        ('{"":1}', "struct<``:int>", {"": 1}),
    ],
)  # fmt: skip
def test_a_value_is_read_as_it_is_written(text, dtype, want):
    got = value(text, dtype)
    assert got == want and type(got) is type(want)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("128", "tinyint"),
        ("2147483648", "int"),
        ("1e400", "double"),
        ('"1.5"', "double"),
        ('"nan"', "double"),
        ("1e39", "float"),
        ("1", "boolean"),
        ('"true"', "boolean"),
        ("1.239", "decimal(5,2)"),
        ('"1,5"', "decimal(5,2)"),
        ('" 1"', "decimal(5,2)"),
        ('""', "decimal(5,2)"),
        ("1000", "decimal(5,2)"),
        ("1e1000000000", "decimal(5,2)"),
        ("1e-1000000000", "decimal(5,2)"),
        ("true", "decimal(5,2)"),
        ('"2024-02-30"', "date"),
        ("20240131", "date"),
        ('"2024-01-31T10:00:00.1234567"', "timestamp_ntz"),
        ('"2024-01-31T10:00:00Z"', "timestamp_ntz"),
        ('"A"', "binary"),
        ("5", "binary"),
    ],
)
def test_a_value_that_would_be_forced_is_a_bad_row(text, dtype):
    with pytest.raises(ValueError, match=re.escape(f"{text} is not a")):
        value(text, dtype)
    with pytest.raises(ValueError, match=re.escape(f"[{text}] is not an array<{dtype}>")):
        value(f"[{text}]", f"array<{dtype}>")


@pytest.mark.parametrize(
    ("text", "dtype", "fits"),
    [
        ("123456789012345", "double", True),
        ("1234567890123456", "double", False),
        ("-1234567890123456", "double", False),
        ("1234567890123456.5", "double", True),
        ("1e300", "double", True),
        ('"NaN"', "double", False),
        ('"2024-01-31T10:00:00Z"', "timestamp", True),
        ('"2024-01-31T10:00:00"', "timestamp", False),
        ('"0000-01-31"', "date", False),
        ("-0", "bigint", True),
    ],
)
def test_an_inferred_type_takes_what_inference_would_still_call_so(text, dtype, fits):
    for wrapped, kind in ((text, dtype), (f'{{"x":[{text}]}}', f"struct<x:array<{dtype}>>")):
        if fits:
            assert value(wrapped, kind, inferred=True) is not None
            continue
        with pytest.raises(ValueError, match=r"is not a|does not fit the inferred type"):
            value(wrapped, kind, inferred=True)
        assert text[0] == '"' or value(wrapped, kind) is not None


def test_dates_and_times_have_formats_of_the_tables_own():
    assert value('"31.01.2024"', "date", date_format="dd.MM.yyyy") == date(2024, 1, 31)
    with pytest.raises(ValueError, match="is not a date"):
        value('"2024-01-31"', "date", date_format="dd.MM.yyyy")


def test_bytes_that_are_not_utf8_make_one_row_bad():
    found = read(b'{"s":"ok"}\n{"s":"\xff"}\n{"\xc3":1}\n{"s":"\xc3\xa9"}\n{"s":"\xed\xa0\x80"}\n')
    assert [row["s"] for row in found.rows] == ["ok", "é"]
    assert [(bad.line, bad.column, bad.reason) for bad in found.bad] == [
        (2, None, "bytes that are not UTF-8"),
        (3, None, "bytes that are not UTF-8"),
        (5, None, "bytes that are not UTF-8"),
    ]
    assert found.bad[0].text == '{"s":"\ufffd"}'


@pytest.mark.parametrize("multiline", [False, True])
def test_many_records_are_numbered_through(multiline):
    lines = [f'{{"a":{number}}}' if number % 1000 else "x" for number in range(10_000)]
    text = "[" + ",\n".join(lines) + "]" if multiline else "\n".join(lines)
    found = read(text, "a int", multiline=multiline)
    assert [row["a"] for row in found.rows] == [number for number in range(10_000) if number % 1000]
    assert [record for record, *_ in found.places] == [row["a"] + 1 for row in found.rows]
    assert [line for _, line, _ in found.places] == [row["a"] + 1 for row in found.rows]
    assert [bad.line for bad in found.bad] == list(range(1, 10_001, 1000))
    assert (found.records, found.lines) == (10_000, 10_000)


def test_a_mark_is_passed_over_at_the_start_of_a_file_only():
    found = read(b'\xef\xbb\xbf{"a":1}\n\xef\xbb\xbf{"a":2}\n')
    assert [row["a"] for row in found.rows] == [1]
    assert [bad.line for bad in found.bad] == [2]
    assert [row["a"] for row in read(b'\xef\xbb\xbf[{"a":1}]', multiline=True).rows] == [1]


@pytest.mark.parametrize("multiline", [False, True])
@pytest.mark.parametrize(
    ("depth", "fits"), [(LEVELS - 1, True), (LEVELS, False), (5_000, False), (1_000_000, False)]
)
def test_what_is_nested_too_deeply_is_a_bad_row_whoever_calls(multiline, depth, fits):
    deep = f'{{"a":1,"s":{"[" * depth}{"]" * depth}}}'
    lines = ['{"a":0}', deep, '{"a":2}']
    text = f"[{','.join(lines)}]" if multiline else "\n".join(lines)

    def called(levels: int) -> Read:
        return called(levels - 1) if levels else read(text, multiline=multiline)

    for found in (called(0), called(600)):
        assert [row["a"] for row in found.rows] == ([0, 1, 2] if fits else [0, 2])
        assert [bad.reason for bad in found.bad] == ([] if fits else ["is nested too deeply to be read"])


@pytest.mark.parametrize("text", ['{"o":', '{"m":{"k":', '{"zz":', "["])
def test_half_a_text_of_many_levels_is_no_crash(text):
    found = read(text + "[" * 100_000 + "\n" + '{"a":1}')
    assert len(found.rows) == len(found.bad) == 1


def test_new_keys_are_left_out_and_counted_where_the_table_says_so():
    lines = [
        '{"a":1}',
        '{"a":2,"new":{"x":[1,{"y":2}]}}',
        '{"a":3,"o":{"p":1,"zz":2}}',
        '{"a":4,"new":1,"new":2}',
        '{"a":5,"l":[{"x":1},{"y":1}]}',
        '{"a":6,"o":{"zz":1,"zz":1}}',
        '{"a":7,"new":null}',
        '{"a":"8","new":null}',
        '{"a":9,"new":tru}',
        '{"a":10}',
        '{"a":11,"a":11,"new":1}',
    ]
    found = read("\n".join(lines), drift="ignore_new")
    assert [row["a"] for row in found.rows] == [1, 2, 3, 5, 7, 10]
    assert found.rows[2]["o"] == {"p": 1, "q": None}
    assert found.ignored == 4
    assert [(bad.line, bad.column) for bad in found.bad] == [
        (4, "new"), (6, "o"), (8, "a"), (9, None), (11, "a"),
    ]  # fmt: skip


def test_more_new_keys_than_can_be_learned_are_left_out_too():
    lines = [f'{{"a":{number},"k{number}":1,"o":{{"n{number}":[]}}}}' for number in range(400)]
    lines += ['{"k300":1,"k300":2}', '{"z":1,"a":1,"a":2}', '{"a":"x","y":1}']
    found = read("\n".join(lines), drift="ignore_new")
    assert [row["a"] for row in found.rows] == list(range(400))
    assert found.ignored == 400
    assert [bad.column for bad in found.bad] == ["k300", "a", "a"]


def test_names_that_only_json_can_write_are_names():
    schema = 's"x struct<`y\\`:bigint,o:struct<z:array<struct<p:int>>>>'
    lines = [
        r'{"s\"x":{"y\\":1,"o":{"z":[{"p":1},{}]}}}',
        r'{"s\"x":{"o":null}}',
        r'{"s\"x":{"y\\":1,"new\n":{"a":1}}}',
        r'{"s\"x":{"o":{"z":[{"p":1,"new":[{"a":2}]}]}},"n\"":1}',
        r'{"s\"x":{"y\\":1,"y\\":2}}',
        r'{"s\"x":{"o":{"z":[{"p":1,"p":1}]}}}',
        r'{"s\"x":{"o":{"z":[{"p":"1"}]}}}',
        r'{"s\"x":{"o":{"z":{}}}}',
        r'{"s\"x":{},"s\"x":{}}',
    ]
    strict = read("\n".join(lines), schema)
    assert strict.rows == [
        {'s"x': {"y\\": 1, "o": {"z": [{"p": 1}, {"p": None}]}}},
        {'s"x': {"y\\": None, "o": None}},
    ]
    assert [(bad.line, bad.column) for bad in strict.bad] == [
        (3, 's"x'), (4, 'n"'), *((line, 's"x') for line in range(5, 10)),
    ]  # fmt: skip
    lenient = read("\n".join(lines), schema, drift="ignore_new")
    assert lenient.rows[:2] == strict.rows and len(lenient.rows) == 4
    assert lenient.ignored == 2
    assert lenient.bad == strict.bad[2:]
    plain = read('{"a":1,"x\\"":2}\n{"a":2,"x\\"":2,"x\\"":2}', "a int", drift="ignore_new")
    assert (plain.rows, plain.ignored, len(plain.bad)) == ([{"a": 1}], 1, 1)


def test_a_map_has_keys_of_text():
    with pytest.raises(ConfigError, match="map<int,string>"):
        read("{}", "m map<int,string>")


def test_an_array_is_read_element_by_element():
    text = '\ufeff\n[ {"a":\n1},\n\n{"s": "],\\"["} , 5,\n{"a":"x"}, [], null ]\n \n'
    found = read(text, multiline=True)
    assert [(row["a"], row["s"]) for row in found.rows] == [(1, None), (None, '],"[')]
    assert found.places == [(1, 2, '{"a":\n1}'), (2, 5, '{"s": "],\\"["}')]
    assert [(bad.record, bad.line, bad.text) for bad in found.bad] == [
        (3, 5, "5"), (4, 6, '{"a":"x"}'), (5, 6, "[]"), (6, 6, "null"),
    ]  # fmt: skip
    assert (found.records, found.lines) == (6, 7)


@pytest.mark.parametrize(
    ("text", "rows", "bad"),
    [
        ("", [], []),
        (" \n", [], []),
        ("[]", [], []),
        ("\n[\n]\n", [], []),
        ('{\n "a": 3\n}\n', [3], []),
        ('{"a":1}\n{"a":2}', [], [(1, "there is more text behind the document", '{"a":1}\n{"a":2}')]),
        ('[{"a":1}]\n garbage\n', [1], [(2, "there is more text behind the document", "garbage")]),
        ('[{"a":1}][{"a":2}]', [1], [(1, "there is more text behind the document", '[{"a":2}]')]),
        ('[{"a":1},\n{"a":2', [1], [(2, "the document never ends", '{"a":2')]),
        ('[{"a":1},\n{"a":2}', [1], [(2, "the document never ends", '{"a":2}')]),
        ('[{"a":1},\n"x', [1], [(2, "the document never ends", '"x')]),
        ("[", [], [(1, "the document never ends", "")]),
        ("nonsense", [], [(1, "Expecting value", "nonsense")]),
        ('"[{', [], [(1, "Unterminated string", '"[{')]),
        ('[{"a":1},]', [1], [(1, "Expecting value", "")]),
        ('[{"a":1} {"a":2}, {"a":3}]', [3], [(1, "Extra data", '{"a":1} {"a":2}')]),
        ('[{"a":1,\n"s":"\x00"}]', [], [(1, "Invalid control character", '{"a":1,\n"s":"\x00"}')]),
    ],
)
@pytest.mark.parametrize("block", [1, 3, 7, 1 << 20])
def test_a_document_may_be_broken(text, rows, bad, block):
    found = read(text, multiline=True, block=block)
    assert [row["a"] for row in found.rows] == rows
    assert [(one.line, one.text) for one in found.bad] == [(line, shown) for line, _, shown in bad]
    for one, (_, reason, _) in zip(found.bad, bad, strict=True):
        assert one.reason.startswith("is not one JSON object") and reason in one.reason
    assert found.lines == len(text.splitlines())


def test_what_is_left_of_a_broken_document_is_cut():
    found = read('[{"a":1}]' + "é" * 300_000, multiline=True, block=1000)
    assert [row["a"] for row in found.rows] == [1]
    assert found.bad[0].text == "é" * (1 << 16)


@pytest.mark.parametrize(("multiline", "what"), [(False, "line"), (True, "record")])
def test_a_record_beyond_all_bounds_is_an_error_with_a_sentence(monkeypatch, multiline, what):
    monkeypatch.setattr("lading.formats.lines.LONGEST", 1000)
    monkeypatch.setattr("lading.formats.json.document.LONGEST", 1000)
    for text in ('[{"s":"' + "x" * 10_000, '{"s":"' + "x" * 10_000, '[{"s":"' + "\\" * 10_000):
        file = InMemory("x.json", text, len(text))
        spec = ReadSpec("json", {"multiline": multiline}, columns("s string"))
        with pytest.raises(SourceError, match=rf"x.json: a {what} is longer than"):
            list(reader(spec, block=100).rows(file))


def test_files_that_are_no_json_or_not_there_are_refused(tmp_path: Path):
    spec = ReadSpec("json", {}, columns("a bigint"))

    def of(name: str, content: bytes | None) -> list[Any]:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        return list(reader_of(spec).rows(SourceFile(name, str(path), len(content or b""))))

    with pytest.raises(SourceError, match=r"gone.json vanished"):
        of("gone.json", None)
    with pytest.raises(SourceError, match=r"torn.json.gz can't be read"):
        of("torn.json.gz", gzip.compress(b'{"a":1}\n' * 9999)[:-20])
    with pytest.raises(SourceError, match="is a Parquet file, not json"):
        of("x.json", b"PAR1\x00\x00")
    with pytest.raises(SourceError, match="is UTF-16 text"):
        of("y.json", '{"a":1}'.encode("utf-16"))
    assert of("x.json.gz", gzip.compress(b'{"a":1}\n'))[0].batch.to_pylist() == [{"a": 1}]
    assert of("none.json", b"") == []


def test_lines_of_plain_files_may_be_cut():
    spec = ReadSpec("json", {}, ())
    assert may_be_cut(spec, "a.jsonl")
    assert not may_be_cut(spec, "a.jsonl.gz")
    assert not may_be_cut(ReadSpec("json", {"multiline": True}, ()), "a.json")


def test_the_digest_comes_with_the_reading():
    for data, options in (('{"a":1}\n', {}), ('[{"a":1}] x', {"multiline": True})):
        file = InMemory("x.json", data, len(data))
        list(reader(ReadSpec("json", options, columns("a bigint"))).rows(file))
        assert file.sha256 is not None


# Texts made together with what they mean: an oracle that shares nothing with the reader.

BAD = object()
spaces = st.sampled_from(["", "", "", " ", "\t", "  "])
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
names = st.sampled_from(["p", "q", "é", 'x"y', ":", "{", "a b"])
scalars = st.sampled_from(["0", "-1", "127", "128", "2.5", "1e3", "true", "null", '"x"', '"1"', "[]", "{}"])


@st.composite
def quoted(draw: Any, text: str) -> str:
    return json.dumps(text, ensure_ascii=draw(st.booleans()))


@st.composite
def strings_as_text(draw: Any) -> tuple[str, Any]:
    if draw(st.integers(0, 4)):
        text = draw(strings)
        return draw(quoted(text)), text
    raw = draw(st.sampled_from(["1.50", "20", "true", '{"k" :1, "k":"\\":"}', "[1 ,2]", "null"]))
    return raw, None if raw == "null" else raw


def of_type(kind: str, literals: dict[str, Any]) -> st.SearchStrategy[tuple[str, Any]]:
    known = st.sampled_from(list(literals.items()))
    others = scalars.map(lambda text: (text, literals.get(text, None if text == "null" else BAD)))
    return st.one_of(known, known, known, others)


PLAIN: dict[str, st.SearchStrategy[tuple[str, Any]]] = {
    "tinyint": of_type("tinyint", {"0": 0, "-1": -1, "127": 127}),
    "double": of_type("double", {"0": 0.0, "-1": -1.0, "127": 127.0, "128": 128.0, "2.5": 2.5, "1e3": 1e3}),
    "boolean": of_type("boolean", {"true": True, "false": False}),
    "date": of_type("date", {'"2024-01-31"': date(2024, 1, 31)}),
    "string": strings_as_text(),
}


@st.composite
def objects(draw: Any, fields: dict[str, Any] | None, inner: Any) -> tuple[str, list[tuple[str, Any]] | Any]:
    """An object of these fields, or of any keys; sometimes with one key too many, or one twice."""
    keys = draw(st.lists(st.sampled_from(sorted(fields)) if fields else names, unique=True, max_size=4))
    odd = draw(st.sampled_from(["", "", "", "", "", "twice", "unknown"]))
    parts, found, bad = [], {}, False
    if odd == "twice" and keys:
        keys.append(keys[0])
        bad = True
    if odd == "unknown" and fields:
        keys.append("not there")
        bad = True
    for key in keys:
        text, want = draw(fields[key] if fields and key in fields else inner)
        bad = bad or want is BAD
        found[key] = want
        a, b, c, d = (draw(spaces) for _ in range(4))
        parts.append(f"{a}{draw(quoted(key))}{b}:{c}{text}{d}")
    text = "{" + ",".join(parts) + "}"
    if bad:
        return text, BAD
    if fields:
        return text, {key: found.get(key) for key in fields}
    return text, list(found.items())


@st.composite
def lists(draw: Any, inner: Any) -> tuple[str, Any]:
    parts = draw(st.lists(inner, max_size=3))
    text = "[" + ",".join(draw(spaces) + one for one, _ in parts) + "]"
    return text, BAD if any(want is BAD for _, want in parts) else [want for _, want in parts]


@st.composite
def types(draw: Any, depth: int = 2) -> tuple[str, st.SearchStrategy[tuple[str, Any]]]:
    shape = draw(st.sampled_from(["plain", "plain", "array", "map", "struct"])) if depth else "plain"
    if shape == "plain":
        kind = draw(st.sampled_from(sorted(PLAIN)))
        return kind, PLAIN[kind]
    if shape == "struct":
        fields = {
            name: draw(types(depth - 1))
            for name in draw(st.lists(names, min_size=1, max_size=3, unique=True))
        }
        inner = ",".join(f"`{name}`:{kind}" for name, (kind, _) in fields.items())
        made = objects(
            {name: values for name, (_, values) in fields.items()}, scalars.map(lambda text: (text, None))
        )
        return f"struct<{inner}>", st.one_of(made, made, st.just(("null", None)), st.just(("5", BAD)))
    kind, values = draw(types(depth - 1))
    if shape == "array":
        return f"array<{kind}>", st.one_of(lists(values), st.just(("null", None)), st.just(('"x"', BAD)))
    return f"map<string,{kind}>", st.one_of(
        objects(None, values), st.just(("null", None)), st.just(("[]", BAD))
    )


@st.composite
def tables(draw: Any) -> tuple[str, list[tuple[str, Any]]]:
    fields = {
        name: draw(types()) for name in draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    }
    schema = ";".join(f"{name} {kind}" for name, (kind, _) in fields.items())
    record = objects(
        {name: values for name, (_, values) in fields.items()}, scalars.map(lambda text: (text, None))
    )
    return schema, draw(st.lists(record, max_size=8))


@settings(max_examples=400, deadline=None)
@given(tables(), st.sampled_from([1, 7, 64, 1 << 20]), st.data())
def test_what_is_written_is_read_and_what_does_not_fit_is_bad(table, block, data):
    schema, records = table
    good = [want for _, want in records if want is not BAD]
    texts = [text for text, _ in records]
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
    lines = end.join(texts)
    whole = read(lines, schema, block=block)
    assert whole.rows == good
    assert [bad.text for bad in whole.bad] == [text for text, want in records if want is BAD]
    assert [text for *_, text in whole.places] == [text for text, want in records if want is not BAD]
    size = len(lines.encode())
    cut = data.draw(st.integers(0, size))
    assert read(lines, schema, block=block, pieces=(Piece(0, cut), Piece(cut, size))) == whole
    space = data.draw(st.sampled_from(["", "\n", " \n\t"]))
    array = f"{space}[{space}" + f"{space},{space}".join(texts) + f"{space}]{space}"
    elements = read(array, schema, block=block, multiline=True)
    assert elements.rows == good
    assert [(bad.record, bad.column, bad.reason, bad.text) for bad in elements.bad] == [
        (bad.record, bad.column, bad.reason, bad.text) for bad in whole.bad
    ]


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_a_line_is_a_row_if_and_only_if_python_reads_it_so(data):
    """Over texts that are nearly JSON."""
    text = data.draw(
        st.sampled_from(
            ['{"a":"x\\u00e9","b":1.5}', '{"a":{"b":[1,{}]}}', '{"b":"\\ud83d\\ude00"}', '{"a":"\\\\"}']
        )
    )
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        char = data.draw(st.sampled_from(list('"\\{}[]:,ab01.eE-+ untf\té')))
        text = text[:at] + char + text[at + data.draw(st.integers(0, 2)) :]
    want = _python_reads(text)
    found = read(text, "a string; b string")
    if not text.strip():
        assert not found.records
    elif want is None:
        assert len(found.bad) == 1 and not found.rows
    else:
        (row,) = found.rows
        for key, got in row.items():
            expected = want.get(key)
            assert got == expected if isinstance(expected, str | None) else _same(got, expected)


class _Raw(str):
    """A number as it is written."""


def _python_reads(text: str) -> dict[str, Any] | None:
    def pairs(found: list[tuple[str, Any]]) -> Any:
        return ("object", found)

    def refuse(_: str) -> Any:
        raise ValueError

    try:
        decoder = json.JSONDecoder(
            object_pairs_hook=pairs, parse_int=_Raw, parse_float=_Raw, parse_constant=refuse
        )
        found = decoder.decode(text)
        json.dumps(found, ensure_ascii=False).encode()  # half of a character has no bytes
    except ValueError:
        return None
    if not isinstance(found, tuple):
        return None
    keys = [key for key, _ in found[1]]
    if len(set(keys)) < len(keys) or not {"a", "b"}.issuperset(keys):
        return None
    return dict(found[1])


def _same(text: str, value: Any) -> bool:
    """Whether the text of a value in a column of text says the value."""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    return _python_reads(f'{{"a":{text}}}') == {"a": value}


LINE_ENDS = '{"a":1}\n\r\n{"a":2}\r{"a":"x"}\r\r\n \n{"a":3}\r\n\n{"a":4}{\r{"a":5}'


@pytest.mark.parametrize(
    "text", [LINE_ENDS, LINE_ENDS + "\r", LINE_ENDS + "\n", "\ufeff" + LINE_ENDS + "\r\n"]
)
@pytest.mark.parametrize("block", [1, 2, 5, 1 << 20])
def test_wherever_a_file_is_cut_rows_and_lines_are_the_same(text, block):
    size = len(text.encode())
    whole = read(text, "a bigint")
    assert [row["a"] for row in whole.rows] == [1, 2, 3, 5]
    assert [line for _, line, _ in whole.places] == [1, 3, 7, 10]
    assert [bad.line for bad in whole.bad] == [4, 9]
    assert whole.lines == 10
    for first in range(size + 1):
        second = min(first + first % 5, size)
        pieces = (Piece(0, first), Piece(first, second), Piece(second, size))
        assert read(text, "a bigint", pieces=pieces, block=block) == whole, pieces
    assert read(text, "a bigint", pieces=(Piece(0, 5), Piece(5, None)), block=block) == whole


@settings(deadline=None)
@given(st.text('\\"ab:{}[],', max_size=30), st.text('\\"ab:{}[],', max_size=30))
def test_what_stands_outside_of_strings_is_found_from_block_to_block(one, other):
    one = one.rstrip("\\")

    def plainly(text: str) -> list[int]:
        found, inside, escaped = [], False, False
        for at, char in enumerate(text):
            if char == '"' and not escaped:
                inside = not inside
            elif char in ":{" and not inside:
                found.append(at)
            escaped = char == "\\" and not escaped
        return found

    first, inside = outside_strings(one.encode(), b":{")
    second, _ = outside_strings(other.encode(), b":{", inside=inside)
    assert [*first.tolist(), *(second + len(one)).tolist()] == plainly(one + other)


def test_keys_are_counted_text_by_text():
    assert keys_in([b'{"a":":","b":{"c":1}}', b"[]", b'{"\\":":1}']).tolist() == [3, 0, 1]
