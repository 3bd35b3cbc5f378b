"""What a job failed of, in the words of whoever raised it: disks, packages, rows, expressions."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from lading.config.file import load
from lading.errors import ConfigError, LadingError, PipelineError, StorageError, TransformError
from lading.ingest.quarantine import list_aside
from lading.model import IngestJob, Place
from lading.run import run
from lading.spark.failures import cause_of, failure_of
from lading.spark.ingest import explained

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/worker.py", line 3, in main
    process()
{}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1097)
"""


@pytest.mark.parametrize(
    ("raised", "kind", "message", "hint"),
    [
        ("OSError: [Errno 28] No space left on device: '/w/t'",
         StorageError, "/w/t: No space left", "make room"),
        ("OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device",
         StorageError, "No space left on device", "make room"),
        ("PermissionError: [Errno 13] Permission denied: '/w/t'", StorageError, "/w/t: Perm", "permissions"),
        ("lading.errors.TransformError: it is\nwrong\n  hint: mend it",
         TransformError, "it is\nwrong", "mend it"),
        ("ModuleNotFoundError: No module named 'lading'",
         PipelineError, "No module named 'lading'", "PYSPARK_PYTHON"),
        ("MemoryError", PipelineError, "ran out of memory", "fewer"),
        ("OverflowError: int too big",
         PipelineError, "could not build t: OverflowError: int too big", "spark.log"),
        ("ValueError: a\n\nDuring handling of the above exception, another exception occurred:\n\n"
         "Traceback (most recent call last):\n  File \"/x.py\", line 1, in f\nKeyError: 'b'",
         PipelineError, "KeyError: 'b'", "spark.log"),
    ],
)  # fmt: skip
def test_the_cause_in_a_worker_is_what_is_said(raised, kind, message, hint):
    found = failure_of(RuntimeError(WORKER.format(raised)), "build t", table="t")
    assert type(found) is kind and message in found.message and hint in found.hint and found.table == "t"


def test_a_disk_that_is_full_for_java_is_said_too():
    text = "An error occurred.\n: java.io.IOException: No space left on device\n\tat x.y(z)"
    found = failure_of(RuntimeError(text), "build t")
    assert isinstance(found, StorageError) and "make room" in found.hint
    assert cause_of(text) is None


@pytest.fixture
def ships(spark, tmp_path):
    """A table of one file, and what a run of it says."""

    def run_with(table: str = "", *, transform: str = "", data: str = "id,b\n1,2\n", name: str = "x.csv"):
        (tmp_path / name).write_text(data)
        (tmp_path / "t.py").write_text(textwrap.dedent(transform))
        extra = "transform: 't.py:f', " if transform else ""
        form = name.rpartition(".")[2]
        (tmp_path / "lading.yaml").write_text(
            f"tables: {{ships: {{path: '*.{form}', format: {form}, {extra}{table}}}}}\n"
        )
        return run(load(tmp_path))

    run_with.folder = tmp_path
    return run_with


def test_a_full_disk_in_a_worker_is_the_same_error_as_on_the_driver(ships):
    transform = """
        def f(df, context):
            def work(batches):
                raise OSError(28, "No space left on device", "/full/part.parquet")
                yield
            return df.mapInArrow(work, df.schema)
    """
    error = ships(transform=transform).error
    assert isinstance(error, StorageError) and "/full/part.parquet: No space left on device" in error.message
    assert "make room" in error.hint


def test_a_row_without_a_source_is_said(ships):
    transform = """
        from pyspark.sql import functions as F
        def f(df, context):
            return df.withColumn("_source", F.when(F.col("id") > 5, F.col("_source")))
    """
    error = ships(transform=transform).error
    assert isinstance(error, TransformError) and "'_source' is null" in error.message
    error = ships("checks: [{not_null: id}]", transform=transform).error
    assert isinstance(error, TransformError) and "'_source' is null" in error.message


def test_a_bucket_size_beyond_all_numbers_is_said(ships):
    error = ships(f"order_by: id, bucket_size: {10**30}").error
    assert isinstance(error, ConfigError) and "bucket_size" in error.message


@pytest.mark.parametrize(
    "check",
    [
        "(" * 3000 + "id > 0" + ")" * 3000,
        "length(repeat('x', 2000000000)) > id",
        "length(repeat('x', 2147483647)) > 1",
    ],
)
def test_a_check_that_spark_can_not_work_out_is_a_sentence(ships, check):
    error = ships(f'checks: [{{sql: "{check}"}}]').error
    assert error is None or (
        isinstance(error, LadingError) and "calling o" not in error.message and error.hint
    )


def test_a_value_too_long_for_a_pattern_is_a_sentence_and_spark_lives_on(ships):
    pattern = "checks: [{pattern: {column: b, regex: '(?=x)(x|y)*'}}]"
    error = ships(pattern, data="id,b\n1," + "xy" * 20_000 + "\n").error
    assert isinstance(error, PipelineError) and "a pattern repeats too often" in error.message
    assert "[ab]*" in error.hint
    assert ships(pattern, data="id,b\n1,xy\n").error is None


@pytest.mark.parametrize(
    "bad", ["[" * 5000 + "]" * 5000, '{"x":' * 1500 + "1" + "}" * 1500, '{"x":' * 300 + "1" + "}" * 300]
)
def test_a_row_that_is_nested_too_deeply_is_a_bad_row(ships, bad):
    data = f'{{"id": 1, "b": 2}}\n{{"id": 2, "b": {bad}}}\n{{"id": 3, "b": 4}}\n'
    (ships.folder / "schema").mkdir(exist_ok=True)
    (ships.folder / "schema" / "ships.yaml").write_text(
        "columns: [{name: id, type: bigint}, {name: b, type: bigint}]\n"
    )
    error = ships(data=data, name="x.json").error
    assert "x.json:2: " in error.message
    report = ships("on_bad: quarantine", data=data, name="x.json")
    assert report.error is None and report.tables[0].rows == 2
    assert [one.rows for one in list_aside(load(ships.folder), "ships")] == [1]


def test_workers_that_have_no_lading_are_named_with_the_remedy(tmp_path):
    """A session of somebody's own, whose workers are another Python."""
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    (tmp_path / "python").chmod(0o755)
    code = f"""
import os
os.environ["PYSPARK_PYTHON"] = {str(tmp_path / "python")!r}
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from lading import spark as of_lading
from lading.errors import LadingError
try:
    of_lading.register(spark)
except LadingError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300).stdout
    assert "No module named 'lading'" in said and "PYSPARK_PYTHON" in said


@pytest.mark.parametrize(
    ("frames", "kind", "place"),
    [
        (["/p/t/calls.py", "/p/t/rates.py"], TransformError, "/p/t/calls.py, line 1: "),
        (["/p/t/rates.py"], TransformError, "/p/t/rates.py, line 1: "),
        (["/p/shared/rates.py"], TransformError, "/p/shared/rates.py, line 1: "),
        (["/p/.venv/lib/site-packages/rates.py"], PipelineError, "Spark could not build calls: "),
        (["/elsewhere/rates.py"], PipelineError, "Spark could not build calls: "),
    ],
)
def test_a_failure_in_a_module_of_the_project_is_the_transforms(
    frames: list[str], kind: type[LadingError], place: str
) -> None:
    text = "\n".join(f'  File "{file}", line {number}, in f' for number, file in enumerate(frames, start=1))
    job = IngestJob(
        table="calls",
        table_dir=Place("/w/calls"),
        table_id="t",
        run_id="r",
        commit_id="c",
        columns=(),
        sources=frozenset(),
        input_bytes=0,
        transform="/p/t/calls.py:apply",
        project="/p",
    )
    error = explained(Exception(WORKER.format(f"{text}\nTypeError: no rate")), job)
    assert type(error) is kind and error.message.startswith(place)
