"""The kinds of worlds there are, and how much of the time each gets."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.case import Case

# By module: its share of the histories. That of a pointer costs a thirtieth of a table's, a collection's an
# eighth. Of the histories that ever failed (`regressions/`) a third are of pointers, and a fifth each of
# `showing` and `unpacking`; most mutants are for `tabling` to find.
STORIES_BY_NAME = {
    "collecting": 10, "pointing": 60, "tabling": 2, "serving": 1, "showing": 2, "deriving": 1, "watching": 1,
    "unpacking": 2,
}  # fmt: skip


def story_case(name: str, seed: int) -> Case:
    """The history of that seed."""
    made: Case = importlib.import_module(f"simulation.{name}").make(seed)
    return made
