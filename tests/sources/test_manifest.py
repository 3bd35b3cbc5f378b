from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import NotFound, SourceError
from lading.sources import entries as entries_module
from lading.sources import manifest as manifest_module
from lading.sources.manifest import FileEntry, SourceManifest, forget_files, load, save


def _entry(**changes: Any) -> FileEntry:
    fields: dict[str, Any] = {
        "hash": "mtime:1234567890.0_size:1024",
        "last_processed": "2024-01-15T10:30:00+00:00",
        "status": "success",
        "metadata": {"row_count": 50000},
        "sha256": "ab" * 32,
        "size": 1024,
        "mtime_ns": 1234567890000000000,
    }
    return FileEntry(**{**fields, **changes})


def _manifest(files: dict[str, FileEntry] | None = None) -> SourceManifest:
    return SourceManifest(
        "sales",
        {"2023/data.csv": _entry(), "2022/data.csv": _entry(racy=True)} if files is None else files,
        schema={
            "generated_at": "2024-01-15T10:00:00",
            "output_path": "schema/sales.yaml",
            "combined_hash": "abc",
        },
        lading={"table_id": "t1", "sequence": 7},
    )


def _loaded(path: Path) -> SourceManifest:
    manifest = load(path)
    assert manifest is not None
    return manifest


FAIRWAY = {
    "version": "3.0",
    "table_name": "sales",
    "files": {
        "2023/data.csv": {
            "hash": "mtime:1234567890_size:1024",
            "last_processed": "2024-01-15T10:30:00",
            "status": "success",
            "metadata": {"row_count": 50000},
        }
    },
    "preprocessing": {
        "archive.zip": {"file_hash": "mtime:1_size:2", "preprocessed_path": "/tmp/x/", "action": "unzip"}
    },
    "schema": {
        "generated_at": "2024-01-15T10:00:00",
        "output_path": "schema/sales.yaml",
        "combined_hash": "abc123",
    },
}


@pytest.mark.acceptance("F5", "F6", "F15")
def test_the_layout_is_the_seeds(tmp_path: Path) -> None:
    save(tmp_path / "sales.json", _manifest())
    text = (tmp_path / "sales.json").read_text()
    tree = json.loads(text)
    assert list(tree) == ["version", "table_name", "files", "preprocessing", "schema", "lading"]
    assert (tree["version"], tree["table_name"]) == ("3.0", "sales")
    assert list(tree["files"]) == ["2022/data.csv", "2023/data.csv"]
    for entry in tree["files"].values():
        assert list(entry)[:4] == ["hash", "last_processed", "status", "metadata"]
        datetime.fromisoformat(entry["last_processed"])
    assert set(tree["schema"]) == {"generated_at", "output_path", "combined_hash"}
    assert text == json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def test_an_empty_manifest_is_laid_out_like_any_other(tmp_path: Path) -> None:
    save(tmp_path / "t.json", SourceManifest("t", {}))
    text = (tmp_path / "t.json").read_text()
    tree = json.loads(text)
    assert text == json.dumps(tree, indent=2) + "\n"
    assert (tree["files"], tree["preprocessing"], tree["schema"]) == ({}, {}, {})
    assert _loaded(tmp_path / "t.json").as_written


def test_no_file_is_none(tmp_path: Path) -> None:
    assert load(tmp_path / "sales.json") is None


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8")),
        st.builds(
            FileEntry,
            hash=st.text(st.characters(codec="utf-8")),
            last_processed=st.just("2024-01-15T10:30:00"),
            status=st.sampled_from(["success", "failed"]),
            metadata=st.dictionaries(st.text("ab"), st.integers(0, 9)),
            sha256=st.none() | st.just("ff"),
            size=st.none() | st.integers(0, 1 << 62),
            mtime_ns=st.none() | st.integers(-(1 << 62), 1 << 62),
            racy=st.booleans(),
            error=st.none() | st.text(st.characters(codec="utf-8")),
        ),
        max_size=4,
    )
)
def test_what_was_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, FileEntry]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.json"
    save(path, _manifest(files))
    loaded = _loaded(path)
    assert loaded.as_written
    assert loaded.files == files
    assert (loaded.table_name, loaded.table_id, loaded.sequence) == ("sales", "t1", 7)
    first = path.read_bytes()
    save(path, loaded)
    assert path.read_bytes() == first


def test_equal_states_are_equal_bytes_whatever_the_order(tmp_path: Path) -> None:
    files = {key: _entry() for key in ("b", "a", "c")}
    save(tmp_path / "1.json", _manifest(files))
    save(tmp_path / "2.json", _manifest(dict(reversed(files.items()))))
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()


@settings(deadline=None)
@given(st.data())
def test_any_edit_inside_files_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "edited.json"
    save(path, _manifest())
    text = path.read_bytes()
    tree = json.loads(text)
    key = data.draw(st.sampled_from(sorted(tree["files"])))
    edit = data.draw(st.sampled_from(["remove", "hash", "drop hash", "null hash", "rows", "add", "status"]))
    match edit:
        case "remove":
            del tree["files"][key]
        case "hash":
            tree["files"][key]["hash"] += " "
        case "drop hash":
            del tree["files"][key]["hash"]
        case "null hash":
            tree["files"][key]["hash"] = None
        case "rows":
            tree["files"][key]["metadata"]["row_count"] = 0
        case "status":
            tree["files"][key]["status"] = "failed"
        case "add":
            tree["files"]["new"] = tree["files"][key]
    path.write_text(json.dumps(tree, indent=2) + "\n")
    loaded = _loaded(path)
    assert not loaded.as_written
    assert set(loaded.files) == set(tree["files"])
    assert all(loaded.files[name].hash == (entry.get("hash") or "") for name, entry in tree["files"].items())


def test_an_edit_elsewhere_leaves_the_files_as_written(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    save(path, _manifest())
    tree = json.loads(path.read_text())
    tree["schema"]["note"] = "mine"
    path.write_text(json.dumps(tree, indent=2))
    assert _loaded(path).as_written


def test_files_that_are_as_written_are_not_decoded_until_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sales.json"
    save(path, _manifest())
    decoded = []
    real = msgspec.json.Decoder(dict[str, FileEntry])

    class Recording:
        def decode(self, raw: Any) -> Any:
            decoded.append(True)
            return real.decode(raw)

    monkeypatch.setattr("lading.sources.entries._decoder", Recording())
    loaded = _loaded(path)
    assert not decoded
    assert len(loaded.files) == 2
    assert decoded == [True]


def test_a_manifest_that_fairway_wrote_is_understood_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    path.write_text(json.dumps(FAIRWAY))
    loaded = _loaded(path)
    assert not loaded.as_written
    assert (loaded.table_id, loaded.sequence) == (None, 0)
    entry = loaded.files["2023/data.csv"]
    assert (entry.hash, entry.row_count, entry.sha256) == ("mtime:1234567890_size:1024", 50000, None)
    save(path, loaded)
    tree = json.loads(path.read_text())
    assert {key: tree[key] for key in FAIRWAY} == FAIRWAY


def test_keys_that_others_added_survive_every_save(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    save(path, _manifest())
    tree = json.loads(path.read_text())
    tree["files"]["2023/data.csv"] |= {"extra": {"who": "me"}, "note": None}
    tree["owner"] = ["ann"]
    tree["lading"]["later"] = 1
    path.write_text(json.dumps(tree))
    for _ in range(2):
        loaded = _loaded(path)
        save(path, loaded.updated({**loaded.files, "new.csv": _entry()}, lading={"sequence": 9}))
    again = json.loads(path.read_text())
    assert again["files"]["2023/data.csv"] == tree["files"]["2023/data.csv"]
    assert again["files"]["new.csv"]["status"] == "success"
    assert (again["owner"], again["lading"]["later"], again["lading"]["sequence"]) == (["ann"], 1, 9)
    assert _loaded(path).as_written


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n"version": "3.0",\n"table_name": }', "line 3"),
        ("", "truncated"),
        ("[]", "object"),
        ('{"version": "3.0"}', "table_name"),
        ('{"table_name": "t", "version": "9"}', 'not "3.0"'),
        ('{"table_name": "t", "version": "3.0", "files": {"a.csv": {"hash": 5}}}', "a.csv.*hash"),
        ('{"table_name": "t", "version": "3.0", "files": {"a.csv": 5}}', "object"),
        ('{"table_name": "t", "version": "3.0", "files": []}', "object"),
    ],
)
def test_a_malformed_manifest_names_file_place_and_remedy(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "sales.json"
    path.write_text(text)
    with pytest.raises(SourceError, match=f"(?s)sales.json is not a source manifest.*{says}") as caught:
        load(path)
    assert "delete the file" in caught.value.hint


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 2_500])
def test_entries_that_come_one_by_one_are_the_same_file_and_never_held_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    files = {f"{number:05d}.csv": _entry(size=number) for number in range(count)}
    save(tmp_path / "whole.json", _manifest(files))
    written: list[int] = []
    real = manifest_module.write_atomic

    def listening(path: Path, pieces: Iterable[bytes]) -> None:
        real(path, (written.append(piece.count(b'"hash"')) or piece for piece in pieces))  # type: ignore[func-returns-value]

    monkeypatch.setattr(manifest_module, "write_atomic", listening)
    save(tmp_path / "streamed.json", _manifest({}), iter(files.items()))
    assert (tmp_path / "streamed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert sum(written) == count and max(written) <= 1_000
    loaded = _loaded(tmp_path / "streamed.json")
    assert loaded.as_written and loaded.files == files
    assert json.loads((tmp_path / "streamed.json").read_bytes())["files"].keys() == files.keys()


def test_entries_that_come_one_by_one_keep_what_others_put_into_them(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    tree = json.loads(json.dumps(FAIRWAY))
    tree["files"]["2023/data.csv"]["note"] = "mine"
    path.write_text(json.dumps(tree))
    manifest = _loaded(path)
    save(path, manifest.updated({}), [("2023/data.csv", _entry())])
    assert json.loads(path.read_text())["files"]["2023/data.csv"]["note"] == "mine"


def test_entries_are_forgotten_in_one_pass_that_holds_few_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sales.json"
    files = {f"{number:05d}.csv": _entry(size=number) for number in range(2_500)}
    files["02400.csv"].archive = files["02401.csv"].archive = "a.zip"
    manifest = _manifest(files)
    manifest.preprocessing = {"a.zip": {"action": "unzip"}, "b.zip": {"action": "unzip"}}
    save(path, manifest)
    decoded: list[int] = []
    real = entries_module._decoded
    monkeypatch.setattr(manifest_module, "IN_MEMORY", 0)
    monkeypatch.setattr(entries_module, "_CHUNK", 1 << 16)
    monkeypatch.setattr(
        entries_module, "_decoded", lambda raw, extras: (decoded.append(len(raw)), real(raw, extras))[1]
    )
    monkeypatch.setattr(SourceManifest, "files", property(lambda self: pytest.fail("all are held")))
    assert forget_files(path, ["00003.csv", "a.zip", "is not there"]) == [
        "00003.csv",
        "02400.csv",
        "02401.csv",
    ]
    monkeypatch.undo()
    assert max(decoded) <= 2 << 16 and sum(decoded) <= 2 * path.stat().st_size * 1.1
    loaded = _loaded(path)
    assert not loaded.as_written, "the log is asked what is missing"
    assert files.keys() - loaded.files.keys() == {"00003.csv", "02400.csv", "02401.csv"}
    assert loaded.preprocessing.keys() == {"b.zip"}


def test_what_is_not_there_cannot_be_forgotten_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    save(path, _manifest({f"{number:05d}.csv": _entry() for number in range(1_200)}))
    before = path.read_bytes()
    with pytest.raises(NotFound, match=r"has no entry '01100\.cvs'") as caught:
        forget_files(path, ["01100.cvs"])
    assert "did you mean 01100.csv" in caught.value.hint
    with pytest.raises(NotFound, match="has no entry"):
        forget_files(tmp_path / "none.json", ["a.csv"])
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["sales.json"]


def test_what_others_put_into_entries_outlives_a_reset(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    tree = json.loads(json.dumps(FAIRWAY))
    [key] = tree["files"]
    tree["files"][key]["note"] = "mine"
    tree["files"]["another.csv"] = tree["files"][key]
    tree["mine"] = {"a": 1}
    path.write_text(json.dumps(tree))
    assert forget_files(path, ["another.csv"]) == ["another.csv"]
    told = json.loads(path.read_text())
    assert (told["mine"], list(told["files"]), told["files"][key]["note"]) == ({"a": 1}, [key], "mine")
