"""Files as columns behave as a list of files does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.model import FoundFile
from lading.sources import found as found_module
from lading.sources.found import FoundFiles, Picked, all_placed, find, insertion, keys_of, rows_of

NAMES = st.sets(st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1), max_size=12)


@pytest.fixture(scope="module", autouse=True)
def _small_chunks() -> object:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(found_module, "_CHUNK", 3)
        yield


def columns(files: list[FoundFile], top: str = "/data") -> FoundFiles:
    made = FoundFiles(top)
    for file in files:
        folder, slash, name = file.key.rpartition("/")
        made.add(folder + slash, [(name, file.size, file.mtime_ns, file.racy, file.spot)])
    return made.complete()


def files_of(names: set[str]) -> list[FoundFile]:
    keys = sorted([*names, *(f"folder/{name}" for name in list(names)[::2])])
    return [
        FoundFile(key, f"/data/{key}", number, -number, number % 3 == 0, None, None, 2**64 - 1 - number)
        for number, key in enumerate(keys)
    ]


@given(NAMES)
def test_columns_are_a_sequence_of_the_files_that_went_in(names: set[str]) -> None:
    files = files_of(names)
    made = columns(files)
    assert len(made) == len(files) and list(made) == files and made[1:] == files[1:]
    assert [made[at] for at in range(-len(files), len(files))] == files + files
    assert list(made.keys()) == list(made.keys()) == list(keys_of(files)) == [file.key for file in files]
    assert list(rows_of(made)) == list(rows_of(files))
    assert b"".join(made.texts()).decode() == "\0".join(file.key for file in files)
    with pytest.raises(IndexError):
        made[len(files)]


@given(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\0/")))
def test_a_file_is_found_by_its_key(names: set[str], other: str) -> None:
    files = files_of(names)
    made = columns(files)
    keys = {file.key for file in files[::2]} | {other}
    assert find(made, keys) == find(files, keys) == {one.key: one for one in files if one.key in keys}
    assert insertion(made, other) == insertion(files, other) == sum(file.key < other for file in files)


def test_some_of_them_are_a_sequence_as_well() -> None:
    files = files_of({"a", "b", "c", "d"})
    some = Picked(columns(files), [1, 3])
    assert list(some) == [files[1], files[3]] == [some[0], some[1]] and list(some[1:]) == [files[3]]


def test_below_the_root_of_a_disk_no_slash_is_doubled() -> None:
    assert columns(files_of({"a"}), "/")[0].path == "/a"


def test_one_file_of_which_nobody_knows_where_it_lies_is_noticed() -> None:
    files = files_of({"a", "b"})
    assert all_placed(columns(files)) and all_placed(files)
    files[1] = FoundFile("b", "/data/b", 1, 1, False)
    assert not all_placed(columns(files)) and not all_placed(files)
