"""A schema is a function of the files that are there: whatever came, changed and went before, in whatever
order, columns, types, evidence and rows are those of a new project that never saw anything else."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lading
from lading.config.file import load
from lading.ingest.quarantine import list_aside
from lading.run import run
from lading.sources.schema import load_schema

POLICIES = {
    "evolve": "drift: evolve",
    "add, widen by word": "columns: add\n    types: widen",
    "add, quarantine": "columns: add\n    types: quarantine",
    "strict names, widen": "types: widen",
    "strict names, quarantine": "types: quarantine",
}
VALUES = (
    "", "1", "-7", "15", "2.5", "0.1", "1.50", "1e3", "5.0", "00501", "999999999999999", "9999999999999999",
    "true", "False", "x", "#DIV/0!", "2024-01-01", "2024-02-29 10:00:00", "2024-01-01T00:00:00Z", "NaN",
)  # fmt: skip
NAMES = ("a", "b", "c")
CELLS = st.sampled_from(VALUES)
# Most columns hold one sort of value, or there would be nothing but text.
SORTS = st.sampled_from(
    [("1", "-7", "15"), ("1", "2.5", "0.1"), ("2.5", "1.50", "1e3"), ("2024-01-01",), ("2024-01-01", "2024-02-29 10:00:00"),
     ("true", "False"), ("x", "00501"), ("1", "999999999999999"), ("9999999999999999", "1"), ("",), VALUES]
)  # fmt: skip


@st.composite
def a_file(draw: st.DrawFn, names: tuple[str, ...] | None) -> str:
    columns = names or tuple(
        draw(st.permutations(draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))))
    )
    count = draw(st.sampled_from([0, 1, 2, 3, 12]))
    sorts = [draw(SORTS) for _ in columns]
    lines = [",".join(("id", *columns))]
    for number in range(count):
        cells = [draw(st.sampled_from(sort)) for sort in sorts]
        lines.append(",".join((str(number), *cells)))
    if count and draw(st.integers(0, 3)) == 0:
        lines.append(",".join(("99", *(draw(CELLS) for _ in columns))))
    return "\n".join(lines) + "\n"


def steps(names: tuple[str, ...] | None) -> st.SearchStrategy[list[dict[str, str | None]]]:
    """What is put in each step, or taken away, by file."""
    change = st.dictionaries(st.sampled_from("pqrs"), st.none() | a_file(names), min_size=1, max_size=3)
    return st.lists(change, min_size=1, max_size=4)


class Project:
    def __init__(self, folder: Path, policy: str, data: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "lading.yaml").write_text(
            "spark: {in_process_below: 1GB}\n"
            f"tables:\n  t:\n    root: {data}\n    path: '*.csv'\n    format: csv\n    order_by: id\n    {policy}\n"
        )

    def run(self) -> str | None:
        report = run(load(self.folder), allow_vanish=True)
        assert not report.spark_started
        return str(report.error) if report.error is not None else None

    def schema(self) -> Any:
        found = load_schema(self.folder / "schema" / "t.yaml")
        assert found is not None
        return [(c.name, c.type, c.inferred) for c in found.columns], found.because, found.looked_at

    def rows(self) -> tuple[list[tuple[str, str]], Counter[Any]]:
        with lading.open(self.folder / "warehouse" / "t") as reader:
            table = reader.scan().to_table()
        kinds = [(field.name, str(field.type)) for field in table.schema]
        return kinds, Counter(tuple(map(repr, row.items())) for row in table.to_pylist())

    def aside(self) -> Counter[Any]:
        return Counter((one.file, one.rows) for one in list_aside(load(self.folder), "t"))


@pytest.mark.parametrize("policy", POLICIES)
def test_schema_and_rows_are_those_of_a_new_project(policy: str) -> None:
    names = NAMES if policy.startswith("strict") else None
    examples = 3_000 if os.environ.get("LADING_SOAK") else 40

    @settings(max_examples=examples, deadline=None)
    @given(steps(names))
    @example([{"p": "id,a,b,c\n1,1,1,1\n"}, {"q": "id,a,b,c\n1,#DIV/0!,x,1.50\n"}, {"q": None}])
    def holds(history: list[dict[str, str | None]]) -> None:
        top = Path(tempfile.mkdtemp(prefix="lading-"))
        try:
            follow(top, policy, history)
        finally:
            shutil.rmtree(top)

    holds()


def follow(top: Path, policy: str, history: list[dict[str, str | None]]) -> None:
    data = top / "data"
    data.mkdir()
    project = Project(top / "p", POLICIES[policy], data)
    for number, changes in enumerate(history):
        for name, content in changes.items():
            path = data / f"{name}.csv"
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(content)
                os.utime(path, (10**9 + number, 10**9 + number))
        if not any(data.iterdir()):
            return
        error = project.run()
        anew = Project(top / f"anew{number}", POLICIES[policy], data)
        assert anew.run() == error
        if error is not None:
            return
        assert project.schema() == anew.schema()
        assert project.rows() == anew.rows()
        assert project.aside() == anew.aside()
        assert project.run() is None
        assert project.schema() == anew.schema()
