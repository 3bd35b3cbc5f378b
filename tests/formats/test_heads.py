from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.errors import SchemaDrift, SourceError
from lading.formats.csv.head import top_of
from lading.formats.drift import check_columns
from lading.formats.reader import ReadSpec
from lading.formats.registry import file_types
from lading.formats.source_file import SourceFile
from lading.model import Column, FoundFile

FOUND = FoundFile("in/a.csv", "/data/in/a.csv", 1, 1, False)
SCHEMA = (Column("id", "bigint"), Column("name", "string"), Column("port", "string"))
SPEC = ReadSpec("csv", {}, SCHEMA, name_columns=("port",))


def _header(tmp_path: Path, data: bytes, format: str = "csv", **options: Any) -> tuple[str, ...] | None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    return _header_of(path, options, format)


def _header_of(path: Path, options: dict[str, Any], format: str = "csv") -> tuple[str, ...] | None:
    return top_of(SourceFile(path.name, str(path), path.stat().st_size), ReadSpec(format, options, ())).names


def parquet_columns(path: str) -> dict[str, str]:
    return file_types("parquet", SourceFile("a.parquet", path, Path(path).stat().st_size)).columns


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (b"id,name\n1,x\n", {}, ("id", "name")),
        (b"\xef\xbb\xbfid,name\r\n1,x\r\n", {}, ("id", "name")),
        (b'\xef\xbb\xbf"id",name', {}, ("id", "name")),
        (b'"a,""b""",c\n', {}, ('a,"b"', "c")),
        (b"id;name\n", {"delimiter": ";"}, ("id", "name")),
        (b"'a;b';c\n", {"delimiter": ";", "quote": "'"}, ("a;b", "c")),
        (b'"a\\"b",c\n', {"escape": "\\"}, ('a"b', "c")),
        (b'"a""b",c\n', {"escape": '"'}, ('a"b', "c")),
        (b"\n  \n# note\nid,name\n", {"comment": "#"}, ("id", "name")),
        (b"\r\n\r\nid,name\r\n", {}, ("id", "name")),
        (b"id,name\r1,x\r", {}, ("id", "name")),
        (b'"two\nlines",b\n', {"multiline": True}, ("two\nlines", "b")),
        (b" id , name\n", {"trim": True}, ("id", "name")),
        (b" id , name\n", {}, (" id ", " name")),
        ("größe,b\n".encode("latin-1"), {"encoding": "latin-1"}, ("größe", "b")),
        ("a,b\n".encode("utf-16"), {"encoding": "utf-16"}, ("a", "b")),
        (b"", {}, None),
        (b"\n\n", {}, None),
        (b"# only\n", {"comment": "#"}, None),
        (b"\xef\xbb\xbf", {}, None),
    ],
)
def test_the_header_is_read_as_the_options_say(
    tmp_path: Path, data: bytes, options: dict[str, Any], expected: tuple[str, ...] | None
) -> None:
    assert _header(tmp_path, data, **options) == expected


def test_tsv_is_split_at_tabs(tmp_path: Path) -> None:
    assert _header(tmp_path, b"a,b\tc\n", "tsv") == ("a,b", "c")


def test_a_compressed_header_is_read_through(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.GZ"
    path.write_bytes(gzip.compress(b"id,name\n"))
    assert _header_of(path, {}) == ("id", "name")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a,b,a\n", "two columns named 'a'"),
        (b"a,,b\n", "column 2 .*no name"),
        (b"a, ,b\n", "column 2 .*no name"),
        (b"gr\xf6\xdfe,b\n", "not valid UTF-8"),
    ],
)
def test_a_header_that_can_not_tell_columns_apart_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(SourceError, match=f"a.csv.*{says}") as caught:
        _header(tmp_path, data)
    assert caught.value.hint


def test_a_quote_left_open_in_a_header_never_swallows_the_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="a quote is opened and never closed"):
        _header(tmp_path, b'id,"name\n1,x\n2,y\n')


def test_parquet_columns_have_sparks_types(tmp_path: Path) -> None:
    kinds = {
        "a": (pa.int32(), "int"),
        "b": (pa.uint32(), "bigint"),
        "c": (pa.timestamp("us"), "timestamp_ntz"),
        "d": (pa.timestamp("ms", "UTC"), "timestamp"),
        "e": (pa.decimal128(12, 2), "decimal(12,2)"),
        "f": (pa.list_(pa.int64()), "array<bigint>"),
        "g": (pa.struct([("x y", pa.string())]), "struct<`x y`:string>"),
        "h": (pa.dictionary(pa.int32(), pa.string()), "string"),
        "i": (pa.map_(pa.string(), pa.float32()), "map<string,float>"),
        "j": (pa.date32(), "date"),
        "k": (pa.binary(), "binary"),
        "l": (pa.null(), "void"),
        "m": (pa.date64(), "date"),
        "n": (pa.uint64(), "decimal(20,0)"),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    pq.write_table(schema.empty_table(), tmp_path / "a.parquet")
    assert parquet_columns(str(tmp_path / "a.parquet")) == {name: kind for name, (_, kind) in kinds.items()}


def test_a_parquet_file_that_spark_can_not_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    clash = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "X"])
    pq.write_table(pa.table({"t": clash}), path)
    with pytest.raises(SourceError, match=r"a\.parquet: column 't' can't be read: .*'x' and 'X'"):
        parquet_columns(str(path))
    path.write_bytes(b"id,name\n")
    with pytest.raises(SourceError, match=r"a\.parquet can't be read as Parquet"):
        parquet_columns(str(path))


def test_columns_may_come_in_any_order() -> None:
    check_columns(FOUND.key, ("name", "id"), SPEC)
    check_columns(FOUND.key, {"name": "string", "id": "int"}, SPEC)


@pytest.mark.parametrize(
    ("have", "says"),
    [
        (("id",), "column 'name' is missing"),
        (("id", "name", "age"), "column 'age' is new"),
        (("id", "Name"), "column 'name' is missing .*'Name', which differs only in case"),
        (("id", " name"), "column 'name' is missing .*' name', which differs only in spaces"),
        (("id", "name", "_source"), "'_source' is reserved for lading"),
        (("id", "name", "port"), "'port' is both in the file and in columns_from_name"),
        ({"id": "string", "name": "string"}, "column 'id' is string, but the schema says bigint"),
        ({"id": "decimal(20,0)", "name": "string"}, "column 'id' is decimal"),
    ],
)
def test_drift_names_the_file_the_column_and_the_remedy(have: Any, says: str) -> None:
    with pytest.raises(SchemaDrift, match=rf"in/a\.csv: .*{says}") as caught:
        check_columns(FOUND.key, have, SPEC)
    assert caught.value.hint
    assert caught.value.file == "in/a.csv"
