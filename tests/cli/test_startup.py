"""A command loads what it needs and nothing else: most of its time would go there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.served import ServedProject

from lading.config.file import load as load_config
from lading.run import run

# What takes longer to load than a small command takes to answer.
HEAVY = (
    "numpy", "pyarrow", "pandas", "polars", "duckdb", "pyspark", "py4j", "rich", "asyncio", "obstore",
    "psycopg", "watchfiles", "subprocess", "zipfile", "tarfile", "http", "email",
)  # fmt: skip
CONFIG = """\
spark: {in_process_below: 1MB}
tables: {voyages: {root: data, path: '*.csv', format: csv, order_by: id}}
"""


def loaded(folder: Path, *args: str) -> tuple[str, list[str]]:
    """What a command prints, and which of the heavy modules it loads."""
    code = (
        "import json, sys; from lading.cli.main import invoke\n"
        f"invoke(json.loads(sys.argv[1]))\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    command = [sys.executable, "-c", code, json.dumps(["-C", str(folder), *args])]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and not shown.stderr, shown.stderr
    answer, _, modules = shown.stdout.rstrip("\n").rpartition("\n")
    return answer, json.loads(modules)


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of which nothing is pending."""
    folder = tmp_path_factory.mktemp("settled")
    (folder / "lading.yaml").write_text(CONFIG)
    (folder / "data").mkdir()
    for number in range(3):
        path = folder / "data" / f"{number}.csv"
        path.write_text(f"id,name\n{number},x\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    assert run(load_config(folder)).error is None
    return folder


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["status"], "nothing"),
        (["status", "--json"], '"rows": 3'),
        (["plan"], "nothing to do"),
        (["history", "voyages"], "current"),
        (["runs", "voyages"], "succeeded"),
        (["manifest", "show", "voyages"], "0.csv"),
        (["--help"], "status"),
    ],
)
def test_a_small_command_loads_nothing_heavy(settled: Path, args: list[str], says: str) -> None:
    answer, modules = loaded(settled, *args)
    assert says in answer
    assert modules == []


def test_of_a_served_table_a_key_and_a_plan_load_nothing_heavy(tmp_path: Path, spark: object) -> None:
    ships = ServedProject(tmp_path / "ships", "key: imo\nshards: 4\n")
    ships.put("a.csv", [(9074729, 1, "Aurora")])
    ships.run()
    for args, says in ((["get", "ships", "9074729"], "Aurora"), (["plan"], "nothing to do")):
        answer, modules = loaded(ships.folder, *args)
        assert says in answer
        assert modules == []
