"""Commits from one base: those that touch nothing in common are both made, any others never are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.collection import Collection
from lading.errors import Conflict
from lading.log.changes import adding, change, new_commit
from lading.log.conflict import refuse_conflicts
from lading.log.table import Table
from lading.model import Commit, Member, Source
from lading.parts.intake import footer_to_add


def source(number: int) -> Source:
    return Source(number, f"f{number}.csv", "mtime:1.0_size:1", "ab", 1, 1, 10, False, "2024-01-01T00:00:00")


def part(path: str) -> Member:
    return Member(path, 10, 100, 0, 0, 0, None, None, "2024", {}, ((1, 10),))


def mine(run_id: str = "mine", recipe: str = "base", **edits: Any) -> Commit:
    return Commit("c1", run_id, "2024-01-01", recipe, **edits)


def theirs(recipe: str = "base", **edits: Any) -> Commit:
    return Commit("c2", "theirs", "2024-01-01", recipe, sequence=8, **edits)


@pytest.mark.parametrize(
    ("my", "their"),
    [
        pytest.param({"sources": (source(1),)}, {"sources": (source(2),)}, id="other sources"),
        pytest.param({"sources": (source(1),)}, {"gone": (2,)}, id="another source is gone"),
        pytest.param({"gone": (1,)}, {"gone": (2,)}, id="two are gone"),
        pytest.param({"add": (part("a"),)}, {"add": (part("b"),)}, id="other members"),
        pytest.param({"remove": ("a",)}, {"remove": ("b",)}, id="others removed"),
        pytest.param({"minus": (("a", (1,)),)}, {"minus": (("b", (1,)),)}, id="others subtracted from"),
        pytest.param({"tier": (("a", 1),)}, {"tier": (("b", 1),)}, id="tiers of others"),
        pytest.param({"sources": (source(1),)}, {"remove": ("a",), "add": (part("b"),)}, id="a merge"),
        pytest.param({"sources": (source(1),)}, {"schema": b"new"}, id="a note, and other columns"),
    ],
)
def test_disjoint_commits_are_both_made(my: dict[str, Any], their: dict[str, Any]) -> None:
    refuse_conflicts(mine(**my), [theirs(**their)], "base")
    refuse_conflicts(mine(**their), [theirs(**my)], "base")


A_SOURCE = [{"sources": (source(1),)}, {"gone": (1,)}]
A_MEMBER = [{"add": (part("a"),)}, {"remove": ("a",)}, {"minus": (("a", (1,)),)}, {"tier": (("a", 1),)}]


@pytest.mark.parametrize("their", A_SOURCE)
@pytest.mark.parametrize("my", A_SOURCE)
def test_one_source_is_not_read_or_retracted_by_two(my: dict[str, Any], their: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match=r"run theirs committed sequence 8 .* one of the same source files"):
        refuse_conflicts(mine(**my), [theirs(**their)], "base")


@pytest.mark.parametrize("their", A_MEMBER)
@pytest.mark.parametrize("my", A_MEMBER)
def test_one_member_is_not_added_removed_or_changed_by_two(my: dict[str, Any], their: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match="one of the same members") as error:
        refuse_conflicts(mine(**my), [theirs(**their)], "base")
    assert "run again" in error.value.hint


@pytest.mark.parametrize(
    ("base", "my", "their", "refused"),
    [
        ("base", "base", "base", False),
        ("base", "new", "base", True),
        ("base", "base", "new", True),
        ("base", "new", "new", True),
        ("", "first", "first", True),
        ("", "", "", False),
    ],
)
def test_nothing_is_committed_beside_a_change_of_the_recipe(
    base: str, my: str, their: str, refused: bool
) -> None:
    commit, other = mine(recipe=my, add=(part("a"),)), theirs(recipe=their, add=(part("b"),))
    refuse_conflicts(commit, [], base)
    if not refused:
        refuse_conflicts(commit, [other], base)
        return
    with pytest.raises(Conflict, match="changed the recipe, or this one does"):
        refuse_conflicts(commit, [other], base)


def test_a_run_that_was_given_up_commits_nothing_whatever_came_since() -> None:
    commit = mine(sources=(source(1),))
    since = [theirs(sources=(source(2),)), theirs(expire=("another", "mine")), theirs(sources=(source(3),))]
    with pytest.raises(Conflict, match="run mine was declared dead at sequence 8"):
        refuse_conflicts(commit, since, "base")


def test_giving_up_others_is_in_nobodys_way() -> None:
    """It touches nothing, and leaves the recipe to whoever changes it."""
    since = [theirs(expire=("another",))]
    refuse_conflicts(mine(sources=(source(1),), add=(part("a"),)), since, "base")
    refuse_conflicts(mine(recipe="new", add=(part("a"),)), since, "base")


def test_giving_up_a_run_never_puts_an_old_recipe_back() -> None:
    with pytest.raises(Conflict, match="recipe"):
        refuse_conflicts(mine(expire=("another",)), [theirs(recipe="new")], "base")


@pytest.mark.parametrize("at", range(3))
def test_any_commit_since_the_base_counts(at: int) -> None:
    since = [theirs(sources=(source(number),)) for number in (2, 3, 4)]
    refuse_conflicts(mine(sources=(source(1),)), since, "base")
    since[at] = theirs(gone=(1,))
    with pytest.raises(Conflict):
        refuse_conflicts(mine(sources=(source(1),)), since, "base")


def test_two_sets_of_columns_are_not_both_made_of_one_base() -> None:
    with pytest.raises(Conflict, match="changed the columns"):
        refuse_conflicts(mine(schema=b"one"), [theirs(schema=b"two")], "base")


def test_members_of_a_collection_may_have_other_columns_than_it_had() -> None:
    added, wider = {"add": (part("b"),)}, {"schema": b"new"}
    refuse_conflicts(mine(recipe="", **added), [theirs(recipe="", **wider)], "")
    refuse_conflicts(mine(recipe="", **wider), [theirs(recipe="", **added)], "")


def test_no_part_is_added_to_a_table_whose_columns_are_others_by_now() -> None:
    with pytest.raises(Conflict, match="changed the columns, which this one's parts were not written for"):
        refuse_conflicts(mine(add=(part("a"),)), [theirs(schema=b"new")], "base")


def test_columns_are_not_settled_past_files_that_were_read_since() -> None:
    read = {"add": (part("b"),), "sources": (source(2),)}
    with pytest.raises(Conflict, match="read files that the columns of this one don't follow"):
        refuse_conflicts(mine(schema=b"new"), [theirs(**read)], "base")
    merged = {"add": (part("b"),), "remove": ("a",)}
    refuse_conflicts(mine(schema=b"new"), [theirs(**merged)], "base")


def test_files_with_new_columns_added_at_once_keep_all_their_columns(tmp_path: Path) -> None:
    for name in ("k", "left", "right"):
        columns = {"k": [1, 2]} | ({} if name == "k" else {name: [3, 4]})
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    folder = tmp_path / "collection"
    Collection(folder).add(tmp_path / "k.parquet")
    table, path = Table.open(folder), str(tmp_path / "left.parquet")
    footer = footer_to_add(folder, path)
    plans = []

    def plan(table: Table) -> Commit:
        commit = new_commit(table, **adding(table.state, [footer], None, lambda path, key: False).edits)
        plans.append(commit)
        if len(plans) == 1:
            Collection(folder).add(tmp_path / "right.parquet")  # between our plan and our commit
        return commit

    change(table, plan)
    assert len(plans) == 2
    found = Collection(folder).scan().to_table()
    assert sorted(found.column_names) == ["k", "left", "right"] and found.num_rows == 6
    assert sorted(found.column("right").drop_null().to_pylist()) == [3, 4]
