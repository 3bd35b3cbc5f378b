"""Where the n-th record of a file begins, as Spark counts records."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lading.formats.records import records
from lading.model import Field, Layout


def found(tmp_path: Path, content: str | bytes, format: str = "csv", layout: Layout | None = None, **options):
    path = tmp_path / "file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(records(str(path), format, options, layout=layout))


def test_the_header_empty_lines_and_comments_do_not_count(tmp_path):
    text = "#note\n \na,b\n\n1,2\n#x\n3,4"
    assert found(tmp_path, text, comment="#") == [(5, "1,2"), (7, "3,4")]
    assert found(tmp_path, "1,2\n3,4\n", header=False) == [(1, "1,2"), (2, "3,4")]


def test_a_line_is_a_record_unless_it_is_empty(tmp_path):
    assert found(tmp_path, "a\tb\n\t\n\n \n", "tsv") == [(2, "\t"), (4, " ")]
    assert found(tmp_path, " \n\n1\n", header=False) == [(1, " "), (3, "1")]
    assert found(tmp_path, '{"a":1}\n \t\n', "json") == [(1, '{"a":1}')]


def test_lines_end_as_they_like(tmp_path):
    assert found(tmp_path, "a\r\n1\r\n2\r3\n") == [(2, "1"), (3, "2"), (4, "3")]


def test_skipped_lines_are_lines(tmp_path):
    assert found(tmp_path, "title\n\na\n1\n", skip=2) == [(4, "1")]


def test_a_record_may_span_lines(tmp_path):
    text = 'a,b\n1,"x\ny"\n\n2,z\n'
    assert found(tmp_path, text, multiline=True) == [(2, '1,"x\ny"'), (5, "2,z")]
    assert found(tmp_path, '#c\na,b\n#"\n1,2\n', multiline=True, comment="#") == [(4, "1,2")]


def test_other_encodings_and_marks(tmp_path):
    assert found(tmp_path, "é\nü\n".encode("latin-1"), encoding="latin-1") == [(2, "ü")]
    assert found(tmp_path, b"\xef\xbb\xbf1\n", header=False) == [(1, "1")]
    assert found(tmp_path, 'a\n"1\n2"\n'.encode("utf-16"), encoding="utf-16") == [(2, '"1\n2"')]


def test_json_lines_count_and_elements_of_arrays_stand_in_lines_too(tmp_path):
    assert found(tmp_path, '{"a":1}\n\n{"a":2}\n', "json") == [(1, '{"a":1}'), (3, '{"a":2}')]
    assert found(tmp_path, '[{"a":1}]', "json", multiline=True) == [(1, '{"a":1}')]
    array = '\ufeff\n[ {"a":\n1},\n\n{"b": "]"} ]\n'
    assert found(tmp_path, array, "json", multiline=True) == [(2, '{"a":\n1}'), (5, '{"b": "]"}')]
    assert found(tmp_path, '\n[{"a":1},\n{', "json", multiline=True) == [(2, '[{"a":1},\n{')]


def test_fixed_width_lines_that_are_records(tmp_path):
    layout = Layout((Field("a", 0, 3, "string"),), filter=(0, 1, "D"))
    assert found(tmp_path, "H..\nD12\n\nD34\n", "fixed_width", layout) == [(2, "D12"), (3, ""), (4, "D34")]


def test_compressed_text_is_text(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n"))
    assert list(records(str(path), "csv", {})) == [(2, "1")]


@pytest.mark.parametrize("lines", [0, 1])
def test_a_file_without_records_has_none(tmp_path, lines):
    assert found(tmp_path, "a\n" * lines) == []
