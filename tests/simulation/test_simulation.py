"""The simulation itself: what it plays here holds, and what it would find it finds.

A world replaces the clock, the disk and the threads of its process, so each is played in one of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.linear import Operation, explained

TESTS = Path(__file__).parent.parent
SOAK = bool(os.environ.get("LADING_SOAK"))


def simulate(*asked: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "simulation", *asked],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_history_that_ever_failed_holds_and_fails_again_with_its_defect() -> None:
    done = simulate("--regressions")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fixed_set_of_histories_holds() -> None:
    done = simulate("--from-seed", "0", "--histories", "4000" if SOAK else "600", "--workers", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def _by_commit() -> list[str]:
    """Other histories with every commit, and as many as a core plays in less than a minute: a commit fails or
    holds, however busy the machine is."""
    asked = ["git", "-C", str(TESTS), "rev-parse", "HEAD"]
    head = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    first = ["--from-seed", str(int(head, 16) % (1 << 40))] if head else []
    return ["--histories", "1200", "--workers", "1", *first]


def test_random_histories_hold() -> None:
    """What fails is printed with its seed and the command that replays it."""
    done = simulate("--minutes", "20") if SOAK else simulate(*_by_commit())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    not SOAK, reason="make soak: all defects take a quarter of an hour, a few are looked for below"
)
def test_every_defect_is_found() -> None:
    done = simulate("--mutants")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "story", ["collecting", "pointing", "tabling", "serving", "showing", "deriving", "watching", "unpacking"]
)
def test_a_seed_is_one_history(story: str) -> None:
    one, other = (simulate("--story", story, "--seed", "7") for _ in range(2))
    assert one.stdout == other.stdout and " steps; faults: " in one.stdout


@pytest.mark.parametrize(
    "defect",
    [
        "a manifest.json that arrives late and replaces a newer one",
        "a repair that slept replaces a newer manifest.json",
        "a frame shown that its writer did not sync",
        "a slow download taken for abandoned",
        "an fsync of the log left out",
        "an fsync of a folder left out",
        "a compare left out, in a folder",
        "a compare left out, in a bucket",
        "a log object created over another",
        "the pointer before the manifest",
        "a stale read at commit",
        "a rollback that doesn't hold",
        "a failed append left in the log",
        "a dead run that nobody gives up",
        "a page shared after a change",
        "a checkpoint before its pages",
        "a lost minus",
        "shards shared though their keys changed",
        "cleaning that forgets shards",
        "position deletes left out",
        "a hint that stays where it is",
        "the pointer read before the newest version",
        "slots that changed and are not found",
        "another snapshot of an input taken for the same",
        "hints taken for the whole truth",
        "a lease that never lapses",
        "an extraction of an older archive used",
        "what a check set aside never read again",
    ],
)
def test_a_defect_is_found(defect: str) -> None:
    done = simulate("--mutants", "--only", defect)
    assert done.returncode == 0, done.stdout + done.stderr


def _op(kind: str, asked: int, called: int, answered: int, answer: int | None = None) -> Operation:
    return Operation("x", kind, [asked], called, answered, answer, known=answered < 100)


def _register(state: int, op: Operation) -> list[int]:
    if op.kind == "write":
        return [op.asked[0]]
    return [state] if op.answer == state else []


@pytest.mark.parametrize(
    ("history", "is_so"),
    [
        ([("write", 1, 0, 5), ("read", 0, 1, 2, 0), ("read", 0, 3, 4, 1)], True),
        ([("write", 1, 0, 5), ("read", 0, 1, 2, 1), ("read", 0, 3, 4, 0)], False),  # back again
        ([("write", 1, 0, 2), ("read", 0, 3, 4, 0)], False),  # lost
        ([("write", 1, 0, 1000), ("read", 0, 3, 4, 0)], True),  # nobody was told
        ([("write", 1, 0, 1000), ("read", 0, 3, 4, 1), ("read", 0, 5, 6, 1)], True),
        ([("write", 1, 0, 1000), ("read", 0, 3, 4, 1), ("read", 0, 5, 6, 0)], False),
    ],
)
def test_a_history_is_explained_or_not(history: list[tuple[str, int, int, int]], is_so: bool) -> None:
    assert explained([_op(*one) for one in history], 0, _register) is is_so
