"""Sorted runs on disk: their rows come back in order, within bounds."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lading.parts.runs import SortedRuns, merged

RUNS = 16
ROWS = 262_144  # of each run
WIDTH = 32  # bytes of a text


def run_of(draw: np.random.Generator) -> pa.Table:
    keys = np.sort(draw.integers(0, 1 << 40, ROWS))
    texts = np.frombuffer(draw.bytes(ROWS * WIDTH), f"S{WIDTH}")
    return pa.table({"k": keys, "text": pa.array(texts, pa.binary(WIDTH))})


def megabytes(what: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_merge_holds_a_range_of_rows_and_not_all_that_it_looked_at() -> None:
    """A kernel may map megabytes for one value that is looked at, and counts them as the process's own."""
    draw = np.random.default_rng(1)
    runs = SortedRuns()
    for _ in range(RUNS):
        runs.add(iter([run_of(draw)]))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = megabytes("VmRSS")
    seen, last = 0, -1
    for table in merged(runs.opened(), ["k"], ROWS // 4):
        keys = table.column("k").to_numpy()
        assert last <= keys[0] and (keys[:-1] <= keys[1:]).all()
        seen, last = seen + len(keys), keys[-1]
    runs.close()
    assert seen == RUNS * ROWS
    size = RUNS * ROWS * (WIDTH + 8) / 2**20
    more = megabytes("VmHWM") - before
    assert more < size / 10, f"{more:.0f} MB for a range of {size / RUNS:.0f} MB, of {size:.0f} MB"
