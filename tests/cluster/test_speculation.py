"""Shards on a cluster where one task hangs and one executor dies: a copy of the task wins, and what the
other attempts left behind is told apart and dropped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster

# Two tasks that have built their shard and not said so yet: one goes to sleep for longer than anybody waits,
# one takes its executor with it. Only speculation runs a task again that is neither done nor failed.
SCRIPT = """
import json, os, signal, sys, time
from pathlib import Path
sys.path[:0] = [{tests!r}]
from test_build import job_of
from lading.spark.session import spark_session, stop_session
from lading.serve.build.on_spark import build_on_spark
from lading.serve.build.place import ShardPlace

folder = Path({folder!r})


def first(name):
    try:
        os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


class Troubled(ShardPlace):
    def keep(self, claim):
        if "db=00001/" in claim.db_url and first("killed"):
            daemon = os.getppid()
            executor = int(Path("/proc", str(daemon), "stat").read_text().rpartition(")")[2].split()[1])
            os.kill(executor, signal.SIGKILL)
            time.sleep(3600)
        if "db=00000/" in claim.db_url and first("asleep"):
            kept = super().keep(claim)
            time.sleep(3600)
            return kept
        return super().keep(claim)


conf = {{
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "1s",
}}
spark = spark_session({master!r}, conf, folder / "cache")
place = Troubled(str(folder), "run-1")
rows = [(n, str(n)) for n in range(200)]
built = build_on_spark(spark, job_of(folder, {{"a": rows}}, shards=4, place=place))
before = sorted(str(p.relative_to(folder)) for p in folder.glob("shards/*/*/*"))
place.drop_losers({{one.db_url for one in built.shards}})
after = sorted(str(p.relative_to(folder)) for p in folder.glob("shards/*/*/*"))
told = [[one.db_id, one.db_url, one.writer_info.attempt, one.checkpoint_id] for one in built.shards]
print(json.dumps([told, before, after]))
sys.stdout.flush()
os._exit(0)  # the one that sleeps is not waited for
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster", workers=2)
    yield cluster
    cluster.close()


def test_a_task_that_hangs_and_an_executor_that_dies_cost_nothing_but_time(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "table").mkdir()
    tests = str(Path(__file__).parents[1] / "serve")
    script = SCRIPT.format(tests=tests, folder=str(tmp_path / "table"), master=cluster.url)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told, before, after = json.loads(done.stdout.strip().splitlines()[-1])
    log = (tmp_path / "table" / "cache" / "spark" / "spark.log").read_text()
    assert log.count("Lost executor") == 1
    assert {(db_id, attempt > 0) for db_id, _, attempt, _ in told} == {
        (0, True),
        (1, True),
        (2, False),
        (3, False),
    }
    run = "shards/run_id=run-1"
    assert {f"{run}/db=00000/attempt=00", f"{run}/db=00001/attempt=00"} <= set(before)
    assert after == [url for _, url, _, _ in told]
    assert (tmp_path / "table" / after[0] / "shard.db").is_file()
