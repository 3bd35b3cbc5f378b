"""Nothing that a Spark Connect client lacks: no RDD, no JVM gateway, no context beyond what is guarded."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lading

SOURCES = sorted(Path(lading.__file__).parent.rglob("*.py"))
GATEWAY = {"rdd", "_jvm", "_jsc", "_jdf", "_jsparkSession", "_jconf", "_sc", "toJSON", "foreachPartition"}
GUARDED = {  # ask how far Spark is, and how many cores there are; they live without an answer
    "job_settings.py": {"sparkContext"},
    "session.py": {"_jvm"},  # forgets one that died; a client of Spark Connect has none to forget
    "tasks.py": {"sparkContext"},
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_file_reaches_for_the_gateway(path: Path) -> None:
    tree = ast.parse(path.read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found = used & (GATEWAY | {"sparkContext"})
    assert found <= GUARDED.get(path.name, set())
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
    }
    py4j = {name for name in imported if name.split(".")[0] == "py4j"}
    assert not py4j or path.name == "failures.py"


def test_the_pipeline_can_be_imported_where_there_is_no_gateway() -> None:
    code = """
import sys
import pyspark.sql
sys.modules["py4j.protocol"] = None
from lading.spark.failures import Py4JError
assert issubclass(Py4JError, Exception) and Py4JError.__module__ == "lading.spark.failures"
import lading.spark.ingest, lading.serve.build.on_spark, lading.spark.tasks, lading.spark.session
print("imported")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "imported\n", done.stderr
