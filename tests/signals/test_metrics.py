"""What Prometheus is told of runs."""

import urllib.error
import urllib.request

import pytest
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families
from support.watched import WatchedProject

from lading.cli.main import invoke
from lading.errors import ConfigError
from lading.run import run
from lading.signals.after import Signals
from lading.signals.metrics import METRICS, TEXT_TYPE, Metrics
from lading.signals.server import serving


@pytest.fixture
def project(tmp_path):
    project = WatchedProject(tmp_path / "project")
    project.put("data/one.csv", (1, "x"), (2, "y"))
    project.put("other/one.csv", (7, "y"))
    return project


def values(text: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_a_run_writes_a_textfile_and_the_next_one_counts_on(project, tmp_path):
    file = tmp_path / "collector" / "lading.prom"
    assert invoke(["-C", str(project.folder), "run", "--metrics-file", str(file), "--json"]) == 0
    first = values(file.read_text())
    assert first['lading_rows{table="a"}'] == 2 and first['lading_rows{table="b"}'] == 1
    assert first['lading_runs_total{table="a",result="succeeded"}'] == 1
    assert first['lading_runs_total{table="a",result="failed"}'] == 0
    assert first['lading_last_run_success{table="a"}'] == 1
    assert first['lading_parts{table="a"}'] == 1 and first['lading_bytes{table="a"}'] > 0
    assert first['lading_sources{table="a"}'] == 1
    assert first['lading_published_timestamp_seconds{table="a"}'] > 1_700_000_000
    assert first['lading_phase_seconds{table="a",phase="commit"}'] >= 0
    project.put("data/two.csv", (3, "z"))
    assert invoke(["-C", str(project.folder), "run", "--metrics-file", str(file), "--json"]) == 0
    second = values(file.read_text())
    assert second['lading_rows_added_total{table="a"}'] == 3
    assert second['lading_runs_total{table="a",result="succeeded"}'] == 2


def test_a_run_that_fails_is_told_with_what_is_pending(project):
    signals = Signals(project.config, pytest.fail)
    (project.folder / "data" / "bad.csv").write_text("id,note\nx,y\n")
    signals.finished(project.config, run(project.config, watch=signals.phases))
    told = values(signals.metrics.text())
    assert told['lading_last_run_success{table="a"}'] == 0
    assert told['lading_pending_files{table="a"}'] == 2
    assert told['lading_pending_files{table="b"}'] == 0


HOSTILE = 'a"b\\c\nd} ü\\n,x="1"'


def test_the_text_is_prometheus_own():
    """Its own library reads it, and so does the next run."""
    metrics = Metrics()
    for number, name in enumerate(METRICS):
        metrics.set(name, number + 0.5, table=HOSTILE)
        metrics.set(name, 10**15 + number, table="b", result="failed")
    text = metrics.text()
    families = list(text_string_to_metric_families(text))
    assert {one.name: (one.type, one.documentation) for one in families} == {
        name.removesuffix("_total"): told for name, told in METRICS.items()
    }
    told = {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}
    assert told == {(name, HOSTILE): number + 0.5 for number, name in enumerate(METRICS)} | {
        (name, "b", "failed"): 10**15 + number for number, name in enumerate(METRICS)
    }
    assert all(name.endswith("_total") == (kind == "counter") for name, (kind, _) in METRICS.items())
    again = Metrics()
    again.go_on_from(text)
    counters = {name for name, (kind, _) in METRICS.items() if kind == "counter"}
    lines = [line for line in text.splitlines() if line.split("{")[0].split()[-1] in counters]
    assert [line for line in again.text().splitlines() if line[0] != "#"] == lines
    assert TEXT_TYPE == CONTENT_TYPE_PLAIN_0_0_4


def test_a_torn_or_edited_file_is_no_trouble():
    metrics = Metrics()
    metrics.go_on_from(
        'lading_runs_total{table="a",result="failed"} many\nlading_rows{table="a"} 7\nnonsense{\n'
        'lading_runs_total{table="a"} inf\nlading_runs_total{table="b"} nan\nlading_runs_total{table=} 1\n'
        'lading_runs_total{table="c"'
    )
    assert metrics.text() == ""


def test_metrics_that_cannot_be_written_fail_no_run_and_are_complained_of_once(project, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    said: list[str] = []
    signals = Signals(project.config, said.append, tmp_path / "file" / "lading.prom")
    report = run(project.config, watch=signals.phases)
    signals.finished(project.config, report)
    signals.finished(project.config, report)
    assert len(said) == 1 and "metrics can't be written" in said[0]


def test_metrics_are_served_and_nothing_else_is():
    with serving(lambda: "lading_rows 1\n", 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert answer.read() == b"lading_rows 1\n"
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        with pytest.raises(ConfigError, match="--metrics-port"), serving(str, port):
            pass


def test_the_config_can_name_the_file(project):
    text = (project.folder / "lading.yaml").read_text()
    (project.folder / "lading.yaml").write_text("metrics: {file: metrics/lading.prom}\n" + text)
    assert invoke(["-C", str(project.folder), "run", "--json"]) == 0
    assert (project.folder / "metrics" / "lading.prom").exists()
