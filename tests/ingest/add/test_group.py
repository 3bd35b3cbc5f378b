"""One table or several, what it is called, and the pattern that finds its files."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.config.patterns import re2_of
from lading.errors import SourceError
from lading.ingest.add.group import groups_of
from lading.ingest.add.look import look_at
from lading.ingest.add.paths import globs_of, name_pattern, table_name
from lading.model import FoundFile
from lading.sources.glob import compile_glob


def groups(folder: Path, **files: bytes | str) -> list[list[str]]:
    looks = []
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        looks.append(look_at(FoundFile(name, str(folder / name), len(data), 0, False)))
    return [[look.found.key for look in group.files] for group in groups_of([one for one in looks if one])]


PLAIN = "id,name\n1,x\n2,y\n"


@pytest.mark.parametrize(
    ("other", "together"),
    [
        (PLAIN, True),
        ("name,id\nx,1\n", True),
        ('id,name\n1,"a\nb"\n2,c\n', True),
        ("# c\n# d\n" + PLAIN, True),
        ("id,name\n1,é\n", True),
        ("id;name\n1;x\n", False),
        ("id,name,more\n1,x,5\n", False),
        ("1,x\n2,y\n", False),
        ("title\n\n" + PLAIN, False),
    ],
)
def test_files_that_one_set_of_options_reads_belong_together(tmp_path, other, together):
    assert (len(groups(tmp_path, a=PLAIN, b=other)) == 1) is together


def test_files_of_two_encodings_are_two_tables_and_ascii_goes_with_either(tmp_path):
    utf8, old = "id,name\n1,é\n".encode(), "id,name\n1,Köln\n".encode("cp1252")
    assert groups(tmp_path, a=PLAIN, b=utf8, c=old) == [["a", "b"], ["c"]]


def test_json_and_parquet_are_recognised_and_kept_apart(tmp_path):
    rows = [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    found = groups(
        tmp_path,
        a=lines,
        b=json.dumps(rows, indent=1),
        c=sink.getvalue().to_pybytes(),
        d=lines.replace("1", "3"),
    )
    assert found == [["a", "d"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ('{"id": 1}\n{"id": 2}\n', {}),
        ('[{"id": 1}]', {"multiline": True}),
        ('{\n "id": 1\n}\n', {"multiline": True}),
        ('{"page": 1, "rows": [{"id": 1}, {"id": 2}]}', {"records": "rows"}),
        ('{"n": 2,\n "data": {"x.y": [{"id": 1},\n{"id": 2}, {"id": 3}]}}\n', {"records": ["data", "x.y"]}),
        (json.dumps({"rows": [{"id": 1}] * 9_999, "n": 1}), {"records": "rows"}),
        ('{"rows": [{"id": 1}, {"id": 2}]}\n{"rows": [{"id": 3}, {"id": 4}]}\n', {}),
        ('{"id": 1, "text": "' + "x" * 99 + '", "lines": [{"n": 1}, {"n": 2}]}', {}),
        ('{"id": 1, "lines": [{"n": 1}]}', {}),
        ('{"a": [{"n": 1}, {"n": 2}], "b": [{"n": 1}, {"n": 2}]}', {}),
        ('{"a": [1, 2, 3]}', {}),
        ('{"a": [{"n": 1}, 2, 3]}', {}),
    ],
)
def test_json_comes_as_lines_an_array_or_a_document(tmp_path, content, options):
    (tmp_path / "a").write_text(content)
    look = look_at(FoundFile("a", str(tmp_path / "a"), len(content), 0, False))
    assert look is not None and (look.format, look.options) == ("json", options)


def test_documents_with_few_rows_go_with_those_whose_rows_lie_at_the_same_path(tmp_path):
    pages = [[{"id": 1}, {"id": 2}], [{"id": 3}], []]
    files = {name: json.dumps({"n": 1, "rows": rows}) for name, rows in zip("bac", pages, strict=True)}
    other = json.dumps({"n": 1, "lines": [{"id": 3}]})
    assert groups(tmp_path, **files, d=other) == [["b", "a", "c"], ["d"]]


KEYS = [
    (["data/ships.csv"], "ships", "data/ships.csv", None),
    (["data/sales 2024.csv.gz"], "sales", "data/sales 2024.csv.gz", None),
    (["a_20240101.csv", "a_20240102.csv"], "a", "a_*.csv", r"a_(?P<file_date>\d{8})\.csv"),
    (["s-2024-01-01.csv", "s-2024-02-01.csv"], "s", "s-*.csv", r"s-(?P<file_date>\d{4}-\d{2}-\d{2})\.csv"),
    (
        ["d/kiel_2023.csv", "d/bari_2024.csv"],
        "d",
        "d/*.csv",
        r"(?P<file_name>[a-z]+)_(?P<file_year>\d{4})\.csv",
    ),
    (["x/2023/ships.csv", "x/2024/ships.csv"], "ships", "x/*/ships.csv", None),
    (["a.csv", "b/c.csv"], "data", "**/*.csv", r"(?P<file_name>[a-z]+)\.csv"),
    (["d/part-01.csv", "d/part-02.csv"], "part", "d/part-*.csv", None),
    (["q[1].csv"], "q_1", "q[[]1].csv", None),
    (["2019.csv", "2020.csv"], "data", "*.csv", r"(?P<file_year>\d{4})\.csv"),
]


@pytest.mark.parametrize(("keys", "name", "glob", "pattern"), KEYS)
def test_names_and_patterns_come_from_the_files_names(keys, name, glob, pattern):
    assert table_name(keys, ()) == name
    assert globs_of(keys)[0] == glob
    assert all(compile_glob(one).match(key) for one in globs_of(keys) for key in keys)
    assert name_pattern(keys, ()) == pattern
    assert pattern is None or re2_of(pattern)


def test_a_pattern_never_matches_another_tables_files():
    assert not any(
        compile_glob(one).match("d/b.csv") for one in globs_of(["d/a1.csv", "d/a2.csv"], ["d/b.csv"])
    )
    with pytest.raises(SourceError, match="no pattern"):
        globs_of(["d/a.csv", "d/c.csv"], ["d/b.csv"])


def test_a_column_of_the_file_is_never_hidden_by_its_name():
    assert name_pattern(["a_2023.csv", "a_2024.csv"], {"file_year"}) is None


def test_names_that_are_taken_get_a_number():
    assert table_name(["ships.csv"], {"ships", "ships_2"}) == "ships_3"
    assert len(table_name(["x" * 200 + ".csv"], {"x" * 100})) <= 100
