"""Hints that are lost, doubled, reordered or wrong never change what becomes of a table."""

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.watched import Ticking, WatchedProject

KEYS = [f"{folder}{name}.csv" for folder in ("", "d/", "d/e/") for name in "xy"]

change = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 3)),
    st.tuples(st.just("remove"), st.sampled_from(KEYS), st.just(0)),
    st.tuples(st.just("touch"), st.sampled_from(KEYS), st.just(0)),
    st.tuples(st.just("swap"), st.sampled_from(KEYS), st.sampled_from(KEYS)),
)
# What is heard after each change: some of what happened so far, in any order, as often as it likes.
heard = st.lists(st.tuples(st.sampled_from([*KEYS, None]), st.booleans()), max_size=6)
told = st.lists(
    st.tuples(st.lists(change, max_size=4), heard, st.sampled_from([0.0, 0.1, 1.0, 70.0])), max_size=6
)


@settings(max_examples=int(os.environ.get("LADING_SOAK") or 0) * 400 + 25, deadline=None)
@given(told)
def test_whatever_was_heard_the_table_is_what_a_rebuild_gives(story):
    with tempfile.TemporaryDirectory() as folder:
        project = WatchedProject(Path(folder, "project"))
        project.put("data/always.csv", (0, "here"))
        for number in range(6):  # enough that no vanishing is more than half
            project.put(f"data/more/{number}.csv", (100 + number, "here"))
        ticking = Ticking(project, allow_vanish=True)
        ticking.until(0.1)
        for changes, hints, seconds in story:
            for one in changes:
                _apply(project, *one)
            for key, fresh in hints:
                ticking.hint(key, fresh=fresh)
            ticking.until(seconds)
        ticking.until(61)  # a listing comes round
        assert not [one for one in ticking.events if one.kind == "run failed"]
        assert project.rows() == project.rebuilt(Path(folder, "fresh"))
        shutil.rmtree(Path(folder, "fresh"))


def _apply(project: WatchedProject, what: str, key: str, more) -> None:
    path = project.folder / "data" / key
    if what == "put":
        project.put(f"data/{key}", *((number, key) for number in range(more)))
    elif what == "remove":
        path.unlink(missing_ok=True)
    elif what == "touch" and path.exists():
        project.put(f"data/{key}", *_rows(path))
    elif what == "swap" and path.exists():
        other = project.folder / "data" / more
        other.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, other)


def _rows(path: Path) -> list[tuple[int, str]]:
    return [(int(a), b) for a, b in (line.split(",") for line in path.read_text().splitlines()[1:])]
