from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from lading.errors import SchemaDrift, SourceError
from lading.formats.csv.rows import CsvReader
from lading.formats.infer import columns as infer_module
from lading.formats.infer.columns import infer
from lading.model import FoundFile


def _files(root: Path, *contents: bytes | str, suffix: str = "csv") -> list[FoundFile]:
    found = []
    for number, data in enumerate(contents):
        path = root / f"{number}.{suffix}"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        found.append(FoundFile(path.name, str(path), path.stat().st_size, 1, False))
    return found


def _types(files: list[FoundFile], format: str = "csv", **options: Any) -> dict[str, str]:
    return {column.name: column.type for column in infer(files, fmt=format, read_options=options).columns}


def _column(root: Path, *values: str, **options: Any) -> str:
    files = _files(root, "x,y\n" + "".join(f"{value},1\n" for value in values))
    return _types(files, **options)["x"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-20", "0", ""], "bigint"),
        (["9223372036854775807", "-9223372036854775808"], "bigint"),
        (["9223372036854775808"], "string"),
        (["00123"], "string"),
        (["0", "0.5", "-1.25e-3", "7"], "double"),
        (["007.5"], "string"),
        (["1e999"], "string"),
        (["1234567890123456", "0.5"], "string"),
        (["+4912345"], "string"),
        (["NaN"], "string"),
        (["1_000"], "string"),
        (["١٢"], "string"),
        ([" 1"], "string"),
        (["true", "False", "TRUE"], "boolean"),
        (["true", "1"], "string"),
        (["yes"], "string"),
        (["2024-02-29"], "date"),
        (["2023-02-29"], "string"),
        (["2024-01-01", "2024-01-01 10:00:00"], "timestamp_ntz"),
        (["2024-01-01T10:00:00.123456"], "timestamp_ntz"),
        (["2024-01-01T10:00:00.1234567"], "string"),
        (["2024-01-01T10:00:61"], "string"),
        (["2024-01-01T10:00:00Z", "2024-01-01 10:00:00.5+05:30"], "timestamp"),
        (["2024-01-01T10:00:00Z", "2024-01-01T10:00:00"], "string"),
        (["2024-01-01", "5"], "string"),
        (["", ""], "string"),
    ],
)
def test_a_type_is_given_only_where_nothing_is_lost(tmp_path: Path, values: list[str], expected: str) -> None:
    assert _column(tmp_path, *values) == expected


def test_one_value_at_the_far_end_of_the_last_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CsvReader.__init__.__kwdefaults__, "block", 1 << 10)
    numbers = "id,n\n" + "".join(f"{n},{n}\n" for n in range(2_000))
    files = _files(tmp_path, numbers, "n,id\n0.5,1\n", numbers + "00123,1\n")
    assert _types(files) == {"id": "string", "n": "double"}


def test_beyond_the_budget_a_head_of_each_file_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "id\n" + "1\n" * 4_000
    files = _files(tmp_path, long + "late\n", long + "0.5\n")
    assert _types(files) == {"id": "string"}
    monkeypatch.setattr(infer_module, "BUDGET", 8_192)
    assert _types(files) == {"id": "bigint"}


def test_options_are_honoured(tmp_path: Path) -> None:
    assert _column(tmp_path, "NA", "5", null="NA") == "bigint"
    assert _column(tmp_path, "NA", "5") == "string"
    assert _column(tmp_path, " 5 ", trim=True) == "bigint"
    assert _column(tmp_path, "#5;6;7", "1", comment="#") == "bigint"
    assert _column(tmp_path, "#z", "1", comment="#") == "bigint"
    assert _types(_files(tmp_path, "# hi, there\n\na;b\n1;x\n"), delimiter=";", comment="#") == {
        "a": "bigint",
        "b": "string",
    }
    assert _types(_files(tmp_path, "größe,b\nß,1\n".encode("latin-1")), encoding="latin-1") == {
        "größe": "string",
        "b": "bigint",
    }
    assert _types(_files(tmp_path, 'a,b\n"x\ny",1\n'), multiline=True) == {"a": "string", "b": "bigint"}


def test_formats_of_the_tables_own_replace_the_usual_ones(tmp_path: Path) -> None:
    assert _column(tmp_path, "1/31/2024", date_format="M/d/yyyy") == "date"
    assert _column(tmp_path, "2/30/2024", date_format="M/d/yyyy") == "string"
    assert _column(tmp_path, "2024-01-31", date_format="M/d/yyyy") == "string"
    assert _column(tmp_path, "31 Jan 2024", date_format="dd MMM yyyy") == "date"
    stamp = "31.01.2024 10:05"
    assert _column(tmp_path, stamp, timestamp_format="dd.MM.yyyy HH:mm") == "timestamp_ntz"
    assert _column(tmp_path, stamp, "2024-01-31", timestamp_format="dd.MM.yyyy HH:mm") == "string"
    zoned = "2024-01-31T10:05:00.123Z"
    assert _column(tmp_path, zoned, timestamp_format="yyyy-MM-dd'T'HH:mm:ss.SSSXXX") == "timestamp"


def test_awkward_files_are_read(tmp_path: Path) -> None:
    files = _files(tmp_path, b"\xef\xbb\xbfa,b\r\n1,x\r\n\r\n2\r\n", "a,b\n", "", "\n", b"a,b\n3,\xff\n")
    assert _types(files) == {"a": "bigint", "b": "string"}
    packed = tmp_path / "z.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n0.5,1\n"))
    files.append(FoundFile("z.csv.gz", str(packed), 1, 1, "", False))
    assert _types(files) == {"a": "double", "b": "string"}


def test_a_record_longer_than_a_block_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CsvReader.__init__.__kwdefaults__, "block", 64)
    assert _types(_files(tmp_path, f"a,b\n1,{'x' * 5_000}\n2,y\n")) == {"a": "bigint", "b": "string"}


def test_columns_from_names_come_last_as_strings(tmp_path: Path) -> None:
    files = _files(tmp_path, "a\n1\n")
    columns = infer(files, fmt="csv", read_options={}, name_columns=("port", "day")).columns
    assert [(column.name, column.type) for column in columns] == [
        ("a", "bigint"),
        ("port", "string"),
        ("day", "string"),
    ]
    with pytest.raises(SourceError, match=r"'a'.*columns_from_name"):
        infer(files, fmt="csv", read_options={}, name_columns=("a",))


def test_what_can_not_be_inferred_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no columns can be inferred"):
        _types(_files(tmp_path, "", "\n"))
    with pytest.raises(SourceError, match=r"'_source'.*reserved for lading"):
        _types(_files(tmp_path, "_source\n1\n"))


def _json(root: Path, *records: Any) -> dict[str, str]:
    return _types(
        _files(root, "".join(json.dumps(record) + "\n" for record in records), suffix="json"), "json"
    )


def test_json_is_typed_by_its_own_values(tmp_path: Path) -> None:
    assert _json(
        tmp_path,
        {"a": 1, "b": 1, "c": "00123", "d": "5", "e": True, "f": None, "g": "2024-01-01", "h": 10**30},
        {
            "a": 2,
            "b": 0.5,
            "c": "1",
            "d": "6",
            "e": False,
            "g": "2024-01-01T10:00:00",
            "i": "2024-01-01T10:00:00Z",
        },
    ) == {
        "a": "bigint",
        "b": "double",
        "c": "string",
        "d": "string",
        "e": "boolean",
        "f": "string",
        "g": "timestamp_ntz",
        "h": "string",
        "i": "timestamp",
    }


def test_nested_json_has_structs_and_arrays(tmp_path: Path) -> None:
    assert _json(
        tmp_path,
        {"a": [1, None], "s": {"x": 1, "y z": []}, "m": 1, "e": {}, "t": [{"k": "2024-01-01"}]},
        {"a": [0.5], "s": {"x": None, "w": "t"}, "m": [1], "t": [{"k": ""}]},
    ) == {
        "a": "array<double>",
        "s": "struct<x:bigint,`y z`:array<string>,w:string>",
        "m": "string",
        "e": "string",
        "t": "array<struct<k:string>>",
    }


def test_json_over_files_with_blank_lines_and_a_bom(tmp_path: Path) -> None:
    files = _files(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}', "", '{"a": "x"}', suffix="json")
    assert _types(files, "json") == {"a": "string"}
    whole = _files(tmp_path, '[\n{"a": 1},\n{"a": 0.5}]', '{\n"b": 1}', "", suffix="json")
    assert _types(whole, "json", multiline=True) == {"a": "double", "b": "bigint"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": \n', "line 1"),
        ("\n[1]\n", "line 2.*it is an array"),
        ('{"a": "\xff"}', "line 1"),
    ],
)
def test_a_file_without_any_json_object_is_named_with_the_line(tmp_path: Path, text: str, says: str) -> None:
    files = _files(tmp_path, text.encode("latin-1"), suffix="json")
    with pytest.raises(SourceError, match=rf"0\.json, {says}") as caught:
        _types(files, "json")
    assert caught.value.file == "0.json"


def test_lines_that_are_no_objects_say_nothing_of_the_types(tmp_path: Path) -> None:
    files = _files(tmp_path, '{"a": 1}\n{"a": \n[1]\n{"a": 2}\n', suffix="json")
    assert _types(files, "json") == {"a": "bigint"}
    files = _files(tmp_path, '[{"a": 1}, 5]', "nonsense", suffix="json")
    assert _types(files, "json", multiline=True) == {"a": "bigint"}
    broken = _files(tmp_path, '[{"a": 1}, {"b": tru},\n{"c": 2}, {"d": 1', suffix="json")
    assert _types(broken, "json", multiline=True) == {"a": "bigint", "c": "bigint"}
    with pytest.raises(SourceError, match=r"0\.json, line 2, .*the document never ends"):
        _types(_files(tmp_path, '[\n{"d": 1', suffix="json"), "json", multiline=True)


def test_lines_of_json_end_as_they_like(tmp_path: Path) -> None:
    files = _files(tmp_path, '{"a": 1}\r{"b": 2}\r\n{"c": 3}', suffix="json")
    assert list(_types(files, "json")) == ["a", "b", "c"]


def _because(files: list[FoundFile], format: str = "csv", **options: Any) -> dict[str, str]:
    return infer(files, fmt=format, read_options=options).because


def test_a_type_says_which_value_of_which_file_decided_it(tmp_path: Path) -> None:
    first = "zip,n,d,e\n" + "".join(f"{i + 10},{i},2024-01-01,\n" for i in range(20_000))
    second = "zip,n,d,e\n" + "1,1,2024-01-02,\n" * 410 + "1,2\n" + "00123,0.5,2024-01-03,\n1,1,,\n"
    files = _files(tmp_path, first, second)
    assert _because(files) == {
        "zip": "string because of line 413 of 1.csv: '00123'",
        "n": "double because of line 413 of 1.csv: '0.5'",
        "d": "date in all 20,411 values",
        "e": "string: no value in any file",
    }
    seen = infer(files, fmt="csv", read_options={})
    assert (seen.files, seen.rows, seen.whole) == (2, 20_412, True)


def test_trimmed_and_quoted_values_are_found_in_their_line(tmp_path: Path) -> None:
    files = _files(tmp_path, "a,b\n 1 , \n,\n  , x \n")
    assert _because(files, trim=True) == {
        "a": "bigint in its only value",
        "b": "string because of line 4 of 0.csv: 'x'",
    }


def test_json_says_which_value_decided_too(tmp_path: Path) -> None:
    lines = ['{"a": 1, "t": "2024-01-01", "o": {"p": 1}}'] * 5000 + ['{"a": 0.5, "t": "soon", "o": null}']
    files = _files(tmp_path, "\n".join(lines), suffix="json")
    assert _because(files, "json") == {
        "a": "double because of line 5,001 of 0.json: '0.5'",
        "t": "string because of line 5,001 of 0.json: 'soon'",
        "o": "struct<p:bigint>: as the values are",
    }


def test_a_full_scan_looks_beyond_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infer_module, "BUDGET", 8_192)
    files = _files(tmp_path, "a\n" + "1\n" * 20_000 + "x\n")
    head = infer(files, fmt="csv", read_options={})
    assert (head.columns[0].type, head.whole) == ("bigint", False)
    whole = infer(files, fmt="csv", read_options={}, full_scan=True)
    assert (whole.columns[0].type, whole.whole) == ("string", True)


def test_files_without_a_header_take_their_names_from_the_schema(tmp_path: Path) -> None:
    files = _files(tmp_path, "1,x\n2,y\n")
    found = infer(files, fmt="csv", read_options={"header": False}, names=("a", "b"))
    assert [(c.name, c.type) for c in found.columns] == [("a", "bigint"), ("b", "string")]
    with pytest.raises(SourceError, match="line 1 has 2 fields, the schema has 1 column"):
        infer(files, fmt="csv", read_options={"header": False}, names=("a",))


def test_columns_that_nobody_named_are_numbered(tmp_path: Path) -> None:
    files = _files(tmp_path, "skipped\n# 1,2,3,4\n\n1,x,\n2,y,0.5\n", "skipped\n")
    assert _types(files, header=False, skip=1, comment="#") == {
        "column_1": "bigint",
        "column_2": "string",
        "column_3": "double",
    }
    with pytest.raises(SourceError, match=r"0\.csv contains no records"):
        _types(_files(tmp_path, "\n"), header=False)


def test_a_row_with_bytes_of_another_encoding_says_nothing_of_the_types(tmp_path: Path) -> None:
    files = _files(tmp_path, b"a,b\n1,x\nx,\x81\n", "a,b\n1,y\n")
    assert _types(files, encoding="cp1252") == {"a": "bigint", "b": "string"}
    assert infer(files, fmt="csv", read_options={"encoding": "cp1252"}).rows == 2


def _parquet(root: Path, name: str, **columns: pa.Array) -> FoundFile:
    pq.write_table(pa.table(columns), root / name)
    return FoundFile(name, str(root / name), 1, 1, "", False)


def test_parquet_is_typed_by_its_footers_and_widened(tmp_path: Path) -> None:
    files = [
        _parquet(tmp_path, "a.parquet", x=pa.array([1], pa.int64()), y=pa.array([1.0], pa.float32())),
        _parquet(tmp_path, "b.parquet", x=pa.array([1], pa.int32()), y=pa.array([1.0], pa.float64())),
    ]
    assert _types(files, "parquet") == {"x": "bigint", "y": "double"}
    files.append(_parquet(tmp_path, "c.parquet", x=pa.array(["1"])))
    with pytest.raises(SchemaDrift, match=r"'x' is bigint in a\.parquet and string in c\.parquet"):
        _types(files, "parquet")


def test_a_column_without_a_name_is_refused_with_a_sentence(tmp_path: Path) -> None:
    files = _files(tmp_path, '{"": 1, "a": 2}\n', suffix="json")
    with pytest.raises(SourceError, match=r"[a-z0-9]\.\w+(:1)?: a column has no real name") as caught:
        infer(files, fmt="json", read_options={})
    assert caught.value.hint


def test_orc_and_avro_are_typed_by_their_heads(tmp_path: Path) -> None:
    files = []
    for name, kind in (("a.orc", pa.int32()), ("b.orc", pa.int64())):
        orc.write_table(
            pa.table({"x": pa.array([1], kind), "t": pa.array([0], pa.timestamp("us"))}), tmp_path / name
        )
        files.append(FoundFile(name, str(tmp_path / name), 1, 1, False))
    inferred = infer(files, fmt="orc", read_options={})
    assert {c.name: c.type for c in inferred.columns} == {"x": "bigint", "t": "timestamp_ntz"}
    assert inferred.because["x"] == "bigint: the footer of b.orc" and inferred.rows == 2
    field = {"name": "x", "type": ["null", {"type": "int", "logicalType": "date"}]}
    with open(tmp_path / "a.avro", "wb") as out:
        fastavro.writer(out, {"type": "record", "name": "r", "fields": [field]}, [{"x": None}])
    inferred = infer(
        [FoundFile("a.avro", str(tmp_path / "a.avro"), 1, 1, False)], fmt="avro", read_options={}
    )
    assert [(c.name, c.type) for c in inferred.columns] == [("x", "date")]
    assert inferred.because["x"] == "date: the header of a.avro" and inferred.rows is None


def test_files_that_are_not_what_they_should_be_are_passed_over_where_that_is_asked(tmp_path: Path) -> None:
    orc.write_table(pa.table({"x": [1]}), tmp_path / "b.orc")
    (tmp_path / "a.orc").write_bytes(b"nonsense")
    files = [FoundFile(name, str(tmp_path / name), 1, 1, False) for name in ("a.orc", "b.orc")]
    with pytest.raises(SourceError, match=r"a\.orc can't be read as ORC"):
        infer(files, fmt="orc", read_options={})
    assert infer(files, fmt="orc", read_options={}, tolerant=True).files == 1
