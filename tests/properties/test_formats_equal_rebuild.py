"""Invariant 1 over all formats, in one process: whatever files come, change and go, cut into tasks anywhere,
the table is what its good records say, what is set aside is what they don't, and a rebuild gives the same."""

from __future__ import annotations

import io
import json
import lzma
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lading
from lading.config.file import load
from lading.ingest import prepare
from lading.ingest.tasks import splits
from lading.run import run

Row = tuple[int, str | None]

COLUMNS = "columns:\n  - {name: id, type: bigint}\n  - {name: note, type: string}\n"
SPEC = "columns:\n  - {name: id, start: 0, length: 6, type: bigint}\n  - {name: note, start: 6, length: 6}\n"
TEXTS = st.none() | st.text(st.sampled_from("aé ,\"'\n\r;0"), min_size=1, max_size=5)
PLAIN = st.none() | st.text(st.sampled_from("abcé0"), min_size=1, max_size=5)
IDS = st.integers(-999, 9_999)
BAD = {
    "csv": "x,1\r\n",
    "json": '{"id": "x"}\n',
    "fixed_width": "     x note  \n",
}


def as_csv(rows: list[Row]) -> bytes:
    def field(text: str | None) -> str:
        return "" if text is None else '"' + text.replace('"', '""') + '"'

    return ("id,note\r\n" + "".join(f"{number},{field(note)}\r\n" for number, note in rows)).encode()


def as_json(rows: list[Row]) -> bytes:
    return "".join(json.dumps({"id": number, "note": note}) + "\n" for number, note in rows).encode()


def as_fixed(rows: list[Row]) -> bytes:
    return "".join(f"{number:>6}{note or '':<6}\n" for number, note in rows).encode()


def as_table(rows: list[Row]) -> pa.Table:
    columns = {"id": pa.array([row[0] for row in rows], pa.int64())}
    return pa.table(columns | {"note": pa.array([row[1] for row in rows], pa.string())})


def as_parquet(rows: list[Row]) -> bytes:
    out = io.BytesIO()
    pq.write_table(as_table(rows), out, row_group_size=2)
    return out.getvalue()


def as_orc(rows: list[Row]) -> bytes:
    out = io.BytesIO()
    pyarrow.orc.write_table(as_table(rows), out)
    return out.getvalue()


WRITERS: dict[str, Callable[[list[Row]], bytes]] = {
    "csv": as_csv,
    "json": as_json,
    "fixed_width": as_fixed,
    "parquet": as_parquet,
    "orc": as_orc,
}
FILES = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.tuples(st.lists(st.tuples(IDS, st.integers(0, 9)), max_size=12), st.booleans()),
    max_size=4,
)


class Project:
    def __init__(self, folder: Path, fmt: str) -> None:
        self.folder, self.fmt = folder, fmt
        (folder / "data").mkdir(parents=True)
        (folder / "schema").mkdir()
        options = {"csv": "read_options: {multiline: true}\n    ", "fixed_width": "spec: spec.yaml\n    "}
        (folder / "spec.yaml").write_text(SPEC)
        if fmt != "fixed_width":
            (folder / "schema" / "t.yaml").write_text(COLUMNS)
        (folder / "lading.yaml").write_text(
            "spark: {in_process_below: 1GB}\n"
            "tables:\n  t:\n    root: data\n    path: '*'\n    on_bad: quarantine\n"
            f"    {options.get(fmt, '')}format: {fmt}\n    order_by: id\n    bucket_size: 500\n"
        )

    def run(self, *, full: bool = False) -> None:
        report = run(load(self.folder), full=full, allow_vanish=True)
        assert report.error is None, report.error
        assert not report.spark_started

    def seen(self) -> Counter[Row]:
        if not (self.folder / "warehouse" / "t" / "_CURRENT").exists():
            return Counter()
        with lading.open(self.folder / "warehouse" / "t") as reader:
            rows = reader.scan(columns=["id", "note"]).to_table().to_pylist()
        return Counter((row["id"], row["note"]) for row in rows)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are cut and spread over tasks, although they are small and it is this process that reads them."""
    monkeypatch.setattr(splits, "SHARE", (24, 64))
    real = prepare.make_tasks
    monkeypatch.setattr(prepare, "make_tasks", lambda files, spec, cores: real(files, spec, 2))


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("fmt", WRITERS)
def test_a_table_is_what_its_files_say_and_what_a_rebuild_gives(fmt: str) -> None:
    notes = st.lists(TEXTS if fmt not in ("fixed_width",) else PLAIN, min_size=10, max_size=10)
    examples = 1_000 if os.environ.get("LADING_SOAK") else 15

    @settings(max_examples=examples, deadline=None)
    @given(st.lists(FILES, min_size=1, max_size=3), notes)
    def holds(steps: list[dict[str, tuple[list[tuple[int, int]], bool]]], words: list[str | None]) -> None:
        top = Path(tempfile.mkdtemp(prefix="lading-"))
        try:
            project = Project(top / "p", fmt)
            for number, files in enumerate(steps):
                truth, bad = put(project, files, words, number)
                project.run()
                assert project.seen() == truth
                listed = aside_of(project)
                assert listed == bad
            project.run(full=True)
            assert project.seen() == truth and aside_of(project) == bad
        finally:
            shutil.rmtree(top)

    holds()


def put(
    project: Project,
    files: dict[str, tuple[list[tuple[int, int]], bool]],
    words: list[str | None],
    number: int,
) -> tuple[Counter[Row], int]:
    """Lay out exactly these files; the rows that they hold, and how many bad ones."""
    shutil.rmtree(project.folder / "data")
    (project.folder / "data").mkdir()
    truth: Counter[Row] = Counter()
    bad = 0
    for name, (rows, broken) in files.items():
        said = [(one, words[word]) for one, word in rows]
        data = WRITERS[project.fmt](said)
        if broken and project.fmt in BAD:
            data += BAD[project.fmt].encode()
            bad += 1
        packed = name == "d" and project.fmt in BAD
        path = project.folder / "data" / (f"{name}.txt.xz" if packed else f"{name}.txt")
        path.write_bytes(lzma.compress(data) if packed else data)
        os.utime(path, (10**9 + number, 10**9 + number))
        truth.update(said)
    return truth, bad


def aside_of(project: Project) -> int:
    from lading.ingest.quarantine import list_aside

    if not (project.folder / "warehouse" / "t").exists():
        return 0
    return sum(one.rows for one in list_aside(load(project.folder), "t"))
