"""`records:`: rows that lie deeper in a document are the rows, with their lines, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import Seen, read, source, spec_of

from lading.errors import SourceError
from lading.formats.json.rows import may_be_cut, reader

DEEP = """\
{
  "meta": {"rows": [{"a": -1}], "note": "],\\"[{"},
  "data": {"count": 3, "rows": [
    {"a": 1}, {"a":
      2},
    5, [], null, {"a": "x"},
    {"a": 3, "s": "}]"}
  ], "more": [1, {"rows": []}]},
  "end": "\\\\"
}
"""


def rows_at(
    folder: Path, text: str | bytes, records: Any = "data.rows", *, block: int = 1 << 20, name: str = "x.json"
) -> Seen:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    spec = spec_of("json", "a bigint; s string", records=records)
    return read(spec, path, reader=reader(spec, block=block))


@pytest.mark.parametrize("block", [1, 2, 3, 5, 17, 1 << 20])
def test_the_objects_of_the_array_are_the_rows(tmp_path: Path, block: int) -> None:
    found = rows_at(tmp_path, DEEP, block=block)
    assert found.rows == [{"a": 1, "s": None}, {"a": 2, "s": None}, {"a": 3, "s": "}]"}]
    assert found.records == [1, 2, 7] and found.lines == [4, 4, 7]
    assert [(bad.record, bad.line, bad.text) for bad in found.bad] == [
        (3, 6, "5"), (4, 6, "[]"), (5, 6, "null"), (6, 6, '{"a": "x"}'),
    ]  # fmt: skip
    assert found.bad[0].reason == "is not a JSON object" and found.bad[3].column == "a"
    assert (found.taken, found.taken_lines) == (7, 10)


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('{"rows": [{"a": 1}]}', "rows"),
        ('{"rows": [{"a": 1}]}', ["rows"]),
        ('\ufeff{"rows": [{"a": 1}], "x": null, "y": -1.5e3, "z": {"rows": 2}}\n\n', "rows"),
        ('{"a.b": {"": [{"a": 1}]}}', ["a.b", ""]),
        ('{"d\\u0061ta": {"rows" : [ {"a": 1} ] } }', "data.rows"),
        ('{"x": true, "data":{"q":{"rows":[]},"rows":[{"a":1}]}}', "data.rows"),
        ('{"é": [{"a": 1}]}', "é"),
    ],
)
@pytest.mark.parametrize("block", [3, 1 << 20])
def test_a_path_is_keys(tmp_path: Path, text: str, records: Any, block: int) -> None:
    found = rows_at(tmp_path, text, records, block=block)
    assert found.rows == [{"a": 1, "s": None}] and not found.bad


@pytest.mark.parametrize("text", ["", " \n", '{"data": {"rows": []}}', '{"data": {"rows": [ ]}}\n'])
def test_no_rows_are_no_rows(tmp_path: Path, text: str) -> None:
    found = rows_at(tmp_path, text)
    assert found.rows == [] and not found.bad and found.taken_lines == len(text.splitlines())


PACKED: list[tuple[str, Callable[[bytes], bytes]]] = [
    (".gz", gzip.compress),
    (".bz2", bz2.compress),
    (".xz", lzma.compress),
]


@pytest.mark.parametrize(("suffix", "pack"), PACKED)
def test_compressed_files_have_deep_rows_too(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    plain = rows_at(tmp_path, DEEP)
    packed = rows_at(tmp_path, pack(DEEP.encode()), name=f"x.json{suffix}")
    assert packed.rows == plain.rows and packed.bad == plain.bad and packed.lines == plain.lines


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ('{"data": {"row": [], "n": 1}}', "data has no key 'rows', but 'row', 'n'", "did you mean data.row?"),
        ('{"dat": 1, "x": 2}', "the document has no key 'data', but 'dat', 'x'", "did you mean dat?"),
        ("{}", "there is no data.rows: the document is empty", "set read_options.records"),
        ('{"data": {}}', "there is no data.rows: data is empty", "set read_options.records"),
        (
            json.dumps({f"k{number}": 0 for number in range(2_000)}),
            "has no key 'data', but 'k0', 'k1', 'k2', 'k3', 'k4' and 1,995 more",
            "set read_options.records",
        ),
        ('{"data": {"rows": {"a": 1}}}', "data.rows is an object, not an array", "the path of the array"),
        ('{"data": {"rows": null}}', "data.rows is null, not an array", "exclude the file"),
        ('{"data": {"rows": "x"}}', "data.rows is text, not an array", "exclude the file"),
        ('{"data": {"rows": -1}}', "data.rows is a number, not an array", "exclude the file"),
        ('{"data": {"rows": true}}', "data.rows is true, not an array", "exclude the file"),
        (
            '{"data": [{"rows": []}]}',
            "there is no data.rows: data is an array",
            "set read_options: {records: data}",
        ),
        ('{"data": 5}', "there is no data.rows: data is a number", "set read_options.records"),
        (
            '[{"a": 1}]',
            "the document is an array",
            "set read_options: {multiline: true} and remove `records`",
        ),
        ('{"data": {"x": [{"rows": 1}', "up to data.rows: the document never ends, in line 1", "complete"),
        ('{"data": {"x": "y', "up to data.rows: the document never ends", "complete"),
        ('{"data"', "up to data.rows: the document never ends", "complete"),
        ('{\n"x" 1}', "up to data.rows: there is '1' where ':' should be, in line 2", "complete"),
        ('{"x": , "data": 1}', "up to data.rows: there is ',' where", "complete"),
        ('{"x": 1 "data": 1}', "there is '\"' where ',' should be", "complete"),
        ('{"x": 1,}', "there is '}' where '\"' should be", "complete"),
        ("nonsense", "there is no data.rows: the document is", "set read_options.records"),
    ],
)
@pytest.mark.parametrize("block", [3, 1 << 20])
def test_a_file_without_the_array_is_refused_with_what_is_there(
    tmp_path: Path, text: str, says: str, hint: str, block: int
) -> None:
    with pytest.raises(SourceError) as caught:
        rows_at(tmp_path, text, block=block)
    assert caught.value.message.startswith("x.json") and "data.rows" in caught.value.message
    assert says in caught.value.message and hint in caught.value.hint
    assert caught.value.file == "x.json"


def test_a_path_with_dots_in_a_key_is_written_as_it_has_to_be(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r'there is no \["data", "a.b"\]') as caught:
        rows_at(tmp_path, '{"data": {"a.c": []}}', ["data", "a.b"])
    assert 'did you mean ["data", "a.c"]?' in caught.value.hint


@pytest.mark.parametrize(
    ("text", "line", "reason", "shown"),
    [
        ('{"data": {"rows": [{"a": 1},\n{"a": 2', 2, "the document never ends", '{"a": 2'),
        ('{"data": {"rows": [{"a": 1}\n]\n', 2, "the document never ends", ""),
        ('{"data": {"rows": [{"a": 1}]\n}', 2, "the document never ends", "}"),
        ('{"data": {"rows": [{"a": 1}],\n"x": "', 1, "the document never ends", ',\n"x": "'),
        ('{"data": {"rows": [{"a": 1}]}}\n{"x": 1}', 1, "more text behind the document", '}}\n{"x": 1}'),
        ('{"data": {"rows": [{"a": 1}\n] "x": 1}}', 2, "there is '\"' where ',' should be", '"x": 1}}'),
        ('{"data": {"rows": [{"a": 1}], "rows": [{"a": 2}]}}', 1, "the key 'rows' is there twice", None),
        ('{"data": {"rows": [{"a": 1}]}, "data": {}}', 1, "the key 'data' is there twice", None),
        ('{"data": {"rows": [{"a": 1}}}', 1, "there is '}' where ']' should be", "}}"),
    ],
)
@pytest.mark.parametrize("block", [1, 4, 1 << 20])
def test_what_is_wrong_behind_the_rows_is_one_bad_row(
    tmp_path: Path, text: str, line: int, reason: str, shown: str | None, block: int
) -> None:
    found = rows_at(tmp_path, text, block=block)
    assert [row["a"] for row in found.rows] == [1]
    [bad] = found.bad
    assert (bad.record, bad.line) == (2, line)
    assert bad.reason.startswith("is not one JSON object") and reason in bad.reason
    assert shown is None or (bad.text.startswith(shown[:1]) and shown.startswith(bad.text))
    assert found.taken_lines == text.count("\n") + (not text.endswith("\n"))


def test_a_large_file_is_never_held_whole(tmp_path: Path) -> None:
    """Neither what stands before the rows, nor they, nor what stands behind them."""
    path = tmp_path / "x.json"
    big = b'{"k": "' + b'x\\"' * 1_000_000 + b'", "l": [' + b'{"p": [1, 2]},' * 1_200_000 + b"1]}"
    with open(path, "wb") as file:
        file.write(b'{"meta": ' + big + b', "data": {"rows": [')
        for number in range(50_000):
            file.write(b'{"a": %d, "s": "some text"},\n' % number)
        file.write(b'{"a": -1}], "x": ' + big + b"}}")
    assert len(big) > 18_000_000
    spec = spec_of("json", "a bigint; s string", records="data.rows")
    taken = 0
    tracemalloc.start()
    for rows in reader(spec, block=1 << 18).rows(source(path)):
        assert not rows.bad
        taken += rows.batch.num_rows
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken == 50_001
    assert peak < 12_000_000


def test_the_digest_comes_with_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"rows": [], "x": 1} \n')
    file = source(path)
    list(reader(spec_of("json", "a bigint", records="rows")).rows(file))
    assert file.sha256 is not None


def test_such_a_file_is_never_cut() -> None:
    assert not may_be_cut(spec_of("json", "a bigint", records="rows"), "a.json")


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.text(max_size=4)
OBJECTS = st.dictionaries(KEYS, VALUES)


@settings(deadline=None, max_examples=300)
@given(
    path=st.lists(KEYS, min_size=1, max_size=3),
    around=st.lists(st.tuples(OBJECTS, OBJECTS), min_size=3, max_size=3),
    numbers=st.lists(st.integers(-5, 5), max_size=4),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    block=st.integers(1, 40),
)  # fmt: skip
def test_whatever_stands_around_the_array_the_rows_are_those_of_a_parser(
    tmp_path_factory: pytest.TempPathFactory,
    path: list[str],
    around: list[tuple[dict[str, Any], dict[str, Any]]],
    numbers: list[int],
    indent: int | None,
    ascii_only: bool,
    block: int,
) -> None:
    document: Any = [{"a": number} for number in numbers]
    for key, (before, behind) in zip(reversed(path), around, strict=False):
        others = {name: one for name, one in before.items() if name != key}
        more = {name: one for name, one in behind.items() if name not in before and name != key}
        document = {**others, key: document, **more}
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    data = text.encode("utf-8", "surrogatepass")
    found = rows_at(tmp_path_factory.mktemp("j"), data, path, block=block)
    assert [row["a"] for row in found.rows] == numbers and not found.bad
    assert found.taken_lines == text.count("\n") + 1
    if indent == 0 and numbers:
        lines = text.split("\n")
        assert [lines[line - 1] for line in found.lines] == ["{"] * len(numbers)
