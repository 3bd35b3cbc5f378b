"""Whatever is found, logged and edited: a plan that walks files, entries and sources side by side is the plan
that dictionaries of all of them give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.by_dicts import known_of, planned

from lading.ingest import compare as compare_module
from lading.ingest.compare import compare
from lading.ingest.ledger import make_ledger
from lading.ingest.plan import Again, make_plan
from lading.log.state import TableState
from lading.model import Commit, Digest, FoundFile, Member, Source
from lading.sources import entries as entries_module
from lading.sources import found as found_module
from lading.sources import manifest as manifest_module
from lading.sources.entries import FileEntry
from lading.sources.fingerprint import source_id
from lading.sources.found import FoundFiles
from lading.sources.manifest import SourceManifest, load, save
from lading.sources.since import Recorded, append_since
from lading.state.log_frames import FORMAT_VERSION, LogHeader
from lading.state.tables import StateMeta

NAME = "manifest/t.json"
KEYS = ["a", "a-b/x", "a/b", "a/ü", "b", "c", "d"]
ONE, OTHER = "a" * 64, "b" * 64

# size, time, racy, spot: few values, so that they often are the same
SIZES, TIMES = st.sampled_from([5, 6]), st.sampled_from([10**9, 2 * 10**9])
METADATA = st.tuples(SIZES, TIMES, st.booleans(), st.integers(0, 2))
LOGGED = st.fixed_dictionaries(
    {
        "size": SIZES,
        "mtime_ns": TIMES,
        "racy": st.booleans(),
        "rejected": st.sampled_from([0, 0, 0, 2]),
        "aside": st.sampled_from([None, None, None, "torn"]),
        "sha256": st.sampled_from([ONE, OTHER]),
        "full": st.sampled_from([False, False, False, True]),
        "sequence": st.integers(1, 3),
    }
)
EDIT = st.sampled_from(["as it is", "as it is", "as it is", "removed", "hash", "failed", "strange"])


def source(key: str, of: dict[str, Any]) -> Source:
    hash = FoundFile(key, "", of["size"], of["mtime_ns"], False).hash if not of["full"] else of["sha256"]
    return Source(
        source_id(key), key, hash, of["sha256"], of["size"], of["mtime_ns"], 3, of["racy"], "2024",
        rejected=of["rejected"], aside=of["aside"],
    )  # fmt: skip


def entry(one: Source, spot: int, edit: str) -> FileEntry | None:
    if edit == "removed":
        return None
    status = "success" if one.aside is None else "quarantined"
    return FileEntry(
        hash="mtime:9.0_size:9" if edit == "hash" else one.hash,
        last_processed=one.processed_at,
        status={"failed": "failed", "strange": "later"}.get(edit, status),
        metadata={"row_count": one.rows},
        sha256=one.sha256,
        size=one.size,
        mtime_ns=one.mtime_ns,
        racy=one.racy,
        error=one.aside if edit == "as it is" else None,
        rows_rejected=one.rejected,
        spot=spot,
    )


def state_of(logged: dict[str, dict[str, Any]]) -> TableState:
    header = LogHeader(FORMAT_VERSION, "t", "this", "log", "2024-01-01", 0)
    made = TableState("/nowhere", StateMeta.before_the_first_commit(header))  # type: ignore[arg-type]
    for sequence in (1, 2, 3):
        read = tuple(source(key, one) for key, one in logged.items() if one["sequence"] == sequence)
        made.apply(
            [Commit(f"c{sequence}", "r", f"2024-01-0{sequence}", "x", sources=read, sequence=sequence)]
        )
    return made


def columns(files: Sequence[FoundFile]) -> FoundFiles:
    made = FoundFiles("/data")
    for file in files:
        made.add("", [(file.key, file.size, file.mtime_ns, file.racy, file.spot)])
    return made.complete()


@pytest.fixture(scope="module", autouse=True)
def _small_pieces() -> Any:
    """So that few files are as many as many are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest_module, "IN_MEMORY", 0)
        patched.setattr(entries_module, "_CHUNK", 200)
        patched.setattr(found_module, "_CHUNK", 2)
        patched.setattr(compare_module, "_AT_ONCE", 2)
        yield


@settings(deadline=None, max_examples=400)
@given(
    found=st.dictionaries(st.sampled_from(KEYS), METADATA),
    logged=st.dictionaries(st.sampled_from(KEYS), LOGGED),
    spots=st.lists(st.integers(0, 2), min_size=len(KEYS), max_size=len(KEYS)),
    edits=st.lists(EDIT, min_size=len(KEYS), max_size=len(KEYS)),
    shown=st.integers(0, 3),
    later=st.booleans(),
    full=st.booleans(),
    again=st.sampled_from([None, None, "all", "some"]),
    content=st.lists(st.sampled_from([ONE, OTHER]), min_size=len(KEYS), max_size=len(KEYS)),
)
def test_a_plan_that_walks_is_the_plan_of_dictionaries(
    tmp_path_factory: pytest.TempPathFactory,
    found: dict[str, tuple[int, int, bool, int]],
    logged: dict[str, dict[str, Any]],
    spots: list[int],
    edits: list[str],
    shown: int,
    later: bool,
    full: bool,
    again: str | None,
    content: list[str],
) -> None:
    state = state_of(logged)
    path = tmp_path_factory.getbasetemp() / "walked" / "t.json"
    _write(path, state, dict(zip(KEYS, spots, strict=True)), dict(zip(KEYS, edits, strict=True)), shown)
    if later and shown < 3:
        _record_since(path, state)
    manifest = load(path)
    files = [FoundFile(key, f"/data/{key}", *one[:3], spot=one[3]) for key, one in sorted(found.items())]
    digests = {key: Digest(text, 5) for key, text in zip(KEYS, content, strict=True)}
    asked = {"all": Again("all of it"), "some": Again("some", frozenset("abc")), None: None}[again]

    expected = planned(files, known_of(manifest, state, NAME), digests, asked, full=full)
    for listed in (files, columns(files)):
        walked = compare(
            listed,
            make_ledger(load(path), state, NAME).known,
            full=full,
            digest=lambda some: {file.key: digests[file.key] for file in some},
        )
        plan = make_plan("t", walked, walked.known, again=asked, live=_no_members)
        assert list(plan.files) == expected.files
        assert [plan.files[number] for number in range(len(plan.files))] == expected.files
        assert list(plan.read) == expected.read
        assert list(plan.vanished) == expected.vanished
        assert list(plan.note) == expected.note
        assert plan.replaced == expected.replaced
        assert {verdict: n for verdict, n in plan.verdicts.items() if n} == expected.verdicts
        assert plan.sources == expected.sources


def _no_members(sources: frozenset[int] | None) -> list[Member]:
    return []


def _write(path: Path, state: TableState, spots: dict[str, int], edits: dict[str, str], shown: int) -> None:
    """The file of an earlier sequence, as people left it; what the log doesn't have may have failed."""
    files = {}
    logged = state.sources()
    for key, (one, sequence) in logged.items():
        made = entry(one, spots[key], edits[key]) if sequence <= shown else None
        if made is not None:
            files[key] = made
    for key in edits:
        if key not in logged and edits[key] == "failed":
            files[key] = FileEntry(hash="", last_processed="2024", status="failed", metadata={}, error="torn")
    lading = {"table_id": "this", "sequence": shown, "at": f"2024-01-0{shown}"}
    save(path, SourceManifest("t", files, lading=lading))
    if any(edits[key] != "as it is" for key in logged):
        path.write_bytes(path.read_bytes().replace(b'"files_xxh3": "', b'"files_xxh3": "x'))


def _record_since(path: Path, state: TableState) -> None:
    """What the log has beyond the file, as a run appends it."""
    manifest = load(path)
    assert manifest is not None
    told = manifest.lading | {"sequence": 3, "at": state.meta.at}
    since = {
        key: entry(one, 1, "as it is")
        for key, (one, sequence) in state.sources().items()
        if sequence > manifest.sequence
    }
    append_since(path, Recorded(manifest.base, since, {}, told))
