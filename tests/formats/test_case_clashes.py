"""Fields inside of a column that differ only by case: Spark takes them for one, so they never become two."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.reading import read, spec_of

from lading.config.names import case_clash
from lading.config.types import canonical_type
from lading.formats.infer.columns import infer
from lading.formats.types import joined
from lading.model import FoundFile

ROWS = '{"a": {"id": 1}, "l": [{"X": 1}]}\n{"a": {"ID": 2}, "l": [{"x": 2}, {"y": null}]}\n'


@pytest.mark.parametrize(
    ("names", "clash"),
    [
        (["a", "b"], None),
        (["a", "b", "A"], ("a", "A")),
        (["a", "a"], ("a", "a")),
        (["É", "x", "é"], ("É", "é")),
        ([], None),
    ],
)
def test_names_clash_as_they_do_in_spark(names: list[str], clash: tuple[str, str] | None) -> None:
    assert case_clash(names) == clash


def test_json_with_such_keys_is_kept_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(ROWS)
    inferred = infer(
        [FoundFile(path.name, str(path), path.stat().st_size, 0, False)], fmt="json", read_options={}
    )
    assert [(one.name, one.type) for one in inferred.columns] == [("a", "string"), ("l", "array<string>")]
    told = "string: Spark can't tell apart its keys 'id' and 'ID'; line 2 of a.json: '2'"
    assert inferred.because["a"] == told
    seen = read(spec_of("json", "a string; l array<string>", inferred=True), path)
    assert seen.rows == [
        {"a": '{"id": 1}', "l": ['{"X": 1}']},
        {"a": '{"ID": 2}', "l": ['{"x": 2}', '{"y": null}']},
    ]


def test_a_schema_that_asks_for_them_is_refused() -> None:
    with pytest.raises(ValueError, match="fields named 'id' and 'ID', which Spark can't tell apart"):
        canonical_type("array<struct<id:int,n:string,ID:int>>")
    with pytest.raises(ValueError, match="two fields named 'id'"):
        canonical_type("struct<id:int,id:int>")


def test_types_of_several_files_never_join_to_them() -> None:
    assert joined("struct<id:bigint>", "struct<ID:bigint>") is None
    assert joined("struct<id:bigint>", "struct<no:bigint>") == "struct<id:bigint,no:bigint>"
