"""docs/dagster.md and docs/airflow.md: their code, run by Dagster and by Airflow.

Both take minutes to install, so they have an environment of their own: `make soak` makes it and runs these.
Elsewhere, only that lading has what the pages import is tested.
"""

from __future__ import annotations

import ast
import importlib
import re
import runpy
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.watched import WatchedProject

DOCS = Path(__file__).parents[2] / "docs"
CONFIG = """\
spark: {in_process_below: 1MB}
tables:
  voyages:
    root: data
    path: '**/*.csv'
    format: csv
    order_by: id
    checks:
    - not_null: [note]
    - min_rows: 2
    - range: {column: id, max: 100}
      severity: warn
  ports: {root: other, path: '*.csv', format: csv, order_by: id}
"""
SCHEMA = "columns:\n- {name: id, type: bigint}\n- {name: note, type: string}\n"


def code_of(page: str) -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.mark.parametrize("page", ["dagster.md", "airflow.md"])
def test_lading_has_what_the_page_imports(page):
    found = [
        (one.module, name.name)
        for one in ast.walk(ast.parse(code_of(page)))
        if isinstance(one, ast.ImportFrom) and one.module and one.module.startswith("lading")
        for name in one.names
    ]
    assert found
    for module, name in found:
        assert hasattr(importlib.import_module(module), name)


@pytest.fixture
def project(tmp_path: Path) -> WatchedProject:
    project = WatchedProject(tmp_path / "shipping", CONFIG)
    for table in ("voyages", "ports"):
        (project.folder / "schema" / f"{table}.yaml").write_text(SCHEMA)
    project.put("data/one.csv", (1, "x"), (2, "y"))
    project.put("other/one.csv", (7, "y"))
    return project


@pytest.fixture
def page(request, project: WatchedProject, tmp_path: Path, monkeypatch) -> SimpleNamespace:
    """The names that the page's code defines, with this project for the one that it speaks of."""
    name = request.param
    pytest.importorskip(name, reason="`make soak` installs it")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    code = code_of(f"{name}.md").replace("/srv/shipping", str(project.folder))
    (tmp_path / "page.py").write_text(code)
    return SimpleNamespace(**runpy.run_path(str(tmp_path / "page.py"), run_name="page"))


@pytest.mark.parametrize("page", ["dagster"], indirect=True)
def test_dagster_is_told_of_snapshots_and_checks(page, project):
    import dagster

    def materialize(*, fails: bool = False):
        ran = dagster.materialize([page.lading_tables], raise_on_error=not fails)
        assert ran.success is not fails
        told = {
            one.asset_key.to_user_string(): {
                key: value.value
                for key, value in one.step_materialization_data.materialization.metadata.items()
            }
            for one in ran.get_asset_materialization_events()
        }
        return ran, told, {one.check_name: one for one in ran.get_asset_check_evaluations()}

    _, told, checks = materialize()
    assert told.keys() == {"voyages", "ports"}
    assert told["voyages"]["dagster/row_count"] == 2
    assert told["voyages"]["run"] in told["voyages"]["snapshot"]
    assert {name: one.passed for name, one in checks.items()} == {
        "not_null_note": True,
        "min_rows": True,
        "range_id": True,
    }
    _, told, checks = materialize()
    assert not told and not checks, "nothing new"
    project.put("data/two.csv", (500, "far"))
    _, told, checks = materialize()
    assert told.keys() == {"voyages"} and told["voyages"]["rows added"] == 1
    assert not checks["range_id"].passed and checks["range_id"].severity == dagster.AssetCheckSeverity.WARN
    project.put("data/bad.csv", ("no number", "z"))  # type: ignore[arg-type]
    project.put("other/two.csv", (8, "z"))
    ran, told, _ = materialize(fails=True)
    assert told.keys() == {"ports"}, "one that fails does not stop the other"
    (failed,) = ran.get_step_failure_events()
    assert "bad.csv:2: 'no number' is not a bigint" in failed.step_failure_data.error.message


@pytest.mark.parametrize("page", ["dagster"], indirect=True)
def test_dagster_runs_the_tables_that_are_asked_for(page, project):
    import dagster

    ran = dagster.materialize([page.lading_tables], selection=["ports"])
    assert [str(one.asset_key.to_user_string()) for one in ran.get_asset_materialization_events()] == [
        "ports"
    ]
    assert project.rows("voyages") == []


@pytest.mark.parametrize("page", ["airflow"], indirect=True)
def test_airflow_runs_tables_and_says_what_it_did(page, project):
    run = page.shipping.get_task("run")
    done = run.execute({})
    assert done == {"voyages": {"run": done["voyages"]["run"], "rows": 2, "published": True}}
    assert run.execute({})["voyages"]["published"] is False, "nothing new"
    assert project.rows("ports") == [], "it was not asked for"
    project.put("data/bad.csv", ("no number", "z"))  # type: ignore[arg-type]
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"bad.csv:2: 'no number' is not a bigint"):
        run.execute({})


@pytest.mark.parametrize("page", ["airflow"], indirect=True)
def test_airflow_waits_for_a_snapshot_and_reads_the_one_it_saw(page, project):
    sensor = page.report.get_task("published")
    run = page.shipping.get_task("run")

    def rendered(due: datetime) -> Any:
        """The sensor with its templates filled in, as in a DAG run that was due then."""
        copy = sensor.prepare_for_execution()
        copy.render_template_fields({"dag_run": SimpleNamespace(run_after=due)})
        return copy

    early = rendered(datetime.now(UTC))
    assert early.poke({}) is False, "there is no table yet"
    first = run.execute({})["voyages"]["run"]
    seen = early.poke({})
    assert seen.is_done and seen.xcom_value == first
    late = rendered(datetime.now(UTC))
    assert late.poke({}) is False, "published before it was due"
    project.put("data/two.csv", (3, "z"))
    second = run.execute({})["voyages"]["run"]
    assert late.poke({}).xcom_value == second != first
    count = page.report.get_task("count_rows").python_callable
    assert (count(first), count(second)) == (2, 3)
