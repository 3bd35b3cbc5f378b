"""no-op: a run that finds nothing to do, over many files in 1,000 folders.

lading's figure is `lading.run.run` in a process that has its imports done: files are listed and compared
with the source manifest and the log, which are read from disk each time. Start-up is shown apart: the
panel `start-up` has the whole command `lading run` on a project of one file, beside a bare Python. The
floor lists every folder, asks for every file's size and time, and compares them with a dictionary. dlt's
filesystem source lists the files with its incremental cursor on the modification time; git has all files
in its index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import sourced
from bench.bars import at_most_floor
from bench.case import Case, Job, Kit, label
from bench.fixtures import kept
from bench.harness import Contender, Turn, always, simply, timed
from lading.run import run

_COMMAND = "from lading.cli.main import main; main()"


def measure(kit: Kit) -> Iterator[Case]:
    for size in kit.sizes([10_000, 100_000, sourced.MANY], [2_000], [200]):
        yield _case(kit, size)
    if kit.only is None:
        yield _start_up(kit)


def _case(kit: Kit, size: int) -> Case:
    name = f"{label(size)} files"
    kit.tell(f"{name}: fixtures")
    config = sourced.shared(kit.data, size)
    files = config.project / "data"
    contenders = [
        simply("lading", "lading", lambda: sourced.nothing_to_do(run(config))),
        Contender("scandir + stat + compare", "floor", lambda: _floor(str(files))),
    ]
    if size < sourced.MANY:  # git takes minutes to be given a million files, dlt one for each look at them
        contenders += [
            Contender("dlt", "peer", lambda: _dlt(files, size), budget=60),
            Contender("git status", "peer", lambda: _git(kit, files, size)),
        ]
    return Case(name, size, "s", "lower", kit.contest(contenders, what=name), [at_most_floor(1.5)])


@contextmanager
def _floor(folder: str) -> Iterator[Turn]:
    known: dict[str, tuple[int, int]] = {}
    _differing(folder, known, learn=True)
    assert _differing(folder, known) == 0
    yield timed(lambda: _differing(folder, known))


def _differing(folder: str, known: dict[str, tuple[int, int]], learn: bool = False) -> int:
    """What nobody can do without: every name, and every file's size and time, against what was known."""
    found = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found += _differing(entry.path, known, learn)
                continue
            status = entry.stat()
            seen = (status.st_size, status.st_mtime_ns)
            if learn:
                known[entry.path] = seen
            found += known.get(entry.path) != seen
    return found


@contextmanager
def _dlt(files: Path, size: int) -> Iterator[Turn]:
    os.environ["RUNTIME__LOG_LEVEL"] = "CRITICAL"
    import dlt
    from dlt.sources.filesystem import filesystem

    def listing() -> None:
        found = filesystem(
            bucket_url=files.as_uri(),
            file_glob="**/*.csv",
            incremental=dlt.sources.incremental("modification_date"),
        )
        assert sum(1 for _ in found) == size

    yield timed(listing)


@contextmanager
def _git(kit: Kit, files: Path, size: int) -> Iterator[Turn]:
    """A repository beside the files: nothing is written among them."""
    if shutil.which("git") is None:
        raise FileNotFoundError("git is not installed")
    folder = kept(kit.data, f"git-{size}", str(files), lambda at: None)
    ask = ["git", f"--git-dir={folder}/repository", f"--work-tree={files}"]
    if not (folder / "done").exists():
        subprocess.run([*ask, "init", "--quiet"], check=True, cwd=files)
        subprocess.run([*ask, "add", "."], check=True, cwd=files)
        who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        subprocess.run([*ask, *who, "commit", "--quiet", "-m", "all"], check=True, cwd=files)
        (folder / "done").touch()

    def status() -> None:
        said = subprocess.run([*ask, "status", "--porcelain"], check=True, cwd=files, capture_output=True)
        assert said.stdout == b"", "the files are as they were committed"

    yield timed(status)


def _start_up(kit: Kit) -> Case:
    """The whole command, its imports included."""
    config = sourced.project(kit.data, 1)
    command = [sys.executable, "-c", _COMMAND, "-C", str(config.project), "run"]

    def once(words: list[str]) -> float:
        begun = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True)
        return time.perf_counter() - begun

    contenders = [
        Contender("lading", "lading", lambda: always(lambda: once(command))),
        Contender("python -c pass", "floor", lambda: always(lambda: once([sys.executable, "-c", "pass"]))),
    ]
    measured = kit.contest(contenders, what="start-up")
    return Case("start-up, 1 file", 1, "s", "lower", measured, panel="start-up")


JOB = Job("noop", "A run with nothing to do", __doc__ or "", measure, budget=900)
