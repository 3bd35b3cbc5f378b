"""change: some of 1,000 source files change, and their rows are replaced in the table.

The figure is a share: Spark's work for the change, by Spark's work for building the table in full. Work
is the run time of all tasks, as Spark's own status store has it; the wall time of the runs is shown
beside it. Once with the rows of a file in one bucket, once spread over all of them. Each turn rewrites
the files with other values and runs. The full build is what everybody else has to do; it counts as 1.
delta-rs can say it too, as an overwrite of the rows whose source is among the files: its share is the
time that takes by the time that writing its table in full takes, files parsed in both.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench import projects
from bench.bars import at_most
from bench.case import Case, Job, Kit
from bench.changes import Changes, RawFiles, by_hand, full_builds
from bench.jobs.ingest import BUCKETS, COLUMNS, table_lines, write_csv

LAYOUTS = {"one bucket": False, "all buckets": True}


class Files(RawFiles):
    """Each has ids of its own, that lie together or are spread over the whole range."""

    def write(self, number: int) -> None:
        own = np.arange(self.rows, dtype=np.int64)
        ids = own * self.files + number if self.spread else number * self.rows + own
        write_csv(self.path(number), self.draw.permutation(ids), self.draw)

    def read(self, number: int) -> pa.Table:
        types = {"id": pa.int64(), "status": pa.int32(), "ms": pa.float64(), "name": pa.string()}
        options = pyarrow.csv.ConvertOptions(column_types=types)
        table = pyarrow.csv.read_csv(self.path(number), convert_options=options)
        size = -(-self.files * self.rows // BUCKETS)
        bucket = pa.array(table["id"].to_numpy() // size)
        return self.sourced(number, table.append_column("bucket", bucket))


def measure(kit: Kit) -> Iterator[Case]:
    files, rows = kit.pick(1_000, 100, 10), kit.pick(5_000, 500, 50)
    projects.start_session(kit.work)
    for layout, spread in LAYOUTS.items():
        kit.tell(f"{layout}: files")
        raw = Files(kit.work / "raw", files, rows, spread)
        raw.write_all()
        config = projects.make(kit.work / "change", COLUMNS, table_lines(files * rows), raw.folder)
        full = full_builds(kit, config, layout)
        bar = at_most(2, "≤ 2 % of the full build's Spark work", 100, " %")
        delta = kit.work / "delta-change"
        with by_hand(delta, raw, partial(_fill, raw), partial(_replace, raw)) as share:
            changes = Changes(raw, config, full, layout, bar, "full build", "deltalake overwrite", share)
            for count in kit.sizes([1, 10, 100], [1, 10], [1]):
                yield changes.case(kit, count)
        shutil.rmtree(config.project)
        shutil.rmtree(raw.folder)


def _fill(raw: Files, folder: Path) -> None:
    from deltalake import write_deltalake

    rows = raw.read_several(range(raw.files)).sort_by("id")
    write_deltalake(folder, rows, mode="overwrite", partition_by=["bucket"])


def _replace(raw: Files, folder: Path, numbers: list[int]) -> None:
    from deltalake import write_deltalake

    predicate = f"source IN ({', '.join(map(str, numbers))})"
    write_deltalake(folder, raw.read_several(numbers), mode="overwrite", predicate=predicate)


JOB = Job("change", "Some source files change", __doc__ or "", measure, budget=2_400)
