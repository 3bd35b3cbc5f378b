"""The same `lading run` through Spark Connect, as managed Spark offers it: no RDD, no gateway, no Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import ConnectServer
from support.served import ServedProject

import lading

TRANSFORM = """\
from pyspark.sql import functions as F


def clean(df, ctx):
    return df.withColumn("name", F.upper("name"))
"""
# Not in the tests' own process: there PySpark is a classic one already.
READ = """
import json, sys
from pathlib import Path
from lading import spark as lading_spark
from lading.spark.session import spark_session

conf = {"spark.driver.memory": "9g", "spark.sql.shuffle.partitions": "2"}
spark = spark_session(sys.argv[1], conf, Path("."))
lading_spark.register(spark)
frame = spark.read.format("lading").option("columns", "imo,name").option("offset", "1").load(sys.argv[2])
told = {
    "kind": type(spark).__module__,
    "zone": spark.conf.get("spark.sql.session.timeZone"),
    "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    "rows": sorted(list(row) for row in frame.where("imo < 3").collect()),
}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect"))
    yield server
    server.close()


@pytest.fixture
def project(tmp_path: Path) -> ServedProject:
    project = ServedProject(tmp_path / "p", head='spark: {conf: {spark.sql.shuffle.partitions: "2"}}\n')
    project.put("a.csv", [(n, n % 28 + 1, f"SHIP {n}") for n in range(50)])
    project.put("b.csv", [(n, n % 28 + 2, f"SHIP {n} AGAIN") for n in range(40, 60)])
    return project


def client(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python that would not get a JVM started if it tried to."""
    environment = {**os.environ, "JAVA_HOME": "/nonexistent", "PYSPARK_GATEWAY_PORT": "1"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=200, env=environment
    )


def run(project: ServedProject, server: ConnectServer) -> subprocess.CompletedProcess[str]:
    code = "import sys; from lading.cli.main import invoke; sys.exit(invoke(sys.argv[1:]))"
    return client("-c", code, "-C", str(project.folder), "run", "--json", "--spark-master", server.url)


def test_a_run_by_spark_connect_is_a_run_like_any_other(
    project: ServedProject, server: ConnectServer, tmp_path: Path
) -> None:
    done = run(project, server)
    assert done.returncode == 0, (done.stdout, done.stderr)
    [report] = json.loads(done.stdout)["tables"]
    assert report["published"] and report["rows"] == 70
    assert project.shards() == project.expected()
    assert done.stderr == ""

    before = project.urls()
    project.put("c.csv", [(7, 31, "RENAMED")])
    assert run(project, server).returncode == 0
    assert project.shards() == project.expected()
    assert len(set(before.items()) & set(project.urls().items())) == 3
    assert not (project.folder / ".lading_cache" / "java").exists()

    read = client("-c", READ, server.url, str(project.table))
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout) == {
        "kind": "pyspark.sql.connect.session",
        "zone": "UTC",
        "partitions": "2",
        "rows": [[n, f"SHIP {n}"] for n in range(3)],
    }
    with lading.open(project.table) as reader:
        assert reader.get(7, decode=True)["name"] == "RENAMED"


def test_what_a_transform_or_a_row_does_wrong_is_said_as_it_is_elsewhere(
    project: ServedProject, server: ConnectServer
) -> None:
    config = project.folder / "lading.yaml"
    config.write_text(
        config.read_text().replace(
            "    order_by: day\n", "    order_by: day\n    transform: clean.py:clean\n"
        )
    )
    for body, said in {
        'df.select("nope")': "clean raised AnalysisException",
        'df.withColumn("imo", F.udf(lambda n: 1 // n, "bigint")("imo"))': "line 5: ZeroDivisionError",
    }.items():
        (project.folder / "clean.py").write_text(
            TRANSFORM.replace('df.withColumn("name", F.upper("name"))', body)
        )
        done = run(project, server)
        assert done.returncode == 1
        [report] = json.loads(done.stdout)["tables"]
        assert report["error"]["kind"] == "TransformError"
        assert said in report["error"]["message"], report["error"]
        assert "Traceback" not in done.stderr and "JVM stacktrace" not in done.stderr


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from lading.spark.session import spark_session\n"
        "from lading.errors import PipelineError\n"
        "try: spark_session('sc://127.0.0.1:1', {}, Path(sys.argv[1]))\n"
        "except PipelineError as error: print(error.message, '|', error.hint)\n"
    )
    done = client("-c", code, str(tmp_path))
    assert done.stdout.startswith("Spark could not be reached at 'sc://127.0.0.1:1'"), done.stderr
    assert "Spark Connect server" in done.stdout
