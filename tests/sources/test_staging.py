from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.errors import SchemaDrift, SourceError
from lading.model import Column, FoundFile, StagedGroup
from lading.sources.fingerprint import source_id
from lading.sources.staging import partition_folder, stage

COLUMNS = (Column("id", "bigint"), Column("name", "string"))


def _files(root: Path, contents: dict[str, str]) -> list[FoundFile]:
    found = []
    for key, text in contents.items():
        path = root / "data" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        found.append(FoundFile(key, str(path), path.stat().st_size, 1, False))
    return found


def _stage(root: Path, files: list[FoundFile], **changes: Any) -> tuple[StagedGroup, ...]:
    options: dict[str, Any] = {
        "folder": root / "stage",
        "fmt": "csv",
        "read_options": {},
        "columns": COLUMNS,
        "name_values": {},
    }
    return stage(files, **{**options, **changes})


def _links(group: StagedGroup) -> dict[str, str]:
    return {
        os.path.relpath(os.path.join(folder, name), group.folder): os.readlink(os.path.join(folder, name))
        for folder, _, names in os.walk(group.folder)
        for name in names
    }


def test_files_are_grouped_by_header_and_named_by_source_id(tmp_path: Path) -> None:
    files = _files(
        tmp_path, {"_x.csv": "id,name\n1,a\n", "a[1].CSV": "name,id\na,1\n", ".y.txt": "id,name\n"}
    )
    first, second = _stage(tmp_path, files)
    assert first.header == ("id", "name")
    assert first.sources == (source_id("_x.csv"), source_id(".y.txt"))
    assert _links(first) == {
        f"s{source_id('_x.csv')}.csv": files[0].path,
        f"s{source_id('.y.txt')}.csv": files[2].path,
    }
    assert second.header == ("name", "id")
    assert Path(second.folder, f"s{source_id('a[1].CSV')}.csv").read_text() == "name,id\na,1\n"


def test_files_without_a_record_are_not_staged(tmp_path: Path) -> None:
    files = _files(tmp_path, {"empty.csv": "", "blank.csv": "\n\n"})
    assert _stage(tmp_path, files) == ()


def test_columns_from_the_name_are_folders(tmp_path: Path) -> None:
    files = _files(tmp_path, {"a.csv": "id,name\n", "b.csv": "id,name\n"})
    (group,) = _stage(
        tmp_path,
        files,
        columns=(*COLUMNS, Column("port", "string"), Column("day", "string")),
        name_values={"a.csv": {"port": "a b/c", "day": None}, "b.csv": {"port": "x", "day": "01"}},
    )
    assert set(_links(group)) == {
        f"port=a%20b%2Fc/day=__HIVE_DEFAULT_PARTITION__/s{source_id('a.csv')}.csv",
        f"port=x/day=01/s{source_id('b.csv')}.csv",
    }


def _as_spark_reads(folder: str) -> tuple[str, str | None]:
    """Spark's rule: `%XX` is one character, a raw `__HIVE_DEFAULT_PARTITION__` is null."""
    column, _, raw = folder.partition("=")
    read = [re.sub("%([0-9A-F]{2})", lambda hit: chr(int(hit[1], 16)), text) for text in (column, raw)]
    return read[0], None if raw == "__HIVE_DEFAULT_PARTITION__" else read[1]


@given(
    st.from_regex(r"[a-z_]\w*", fullmatch=True),
    st.none()
    | st.text(st.characters(codec="utf-8"), min_size=1)
    | st.sampled_from(["__HIVE_DEFAULT_PARTITION__", "a._COPYING_", "_", "%41", "a=b", ".", ".."]),
)
def test_spark_reads_back_the_value_that_was_staged(column: str, value: str | None) -> None:
    folder = partition_folder(column, value)
    assert _as_spark_reads(folder) == (column, value)
    assert "/" not in folder and "\0" not in folder
    assert not folder.endswith("._COPYING_") and not folder.startswith(".")


def test_a_value_too_long_for_a_folder_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    files = _files(tmp_path, {"a.csv": "id,name\n"})
    with pytest.raises(SourceError, match=r"a\.csv can't be staged"):
        _stage(
            tmp_path,
            files,
            columns=(*COLUMNS, Column("p", "string")),
            name_values={"a.csv": {"p": " " * 100}},
        )


def test_a_header_that_drifts_stops_the_staging(tmp_path: Path) -> None:
    with pytest.raises(SchemaDrift, match=r"b\.csv: column 'name' is missing"):
        _stage(tmp_path, _files(tmp_path, {"a.csv": "id,name\n", "b.csv": "id,nom\n"}))


def test_without_a_header_the_columns_are_the_schemas(tmp_path: Path) -> None:
    columns = (*COLUMNS, Column("port", "string"))
    files = _files(tmp_path, {"a.csv": "1,x\n"})
    options = {
        "read_options": {"header": False},
        "columns": columns,
        "name_values": {"a.csv": {"port": "p"}, "b.csv": {"port": "p"}},
    }
    (group,) = _stage(tmp_path, files, **options)
    assert group.header == ("id", "name")
    more = _files(tmp_path, {"b.csv": "\n1,x,y\n"})
    with pytest.raises(SchemaDrift, match=r"b\.csv: line 2 has 3 fields, the schema has 2 columns"):
        _stage(tmp_path / "other", more, **options)


def test_json_and_parquet_are_one_group_each(tmp_path: Path) -> None:
    files = _files(tmp_path, {"a.json": '{"id": 1}\n', "b.jsonl.gz": "x", "c.json": ""})
    (group,) = _stage(tmp_path, files, fmt="json")
    assert group.header is None
    assert set(_links(group)) == {f"s{source_id('a.json')}.json", f"s{source_id('b.jsonl.gz')}.json.gz"}
    path = tmp_path / "data/p.parquet"
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": ["x"]}), path)
    found = FoundFile("p.parquet", str(path), path.stat().st_size, 1, False)
    (group,) = _stage(tmp_path, [found], fmt="parquet", folder=tmp_path / "stage2")
    assert group.sources == (source_id("p.parquet"),)
    with pytest.raises(SchemaDrift, match="column 'id' is int, but the schema says string"):
        _stage(tmp_path, [found], fmt="parquet", columns=(Column("id", "string"), Column("name", "string")))
    with pytest.raises(SourceError, match="can't be read as Parquet"):
        _stage(tmp_path, _files(tmp_path, {"empty.parquet": ""}), fmt="parquet")


def test_lines_before_the_header_are_left_out_of_what_spark_reads(tmp_path: Path) -> None:
    files = _files(tmp_path, {"a.csv": "made,by,hand\r\n\nid,name\n1,a\n"})
    packed = tmp_path / "data" / "b.csv.gz"
    packed.write_bytes(gzip.compress(b"one\ntwo\nid,name\n2,b\n"))
    files.append(FoundFile("b.csv.gz", str(packed), 1, 1, False))
    (group,) = _stage(tmp_path, files, read_options={"skip": 2})
    assert group.header == ("id", "name")
    staged = {path.name: path.read_text() for path in Path(group.folder).iterdir()}
    assert staged == {
        f"s{source_id('a.csv')}.csv": "id,name\n1,a\n",
        f"s{source_id('b.csv.gz')}.csv": "id,name\n2,b\n",
    }


def test_fixed_width_files_reach_spark_as_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.dat"
    path.write_bytes("x\nÆrø\n".encode("latin-1"))
    options = {"fmt": "fixed_width", "read_options": {"encoding": "latin-1", "skip": 1}}
    (group,) = _stage(tmp_path, [FoundFile("a.dat", str(path), 6, 1, False)], **options)
    (link,) = Path(group.folder).iterdir()
    assert link.read_text(encoding="utf-8") == "Ærø\n"


def test_new_columns_are_left_out_and_named_under_ignore_new(tmp_path: Path) -> None:
    files = _files(tmp_path, {"a.csv": "id,x,name,y\n", "b.csv": "id,name\n"})
    one, two = _stage(tmp_path, files, drift="ignore_new")
    assert (one.header, one.ignored) == (("id", "x", "name", "y"), ("x", "y"))
    assert (two.header, two.ignored) == (("id", "name"), ())
    with pytest.raises(SchemaDrift, match="column 'name' is missing"):
        _stage(tmp_path / "2", _files(tmp_path, {"c.csv": "id,x\n"}), drift="ignore_new")


def test_missing_columns_pass_under_evolve(tmp_path: Path) -> None:
    (group,) = _stage(tmp_path, _files(tmp_path, {"a.csv": "name\n"}), drift="evolve")
    assert group.header == ("name",)
    with pytest.raises(SchemaDrift, match="column 'x' is new"):
        _stage(tmp_path / "2", _files(tmp_path, {"b.csv": "id,name,x\n"}), drift="evolve")


def test_parquet_files_of_an_older_type_are_read_by_it_under_evolve(tmp_path: Path) -> None:
    found = []
    for name, table in {
        "a.parquet": pa.table({"id": pa.array([1], pa.int64()), "name": ["x"]}),
        "b.parquet": pa.table({"id": ["x"], "name": ["y"], "more": [1]}),
    }.items():
        pq.write_table(table, tmp_path / name)
        found.append(FoundFile(name, str(tmp_path / name), 1, 1, False))
    columns = (Column("id", "string"), Column("name", "string"), Column("more", "bigint"))
    one, two = _stage(tmp_path, found, fmt="parquet", columns=columns, drift="evolve")
    assert (one.header, one.types) == (("id", "name"), ("bigint", "string"))
    assert (two.header, two.types) == (None, None)
