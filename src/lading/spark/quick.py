"""A JVM that starts quickly: the classes that Spark loads are kept, once, in an archive that Java maps.

Java's class-data sharing makes the archive (150 MB in the cache). Making it takes a session of its own, which
spark/train.py runs in the background, with the lowest priority, when the first run of a project has ended.
Java checks the archive's checksums each time and does without one that is broken or of other classes; one
under which it would not start is thrown away. Methods are compiled thoroughly only when they have run longer
than a short run lasts.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

OPTIONS_VARIABLE = "LADING_JAVA_OPTIONS"  # what the script in the cache adds to Spark's own
TRAINING = "LADING_JAVA_TRAINING"  # the file that a session of spark/train.py makes
SWITCH = "LADING_JAVA_ARCHIVE"  # `off` in the environment: no archive is made or used

# Ten times Java's own: a run of a few seconds spends half of its time on compiling otherwise.
_LATER = (
    "-XX:+IgnoreUnrecognizedVMOptions",  # of a Java to come
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_QUIET = "-Xlog:cds*=off"
_CHECKED = "-XX:+VerifySharedSpaces"


def quick_options(home: Path, java: Path) -> tuple[str, ...]:
    """For a JVM of Spark's; `home` is the folder in the cache, `java` what will be started. A path with a
    blank in it can't be handed on: then there is no archive."""
    archive = archive_at(home, java)
    if os.environ.get(SWITCH) == "off" or any(sign in str(archive) for sign in " \t\n'\"\\"):
        return _LATER
    if (wanted := os.environ.get(TRAINING)) is not None:
        return (*_LATER, _QUIET, f"-XX:ArchiveClassesAtExit={wanted}")
    if archive.is_file():
        return (*_LATER, _QUIET, _CHECKED, "-Xshare:auto", f"-XX:SharedArchiveFile={archive}")
    return _LATER


def archive_at(home: Path, java: Path) -> Path:
    """Named for the Java and the Spark whose classes it holds."""
    spec = find_spec("pyspark")
    jars = Path(spec.origin).parent / "jars" if spec is not None and spec.origin is not None else home
    told = [os.path.realpath(java), _stamp(Path(os.path.realpath(java))), str(jars), _stamp(jars)]
    return home / f"spark-{hashlib.sha256(chr(0).join(told).encode()).hexdigest()[:16]}.jsa"


def train_later(cache: Path, home: Path, java: Path) -> None:
    """Have the archive made when this process ends, unless there is one. Nobody waits for it."""
    if os.environ.get(SWITCH) == "off" or TRAINING in os.environ or archive_at(home, java).is_file():
        return
    command = [sys.executable, "-m", "lading.spark.train", str(cache)]
    nowhere = subprocess.DEVNULL

    def train() -> None:
        with suppress(OSError):
            subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)

    atexit.register(train)


def forget_archive(home: Path) -> bool:
    """Throw away what there is; whether there was something."""
    found = list(home.glob("spark-*.jsa"))
    for one in found:
        with suppress(OSError):
            one.unlink()
    return bool(found)


def _stamp(path: Path) -> str:
    try:
        stat = path.stat()
    except OSError:
        return "none"
    return f"{stat.st_mtime_ns} {stat.st_size}"
