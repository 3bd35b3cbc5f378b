"""Readings that go wrong in the middle, or differ the second time: nothing is lost, and nothing half."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.checked import Checked
from support.workshop import Workshop

import lading
from lading.errors import SourceError, StorageError
from lading.formats.csv.rows import CsvReader
from lading.formats.opening import unreadable
from lading.formats.reader import WHOLE, Piece, Rows
from lading.formats.source_file import SourceFile
from lading.ingest import prepare
from lading.ingest import read as reading
from lading.ingest.quarantine import list_aside
from lading.ingest.tasks import splits
from lading.ingest.tasks.outcome import ingested
from lading.ingest.tasks.task import Refusal, SourceRead, TaskDone

HERE = "spark:\n  in_process_below: 100MB\n"
THRESHOLD = "on_bad: quarantine\nchecks:\n  - {not_null: port, threshold: 1}"


class Flaky:
    """A reader that fails at the nth opening of a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, key: str, nth: int, code: int) -> None:
        opened = 0
        real = CsvReader.rows

        def rows(reader: CsvReader, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
            nonlocal opened
            opened += file.key == key
            if file.key == key and opened == nth:
                raise unreadable(file.key, OSError(code, os.strerror(code)))
            yield from real(reader, file, piece)

        monkeypatch.setattr(CsvReader, "rows", rows)


@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, StorageError), (errno.EACCES, SourceError)])
def test_a_file_that_can_not_be_read_the_second_time_is_not_committed_without_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    ships = Checked(tmp_path / "p", THRESHOLD, top=HERE)
    ships.put("a.csv", "1,1,", "2,1,", "3,1,oslo", "4,1,bergen")
    ships.put("b.csv", "5,1,oslo")
    with monkeypatch.context() as patch:
        Flaky(patch, "a.csv", 2, code)
        assert isinstance(ships.run().error, kind)
    ships.good()
    assert sum(ships.rows().values()) == 3 and len(ships.aside()) == 2


def test_a_fault_of_the_machine_sets_no_file_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ships = Checked(tmp_path / "p", "on_bad: quarantine", top=HERE)
    ships.put("a.csv", "1,1,oslo")
    with monkeypatch.context() as patch:
        Flaky(patch, "a.csv", 1, errno.EMFILE)
        error = ships.run().error
    assert isinstance(error, StorageError) and "open files" in error.hint
    ships.good()
    assert sum(ships.rows().values()) == 1 and list_aside(ships.config, "ships") == []


def test_a_file_that_was_away_for_a_moment_keeps_the_rows_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One piece of it is read, the next finds it gone, and before the commit it is back as it was."""
    ships = Checked(tmp_path / "p", "", top=HERE)
    monkeypatch.setattr(splits, "SHARE", (200, 400))
    real = prepare.make_tasks  # in pieces, although it is this process that reads them
    monkeypatch.setattr(prepare, "make_tasks", lambda files, spec, cores: real(files, spec, 2))
    path = ships.put("a.csv", *[f"{number},1,oslo" for number in range(100)])
    ships.put("b.csv", "500,1,oslo")
    away = path.with_suffix(".away")
    rows, refused = CsvReader.rows, reading._Read._refused

    def leaving(reader: CsvReader, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        if file.key == "a.csv" and piece.start > 0 and path.exists():
            path.rename(away)
        yield from rows(reader, file, piece)

    def back(read: Any, found: Any) -> Any:
        told = refused(read, found)
        if away.exists():
            away.rename(path)
        return told

    with monkeypatch.context() as patch:
        patch.setattr(CsvReader, "rows", leaving)
        patch.setattr(reading._Read, "_refused", back)
        error = ships.run().error
        assert isinstance(error, SourceError) and error.file == "a.csv"
        assert sum(ships.rows().values()) == 1
    ships.good()
    assert sum(ships.rows().values()) == 101


def test_parts_that_only_pass_are_never_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pass is one task, the second, over the files that broke a threshold, several."""
    ships = Checked(tmp_path / "p", f"{THRESHOLD}\norder_by: id", top=HERE)
    monkeypatch.setattr(splits, "SHARE", (200, 400))
    real, passes = prepare.make_tasks, []

    def growing(files: Any, spec: Any, cores: int) -> Any:
        passes.append(real(files, spec, 2 if passes else 0))
        return passes[-1]

    monkeypatch.setattr(prepare, "make_tasks", growing)
    for number in range(4):
        bad, good = [f"{one},1," for one in range(3)], [f"{one},1,oslo" for one in range(3, 80)]
        ships.put(f"{number}.csv", *bad, *good)
    ships.good()
    assert [len(tasks) > 1 for tasks in passes] == [False, True]
    parts = [path for path in ships.table.rglob("*.parquet") if "quarantine" not in str(path)]
    assert parts and all(pq.read_metadata(one).row_group(0).column(0).compression == "ZSTD" for one in parts)
    assert sum(ships.rows().values()) == 4 * 77


def test_a_run_in_this_process_starts_no_spark_however_its_rows_are_sorted(tmp_path: Path) -> None:
    ships = Checked(tmp_path / "p", "order_by: id", top=HERE)
    draw = random.Random(3)
    for number in range(3):
        ships.put(f"{number}.csv", *[f"{one},1,{draw.randbytes(200).hex()}" for one in range(40_000)])
    report = ships.good()
    assert not report.spark_started and report.tables[0].rows == 120_000


def test_of_two_readings_that_differ_the_file_is_refused() -> None:
    fine = TaskDone(0, reads=(SourceRead(7, 0, records=10, sha256="a"), SourceRead(8, 0, records=1)))
    broken = TaskDone(0, reads=(SourceRead(7, 0, refused=Refusal("SourceError", "7 is cut off", None)),
                                SourceRead(8, 0, records=1)))  # fmt: skip
    other = TaskDone(0, reads=(SourceRead(7, 0, records=11, sha256="b"), SourceRead(8, 0, records=1)))
    for second in (broken, other):
        files = ingested([fine, second], b"").files
        assert files[7].refused is not None and files[8].refused is None


def test_over_the_whole_table_nothing_stays_of_a_file_that_is_set_aside(tmp_path: Path, spark: Any) -> None:
    """Its first rows are read, and in the sums, before the damage shows."""
    ships = Checked(tmp_path / "p", "on_bad: quarantine\ntransform: t.py:f\nper: table")
    config = ships.folder / "lading.yaml"
    config.write_text(config.read_text().replace("csv", "parquet"))
    (ships.folder / "t.py").write_text(
        "from pyspark.sql import functions as F\n\n\n"
        "def f(df, context):\n    return df.groupBy('port').agg(F.count('*').alias('ships'))\n"
    )
    rows = pa.table({"id": range(200_000), "tonnes": [1.0] * 200_000, "port": ["oslo"] * 200_000})
    pq.write_table(rows.slice(0, 1), ships.data / "a.parquet")
    damaged = ships.data / "b.parquet"
    pq.write_table(rows, damaged, row_group_size=100_000, use_dictionary=False)
    last = pq.read_metadata(damaged).row_group(1).column(0)
    data = bytearray(damaged.read_bytes())
    data[last.data_page_offset + 100 : last.data_page_offset + 5_000] = bytes(4_900)
    damaged.write_bytes(data)
    ships.good()
    assert [one.file for one in list_aside(ships.config, "ships")] == ["b.parquet"]
    with lading.open(ships.table) as reader:
        assert reader.scan().to_table()["ships"].to_pylist() == [1]


def test_a_task_that_can_not_digest_a_file_for_the_machines_fault_fails_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Workshop(tmp_path)
    files = shop.csv("id\n1\n")

    def broken(file: SourceFile) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(SourceFile, "digest", broken)
        with pytest.raises(StorageError, match="just now"):
            shop.ingest(files, "id bigint", quarantine=True)
    assert shop.rows(shop.ingest(files, "id bigint", quarantine=True)) == [{"id": 1, "_source": 1}]
