from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from lading.errors import SourceError
from lading.formats.locate import locate
from lading.model import BadRow, FoundFile


def _locate(
    tmp_path: Path, data: bytes, text: str, format: str = "csv", name: str = "a.csv", **options: Any
) -> int | None:
    path = tmp_path / name
    path.write_bytes(data)
    found = FoundFile(name, str(path), len(data), 1, "", False)
    return locate(found, BadRow(1, text, None, "bad"), fmt=format, read_options=options)


@pytest.mark.parametrize(
    ("data", "text", "line"),
    [
        (b"id,n\n1,x\nfoo,y\nfoo,y\n", "foo,y", 3),
        (b"id,n\r\n1,x\r\nfoo,y", "foo,y", 3),
        (b"id,n\r1,x\rfoo,y\r", "foo,y", 3),
        (b"id,n\n\n\nfoo,y\n", "foo,y", 4),
        (b"id,n\nfoo,yy\nfoo,y\n", "foo,y", 3),
        (b'id,n\n1,x\n"foo","y"\n', "foo,y", 3),
        (b'id,n\n"fo","oy"\n"foo","y"\n', "foo,y", 3),
        (b'id,n\n1,""\n1,\n', '1,""', 2),
        ("id,n\nñ,y\n".encode(), "ñ,y", 2),
        (b"id,n\n1,x\n", "nowhere", None),
    ],
)
def test_a_bad_row_is_found_by_its_text(tmp_path: Path, data: bytes, text: str, line: int | None) -> None:
    assert _locate(tmp_path, data, text) == line


def test_lines_before_the_header_count_and_are_no_records(tmp_path: Path) -> None:
    data = b"foo,y\n# made by hand\nid,n\nfoo,y\n"
    assert _locate(tmp_path, data, "foo,y", skip=2) == 4
    assert _locate(tmp_path, b"\xef\xbb\xbffoo,y\n", "foo,y", header=False) == 1


def test_spaces_that_were_trimmed_are_no_difference(tmp_path: Path) -> None:
    assert _locate(tmp_path, b"id,n\n foo , y\n", "foo,y", trim=True) == 2


def test_an_element_of_an_array_is_found_where_it_starts(tmp_path: Path) -> None:
    data = b'[\n {"a": 1},\n {"a":\n  "x"}\n]\n'
    assert _locate(tmp_path, data, '{"a":\n  "x"}', "json", "a.json", multiline=True) == 3


def test_other_encodings_and_compression_are_read_through(tmp_path: Path) -> None:
    assert _locate(tmp_path, "a\nñ\n".encode("latin-1"), "ñ", encoding="latin-1") == 2
    assert _locate(tmp_path, gzip.compress(b"a\nb\n"), "b", name="a.csv.gz") == 2


def test_a_record_over_several_lines_is_found_where_it_starts(tmp_path: Path) -> None:
    data = b'id,n\r\n1,"a\r\nb"\r\nfoo,"c\r\nd"\r\n' + b'2,"' + b"z" * 200_000 + b'"\r\nbar,e\r\n'
    assert _locate(tmp_path, data, 'foo,"c\nd"', multiline=True) == 4
    assert _locate(tmp_path, data, "bar,e", multiline=True) == 7
    assert _locate(tmp_path, data, "d", multiline=True) is None


def test_json_lines_are_compared_whole(tmp_path: Path) -> None:
    assert _locate(tmp_path, b'{"a": 1}\n{"a": "x"}\n', '{"a": "x"}', "json", "a.json") == 2


def test_parquet_has_no_lines(tmp_path: Path) -> None:
    assert _locate(tmp_path, b"", "x", "parquet") is None


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    found = FoundFile("a.csv", str(tmp_path / "a.csv"), 1, 1, "", False)
    with pytest.raises(SourceError, match=r"a\.csv can't be read"):
        locate(found, BadRow(1, "x", None, "bad"), fmt="csv", read_options={})
