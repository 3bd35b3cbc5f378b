"""How the JVMs of tests start: quickly, since each lives for seconds, and from one class archive for all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lading.errors import PipelineError
from lading.layout.project import JAVA
from lading.spark.java import found_java
from lading.spark.quick import SWITCH, archive_at

_OPTIONS = "JDK_JAVA_OPTIONS"  # Java's own variable: executors and the masters of clusters have it too
_COMPILE_ONCE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # thoroughly takes longer than it gains
_TRAIN = (
    "import sys; from pathlib import Path; from lading.spark.train import train; train(Path(sys.argv[1]))"
)


def quick_java(folder: Path, *, train: bool) -> None:
    """Have all JVMs of this process and its children map their classes from an archive in `folder`. With
    `train` it is made in the background if there is none; Java does without until it is there."""
    try:
        java, _ = found_java()
    except PipelineError:
        return
    # A project's own archive would be made anew, 150 MB, for each test.
    os.environ[SWITCH] = "off"
    os.environ[_OPTIONS] = _COMPILE_ONCE
    archive = archive_at(folder / JAVA, java)
    if any(sign in str(archive) for sign in " \t\n'\"\\"):
        return
    if train and not archive.is_file():
        environment = {name: value for name, value in os.environ.items() if name != SWITCH}
        silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        command = [sys.executable, "-c", _TRAIN, str(folder)]
        os.posix_spawn(sys.executable, command, environment, file_actions=silent, setsid=True)
    os.environ[_OPTIONS] += f" -Xshare:auto -Xlog:cds*=off -XX:SharedArchiveFile={archive}"
