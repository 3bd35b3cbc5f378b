"""Whether a commit may still be appended after others were. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lading.errors import Conflict, GivenUp
from lading.model import Commit


def refuse_conflicts(
    commit: Commit, since: Iterable[Commit], recipe: str, relies_on: Collection[str] = ()
) -> None:
    """Raise Conflict if a commit made since touched what `commit` touches, or a member that whoever planned
    it found as it should be and `relies_on`; `recipe` is its base's."""
    sources = _sources(commit)
    paths = _paths(commit).union(relies_on)
    for other in since:
        if commit.run_id in other.expire:
            raise expired(commit.run_id, other.sequence)
        if other.expire:
            continue  # it touches nothing else
        if other.recipe != recipe or commit.recipe != recipe:
            raise _conflict(other, "changed the recipe, or this one does")
        if commit.schema is not None and other.schema is not None:
            # Each is made of the base's: the later one would drop what the earlier one brought.
            raise _conflict(other, "changed the columns or the key, as this one does")
        # A collection's schema only ever takes in more; a table's follows its files, and decides about parts.
        if recipe and other.schema is not None and commit.add:
            raise _conflict(other, "changed the columns, which this one's parts were not written for")
        if recipe and commit.schema is not None and other.add and other.sources:
            raise _conflict(other, "read files that the columns of this one don't follow")
        if commit.inputs is not None and other.inputs is not None:
            raise _conflict(other, "followed the same input tables")
        if sources & _sources(other):
            raise _conflict(other, "read or retracted one of the same source files")
        if paths & _paths(other):
            raise _conflict(other, "added, replaced or changed one of the same members")


def expired(run_id: str, sequence: int) -> GivenUp:
    """For a run that cleaning took for dead: files that it wrote or saw may be gone."""
    return GivenUp(
        f"run {run_id} was declared dead at sequence {sequence}: its lease had expired",
        hint="run again: it will plan from the new state",
    )


def _sources(commit: Commit) -> set[int]:
    return {source.id for source in commit.sources} | set(commit.gone)


def _paths(commit: Commit) -> set[str]:
    return {
        *commit.remove,
        *(member.path for member in commit.add),
        *(path for path, _ in commit.minus),
        *(path for path, _ in commit.tier),
    }


def _conflict(other: Commit, why: str) -> Conflict:
    return Conflict(
        f"run {other.run_id} committed sequence {other.sequence} in between and {why}",
        hint="run again: it will plan from the new state",
    )
