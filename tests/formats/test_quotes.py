"""A quote that is never closed is found, with its line; whatever is closed is left alone."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from lading.formats.heads import Dialect
from lading.formats.quotes import unclosed_quote


def line_of(folder: Path, data: bytes | str, **options: Any) -> int | None:
    path = folder / "x.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return unclosed_quote(str(path), Dialect.of(options, "csv"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n1,x\n", None),
        ('a,b\n1,"x"\n2,"say ""hi"""\n', None),
        ('a,b\n1,x"y\n2,"x"y\n3,6" pipe\n', None),
        ('a,b\n1,"x\n2,y\n', 2),
        ('a,b\n1,x\n2,"two\nlines"\n', 3),
        ('a,b\r1,x\r2,"y\r3,z\r', 3),
        ('a,b\n1,"""x\n', 2),
        ('"a,b\n1,x\n', 1),
        ('a,b\n1,""\n2,""x"\n', None),
    ],
)
def test_a_record_is_a_line(tmp_path: Path, text: str, line: int | None) -> None:
    assert line_of(tmp_path, text) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a,b\n1,"two\nlines"\n', None),
        ('a,b\n1,"two\n\nlines"\n2,"x\n3,y\n', 5),
        ('a,b\n1,"say ""hi""\n"\n2,6" pipe\n', None),
        ('a,b\n1,x\n2,y"\n"z",1\n', None),
    ],
)
def test_a_record_may_span_lines(tmp_path: Path, text: str, line: int | None) -> None:
    assert line_of(tmp_path, text, multiline=True) == line


def test_the_tables_own_quotes_escapes_comments_and_skipped_lines_count(tmp_path: Path) -> None:
    assert line_of(tmp_path, "a|b\n1|'x\n2|\"y\n", quote="'", delimiter="|") == 2
    assert line_of(tmp_path, 'a,b\n1,"x\\"y"\n', escape="\\") is None
    assert line_of(tmp_path, 'a,b\n1,"x\\"\n', escape="\\") == 2
    assert line_of(tmp_path, 'a,b\n1,"x\\"\n2,y\n', escape="\\", multiline=True) == 2
    assert line_of(tmp_path, '#say "\na,b\n1,x\n', comment="#") is None
    assert line_of(tmp_path, '#say "\na,b\n1,"x\n', comment="#", multiline=True) == 3
    assert line_of(tmp_path, 'Report "7\na,b\n1,x\n', skip=1) is None
    assert line_of(tmp_path, 'Report "7\na,b\n1,"x\n', skip=1, multiline=True) == 3


def test_other_encodings_and_compressed_files_are_read_as_what_they_are(tmp_path: Path) -> None:
    assert line_of(tmp_path, 'a,b\n1,"Ærø\n'.encode("latin-1"), encoding="latin-1") == 2
    wide = "a,b\n1,\u2200\u0122\n"  # bytes of these characters look like quotes
    assert line_of(tmp_path, wide.encode("utf-16"), encoding="utf-16") is None
    assert line_of(tmp_path, 'a,b\n1,"x\n'.encode("utf-16"), encoding="utf-16") == 2
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b'a\n1\n"2\n'))
    assert unclosed_quote(str(path), Dialect.of({}, "csv")) == 3


def test_a_field_of_any_length_is_taken_apart(tmp_path: Path) -> None:
    assert line_of(tmp_path, f'a\n"{"x" * 300_000}\n') == 2


@pytest.mark.parametrize("options", [{}, {"escape": "\\"}])
def test_the_line_is_right_far_into_a_large_file(tmp_path: Path, options: dict[str, str]) -> None:
    many = '1,"xyz"\n' * 300_000  # more than is looked at in one go
    long = f"2,{'y' * 3_000_000}\n"
    assert line_of(tmp_path, f'"a","b"\n{many}{long}{many}', **options) is None
    assert line_of(tmp_path, f'"a","b"\n{many}{long}{many}3,"z', **options) == 600_003
