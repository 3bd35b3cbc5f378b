"""However deep a file is nested, and however often it repeats itself: an error with its place, no crash."""

from pathlib import Path

import pytest

from lading.config.file import load
from lading.errors import ConfigError, ManifestParseError, SourceError
from lading.formats.infer.columns import infer
from lading.log.table_manifest_text import decode_manifest
from lading.model import FoundFile
from lading.snapshots.pointer import decode_pointer
from lading.snapshots.runs import last_run, list_runs
from lading.sources import manifest
from lading.sources.global_manifest import load_extractions
from lading.sources.schema import load_schema

DEPTHS = (150, 450, 900, 5_000, 100_000)
BOMB = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))


def nested(depth: int, brackets: str) -> str:
    return ("[" if brackets == "[]" else '{"x":') * depth + "1" + brackets[1] * depth


def yaml_texts() -> list[str]:
    return [nested(depth, brackets) for depth in DEPTHS[:-1] for brackets in ("[]", "{}")] + [BOMB]


@pytest.mark.parametrize("text", yaml_texts(), ids=lambda text: f"{text[:2]}{len(text)}")
def test_yaml_beyond_its_bounds_is_an_error_wherever_it_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "lading.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"lading.yaml:\d+: .*(levels deep|100,000 values)"):
        load(tmp_path)
    (tmp_path / "ships.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"ships.yaml:\d+: .*(levels deep|100,000 values)"):
        load_schema(tmp_path / "ships.yaml")
    record = tmp_path / "runs" / "2026-11-16T18:30:11.783626Z_run_id=r1_70948b1fac7a414886688f01bdf8734e"
    record.mkdir(parents=True)
    (record / "run.yaml").write_text(text)
    assert list_runs(tmp_path) == ([], [record.name])
    with pytest.raises(ManifestParseError, match=r"not a run record"):
        last_run(tmp_path)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_json_of_ladings_own_that_is_nested_too_deeply_is_an_error(
    tmp_path: Path, depth: int, brackets: str
) -> None:
    deep = nested(depth, brackets)
    file = tmp_path / "x.json"
    for text in (
        deep,
        f'{{"version": "1.0", "extractions": {{"archive:a": {deep}}}}}',
        f'{{"mine": {deep}}}',
    ):
        file.write_text(text)
        with pytest.raises(SourceError, match=r"x.json"):
            load_extractions(file)
    whole = '{{"version": "{}", "table_name": "t", "files": {{}}, "{}": {}}}'
    for key in ("preprocessing", "schema", "lading", "mine"):
        file.write_text(whole.format(manifest.VERSION, key, deep))
        with pytest.raises(SourceError, match=r"x.json is not a source manifest"):
            manifest.load(file)
    entry = f'{{"a.csv": {{"hash": "h", "mine": {deep}}}}}'
    file.write_text(f'{{"version": "{manifest.VERSION}", "table_name": "t", "files": {entry}}}')
    with pytest.raises(SourceError, match=r"x.json is not a source manifest"):
        manifest.load(file)
    for text in (deep, f'{{"lading": {deep}}}'):
        with pytest.raises(ManifestParseError):
            decode_manifest(text.encode(), "manifest.json")
        with pytest.raises(ManifestParseError, match=r"_CURRENT"):
            decode_pointer(text.encode())


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("brackets", ["[]", "{}"])
@pytest.mark.parametrize("multiline", [False, True])
def test_a_record_that_is_nested_too_deeply_does_not_keep_the_others_from_being_looked_at(
    tmp_path: Path, depth: int, brackets: str, multiline: bool
) -> None:
    deep = f'{{"a": 1, "b": {nested(depth, brackets)}}}'
    (tmp_path / "good.json").write_text('{"a": 2, "b": 3}\n')
    (tmp_path / "deep.json").write_text(f"[{deep}]\n" if multiline else f'{{"a": 1}}\n{deep}\n')
    files = [FoundFile(n, str(tmp_path / n), 1, 1, False) for n in ("good.json", "deep.json")]
    found = infer(files, fmt="json", read_options={"multiline": True} if multiline else {})
    assert [column.name for column in found.columns] == ["a", "b"]
    if depth < 1_000:
        assert {column.type for column in found.columns} == {"bigint", "string"}
    else:
        with pytest.raises(SourceError, match=r"deep.json.*nested too deeply"):
            infer(files[1:], fmt="json", read_options={"multiline": True}) if multiline else infer(
                [FoundFile("deep.json", _only(tmp_path, deep), 1, 1, False)], fmt="json", read_options={}
            )


def _only(folder: Path, line: str) -> str:
    (folder / "only.json").write_text(line + "\n")
    return str(folder / "only.json")
