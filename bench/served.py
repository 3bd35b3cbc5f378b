"""A table that is served by key, made by a real run: sources in Parquet, shards on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import projects
from bench.case import Kit
from bench.fixtures import code_of, kept
from lading.config.file import load
from lading.config.project import Config

SHARDS = 8
VALUE = 100  # bytes of each value
STRIDE = 3  # keys are multiples of it
_COLUMNS = {"key": "bigint", "v": "string"}
_TABLE = ('path: "*.parquet"', "format: parquet", "order_by: key", "serve:")
_SERVE = ("  key: key", "  value: [v]", "  encoding: raw", f"  shards: {SHARDS}")


def project(kit: Kit, size: int) -> Config:
    """A published table of `size` keys. It may be published again, never changed otherwise."""
    made_by = code_of(".") + f"{size} 1"
    return load(kept(kit.data, f"served-{size}", made_by, lambda at: _fill(at, size, kit.work)))


def table(config: Config) -> Path:
    return Path(str(config.place(projects.TABLE)))


def rows(size: int, step: int = 500_000) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Keys and values in key order, some at a time."""
    for start in range(0, size, step):
        keys = np.arange(start, min(size, start + step), dtype=np.int64) * STRIDE
        yield keys, pa.array(values(keys))


def values(keys: np.ndarray) -> list[str]:
    return [f"{key:0{VALUE}d}" for key in keys.tolist()]


def _fill(at: Path, size: int, work: Path) -> None:
    projects.start_session(work)
    config = projects.make(at, _COLUMNS, (*_TABLE, *_SERVE))
    (at / "data").mkdir()
    for number, (keys, texts) in enumerate(rows(size)):
        order = np.random.default_rng(number).permutation(len(keys))
        shuffled = pa.table({"key": keys[order], "v": texts.take(pa.array(order))})
        pq.write_table(shuffled, at / "data" / f"{number:04d}.parquet")
    projects.run_once(config)
