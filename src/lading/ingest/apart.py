"""Machines that share nothing: whether Spark's tasks run where this machine's disk can't be seen."""

from __future__ import annotations

from lading.ingest.table_run import TableRun
from lading.spark.session import runs_here


def is_apart(run: TableRun) -> bool:
    """Whether tasks make what they need of archives and scripts by themselves. Where source files lie in a
    folder, all machines share it anyway."""
    return run.objects is not None and not runs_here(run.config.spark.master)
