"""The kinds of worlds there are, and how much of the time each gets."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.case import Case

# By module: its share of the histories. A table's history costs as much as forty of a pointer.
STORIES_BY_NAME = {
    "collecting": 10, "pointing": 10, "tabling": 1, "serving": 1, "showing": 1, "deriving": 1, "watching": 1,
    "unpacking": 1,
}  # fmt: skip


def story_case(name: str, seed: int) -> Case:
    """The history of that seed."""
    made: Case = importlib.import_module(f"simulation.{name}").make(seed)
    return made
