"""Where a process keeps what nobody else will ever see, such as a draft of what goes to a bucket."""

from __future__ import annotations

import os


def temporary_folder() -> str | None:
    """In Spark's tasks the folder where Spark keeps its own: on the machine that runs the task, big enough
    for a shuffle, and removed with the executor. Elsewhere None, the system's temporary folder."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
