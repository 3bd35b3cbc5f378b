"""The log is the truth, and manifest/<table>.json may ask for more reading, never for less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lading.ingest.ledger import Ledger, is_of, make_ledger, shows_the_log
from lading.ingest.verdict import Known
from lading.log.state import TableState
from lading.log.table import Table
from lading.model import Commit, Source
from lading.sources.fingerprint import source_id
from lading.sources.manifest import FileEntry, SourceManifest, load, save
from lading.state.log_frames import FORMAT_VERSION, LogHeader
from lading.state.tables import StateMeta

NAME = "manifest/t.json"
HASH, OTHER = "mtime:1.0_size:5", "mtime:2.0_size:5"
SHA, OTHER_SHA = "a" * 64, "b" * 64
REMOVED, EDITED = f"its entry was removed from {NAME}", f"its hash was changed in {NAME}"


def source(key: str, hash: str = HASH, **fields: Any) -> Source:
    return Source(source_id(key), key, hash, SHA, 5, 1_000_000_000, 3, False, "2024-01-01T00:00:00", **fields)


def entry(hash: str = HASH, status: str = "success", **fields: Any) -> FileEntry:
    """As lading writes it for `source`."""
    as_written = {"sha256": SHA, "size": 5, "mtime_ns": 1_000_000_000, "spot": 7} | fields
    return FileEntry(
        hash=hash,
        last_processed="2024-01-01T00:00:00",
        status=status,
        metadata={"row_count": 3},
        **as_written,
    )


def state(*commits: list[Source] | tuple[int, ...]) -> TableState:
    """One commit after the other: a list of sources read, or a tuple of those retracted."""
    header = LogHeader(FORMAT_VERSION, "t", "this", "log", "2024-01-01", 0)
    made = TableState("/nowhere", StateMeta.before_the_first_commit(header))
    for number, one in enumerate(commits, 1):
        what = {"sources": tuple(one)} if isinstance(one, list) else {"gone": one}
        made.apply([Commit(f"c{number}", "r", f"2024-01-0{number}", "recipe", sequence=number, **what)])
    return made


def manifest(
    files: dict[str, FileEntry],
    sequence: int | None,
    *,
    table_id: str = "this",
    at: str = "",
    edited: bool = True,
) -> SourceManifest:
    """Of lading's for a sequence; None: of somebody else."""
    lading = {} if sequence is None else {"table_id": table_id, "sequence": sequence, "at": at}
    made = SourceManifest("t", files, lading=lading)
    made.as_written = not edited
    return made


# ------------------------------------------------------------------------------------- an entry and the log

READ_AT_TWO = [[source("other")], [source("a")], []]  # sequences 1 to 3


@pytest.mark.parametrize(
    ("shown", "told", "expected"),
    [
        pytest.param(3, entry(), Known(source("a"), spot=7), id="as the log has it"),
        pytest.param(2, entry(), Known(source("a"), spot=7), id="as the log has it, at its very sequence"),
        pytest.param(2, None, Known(source("a"), REMOVED), id="an entry that somebody removed"),
        pytest.param(2, entry(OTHER), Known(source("a"), EDITED), id="a hash that somebody changed"),
        pytest.param(2, entry(""), Known(source("a"), EDITED), id="a hash that somebody emptied"),
        pytest.param(2, entry(SHA), Known(source("a"), EDITED), id="another kind, in lading's own file"),
        pytest.param(
            2, entry(status="failed", error="torn"), Known(source("a"), "tried again: torn", failed=True),
            id="its last attempt failed",
        ),
        pytest.param(
            2, entry(OTHER, "failed"), Known(source("a"), "tried again: status is failed", failed=True),
            id="it failed, and nobody said why",
        ),
        pytest.param(
            2, entry(status="later"), Known(source("a"), "tried again: status is later", failed=True),
            id="a status that nobody knows",
        ),
        pytest.param(2, entry(status="quarantined"), Known(source("a"), spot=7), id="set aside"),
        pytest.param(1, entry(), Known(source("a")), id="read since: nobody knows where it lay then"),
        pytest.param(1, None, Known(source("a")), id="read since, and not shown yet"),
        pytest.param(1, entry(OTHER), Known(source("a")), id="read since, as it was before"),
        pytest.param(1, entry(status="failed", error="torn"), Known(source("a")), id="read since it failed"),
    ],
)  # fmt: skip
def test_entries_ask_for_more_up_to_the_manifests_sequence_and_the_log_rolls_forward_after_it(
    shown: int, told: FileEntry | None, expected: Known
) -> None:
    files = {"other": entry()} | ({} if told is None else {"a": told})
    ledger = make_ledger(manifest(files, shown), state(*READ_AT_TWO), NAME)
    assert dict(ledger.known) == {"other": Known(source("other"), spot=7), "a": expected}
    assert (ledger.reset, ledger.behind) == (None, True)


def test_a_file_that_was_read_again_counts_from_its_last_reading() -> None:
    twice = state([source("a", OTHER), source("b", OTHER)], [source("a")])
    ledger = make_ledger(manifest({"a": entry(OTHER), "b": entry(OTHER)}, 1), twice, NAME)
    assert dict(ledger.known) == {"a": Known(source("a")), "b": Known(source("b", OTHER), spot=7)}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(entry(), None, id="an entry puts no file into the table"),
        pytest.param(entry(status="later"), None, id="nor does one of no known status"),
        pytest.param(
            entry(status="failed", error="torn"), Known(None, "tried again: torn", failed=True), id="failed"
        ),
    ],
)
@pytest.mark.parametrize("commits", [[[source("b")]], [[source("a"), source("b")], (source_id("a"),)]])
def test_what_the_log_does_not_have_was_not_read_whatever_an_entry_says(
    commits: list[Any], told: FileEntry, expected: Known | None
) -> None:
    logged = state(*commits)
    ledger = make_ledger(manifest({"a": told, "b": entry()}, logged.sequence), logged, NAME)
    assert dict(ledger.known).get("a") == expected
    assert dict(ledger.known)["b"] == Known(source("b"), spot=7)


# --------------------------------------------------------------------------------- which of the two is asked


def test_no_manifest_is_a_request_to_read_everything_again() -> None:
    ledger = make_ledger(None, state([source("a")], [source("b")]), NAME)
    assert ledger.reset == f"{NAME} is missing: everything is read again"
    assert dict(ledger.known) == {key: Known(source(key)) for key in ("a", "b")}, (
        "so that their old rows leave"
    )
    assert ledger.behind


@pytest.mark.parametrize(
    ("table_id", "sequence"),
    [pytest.param("another", 1, id="another table"), pytest.param("this", 3, id="a sequence to come")],
)
@pytest.mark.parametrize("edited", [True, False])
def test_a_manifest_that_is_not_of_this_log_says_nothing(table_id: str, sequence: int, edited: bool) -> None:
    files = {"a": entry(OTHER), "c": entry(status="failed", error="torn")}
    told = manifest(files, sequence, table_id=table_id, at="2024-01-02", edited=edited)
    ledger = make_ledger(told, state([source("a")], [source("b")]), NAME)
    assert dict(ledger.known) == {key: Known(source(key)) for key in ("a", "b")}
    assert (ledger.reset, ledger.behind) == (None, True)


@pytest.mark.parametrize(
    ("told", "hash", "again"),
    [
        pytest.param(HASH, HASH, None, id="the same"),
        pytest.param(OTHER, HASH, EDITED, id="another of the same kind"),
        pytest.param(OTHER_SHA, SHA, EDITED, id="another SHA-256"),
        pytest.param("", HASH, EDITED, id="none"),
        pytest.param(SHA, HASH, None, id="full, where the table's are fast"),
        pytest.param(HASH, SHA, None, id="fast, where the table's are full"),
        pytest.param("etag:x_size:5", HASH, None, id="of a bucket"),
        pytest.param(None, HASH, REMOVED, id="no entry"),
    ],
)
def test_in_a_manifest_of_somebody_else_hashes_of_another_kind_say_nothing(
    told: str | None, hash: str, again: str | None
) -> None:
    """And what it shows is meant, however new the log."""
    files = {} if told is None else {"a": entry(told)}
    ledger = make_ledger(manifest(files, None), state([], [source("a", hash)]), NAME)
    assert dict(ledger.known)["a"].source == source("a", hash)
    assert (dict(ledger.known)["a"].again, ledger.reset, ledger.behind) == (again, None, True)


@pytest.mark.parametrize("logged", [None, state()])
def test_before_the_first_commit_only_failures_are_known(logged: TableState | None) -> None:
    files = {"a": entry(), "b": entry(status="failed", error="torn"), "c": entry(status="quarantined")}
    ledger = make_ledger(manifest(files, None), logged, NAME)
    assert dict(ledger.known) == {"b": Known(None, "tried again: torn", failed=True)}
    assert (ledger.reset, ledger.behind) == (None, False)


def test_a_table_that_was_never_committed_to_needs_no_reset() -> None:
    assert make_ledger(None, None, NAME) == Ledger()
    assert make_ledger(None, state(), NAME) == Ledger(behind=True)


# ------------------------------------------------------------------------------------------- the quick way


@pytest.mark.parametrize(
    ("told", "same"),
    [
        pytest.param({}, True, id="as lading wrote it"),
        pytest.param({"edited": True}, False, id="edited since"),
        pytest.param({"sequence": 1}, False, id="of an older sequence"),
        pytest.param({"table_id": "another"}, False, id="of another table"),
        pytest.param({"at": "2024-01-09"}, False, id="of a log that was restored, and went on otherwise"),
    ],
)
def test_a_manifest_is_believed_only_as_lading_wrote_it_for_this_very_state(
    told: dict[str, Any], same: bool
) -> None:
    logged = state([], (source_id("x"),))
    as_written = {"sequence": 2, "at": logged.meta.at, "edited": False} | told
    assert is_of(manifest({}, **as_written), logged) == same


@pytest.mark.parametrize(
    "logged",
    [
        pytest.param(source("a"), id="read"),
        pytest.param(msgspec.structs.replace(source("a"), racy=True), id="racy"),
        pytest.param(source("a", archive="a.zip"), id="from an archive"),
        pytest.param(source("a", rejected=2, quarantine="_quarantine/x"), id="some of it set aside"),
        pytest.param(source("a", rejected=3, quarantine="_quarantine/x", aside="torn"), id="set aside whole"),
        pytest.param(source("a", aside=""), id="set aside without a word"),
    ],
)
def test_what_lading_wrote_says_all_that_the_log_would(
    logged: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = state([logged], (source_id("x"),))
    written = entry(
        status="success" if logged.aside is None else "quarantined", racy=logged.racy, error=logged.aside,
        archive=logged.archive, rows_rejected=logged.rejected, quarantine=logged.quarantine,
    )  # fmt: skip
    told = manifest({"a": written}, 2, at=table.meta.at, edited=False)
    monkeypatch.setattr(TableState, "sources_by_key", lambda self: pytest.fail("the log need not be asked"))
    ledger = make_ledger(told, table, NAME)
    assert dict(ledger.known) == {"a": Known(logged, spot=7)} and not ledger.behind


@pytest.mark.parametrize(("key", "old"), [("a", source("a")), ("b", None)])
def test_what_failed_keeps_the_old_version_that_the_log_has(key: str, old: Source | None) -> None:
    table = state([source("a")], (source_id("x"),))
    told = manifest({key: entry(OTHER, "failed", error="torn")}, 2, at=table.meta.at, edited=False)
    ledger = make_ledger(told, table, NAME)
    assert dict(ledger.known) == {key: Known(old, "tried again: torn", failed=True)} and not ledger.behind


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("edit", [None, "removed", "changed"])
def test_a_real_file_that_somebody_edits_is_noticed(
    tmp_path: Path, checkpoint: bool, edit: str | None
) -> None:
    table = Table.create(tmp_path / "t", "t")
    for number, key in enumerate("ab"):
        table.commit(Commit(key, "r", f"2024-01-0{number}", "recipe", sources=(source(key),), gone=(0,)))
    if checkpoint:
        table.checkpoint()
    meta, path = table.state.meta, tmp_path / "t.json"
    save(path, manifest({"a": entry(), "b": entry()}, 2, table_id=meta.table_id, at=meta.at))
    if edit is not None:
        whole = json.loads(path.read_text())
        if edit == "removed":
            del whole["files"]["b"]
        else:
            whole["files"]["b"]["hash"] = OTHER
        path.write_text(json.dumps(whole))
    ledger = make_ledger(load(path), table.state, NAME)
    again = {None: None, "removed": REMOVED, "changed": EDITED}[edit]
    assert dict(ledger.known) == {
        "a": Known(source("a"), spot=7),
        "b": Known(source("b"), again, spot=0 if again else 7),
    }
    assert ledger.behind == (edit is not None)


@pytest.mark.parametrize(
    ("files", "options", "shows"),
    [
        pytest.param({"a": entry(), "b": entry()}, {}, True, id="all of them"),
        pytest.param({"a": entry(), "b": entry(status="quarantined")}, {}, True, id="some set aside"),
        pytest.param(
            {"a": entry(), "b": entry(), "c": entry(status="failed")}, {}, True, id="more that failed"
        ),
        pytest.param({"a": entry()}, {}, False, id="one too few"),
        pytest.param({"a": entry(), "b": entry(), "c": entry()}, {}, False, id="one too many"),
        pytest.param({"a": entry(), "b": entry(OTHER)}, {}, False, id="another hash"),
        pytest.param({"a": entry(), "b": entry(status="failed")}, {}, False, id="one that failed"),
        pytest.param({"a": entry(), "b": entry()}, {"table_id": "another"}, False, id="of another table"),
    ],
)
def test_a_manifest_shows_the_log_if_it_has_its_files_though_not_its_last_commits(
    files: dict[str, FileEntry], options: dict[str, Any], shows: bool
) -> None:
    table = state([source("a"), source("b")], [])
    told = manifest(files, 1, **options)
    assert shows_the_log(told, table) == shows
    assert not shows_the_log(None, table)
