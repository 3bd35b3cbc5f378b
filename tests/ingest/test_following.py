"""A schema that follows the files: what a change of it costs, what plan says of it, and what people are told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import lading
from lading.config.file import load
from lading.ingest.quarantine import list_aside
from lading.log.table import Table
from lading.run import TableReport, plan_tables, run
from lading.sources.schema import load_schema
from lading.watch import Watch


class Project:
    def __init__(self, folder: Path, *lines: str) -> None:
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        self.configure(*lines)
        self._clock = 10**9

    def configure(self, *lines: str) -> None:
        said = "".join(f"    {line}\n" for line in lines)
        (self.folder / "lading.yaml").write_text(
            "spark: {in_process_below: 1GB}\ntables:\n  t:\n    root: data\n    path: '*.csv'\n"
            f"    format: csv\n{said}"
        )

    def put(self, **files: str | None) -> None:
        for name, text in files.items():
            path = self.folder / "data" / f"{name}.csv"
            if text is None:
                path.unlink()
                continue
            self._clock += 10
            path.write_text(text)
            os.utime(path, (self._clock, self._clock))

    def plan(self) -> Any:
        [plan] = plan_tables(load(self.folder), watch=Watch())
        return plan

    def run(self) -> TableReport:
        report = run(load(self.folder), allow_vanish=True)
        assert report.error is None, report.error
        assert not report.spark_started
        return report.tables[0]

    def read(self) -> set[str]:
        """Run, and say which files were read."""
        plan = self.plan()
        self.run()
        assert self.plan().idle
        return {file.key.removesuffix(".csv") for file in plan.read}

    def types(self) -> dict[str, str]:
        with lading.open(self.folder / "warehouse" / "t") as reader:
            return {one.name: str(one.type) for one in reader.scan().schema if one.name != "_source"}

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        with lading.open(self.folder / "warehouse" / "t") as reader:
            found = reader.scan(columns=columns).to_table().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)

    def because(self) -> dict[str, str]:
        schema = load_schema(self.folder / "schema" / "t.yaml")
        assert schema is not None
        return schema.because | {"": schema.looked_at}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "p", "drift: evolve")
    made.put(a="id,n\n1,1\n2,5\n", b="id,n\n3,7\n")
    made.run()
    return made


def test_a_new_column_reads_the_new_file_alone(project: Project) -> None:
    project.put(c="id,n,note\n4,8,hello\n")
    plan = project.plan()
    assert plan.again is None and plan.verdicts["unchanged"] == 2
    assert project.read() == {"c"}
    assert project.rows("id", "note") == [(1, None), (2, None), (3, None), (4, "hello")]
    project.put(c=None)
    assert project.read() == set()
    assert project.types() == {"id": "int64", "n": "int64"}
    assert project.because()[""] == "2 files, 3 rows"


def test_a_type_that_widens_without_loss_reads_nothing_again_and_narrows_so(project: Project) -> None:
    project.put(c="id,n\n4,2.5\n")
    assert project.read() == {"c"}
    assert project.types()["n"] == "double"
    assert project.rows("n") == [(1.0,), (2.5,), (5.0,), (7.0,)]
    assert project.because()["n"] == "double because of line 2 of c.csv: '2.5'"
    project.put(d="id,n\n5,#DIV/0!\n")
    assert project.read() == {"d"}
    assert project.rows("n") == [("#DIV/0!",), ("1",), ("2.5",), ("5",), ("7",)]
    project.put(d=None)
    assert project.read() == set()
    assert project.types()["n"] == "double" and len(project.rows("n")) == 4
    project.put(c=None)
    assert project.read() == set()
    assert project.types()["n"] == "int64" and project.rows("n") == [(1,), (5,), (7,)]
    assert project.because()["n"] == "bigint in all 3 values"


def test_only_files_whose_values_would_change_their_meaning_are_read_again(project: Project) -> None:
    project.put(c="id,n\n4,2.50\n")
    project.run()
    project.put(d="id,n\n5,x\n")
    plan = project.plan()
    assert {file.key: file.verdict for file in plan.files} == {
        "a.csv": "unchanged",
        "b.csv": "unchanged",
        "c.csv": "reread",
        "d.csv": "new",
    }
    assert plan.again.why == "column 'n' goes from double to string"
    assert project.read() == {"c", "d"}
    assert project.rows("n") == [("1",), ("2.50",), ("5",), ("7",), ("x",)]


def test_with_quarantine_one_odd_value_is_a_row_set_aside_and_the_column_stays_a_number(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path / "p", "columns: add", "types: quarantine")
    project.put(a="id,n\n" + "".join(f"{i},{i}\n" for i in range(20)))
    project.run()
    project.put(b="id,n\n90,#DIV/0!\n91,5\n")
    assert project.read() == {"b"}
    assert project.types()["n"] == "int64" and len(project.rows("n")) == 21
    [aside] = list_aside(load(project.folder), "t")
    assert (aside.file, aside.rows) == ("b.csv", 1)
    assert project.because()["n"] == "bigint: all but 1 of 22 values; line 2 of b.csv: '#DIV/0!'"
    project.put(c="id,n\n" + "".join(f"{100 + i},x\n" for i in range(30)))
    plan = project.plan()
    assert {file.key for file in plan.read} == {"b.csv", "c.csv"}, "what was set aside comes back"
    project.run()
    assert project.types()["n"] == "string" and len(project.rows("n")) == 52
    assert not list_aside(load(project.folder), "t")


def test_a_type_that_a_person_wrote_stays(project: Project) -> None:
    path = project.folder / "schema" / "t.yaml"
    path.write_text(
        path.read_text().replace("type: bigint\n  because: bigint in all 3 values", "type: bigint")
    )
    assert project.read() == set()
    project.put(c="id,n\n4,2.5\n")
    report = run(load(project.folder))
    assert "'2.5' is not a bigint" in str(report.error)


def test_types_in_lading_yaml_stay_until_they_are_removed(project: Project) -> None:
    project.configure("drift: {columns: add, types: widen}", "columns: {n: string}")
    assert project.read() == set(), "1, 5 and 7 are written just so"
    assert project.types()["n"] == "string"
    project.configure("drift: evolve")
    assert project.read() == set()
    assert project.types()["n"] == "int64"


def test_the_evidence_of_a_file_is_looked_for_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from lading.ingest import evidence

    looked: list[str] = []
    real = evidence.look
    monkeypatch.setattr(evidence, "look", lambda file, spec: looked.append(file.key) or real(file, spec))
    project.put(c="id,n\n4,8\n")
    project.run()
    assert looked == ["c.csv"]
    (project.folder / "schema" / "t.yaml").unlink()
    project.run()
    assert looked == ["c.csv"] and project.because()[""] == "3 files, 4 rows"
    table = Table.open(project.folder / "warehouse" / "t")
    table.checkpoint()
    project.put(c=None)
    project.run()
    assert looked == ["c.csv"] and project.because()[""] == "2 files, 3 rows"


def test_another_way_of_reading_is_named(project: Project) -> None:
    project.configure("drift: evolve", "read_options: {null: '5', trim: true}", "order_by: id")
    assert project.plan().again.why == "order_by, read_options (null, trim) changed"
    project.configure("drift: strict")
    assert project.plan().again.why == "the policy for columns and types changed"


def test_a_policy_that_takes_more_reads_nothing_again(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.put(a="id,n\n1,1\n", b="id,n\n3,7\n")
    project.run()
    project.configure("drift: evolve")
    assert project.read() == set()
    project.put(c="id,n,m\n4,2.5,1\n")
    assert project.read() == {"c"}
    assert project.rows("n") == [(1.0,), (2.5,), (7.0,)]


def test_a_column_that_a_check_looks_at_or_that_has_a_default_reads_everything(project: Project) -> None:
    project.configure("drift: {columns: add, types: widen}", "columns: {note: {default: none}}")
    project.run()
    project.put(c="id,n,note\n4,8,hello\n")
    assert project.read() == {"a", "b", "c"}
    assert project.rows("note") == [("hello",), ("none",), ("none",), ("none",)]


def test_readers_of_an_older_snapshot_see_its_columns(project: Project) -> None:
    project.put(c="id,n,note\n4,x,hello\n")
    project.run()
    with lading.open(project.folder / "warehouse" / "t", offset=1) as reader:
        assert [one.name for one in reader.scan().schema] == ["id", "n", "_source"]
        assert sorted(reader.scan(columns=["n"]).to_table().column("n").to_pylist()) == [1, 5, 7]
