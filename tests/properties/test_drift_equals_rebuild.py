"""Invariant 1 under drift: whatever columns files gain, lose or retype, and wherever a run is killed, the
table's rows equal those of a fresh build under the schema that came of it. On real Spark.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from support.drifting import FORMATS, Drifting
from support.machines import KillAt, Killed, run_machine

from lading.errors import SchemaDrift

NAMES = ["a", "b", "c"]
PHASES = ["prepare", "ingest", "commit", "record", "publish"]
# What a column may hold, each wider than the one before; in Parquet a file's column has one type.
VALUES = {
    "int": st.integers(-1000, 1000),
    "bigint": st.integers(2**31, 2**40),
    "double": st.sampled_from([0.5, -2.25, 1024.125]),
    "string": st.sampled_from(["x", "soon", "a,b", "00501", "+5"]),
}
KINDS = list(VALUES)


@st.composite
def files(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows, and the columns of the file in its own order; `id` is always there."""
    others = draw(st.lists(st.sampled_from(["x", "y", "z"]), unique=True))
    kinds = {name: draw(st.sampled_from(KINDS)) for name in others}
    rows = draw(st.lists(st.integers(0, 99), min_size=1, max_size=4))
    made = [{"id": i} | {n: draw(st.none() | VALUES[k]) for n, k in kinds.items()} for i in rows]
    return made, draw(st.permutations(["id", *others]))


class Evolving(RuleBasedStateMachine):
    format = "csv"

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="lading-"))
        self.project = Drifting(self.top / "project", self.format, "evolve")
        self.tick = 0
        self.clean = False

    def teardown(self) -> None:
        if self.project.files():
            self.project.run()
            fresh = self.project.rebuilt(self.top / "fresh")
            fresh.run()
            assert fresh.columns() == self.project.columns(), "a rebuild has nothing to evolve"
            assert self.project.seen() == fresh.seen() == self.project.truth()
        shutil.rmtree(self.top)

    @initialize(file=files())
    def first_file(self, file: Any) -> None:
        self.write("a", file)

    @rule(name=st.sampled_from(NAMES), file=files())
    def write(self, name: str, file: Any) -> None:
        self.tick += 1
        self.project.put(name, *file, at=self.tick)
        self.clean = False

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(KINDS[1:]), data=st.data())
    def widen_what_was_read(self, name: str, kind: str, data: st.DataObject) -> None:
        """A column of integers that were read meets something wider in another file."""
        self.write("a", ([{"id": 1, "x": 5}], ["id", "x"]))
        self.run()
        self.write(name, ([{"id": 2, "x": data.draw(VALUES[kind])}], ["x", "id"]))
        self.run()

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        if len(self.project.files()) > 1:
            self.project.delete(name)
            self.clean = False

    @rule(phase=st.sampled_from(PHASES))
    def run_and_be_killed(self, phase: str) -> None:
        with suppress(Killed):
            self.project.run(watch=KillAt(phase))
        self.clean = False

    @rule()
    def run(self) -> None:
        self.project.run()
        self.clean = True

    @invariant()
    @precondition(lambda self: self.clean)
    def the_table_is_what_a_rebuild_gives(self) -> None:
        assert self.project.seen() == self.project.truth()


@pytest.mark.parametrize("format", FORMATS)
def test_a_schema_that_evolves_equals_a_rebuild(spark, format: str) -> None:
    machine = type(f"Evolving_{format}", (Evolving,), {"format": format})
    run_machine(machine, examples=4, steps=8, soak=(60, 20))


@pytest.mark.parametrize("format", FORMATS)
def test_columns_that_are_new_are_left_out_and_counted(spark, tmp_path: Path, format: str) -> None:
    project = Drifting(tmp_path / "p", format, "ignore_new")
    project.put("a", [{"id": 1, "x": 5}], ["id", "x"], at=1)
    project.run()
    project.put(
        "b", [{"id": 2, "x": 6, "new": "n"}, {"id": 3, "x": None, "new": None}], ["new", "id", "x"], at=2
    )
    project.put("c", [{"id": 4, "x": 7, "new": "n"}], ["new", "id", "x"], at=3)
    [table] = project.run().tables
    wanted = (
        "3 objects had keys that were left out"
        if format == "json"
        else "column 'new' of 2 files was left out"
    )
    assert wanted in table.notes
    assert list(project.columns()) == ["id", "x"]
    fresh = project.rebuilt(tmp_path / "fresh")
    fresh.run()
    assert project.seen() == fresh.seen() == project.truth()
    assert project.run().tables[0].rows_added == 0


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_strict_refuses_what_the_others_take(spark, tmp_path: Path, format: str) -> None:
    project = Drifting(tmp_path / "p", format, "strict")
    project.put("a", [{"id": 1, "x": 5}], ["id", "x"], at=1)
    project.run()
    for columns, says in ((["id"], "'x' is missing"), (["id", "x", "new"], "'new' is new")):
        project.put("b", [{"id": 2, "x": 1, "new": 1}], columns, at=2)
        with pytest.raises(SchemaDrift, match=says):
            project.run()


def test_another_policy_is_another_recipe(spark, tmp_path: Path) -> None:
    project = Drifting(tmp_path / "p", "csv", "evolve")
    project.put("a", [{"id": 1, "x": 5}], ["id", "x"], at=1)
    project.put("b", [{"id": 2}], ["id"], at=2)
    project.run()
    assert project.seen() == project.truth()
    text = (project.folder / "lading.yaml").read_text()
    (project.folder / "lading.yaml").write_text(text.replace("drift: evolve", "drift: strict"))
    with pytest.raises(SchemaDrift, match=r"b\.csv: column 'x' is missing"):
        project.run()
