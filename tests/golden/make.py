"""Writes the golden directories of this version: what every later version has to open.

python tests/golden/make.py       writes tests/golden/<version>/; one that is there is never touched

A golden directory is made once, when a format changes, and stays for good.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))


def collection(folder: Path) -> None:
    """Three files, one of them removed, one in another tier; a checkpoint and commits behind it."""
    import lading

    folder.mkdir(parents=True)
    for number in range(4):
        keys = [number * 10, number * 10 + 5]
        pq.write_table(pa.table({"k": keys, "s": [f"s{key}" for key in keys]}), folder / f"f{number}.parquet")
    found = lading.Collection(folder)
    found.add(folder / "f0.parquet", folder / "f1.parquet", key="k")
    found.compact()
    found.add(folder / "f2.parquet", folder / "f3.parquet")
    found.remove("f1.parquet")
    found.tier("f2.parquet", 2)


def table(folder: Path) -> list[list[object]]:
    """A table of three runs with a `minus`, a retracted file, a checkpoint and a snapshot; its rows."""
    from support.project import Project

    with tempfile.TemporaryDirectory() as place:
        project = Project(Path(place) / "project")
        project.replace = "minus"
        project.write_recipe()
        for number, key in enumerate(["a.csv", "b.csv", "sub/c.csv"]):
            project.put(key, [(i, 1 + number, "x") for i in range(number, 40, 7)], age=1000)
        project.run()
        from lading.log.table import Table

        Table.open(project.table).checkpoint()
        project.put("a.csv", [(3, 9, "edited"), (33, 9, "edited")], age=500)
        (project.data / "b.csv").unlink()
        project.run()
        ignored = shutil.ignore_patterns("runs", "*.lock")
        shutil.copytree(project.table, folder, ignore=ignored)
        return sorted([list(row) for row in project.seen().elements()], key=repr)


def main() -> None:
    place = HERE / version("lading")
    if place.exists():
        sys.exit(f"{place} is there already: golden directories are never written again")
    with tempfile.TemporaryDirectory(dir=HERE) as new:
        collection(Path(new) / "collection")
        (Path(new) / "collection" / "manifest.lock").unlink()
        rows = table(Path(new) / "table")
        (Path(new) / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
        shutil.copytree(new, place)


if __name__ == "__main__":
    main()
