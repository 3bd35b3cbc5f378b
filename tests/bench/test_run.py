"""Running jobs: results are kept as they come, and what a job started is ended with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import Results
from bench.run import end_all_of, main, run_job


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that ran, with its results and its data."""
    folder = tmp_path_factory.mktemp("job")
    run_job("publish", Results(folder / "results"), "tiny", data=folder / "data")
    return folder


def test_a_job_leaves_results_a_page_and_a_picture_and_no_scratch(done: Path) -> None:
    figures = Results(done / "results").figures()
    assert list(figures) == ["publish"] and len(figures["publish"]) == 2
    assert (done / "results" / "RESULTS.md").read_text().count("## publish") == 1
    assert (done / "results" / "pictures" / "publish.svg").exists()
    assert not list((done / "data").glob("work-*"))


def test_an_unknown_job_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--job", "plann"])
    with pytest.raises(SystemExit, match="there is no job 'plann'; the jobs are: plan, "):
        main()


def test_an_unknown_size_is_refused_and_leaves_the_results_alone(done: Path) -> None:
    results = Results(done / "results")
    before = {path.name: path.read_bytes() for path in results.folder.iterdir() if path.is_file()}
    with pytest.raises(SystemExit, match="publish: there is no size '77'; the sizes are: 100, 1k"):
        run_job("publish", results, "tiny", "77", data=done / "data")
    assert {path.name: path.read_bytes() for path in results.folder.iterdir() if path.is_file()} == before


def test_what_a_job_started_is_ended_with_it() -> None:
    script = (
        "import subprocess, sys; c = subprocess.Popen(['sleep', '600']); print(c.pid, flush=True); c.wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    end_all_of(process)
    process.stdout.close()
    assert process.returncode is not None and process.returncode != 0
    status = Path(f"/proc/{child}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"
