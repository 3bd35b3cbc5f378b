"""docs/map.md says what is there: the rooms, what may import what, and the four walks, each walked here."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.walks import walked

from lading.cli.main import invoke

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
CONFIG = """\
tables:
  ships:
    path: "data/*.csv"
    format: csv
    order_by: imo
    serve: {key: imo, shards: 2}
"""


def rooms_on_the_page() -> list[list[str]]:
    """The rooms from top to bottom; those of one line see each other as little as those of two."""
    table = re.search(r"^\| room \|.*?\n\|[-|]+\|\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE)
    assert table is not None
    return [re.findall(r"`([a-z_]+)(?:/|\.py)`", row.split("|")[1]) for row in table[1].splitlines()]


def test_the_rooms_are_those_of_the_contract_in_its_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.split(r" [:|] ", layer) for layer in contracts[0]["layers"]]
    assert [sorted(row) for row in rooms_on_the_page()] == [sorted(layer) for layer in layers]


def test_every_folder_and_every_file_at_the_top_has_its_line() -> None:
    top = (ROOT / "src" / "lading").iterdir()
    there = {path.stem for path in top if (path / "__init__.py").exists() or path.suffix == ".py"}
    assert {room for row in rooms_on_the_page() for room in row} == there - {"__init__"}


def steps_of(walk: str) -> list[str]:
    """The `file:function` lines below a walk's heading. Those marked as tasks run in Spark's workers."""
    found = re.search(rf"^### `{walk}`.*?\n```\n(.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/map.md has no walk {walk}"
    lines = [line for line in found[1].splitlines() if line.strip()]
    return [line.split()[0] for line in lines if not line.startswith("  task")]


@pytest.mark.parametrize("walk", ["lading run", "lading plan", "lading scan", "lading get"])
def test_every_step_of_a_walk_is_a_function_that_is_there(walk: str) -> None:
    found = re.search(rf"^### `{walk}`.*?\n```\n(.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    for step in re.findall(r"\S+\.py:\S+", found[1]):
        file, _, function = step.partition(":")
        text = (ROOT / "src" / "lading" / file).read_text(encoding="utf-8")
        assert re.search(
            rf"^\s*(?:async )?(?:def|class) {function.rpartition('.')[2]}\b", text, re.MULTILINE
        ), step


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    folder = tmp_path_factory.mktemp("walks")
    (folder / "data").mkdir()
    (folder / "lading.yaml").write_text(CONFIG)
    for name in ("a", "b"):
        write(folder / "data" / f"{name}.csv", f"imo,name\n{ord(name)},{name}\n")
    assert invoke(["-C", str(folder), "run"]) == 0
    return folder


def write(file: Path, text: str) -> None:
    file.write_text(text)
    os.utime(file, (1_700_000_000 + len(text), 1_700_000_000 + len(text)))


def change(folder: Path) -> None:
    write(
        folder / "data" / "a.csv",
        f"imo,name\n97,{'a' * (1 + len((folder / 'data' / 'a.csv').read_text()))}\n",
    )


WALKS: dict[str, Callable[[Path], object]] = {
    "lading plan": lambda folder: invoke(["-C", str(folder), "plan"]),
    "lading run": lambda folder: invoke(["-C", str(folder), "run"]),
    "lading scan": lambda folder: invoke(["-C", str(folder), "scan", "ships", "--where", "imo = 97"]),
    "lading get": lambda folder: invoke(["-C", str(folder), "get", "ships", "97"]),
}


@pytest.mark.parametrize("walk", list(WALKS))
def test_a_walk_goes_where_the_page_says(project: Path, walk: str) -> None:
    if walk in ("lading plan", "lading run"):
        change(project)
    with walked() as entered:
        WALKS[walk](project)
    rest = iter(entered)
    missed = [step for step in steps_of(walk) if step not in rest]
    assert not missed, "not on the way, or not in this order:\n" + "\n".join(entered)
