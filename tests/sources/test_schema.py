from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import ConfigError
from lading.model import Column
from lading.sources import schema as schema_module
from lading.sources.schema import TableSchema, combined_hash, keyed_hash, load_schema, save_schema

_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1)
_awkward = st.sampled_from(
    ["no", "1", "on", "~", "null", "a: b", "- x", "#", "'", '"', " a ", "ÿ", "\n", "\x85"]
)


@settings(deadline=None)
@given(
    st.lists(_text | _awkward, min_size=1, unique_by=str.lower).filter(
        lambda names: "_source" not in map(str.lower, names)
    )
)
def test_what_was_saved_is_loaded_whatever_the_columns_are_called(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "schema.yaml"
    schema = TableSchema(
        tuple(Column(name, "array<decimal(10,2)>") for name in names), "2024-01-15T10:00:00+00:00", "abc"
    )
    save_schema(path, schema)
    assert load_schema(path) == schema


def test_people_may_write_it_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        "columns:\n- {name: no, type: LONG}\n- name: 1\n  type: struct< a :integer, `b c`:dec(5) >\n"
    )
    schema = load_schema(path)
    assert schema is not None
    assert schema.columns == (Column("no", "bigint"), Column("1", "struct<a:int,`b c`:decimal(5,0)>"))
    assert (schema.generated_at, schema.combined_hash) == ("", "")


def test_no_file_is_none(tmp_path: Path) -> None:
    assert load_schema(tmp_path / "t.yaml") is None


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "must have the keys"),
        ("generated_at: x\n", 1, "`columns` is missing"),
        ("columns:\n", 1, "must be a list"),
        ("columns: []\n", 1, "must be a list"),
        ("columns:\n- {name: a, type: bigint}\n- {name: a, type: int}\n", 3, "two columns named 'a'"),
        ("columns:\n- {name: a, type: bigin}\n", 2, "'bigin' is not a type"),
        ("columns:\n- {name: a, type: array<int}\n", 2, "ends too early"),
        ("columns:\n- {name: a, type: 'decimal(50,2)'}\n", 2, "outside 1 <= p"),
        ("columns:\n- {name: a, type: int int}\n", 2, "follows a complete type"),
        ("columns:\n- {name: a}\n", 2, "`type` is missing"),
        ("columns:\n- {name: a, type: int, nullable: no}\n", 2, "unknown key `nullable`"),
        ("columns:\n- {name: a, type: int}\ncolumn: x\n", 3, "unknown key `column`"),
        ("columns:\n- {name: _source, type: bigint}\n", 2, "reserved for lading"),
        ("columns:\n- {name: a, type: int\n", 3, "not valid YAML"),
    ],
)
def test_errors_name_file_line_and_key(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"t\.yaml:{line}: .*{says}") as caught:
        load_schema(path)
    assert caught.value.hint


def test_the_combined_hash_is_over_the_hashes_sorted_and_joined() -> None:
    text = "mtime:1.0_size:2mtime:3.0_size:4"
    wanted = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert combined_hash(["mtime:3.0_size:4", "mtime:1.0_size:2"]) == wanted
    assert combined_hash(iter(["mtime:1.0_size:2", "mtime:3.0_size:4"])) == wanted


def test_a_hash_that_knows_its_keys_follows_keys_and_hashes_but_not_their_order() -> None:
    base = keyed_hash({"a": "1", "b": "2"})
    assert keyed_hash({"b": "2", "a": "1"}) == base
    others = [keyed_hash({"a": "2", "b": "1"}), keyed_hash({"a": "1"}), keyed_hash({"a1": "", "b": "2"})]
    assert len({base, *others}) == 4


def test_evidence_survives_and_a_changed_type_is_a_persons(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    columns = (Column("a", "bigint"), Column("b", "string"), Column("c", "array<bigint>"), Column("d", "int"))
    because = {"a": "bigint in all 2 values", "b": "string because of row 1 of x.csv: '001'", "c": "array: x"}
    save_schema(path, TableSchema(columns, "now", "abc", because, "2 files, 7 rows"))
    loaded = load_schema(path)
    assert loaded is not None
    assert (loaded.because, loaded.looked_at) == (because, "2 files, 7 rows")
    assert [column.name for column in loaded.columns if not column.inferred] == ["d"]
    path.write_text(path.read_text().replace("type: bigint", "type: decimal(9,2)"))
    edited = load_schema(path)
    assert edited is not None
    assert [column.name for column in edited.columns if not column.inferred] == ["a", "d"]


def test_a_change_inside_a_nested_type_is_a_persons_too(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    kind = "struct<a:bigint,b:array<double>>"
    because = {"s": f"{kind}: as the values are"}
    save_schema(path, TableSchema((Column("s", kind),), "now", "abc", because))
    loaded = load_schema(path)
    assert loaded is not None and loaded.columns[0].inferred
    path.write_text(path.read_text().replace("type: struct<a:bigint,", "type: struct<a:int,"))
    edited = load_schema(path)
    assert edited is not None and not edited.columns[0].inferred


@pytest.mark.parametrize("files", [0, 1, 2, 3, 4, 5, 9])
def test_the_hash_over_many_files_is_the_one_over_few(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_module, "_AT_ONCE", 2)
    hashes = [f"mtime:{9.5 - number * 7 % 5}_size:{10**number}" for number in range(files)]
    hashes += ["etag:ü_size:1"] if files > 3 else []
    expected = hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest()[:16]
    assert combined_hash(hashes) == combined_hash(reversed(hashes)) == expected
