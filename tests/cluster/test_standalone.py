"""The same `lading run` on a standalone cluster, with speculation on and workers killed when it hurts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.cluster import HOME, Cluster
from support.served import ServedProject

import lading
from lading.spark.java import java_home
from lading.spark.session import spark_log

pytestmark = pytest.mark.skipif(not os.environ.get("LADING_SOAK"), reason="takes minutes: make soak")

FILES = 8
PATIENCE = 400  # seconds: a busy machine needs minutes for three executors
HEAD = """\
spark:
  conf:
    spark.driver.host: 127.0.0.1
    spark.executor.memory: 512m
    spark.speculation: "true"
    spark.speculation.interval: 200ms
    spark.speculation.quantile: "0.25"
    spark.speculation.multiplier: "1.2"
"""
# In the workers: a task that has written its files and not said so yet leaves a mark, and the first of them
# hesitate. Killed there, it leaves files behind that nobody will ever list.
HOOKS = """\
import os, tempfile, time
import lading.ingest.tasks.task as parts
import lading.serve.build.task as shards


def hesitating(work, stage):
    def done(batches, job):
        answers = list(work(batches, job))
        marks = os.path.join({marks!r}, stage)
        first = len(os.listdir(marks)) < 3
        with os.fdopen(tempfile.mkstemp(dir=marks)[0], "w") as mark:
            mark.write(os.getcwd())
        time.sleep(15 if first else 0)
        return answers

    return done


parts.written = hesitating(parts.written, "parts")
shards.build_shards = hesitating(shards.build_shards, "shards")
"""
# Tasks are cut for gigabytes; these few rows are to be several tasks too.
DRIVER = """\
import sys
import lading.ingest.tasks.splits as splits
import lading.serve.shard as shard
from lading.cli.main import invoke

splits.SHARE, shard._PER_TASK = (1024, 1024), 2048
sys.exit(invoke(sys.argv[1:]))
"""


@pytest.fixture
def cluster(tmp_path: Path, marks: Path) -> Iterator[Cluster]:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(HOOKS.format(marks=str(marks)))
    cluster = Cluster(tmp_path / "cluster", workers=3, hooks=hooks)
    yield cluster
    cluster.close()


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    for stage in ("parts", "shards"):
        (tmp_path / "marks" / stage).mkdir(parents=True)
    return tmp_path / "marks"


@pytest.fixture
def project(tmp_path: Path) -> ServedProject:
    project = ServedProject(tmp_path / "project", head=HEAD)
    config = project.folder / "lading.yaml"
    text = config.read_text().replace("    order_by: day\n", "    order_by: day\n    bucket_size: 4d\n")
    config.write_text(text)
    for number in range(FILES):
        ships = [(n, (n * 7 + number) % 28 + 1, f"ship {n} of {number}") for n in range(number, 60 + number)]
        project.put(f"{number}.csv", ships)
    return project


@contextmanager
def running(project: ServedProject, master: str) -> Iterator[subprocess.Popen[str]]:
    """`lading run` in a process of its own, which ends with the block."""
    command = [sys.executable, "-c", DRIVER, "-C", str(project.folder), "run", "--json"]
    with subprocess.Popen(
        [*command, "--spark-master", master],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    ) as run:
        try:
            yield run
        finally:
            run.kill()


def kill_one(cluster: Cluster, marks: Path, run: subprocess.Popen[str]) -> None:
    """A worker whose task has written its files and not said so yet."""
    deadline = time.monotonic() + PATIENCE
    while True:
        for mark in marks.iterdir():
            found = re.search(r"/work(\d+)/", mark.read_text())
            if found and cluster.workers[int(found[1])].process.poll() is None:
                cluster.workers[int(found[1])].kill()
                return
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline, f"no task got as far as {marks.name}"
        time.sleep(0.05)


def rows(project: ServedProject) -> Counter[Any]:
    with lading.open(project.table) as reader:
        return Counter(tuple(row.values()) for row in reader.scan().to_table().to_pylist())


def files(project: ServedProject) -> set[str]:
    """The parts and shards that lie there, finished or not."""
    found = (*project.table.glob("bucket=*/*"), *project.table.glob("shards/*/*/*/*"))
    return {path.relative_to(project.table).as_posix() for path in found}


def listed(project: ServedProject) -> set[str]:
    """Those that readers know."""
    with lading.open(project.table) as reader:
        parts = {member.path for member in reader.scan()._members}
        return parts | {f"{shard.db_url}/shard.db" for shard in reader.shards()}


def test_a_run_on_a_cluster_that_loses_workers_equals_a_local_one(
    cluster: Cluster, project: ServedProject, marks: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with running(project, cluster.url) as run:
        kill_one(cluster, marks / "parts", run)
        lost = files(project)
        kill_one(cluster, marks / "shards", run)
        lost |= files(project)
        out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, (out, err)
    [report] = json.loads(out)["tables"]
    assert report["published"] and report["rows"] == FILES * 60
    assert spark_log(project.folder / ".lading_cache").read_text().count("Lost executor") >= 2
    assert any(name.startswith("bucket=") for name in lost - listed(project))
    assert any(name.startswith("shards/") for name in lost - listed(project))
    assert files(project) == listed(project)

    cluster.close()
    request.getfixturevalue("spark")  # not before: the cluster needs the machine for itself
    local = project.rebuilt(tmp_path / "local")
    local.run()
    assert rows(project) == rows(local)
    assert project.shards() == local.shards() == local.expected()
    with lading.open(project.table) as reader, lading.open(local.table) as other:
        assert [one.checkpoint_id for one in reader.shards()] == [one.checkpoint_id for one in other.shards()]
        assert reader.multi_get(range(70)) == other.multi_get(range(70))


def test_the_script_in_the_guide_runs_under_spark_submit(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()
    found = re.search(r"```python\n(# run_tables\.py\n.*?)```", guide, re.DOTALL)
    assert found
    project = ServedProject(tmp_path / "project")
    project.put("a.csv", [(n, n % 28 + 1, f"ship {n}") for n in range(50)])
    script = tmp_path / "run_tables.py"
    script.write_text(found[1].replace("/shared/shipping", str(project.folder)))
    done = subprocess.run(
        [str(HOME / "bin" / "spark-submit"), "--master", "local[1]", str(script)],
        env={
            **os.environ,
            "JAVA_HOME": str(java_home(tmp_path / "java")),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert project.shards() == project.expected()
