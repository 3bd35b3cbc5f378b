"""The jobs, in the order in which they are run and shown."""

from __future__ import annotations

from bench.case import Job
from bench.jobs import (
    chain,
    change,
    commit,
    driver,
    evolve,
    formats,
    get,
    ingest,
    key_to_file,
    lookup,
    memory,
    noop,
    plan,
    publish,
    record,
    shard_build,
    spread,
    watch,
    worker,
)

JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        plan.JOB, key_to_file.JOB, commit.JOB, lookup.JOB, get.GET, get.MULTI_GET, shard_build.JOB,
        noop.JOB, record.JOB, ingest.JOB, formats.JOB, driver.JOB, spread.JOB, change.JOB, evolve.JOB,
        chain.JOB, publish.JOB, memory.JOB, worker.JOB, watch.JOB,
    )
}  # fmt: skip
