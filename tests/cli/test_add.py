"""lading add: tables from files that nobody has described yet."""

import gzip
import json
from pathlib import Path

import pytest

from lading.cli.main import invoke
from lading.config.file import load
from lading.sources.schema import load_schema

SHIPS = "Bericht;;;\r\n;;;\r\nNr;Schiff;Größe;Tag\r\n1;Aurora;812,5;01.03.2024\r\n2;Fram;-;17.03.2024\r\n"
MINE = """\
# mine
warehouse: w  # here

tables:
  old:   # kept
    path: old.csv
    format: csv

clean: {grace: 1h}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path


def put(project: Path, key: str, text: str, encoding: str = "utf-8") -> str:
    path = project / key
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if key.endswith(".gz") else data)
    return str(path)


def add(project: Path, *arguments: str) -> int:
    return invoke(["-C", str(project), "add", *arguments])


def added(project: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    capsys.readouterr()
    code = add(project, *arguments, "--json")
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    assert code == 0, found
    return found


def test_a_table_is_written_with_its_evidence_and_its_rows_are_shown(project, capsys):
    """All that `lading run` needs; that one reads the same rows is for the tests of runs."""
    file = put(project, "data/ships.csv", SHIPS, "cp1252")
    assert add(project, file) == 0
    out = capsys.readouterr().out
    assert "812.5" in out and "2024-03-17" in out and "lading run ships" in out
    text = (project / "lading.yaml").read_text()
    assert "# not UTF-8; reads 'Größe'" in text
    table = load(project).table("ships")
    assert table.path == "data/ships.csv"
    assert table.read_options == {
        "encoding": "windows-1252", "skip": 2, "header": True, "delimiter": ";", "null": "-", "decimal": ",",
        "date_format": "dd.MM.yyyy",
    }  # fmt: skip


def test_the_rest_of_the_config_stays_as_it_is(project):
    (project / "lading.yaml").write_text(MINE)
    put(project, "data/a.csv", "id,n\n1,2\n")
    assert add(project, str(project / "data/a.csv")) == 0
    text = (project / "lading.yaml").read_text()
    before, after = MINE.split("\nclean:")
    assert text.startswith(before) and text.endswith(f"\nclean:{after}")
    assert list(load(project).tables) == ["old", "a"]


def test_a_dry_run_writes_nothing(project, capsys):
    put(project, "data/a.csv", "1,2\n3,4\n")
    assert add(project, str(project / "data/a.csv"), "--dry-run") == 0
    assert "nothing was written" in capsys.readouterr().out
    assert not (project / "lading.yaml").exists() and not (project / "schema").exists()


def test_json_says_what_was_found(project, capsys):
    file = put(project, "data/a.csv", "id,,id\n1,x,2024-01-31\n2,y,2024-02-01\n")
    found = added(project, capsys, file)
    [table] = found["tables"]
    assert table["read_options"] == {
        "header": True, "delimiter": ",", "unnamed": "name", "duplicates": "rename"
    }  # fmt: skip
    assert [(one["name"], one["type"]) for one in table["columns"]] == [
        ("id", "bigint"), ("column_2", "string"), ("id_2", "date")
    ]  # fmt: skip
    assert table["rows"][0] == {"id": 1, "column_2": "x", "id_2": "2024-01-31"}
    assert found["written"] is True and load(project).table("a").format == "csv"


def test_rows_that_lie_deeper_in_a_document_are_found(project, capsys):
    rows = ",\n".join(f'{{"id": {number}, "name": "x"}}' for number in range(50))
    file = put(project, "data/a.json.gz", f'{{"meta": {{"page": 1}}, "data": {{"rows": [{rows}]}}}}')
    found = added(project, capsys, file)
    [table] = found["tables"]
    assert table["read_options"] == {"records": "data.rows"}
    assert [(one["name"], one["type"]) for one in table["columns"]] == [("id", "bigint"), ("name", "string")]
    assert table["rows"][0] == {"id": 0, "name": "x"}
    assert "# the objects at data.rows are" in (project / "lading.yaml").read_text()
    assert load(project).table("a").read_options == {"records": "data.rows"}


def test_files_without_a_header_get_names_in_the_schema_file(project, capsys):
    file = put(project, "data/a.csv", "1,Aurora\n2,Fram\n")
    added(project, capsys, file)
    schema = load_schema(project / "schema" / "a.yaml")
    assert [(one.name, one.type) for one in schema.columns] == [
        ("column_1", "bigint"),
        ("column_2", "string"),
    ]
    assert all(one.inferred for one in schema.columns)


def test_files_of_several_shapes_become_several_tables(project, capsys):
    keys = ("kiel_20240301.csv", "bari_20240302.csv", "kiel_20240303.csv")
    files = [put(project, f"data/{key}", "id,n\n1,2\n") for key in keys]
    files.append(put(project, "data/ports.csv", "code;city\nKI;Kiel\nBA;Bari\n"))
    put(project, "data/oslo_20240304.csv", "id,n\n5,6\n")
    found = added(project, capsys, *files)
    calls, ports = sorted(found["tables"], key=lambda one: one["path"])
    assert ports["path"] == "data/ports.csv" and ports["read_options"]["delimiter"] == ";"
    assert (calls["files"], calls["others"]) == (sorted(f"data/{key}" for key in keys), 1)
    assert calls["columns_from_name"] == r"(?P<file_name>[a-z]+)_(?P<file_date>\d{8})\.csv"
    assert "ports" in load(project).tables and len(load(project).tables) == 2
    assert add(project, *files, "--table", "all") == 3


def test_a_pattern_that_would_match_another_shape_is_narrowed(project, capsys):
    files = [put(project, f"data/{key}.csv", "id,n\n1,2\n") for key in ("a_1", "b_2")]
    put(project, "data/other.csv", "x;y\n1;2\n")
    [table] = added(project, capsys, *files)["tables"]
    assert table["path"] == "data/*_*.csv" and table["others"] == 0


def test_a_name_that_is_taken_gets_a_number_or_is_refused(project, capsys):
    (project / "lading.yaml").write_text(MINE)
    file = put(project, "data/old.csv", "id,n\n1,2\n")
    assert added(project, capsys, file)["tables"][0]["table"] == "old_2"
    assert add(project, file, "--table", "old") == 3
    assert add(project, file, "--table", "Old") == 3
    assert "lower-case" in capsys.readouterr().err


def test_files_that_a_table_has_already_are_refused(project, capsys):
    file = put(project, "data/a.csv", "id,n\n1,2\n")
    added(project, capsys, file)
    before = (project / "lading.yaml").read_text()
    assert add(project, file) == 3
    assert "already belongs to table 'a'" in capsys.readouterr().err
    assert (project / "lading.yaml").read_text() == before


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "empty"),
        ("a.csv", "red;blue,green\nyes;no,maybe\nup;down,left\n", "equally well"),
        ("a.txt", "Aurora        8125 Kiel\nBeagle          40 Bari\nFram         9 Oslo\n", "fixed width"),
        ("a.csv", "PK\x03\x04\x14\x00\x06", "zip archive"),
        ("a.json", '{"a":\n 1}\n{"a":\n 2}\n', "one behind the other"),
    ],
)
def test_what_can_not_be_decided_is_refused_and_nothing_is_written(project, capsys, name, text, said):
    file = put(project, f"data/{name}", text)
    assert add(project, file) == 1
    err = capsys.readouterr().err
    assert said in err and "hint:" in err
    assert not (project / "lading.yaml").exists()


def test_files_outside_the_project_folders_and_missing_ones_are_refused(project, capsys, tmp_path_factory):
    other = put(tmp_path_factory.mktemp("other"), "x.csv", "id,n\n1,2\n")
    for given, said in (
        (other, "is not below"),
        (str(project / "data"), "is a folder"),
        ("no.csv", "no file"),
    ):
        assert add(project, given) == 1
        assert said in capsys.readouterr().err


def test_rows_that_do_not_fit_are_named(project, capsys):
    file = put(project, "data/a.csv", "id,name,n\n" + "1,x,2\n" * 9 + "10 rows in all\n")
    [table] = added(project, capsys, file)["tables"]
    assert table["bad_rows"] == 1
    assert "line 11 of data/a.csv has 1 field" in table["remarks"][0]
    assert "# line 11 of data/a.csv has 1 field" in (project / "lading.yaml").read_text()


def test_an_empty_file_among_others_is_noted(project, capsys):
    files = [put(project, "data/a_1.csv", "id,n\n1,2\n"), put(project, "data/a_2.csv", "")]
    assert added(project, capsys, *files)["empty"] == ["data/a_2.csv"]


def test_compressed_files_are_looked_into(project, capsys):
    file = put(project, "data/a.csv.gz", "id;n\n1;2,5\n2;3,5\n")
    [table] = added(project, capsys, file)["tables"]
    assert table["table"] == "a" and table["rows"][0] == {"id": 1, "n": 2.5}


def test_a_file_name_that_looks_like_a_pattern_or_a_variable_is_itself(project, capsys):
    file = put(project, "data/a[1]${HOME}.csv", "id,n\n1,2\n")
    put(project, "data/a1.csv", "x\n")
    added(project, capsys, file)
    [table] = load(project).tables.values()
    assert table.path == "data/a[[]1]${HOME}.csv"
