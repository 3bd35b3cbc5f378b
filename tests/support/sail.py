"""Sail, by the Spark Connect API, in a process of its own: it wants an older client than lading's PySpark.

`by_sail` asks the process; run as a program, this file is it: a table's location comes in on each line, its
rows go out as an Arrow stream behind the number of its bytes.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO

import pyarrow as pa

_PACKAGES = Path(__file__).resolve().parents[2] / ".sail"  # `make soak` puts them there


def by_sail(table: Path | str) -> pa.Table:
    process = _process()
    process.stdin.write(f"file://{table}\n".encode())  # type: ignore[union-attr]
    process.stdin.flush()  # type: ignore[union-attr]
    told = process.stdout.readline()  # type: ignore[union-attr]
    if not told.strip().isdigit():
        raise RuntimeError(f"Sail could not read {table}: {told.decode()}")
    return pa.ipc.open_stream(process.stdout.read(int(told))).read_all()  # type: ignore[union-attr]


@cache
def _process() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(_PACKAGES)},
    )
    atexit.register(process.kill)
    return process


def _serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    from pysail.spark import SparkConnectServer  # type: ignore[import-not-found]
    from pyspark.sql import SparkSession

    server = SparkConnectServer(port=0)
    server.start()
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for line in asked:
        try:
            rows = spark.read.format("iceberg").load(line.decode().strip()).toArrow()
        except Exception as error:
            answers.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n".encode())
        else:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            answers.write(b"%d\n" % sink.tell())
            answers.write(sink.getvalue())
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
