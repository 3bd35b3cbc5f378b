"""Copies for Spark: what it would drop stays, what is skipped ends where a line ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.formats import copies
from lading.formats.copies import Copying, has_blank_records, write_copy
from lading.formats.delimited import NOTHING
from lading.formats.heads import Dialect
from lading.model import FoundFile


def _copied(tmp_path: Path, data: bytes, how: Copying, encoding: str = "utf-8") -> bytes:
    (tmp_path / "file").write_bytes(data)
    found = FoundFile("file", str(tmp_path / "file"), len(data), 1, False)
    write_copy(found, str(tmp_path / "copy"), encoding, how)
    return (tmp_path / "copy").read_bytes()


@pytest.mark.parametrize(
    ("data", "rest"),
    [
        (b"title\na\n1\n", b"a\n1\n"),
        (b"title\ra\r1\r", b"a\r1\r"),
        (b"title\r\na\r\n", b"a\r\n"),
        (b"ti\x0c\x1c\x85tle\na\n", b"a\n"),
        (b"title", b""),
    ],
)
def test_a_skipped_line_ends_with_cr_lf_or_both_and_with_nothing_else(
    tmp_path: Path, data: bytes, rest: bytes
) -> None:
    assert _copied(tmp_path, data, Copying(skip=1), "latin-1") == rest
    assert _copied(tmp_path, data, Copying(skip=1, to_utf8=True), "latin-1") == rest


def test_wide_encodings_skip_whole_lines_and_keep_their_mark(tmp_path: Path) -> None:
    data = "title\na,b\n".encode("utf-16")
    assert _copied(tmp_path, data, Copying(skip=1), "utf-16").decode("utf-16") == "a,b\n"


def test_bytes_that_are_none_of_the_encodings_are_left_for_spark_to_find(tmp_path: Path) -> None:
    assert _copied(tmp_path, b"title\na\xff\n", Copying(skip=1)) == b"a\xff\n"


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("a\tb\n\t\n", f"a\tb\n{NOTHING}\t\n"),
        ("a\tb\n \t \n\n", 'a\tb\n" "\t \n\n'),
        (" \na\tb\n1\t2\r\t", f" \na\tb\n1\t2\r{NOTHING}\t"),
    ],
)
def test_a_line_of_blanks_stays_the_record_that_it_is(tmp_path: Path, text: str, copy: str) -> None:
    dialect = Dialect.of({}, "tsv")
    assert _copied(tmp_path, text.encode(), Copying(blank_records=dialect)) == copy.encode()


@given(st.lists(st.sampled_from(["", "x", " ", "\t", "x ", " x", "  \t", "\x00"]), max_size=8), st.data())
def test_blank_records_are_found_wherever_blocks_end(lines: list[str], data: st.DataObject) -> None:
    import tempfile

    ends = data.draw(st.sampled_from(["\n", "\r", "\r\n"]))
    text = ends.join(lines)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "_BLOCK", data.draw(st.integers(4, 9)))
        path = Path(folder) / "file"
        path.write_bytes(text.encode())
        slow = any(line and not line.strip(" \t\x00") for line in lines)
        assert has_blank_records(str(path), Dialect.of({}, "csv")) == slow
        assert not has_blank_records(str(path), Dialect.of({"multiline": True}, "csv"))
