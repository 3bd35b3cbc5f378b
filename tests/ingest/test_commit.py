"""What a run's frame says: what was read, noted, replaced, and left alone since a file moved. A real log and
real parts, no Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.world import SCHEMA, World

from lading.errors import Conflict, PartError, SourceError, TransformError
from lading.ingest.commit import commit_notes, commit_rows, noted, without_moved
from lading.ingest.compare import compare
from lading.ingest.ledger import Ledger
from lading.ingest.plan import Again, TablePlan, make_plan
from lading.ingest.prepare import Prepared
from lading.ingest.quarantine import Rejected
from lading.ingest.read import FilesRead
from lading.ingest.table_run import TableRun
from lading.ingest.tasks.outcome import Ingested
from lading.ingest.verdict import Known
from lading.model import Commit, Digest, FoundFile, Member, Source
from lading.parts.footer import Origin
from lading.parts.write import PartWriter
from lading.sources.fingerprint import source_id
from lading.sources.recipe import hashed
from lading.watch import Watch

RECIPE = hashed(b"recipe")
OLD, NEW = Digest("a" * 64, 6), Digest("b" * 64, 6)
ARROW = SCHEMA.serialize().to_pybytes()
THEN = 1_600_000_000_000_000_000


class Bench:
    """A table whose log has some parts, and the files of a run that is about to commit."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.table = self.world.table()
        self.known: dict[str, Known] = {}

    def put(self, key: str, text: str = "id\n1\n2", at: int = THEN) -> FoundFile:
        path = self.world.folder / "data" / key
        path.write_text(text)
        os.utime(path, ns=(at, at))
        return FoundFile(key, str(path), len(text), at, False)

    def part(self, *keys: str) -> Member:
        """Written, and in no commit: two rows of each file."""
        origin = Origin(self.table.table_id, "run", "c", "id")
        writer = PartWriter(self.table.place, 0, SCHEMA, origin)
        ids = [source_id(key) for key in keys for _ in range(2)]
        writer.write(pa.table([list(range(len(ids))), ["x"] * len(ids), ids], schema=SCHEMA))
        return writer.close()

    def commit(self, *parts: Member) -> None:
        """As an earlier run did, of every file that the parts hold rows of."""
        keys = {source_id(key): key for key in ("a", "b", "c", "d")}
        held = sorted({keys[number] for part in parts for number, _ in part.sources})
        sources = tuple(source(key) for key in held)
        self.known |= {one.key: Known(one) for one in sources}
        self.table.commit(
            Commit("c0", "before", "2024-01-01", RECIPE, parts, sources=sources, schema=ARROW, order_by="id")
        )

    def work(
        self,
        found: Sequence[FoundFile] = (),
        *,
        reason: str | None = None,
        note: Sequence[str] = (),
        **config: Any,
    ) -> TableRun:
        """A run that finds these files: all of them changed, but for those to note."""
        cfg = replace(self.world.config.table("t"), **config)
        state = self.table.state
        compared = compare(
            sorted(found, key=lambda one: one.key),
            sorted(self.known.items()),
            full=cfg.fingerprint == "full",
            digest=lambda files: dict.fromkeys(note, OLD),
        )
        plan = make_plan(
            "t",
            compared,
            compared.known,
            again=Again(reason) if reason is not None else None,
            live=lambda ids: state.candidates(None) if ids is None else state.members_of(ids),
            replace=cfg.replace,
        )
        return self.working(plan, cfg)

    def working(self, plan: TablePlan, cfg: Any = None) -> TableRun:
        cfg = cfg or self.world.config.table("t")
        return TableRun(
            self.world.config,
            cfg,
            Watch(),
            run_id="run",
            commit_id="c1",
            opened=self.table,
            ledger=Ledger(sorted(self.known.items())),
            known=self.known,
            recipe=RECIPE,
            plan=plan,
        )

    def rows(self) -> dict[str, int]:
        """That a reader gets, by file."""
        members = self.world.table().state.candidates(None)
        return {
            key: sum(n for m in members for s, n in m.sources if s == source_id(key) and s not in m.minus)
            for key in ("a", "b", "c", "d")
        }

    def sources_in(self, member: Member) -> set[int]:
        with pq.ParquetFile(self.world.root / member.path) as file:
            return set(file.read(["_source"]).column(0).to_pylist())


def source(key: str, **fields: Any) -> Source:
    made = Source(source_id(key), key, "mtime:1.0_size:6", OLD.sha256, 6, 10**9, 2, False, "2024-01-01")
    return msgspec.structs.replace(made, **fields)


class Every(dict[str, Digest]):
    """The new digest, whatever the key."""

    def __missing__(self, key: str) -> Digest:
        return NEW


def prepared(*keys: str, recipe: str = "recipe") -> Prepared:
    return Prepared((), (), recipe.encode(), {})


def read(*members: Member, schema: bytes = ARROW, **more: Any) -> FilesRead:
    return FilesRead(Ingested(members, schema), digests=Every(), **more)


def ids(*keys: str) -> set[int]:
    return {source_id(key) for key in keys}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "project")


# ------------------------------------------------------------------------------------------ what is noted


@pytest.mark.parametrize(
    ("before", "found", "full", "after"),
    [
        pytest.param(
            {}, {"mtime_ns": 2 * 10**9}, False, {"hash": "mtime:2.0_size:6", "mtime_ns": 2 * 10**9},
            id="touched",
        ),
        pytest.param({"racy": True}, {}, False, {"racy": False}, id="a racy file that has aged"),
        pytest.param(
            {}, {"mtime_ns": 2 * 10**9, "racy": True}, False,
            {"hash": "mtime:2.0_size:6", "mtime_ns": 2 * 10**9, "racy": True}, id="touched just now",
        ),
        pytest.param({}, {}, True, {"hash": OLD.sha256}, id="a full fingerprint in the place of a fast one"),
        pytest.param(
            {"rejected": 1, "quarantine": "q", "aside": "torn", "archive": "z", "racy": True}, {}, False,
            {"racy": False}, id="set aside",
        ),
    ],
)  # fmt: skip
def test_same_bytes_are_recorded_under_their_new_fingerprint_and_nothing_else_of_them_changes(
    bench: Bench, before: dict[str, Any], found: dict[str, Any], full: bool, after: dict[str, Any]
) -> None:
    old = source("a", **before)
    bench.known["a"] = Known(old)
    file = msgspec.structs.replace(FoundFile("a", "/a", 6, 10**9, False), **found)
    work = bench.work([file], note=["a"], fingerprint="full" if full else "fast")
    assert noted(work) == (msgspec.structs.replace(old, **after),)


def test_notes_are_a_frame_of_sources_under_the_logs_recipe(bench: Bench) -> None:
    bench.commit(bench.part("a", "b"))
    before = bench.rows()
    a, b = (FoundFile(key, f"/{key}", 6, at, False) for key, at in (("a", 10**9), ("b", 2 * 10**9)))
    commit_notes(bench.work([a, b], note=["b"]))
    last = bench.world.table().history()[-1]
    assert (last.sequence, last.recipe, last.changes_rows) == (2, RECIPE, False)
    assert [(one.key, one.mtime_ns) for one in last.sources] == [("b", 2 * 10**9)]
    assert bench.rows() == before


def test_nothing_to_note_is_no_commit(bench: Bench) -> None:
    bench.commit(bench.part("a"))
    commit_notes(bench.work([FoundFile("a", "/a", 6, 10**9, False)]))
    assert bench.world.table().state.sequence == 1


# ------------------------------------------------------------------------------------- files that moved


def edited(file: FoundFile) -> None:
    Path(file.path).write_text("longer than before")
    os.utime(file.path, ns=(file.mtime_ns, file.mtime_ns))


def touched(file: FoundFile) -> None:
    os.utime(file.path, ns=(THEN + 1, THEN + 1))


def deleted(file: FoundFile) -> None:
    Path(file.path).unlink()


MOVES = [edited, touched, deleted]


@pytest.mark.parametrize("move", MOVES)
def test_rows_of_a_file_that_moved_while_it_was_read_are_left_out(
    bench: Bench, move: Callable[[FoundFile], None]
) -> None:
    a, b = bench.put("a"), bench.put("b")
    alone, both, other = bench.part("a"), bench.part("a", "b"), bench.part("b")
    work = bench.work([a, b])
    assert without_moved(work, (alone, both, other)) == ((alone, both, other), ())
    move(a)
    members, moved = without_moved(work, (alone, both, other))
    assert moved == (a,)
    assert members[0] == other and len(members) == 2
    assert members[1].sources == ((source_id("b"), 2),)
    assert bench.sources_in(members[1]) == ids("b")


@pytest.mark.parametrize(
    "options", [{"reason": "--full"}, {"per": "table"}], ids=["everything is read", "per: table"]
)
def test_nothing_is_committed_if_a_file_moved_and_everything_is_to_be_replaced_at_once(
    bench: Bench, options: dict[str, Any]
) -> None:
    a, b = bench.put("a"), bench.put("b")
    bench.commit(bench.part("a", "b"))
    work = bench.work([a, b], **options)
    edited(b)
    with pytest.raises(SourceError, match="b changed while it was being read") as error:
        commit_rows(work, prepared("a", "b"), read(bench.part("a", "b")))
    assert (error.value.table, error.value.file) == ("t", "b")
    assert bench.world.table().state.sequence == 1


@pytest.mark.parametrize("how", ["rewrite", "minus", "auto"])
@pytest.mark.parametrize("move", MOVES)
def test_the_old_rows_of_a_file_that_moved_stay(
    bench: Bench, move: Callable[[FoundFile], None], how: str
) -> None:
    """`a` is read anew, `b` moves, `c` stays and `d` has vanished."""
    bench.commit(
        bench.part("a"), bench.part("b"), bench.part("a", "b"), bench.part("b", "c"), bench.part("d")
    )
    a, b = bench.put("a"), bench.put("b")
    c = FoundFile("c", "/c", 6, 10**9, False)
    work = bench.work([a, b, c], replace=how)
    move(b)
    commit, moved = commit_rows(work, prepared("a", "b"), read(bench.part("a"), bench.part("a", "b")))
    assert moved == (b,)
    assert [(one.key, one.sha256, one.rows) for one in commit.sources] == [("a", NEW.sha256, 4)]
    assert commit.gone == (source_id("d"),)
    assert bench.rows() == {"a": 4, "b": 6, "c": 2, "d": 0}
    state = bench.world.table().state
    assert state.sources()["b"][0] == source("b"), "as it was read before"
    assert "d" not in state.sources()


def test_if_all_files_moved_the_table_stays_as_it_is(bench: Bench) -> None:
    bench.commit(bench.part("a", "b"), bench.part("a"))
    a, c = bench.put("a"), FoundFile("b", "/b", 6, 10**9, False)
    before = bench.rows()
    work = bench.work([a, c])
    edited(a)
    commit, moved = commit_rows(work, prepared("a"), read(bench.part("a")))
    assert moved == (a,)
    assert not (commit.add or commit.remove or commit.minus or commit.sources or commit.gone)
    assert bench.rows() == before


# ---------------------------------------------------------------------------------------- what is replaced


@pytest.mark.parametrize(
    ("how", "removed", "subtracted"), [("rewrite", 2, 0), ("minus", 1, 1), ("auto", 2, 0)]
)
def test_a_file_that_is_read_again_has_its_new_rows_only(
    bench: Bench, how: str, removed: int, subtracted: int
) -> None:
    bench.commit(bench.part("a"), bench.part("a", "b"), bench.part("b"))
    work = bench.work([bench.put("a"), FoundFile("b", "/b", 6, 10**9, False)], replace=how)
    commit, _ = commit_rows(work, prepared("a"), read(bench.part("a")))
    assert (len(commit.remove), len(commit.minus)) == (removed, subtracted)
    assert all(numbers == (source_id("a"),) for _, numbers in commit.minus)
    assert bench.rows() == {"a": 2, "b": 4, "c": 0, "d": 0}


def test_what_the_plan_decided_is_carried_out_and_not_decided_anew(bench: Bench) -> None:
    bench.commit(bench.part("a", "b"))
    work = bench.work([bench.put("a"), FoundFile("b", "/b", 6, 10**9, False)], replace="minus")
    work = replace(work, cfg=replace(work.cfg, replace="rewrite"))
    commit, _ = commit_rows(work, prepared("a"), read(bench.part("a")))
    assert (len(commit.remove), len(commit.minus)) == (0, 1)


def test_rows_are_subtracted_once(bench: Bench) -> None:
    part = bench.part("a", "b", "c")
    bench.commit(part)
    c = FoundFile("c", "/c", 6, 10**9, False)
    commit_rows(
        bench.work([bench.put("a"), bench.put("b", at=10**9), c], replace="minus"), prepared("a"), read()
    )
    bench.known = {key: Known(one) for key, (one, _) in bench.table.state.sources().items()}
    commit, _ = commit_rows(
        bench.work([bench.put("a", at=THEN + 1), bench.put("b"), c], replace="minus"),
        prepared("a", "b"),
        read(),
    )
    assert commit.minus == ((part.path, (source_id("b"),)),)
    assert bench.rows() == {"a": 0, "b": 0, "c": 2, "d": 0}


def test_everything_is_replaced_where_there_is_a_reason_to(bench: Bench) -> None:
    bench.commit(bench.part("a", "b"), bench.part("b", "c"))
    work = bench.work([bench.put("a"), bench.put("b")], reason="the recipe changed", replace="minus")
    commit, _ = commit_rows(work, prepared("a", "b", recipe="new"), read(bench.part("a", "b")))
    assert (len(commit.remove), commit.minus, commit.recipe) == (2, (), hashed(b"new"))
    assert bench.rows() == {"a": 2, "b": 2, "c": 0, "d": 0}


def test_what_was_set_aside_of_a_file_is_told_with_it(bench: Bench) -> None:
    work = bench.work([bench.put("a"), bench.put("b"), bench.put("c")])
    rejected = {
        source_id("a"): Rejected(1, "_quarantine/a"),
        source_id("b"): Rejected(2, "_quarantine/b", "torn"),
    }
    commit, _ = commit_rows(work, prepared("a", "b", "c"), read(bench.part("a", "c"), rejected=rejected))
    assert [(one.key, one.rows, one.rejected, one.quarantine, one.aside) for one in commit.sources] == [
        ("a", 2, 1, "_quarantine/a", None),
        ("b", 0, 2, "_quarantine/b", "torn"),
        ("c", 2, 0, None, None),
    ]
    assert {"_quarantine/a", "_quarantine/b"} <= work.kept


def test_files_that_are_only_touched_are_noted_in_the_same_frame(bench: Bench) -> None:
    bench.commit(bench.part("b"))
    work = bench.work([bench.put("a"), bench.put("b")], note=["b"])
    commit, _ = commit_rows(work, prepared("a"), read(bench.part("a")))
    assert [(one.key, one.processed_at == "2024-01-01") for one in commit.sources] == [
        ("a", False),
        ("b", True),
    ]


# ------------------------------------------------------------------------------------------- the columns

OTHER = pa.schema([*SCHEMA, ("more", pa.int64())]).serialize().to_pybytes()


def test_the_first_commit_says_the_columns_and_the_order_and_later_ones_need_not(bench: Bench) -> None:
    a = bench.put("a")
    commit, _ = commit_rows(bench.work([a]), prepared("a"), read(bench.part("a")))
    assert (commit.schema, commit.order_by) == (ARROW, "id")
    commit, _ = commit_rows(bench.work([bench.put("b")]), prepared("b"), read(bench.part("b")))
    assert (commit.schema, commit.order_by) == (None, None)


@pytest.mark.parametrize(
    ("recipe", "reason", "refused"),
    [("recipe", None, True), ("new", None, False), ("recipe", "--full", False)],
)
def test_other_columns_need_another_recipe_or_a_reason_to_read_everything(
    bench: Bench, recipe: str, reason: str | None, refused: bool
) -> None:
    bench.commit(bench.part("a"))
    work = bench.work([bench.put("a")], reason=reason)
    if refused:
        with pytest.raises(TransformError, match="returned different columns or types than before"):
            commit_rows(work, prepared("a", recipe=recipe), read(bench.part("a"), schema=OTHER))
        assert bench.world.table().state.sequence == 1
        return
    commit, _ = commit_rows(work, prepared("a", recipe=recipe), read(bench.part("a"), schema=OTHER))
    assert commit.schema == OTHER


# ------------------------------------------------------------------------------- parts that are gone


def test_a_part_that_somebody_else_replaced_and_cleaned_makes_the_run_plan_again(bench: Bench) -> None:
    old = bench.part("a", "b")
    bench.commit(old)
    work = bench.work([bench.put("a"), FoundFile("b", "/b", 6, 10**9, False)], replace="rewrite")
    bench.world.table().commit(
        Commit("m", "merge", "2024-01-02", RECIPE, (bench.part("a", "b"),), (old.path,))
    )
    bench.world.remove(old.path)
    with pytest.raises(Conflict, match="someone else replaced parts of t"):
        commit_rows(work, prepared("a"), read(bench.part("a")))


def test_a_part_that_the_log_has_and_nobody_finds_is_damage(bench: Bench) -> None:
    old = bench.part("a", "b")
    bench.commit(old)
    work = bench.work([bench.put("a"), FoundFile("b", "/b", 6, 10**9, False)], replace="rewrite")
    bench.world.remove(old.path)
    with pytest.raises(PartError, match=r"can't be read"):
        commit_rows(work, prepared("a"), read(bench.part("a")))
