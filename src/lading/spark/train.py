"""Makes the archive of spark/quick.py: `python -m lading.spark.train CACHE`, started by the first run."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from lading.layout.project import JAVA, TRAINING_LOCK
from lading.spark.java import found_java
from lading.spark.quick import TRAINING, archive_at, forget_archive
from lading.storage.folder import is_locked, locked, make_dirs


def train(cache: Path) -> bool:
    """Whether there is an archive now that Java takes. One process at a time tries."""
    home = cache.absolute() / JAVA
    make_dirs(home)
    lock = home / TRAINING_LOCK
    if is_locked(lock):
        return False
    with locked(lock):
        java, _ = found_java()
        archive = archive_at(home, java)
        if archive.is_file():
            return True
        new = archive.with_suffix(".new")
        new.unlink(missing_ok=True)
        os.environ[TRAINING] = str(new)
        if not _session(cache) or not new.is_file():
            new.unlink(missing_ok=True)
            return False
        forget_archive(home)  # of other Javas and other Sparks
        new.rename(archive)
    return True


def _session(cache: Path) -> bool:
    """What every run does: a session, and a task. Whether its JVM has ended by itself, with all written."""
    from lading.spark.session import let_go
    from lading.spark.tasks import warm_up

    warm_up("local[1]", {}, cache)
    return let_go(patience=300)  # the archive is written when the JVM ends


if __name__ == "__main__":
    with suppress(OSError):
        os.nice(19)
    sys.exit(0 if train(Path(sys.argv[1])) else 1)
