"""Invariant 1 with archives: whatever happens to them, to the cache and to the global manifest, and
wherever a run is interrupted, the table equals a fresh build.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import xxhash
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from support.archives import zip_of
from support.machines import KillAt, Killed, killing, run_machine

import lading
from lading.config.file import load as load_config
from lading.run import RunReport, run

CONFIG = """\
tables:
  events: {root: data, path: "**/*.zip", inside: "**/*.csv", format: csv, order_by: id}
"""
SCHEMA = "columns:\n  - {name: id, type: bigint}\n  - {name: note, type: string}\n"
ARCHIVES = ["a.zip", "b.zip", "sub/a.zip"]
PHASES = ["discover", "extract", "plan", "prepare", "ingest", "commit", "record", "publish", "clean"]
ROWS = st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["x", "y"])), max_size=3)
MEMBERS = st.dictionaries(st.sampled_from(["m.csv", "in/m.csv", "n.csv", "skip.txt"]), ROWS, max_size=3)


class Archives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="lading-"))
        self.folder = self.top / "project"
        self.data = self.folder / "data"
        self.cache = self.folder / ".lading_cache" / "archives"
        self.data.mkdir(parents=True)
        _write_config(self.folder)
        self.tick = 0
        self.clean = False

    def teardown(self) -> None:
        _run(self.folder)
        fresh = self.top / "fresh"
        shutil.copytree(self.data, fresh / "data")
        _write_config(fresh)
        _run(fresh)
        assert self.seen() == self.truth() == _seen(fresh)
        shutil.rmtree(self.top)

    def archives(self) -> list[Path]:
        return sorted(self.data.rglob("*.zip"))

    def pick(self, at: int) -> Path | None:
        found = self.archives()
        return found[at % len(found)] if found else None

    @initialize(members=MEMBERS)
    def first(self, members: dict) -> None:
        self.write("a.zip", members)

    @rule(name=st.sampled_from(ARCHIVES), members=MEMBERS)
    def write(self, name: str, members: dict) -> None:
        self.tick += 1
        texts = {key: "id,note\n" + "".join(f"{a},{b}\n" for a, b in rows) for key, rows in members.items()}
        zip_of(self.data / name, texts, age=100_000 - self.tick)
        self.clean = False

    @rule(at=st.integers(0, 9), number=st.integers(10, 99))
    def change_what_was_read(self, at: int, number: int) -> None:
        """The members keep their names, and so do their sources."""
        self.run()
        if path := self.pick(at):
            self.write(path.relative_to(self.data).as_posix(), {"m.csv": [(number, "y")], "n.csv": []})
            self.run()

    @rule(at=st.integers(0, 9))
    def touch(self, at: int) -> None:
        if path := self.pick(at):
            self.tick += 1
            stamp = path.stat().st_mtime + self.tick
            os.utime(path, (stamp, stamp))
            self.clean = False

    @rule(at=st.integers(0, 9))
    def delete(self, at: int) -> None:
        if path := self.pick(at):
            path.unlink()
            self.clean = False

    @rule(at=st.integers(0, 9), to=st.sampled_from(ARCHIVES))
    def rename(self, at: int, to: str) -> None:
        if path := self.pick(at):
            (self.data / to).parent.mkdir(exist_ok=True)
            os.replace(path, self.data / to)
            self.clean = False

    @rule(name=st.sampled_from(["_global.json", "events.json"]))
    def forget(self, name: str) -> None:
        (self.folder / "manifest" / name).unlink(missing_ok=True)
        self.clean = False

    @rule(at=st.integers(0, 9), how=st.sampled_from(["all", "one", "index", "edit"]))
    def damage_the_cache(self, at: int, how: str) -> None:
        files = sorted(path for path in self.cache.rglob("*") if path.is_file() and path.suffix != ".lock")
        if how == "all":
            shutil.rmtree(self.cache, ignore_errors=True)
        elif files and how == "one":
            files[at % len(files)].unlink()
        elif files and how == "edit":
            files[at % len(files)].write_text("id,note\n99,forged\n")
        for index in self.cache.rglob(".lading-index.json") if how == "index" else ():
            index.unlink()
        self.clean = False

    @rule(phase=st.sampled_from(PHASES))
    def run_and_be_killed_between_phases(self, phase: str) -> None:
        before, truth = self.seen(), self.truth()
        with suppress(Killed):
            _run(self.folder, watch=KillAt(phase))
        self.clean = False
        assert self.seen() in (before, truth)

    @rule(
        call=st.sampled_from(["os.rename", "os.replace", "os.fsync", "os.open", "os.mkdir", "shutil.rmtree"]),
        at=st.integers(1, 20),
    )
    def run_and_be_killed_inside_a_phase(self, call: str, at: int) -> None:
        before, truth = self.seen(), self.truth()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(call, killing(eval(call, {"os": os, "shutil": shutil}), at))
            with suppress(Killed):
                _run(self.folder)
        self.clean = False
        assert self.seen() in (before, truth)

    @rule()
    def run(self) -> None:
        before = self.extracted()
        report = _run(self.folder)
        if self.clean:
            [table] = report.tables
            assert (table.rows_added, table.parts_added, table.published) == (0, 0, False)
            assert self.extracted() == before
        self.clean = True

    @invariant()
    @precondition(lambda self: self.clean)
    def the_table_is_what_a_rebuild_gives(self) -> None:
        assert self.seen() == self.truth()

    def extracted(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self.cache.glob("*")}

    def truth(self) -> Counter:
        rows: Counter = Counter()
        for path in self.archives():
            relative = f"data/{path.relative_to(self.data).as_posix()}"
            folder = f"{path.name.replace('.', '_')}_{hashlib.sha256(relative.encode()).hexdigest()[:8]}"
            with zipfile.ZipFile(path) as opened:
                for name in opened.namelist():
                    if not name.endswith(".csv"):
                        continue
                    source = xxhash.xxh3_64_intdigest(f"{folder}/{name}".encode())
                    source -= (source >> 63) << 64
                    for row in csv.DictReader(io.StringIO(opened.read(name).decode())):
                        rows[int(row["id"]), row["note"], source] += 1
        return rows

    def seen(self) -> Counter:
        return _seen(self.folder)


def _write_config(folder: Path) -> None:
    (folder / "schema").mkdir()
    (folder / "lading.yaml").write_text(CONFIG)
    (folder / "schema" / "events.yaml").write_text(SCHEMA)


def _run(folder: Path, **options: object) -> RunReport:
    report = run(load_config(folder), allow_vanish=True, **options)  # type: ignore[arg-type]
    if report.error is not None:
        raise report.error
    return report


def _seen(folder: Path) -> Counter:
    if not (folder / "warehouse" / "events" / "_CURRENT").exists():
        return Counter()
    with lading.open(folder / "warehouse" / "events") as reader:
        table = reader.scan(columns=["id", "note", "_source"]).to_table()
    return Counter(zip(*(table.column(i).to_pylist() for i in range(3)), strict=True))


def test_archives_equal_a_rebuild(spark):
    run_machine(Archives, examples=10, steps=12, soak=(100, 30))
