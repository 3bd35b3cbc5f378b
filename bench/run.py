"""`make bench`: each job in a process of its own, one after the other, results kept as they come.

A job that hangs or dies costs itself and no other: it is ended after its time, and what it had measured
by then stays. A job that is run again replaces its own part of the results and nothing else.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import report
from bench.case import Kit, Level, NoSuchSize
from bench.harness import reason
from bench.registry import JOBS
from lading.spark.session import is_started, stop_session

HERE = Path(__file__).resolve().parent
DATA = HERE / ".data"
TOTAL = 89 * 60.0  # seconds for all jobs together


def main() -> None:
    """What the Makefile calls; `--child` is the process of one job."""
    words = _parser().parse_args()
    wanted = [words.job] if words.job else list(JOBS)
    unknown = [name for name in wanted if name not in JOBS]
    if unknown:
        sys.exit(f"there is no job {unknown[0]!r}; the jobs are: {', '.join(JOBS)}")
    results = report.Results(DATA / "quick" if words.level != "full" else HERE)
    if words.child:
        run_job(wanted[0], results, words.level, words.size)
        return
    begun = time.monotonic()
    endings = [
        _in_its_own_process(name, words, results, TOTAL - (time.monotonic() - begun)) for name in wanted
    ]
    results.write_pages()
    print(f"\nafter {_clock(time.monotonic() - begun)}: {results.folder / report.PAGE}")
    print(report.summary(results, wanted))
    sys.exit(max(endings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure lading beside its peers.")
    parser.add_argument("--job", help=f"one of: {', '.join(JOBS)}")
    parser.add_argument("--size", help="one size of the job, as its table labels it: 100k")
    parser.add_argument("--level", choices=("full", "quick", "tiny"), default="full")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser


def _in_its_own_process(name: str, words: argparse.Namespace, results: report.Results, left: float) -> int:
    """0 when the job came to its end; the bar is no part of that."""
    job = JOBS[name]
    seconds = min(job.budget, left)
    if seconds < 1:
        print(f"\n== {name}: not run, the bench's {TOTAL / 60:.0f} minutes are over")
        results.note(name, "not run in the latest bench, whose time was over")
        return 1
    command = [sys.executable, "-m", "bench", "--child", "--job", name, "--level", words.level]
    command += ["--size", words.size] if words.size else []
    print(f"\n== {name}: {job.title}", flush=True)
    # A session of its own: what it started (a JVM, workers) is ended with it.
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}  # for workers and other processes
    process = subprocess.Popen(command, cwd=HERE.parent, env=environment, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"   {name} was ended after {seconds:.0f} s; what it measured until then is kept")
        results.note(name, f"ended after {seconds:.0f} s")
        return 1
    finally:
        end_all_of(process)


def end_all_of(process: subprocess.Popen[bytes]) -> None:
    """The process and what it started; it leads a session of its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        time.sleep(0.5)
    process.wait()


def run_job(
    name: str, results: report.Results, level: Level = "full", size: str | None = None, data: Path = DATA
) -> None:
    """One job, here and now; its part of the results is replaced case by case."""
    job = JOBS[name]
    data.mkdir(exist_ok=True)
    begun = time.monotonic()
    teller = _Teller(begun)
    if size is None:
        results.begin(job)
    running = is_started()
    with tempfile.TemporaryDirectory(dir=data, prefix="work-", ignore_cleanup_errors=True) as work:
        kit = Kit(data, Path(work), level, size, tell=teller.tell)
        try:
            for number, case in enumerate(job.measure(kit)):
                if size is not None and number == 0:
                    results.begin(job, keep=True)
                results.add(job, case, time.monotonic() - begun)
                print(f"   [{_clock(time.monotonic() - begun)}] {report.one_line(case)}", flush=True)
        except NoSuchSize as error:
            sys.exit(f"{name}: {error}")
        except Exception as error:
            results.note(name, reason(error))
            raise
        if not running:
            stop_session()  # its files lie in `work`
    results.write_pages()


class _Teller:
    """What is going on, at most once in ten seconds: a log that somebody reads later."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._told = float("-inf")

    def tell(self, text: str) -> None:
        now = time.monotonic()
        if now - self._told >= 10:
            self._told = now
            print(f"   [{_clock(now - self._begun)}] {text}", flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
