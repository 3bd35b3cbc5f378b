"""What a task holds does not grow with its file. `make bench JOB=worker` measures the same at full size."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

_HELD = 4 << 20  # bytes of rows before a task sorts on disk
_SMALL, _LARGE = 80_000, 640_000  # rows of 250 bytes: even the fewer are several blocks, and sorted on disk
_MORE = 32.0  # megabytes for eight times the rows, which are 140 more

_PROJECT = """\
spark:
  in_process_below: 1TB
  conf: {{spark.lading.task.memory: {held}}}
tables:
  t:
    root: data
    path: "*.{suffix}"
    format: {format}
    order_by: id
    columns: {{id: bigint, ms: double, name: string}}
    read_options: {options}
"""
# The peak is reset before the run, so that neither importing nor another run is part of it.
_PEAK = """\
import sys
from pathlib import Path

from lading.config.file import load
from lading.run import run


def peak(project, rows):
    Path("/proc/self/clear_refs").write_text("5")
    report = run(load(Path(project)))
    assert report.error is None, report.error
    assert not report.spark_started and report.tables[0].rows == rows
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


warm, small, large = (peak(project, int(rows)) for project, rows in zip(sys.argv[1::2], sys.argv[2::2]))
print(small, large)
"""


def _texts(rows: int) -> list[str]:
    draw = np.random.default_rng(rows)
    ids = draw.permutation(rows).tolist()
    name = "name " * 45
    return [f"{id},{ms:.6f},{name}{id * 7919 % rows}" for id, ms in zip(ids, draw.random(rows), strict=True)]


def _gz(path: Path, rows: list[str]) -> None:
    path.write_bytes(gzip.compress(("id,ms,name\n" + "\n".join(rows) + "\n").encode(), 1))


def _json(path: Path, rows: list[str]) -> None:
    fields = (row.split(",") for row in rows)
    objects = (f'{{"id": {id}, "ms": {ms}, "name": {json.dumps(name)}}}' for id, ms, name in fields)
    path.write_text("[" + ",\n".join(objects) + "]")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize(
    ("suffix", "write", "format", "options"),
    [
        ("csv.gz", _gz, "csv", "{}"),
        ("json", _json, "json", "{multiline: true}"),
    ],
    ids=["gz", "json-array"],
)
def test_eight_times_the_rows_take_no_more_memory(
    suffix: str, write: Callable[[Path, list[str]], None], format: str, options: str, tmp_path: Path
) -> None:
    words: list[str] = []
    for name, rows in (("warm", _SMALL), ("small", _SMALL), ("large", _LARGE)):
        data = tmp_path / name / "data"
        data.mkdir(parents=True)
        write(data / f"all.{suffix}", _texts(rows))
        text = _PROJECT.format(held=_HELD, suffix=suffix, format=format, options=options)
        (tmp_path / name / "lading.yaml").write_text(text)
        words += [str(tmp_path / name), str(rows)]
    said = subprocess.run([sys.executable, "-c", _PEAK, *words], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    small, large = map(float, said.stdout.split())
    assert large - small <= _MORE, f"{small:.0f} MB, and {large:.0f} MB for eight times the rows"
