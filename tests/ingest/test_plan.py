"""What a run would do, from what was found and what is known: every rule on its own, without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from lading.errors import VanishGuard
from lading.ingest.compare import compare
from lading.ingest.plan import (
    REWRITE_COMMIT,
    REWRITE_PART,
    Again,
    Replace,
    TablePlan,
    guard_vanished,
    make_plan,
    parts_to_change,
    split_members,
    split_mixed,
    with_waiting,
)
from lading.ingest.verdict import VERDICTS, FileVerdict, Known, depends_on_content, recorded_hash, verdict_on
from lading.ingest.verdicts import AllUnchanged
from lading.model import Digest, FoundFile, Member, Source
from lading.sources.fingerprint import source_id

OLD, NEW = Digest("a" * 64, 10), Digest("b" * 64, 10)
ETAG, OTHER_ETAG = "etag:one_size:10", "etag:two_size:10"


def file(
    key: str = "a.csv", size: int = 10, mtime_ns: int = 1_000, racy: bool = False, **more: Any
) -> FoundFile:
    return FoundFile(key, f"/data/{key}", size, mtime_ns, racy, **more)


def source(key: str = "a.csv", **fields: Any) -> Source:
    """As the log has `file(key)`, whose content is OLD."""
    made = Source(source_id(key), key, file(key).hash, OLD.sha256, 10, 1_000, 3, False, "2024-01-01T00:00:00")
    return msgspec.structs.replace(made, **fields)


def known(*keys: str) -> dict[str, Known]:
    return {key: Known(source(key)) for key in keys}


def part(name: str, *keys: str, size: int = 100, minus: Sequence[str] = ()) -> Member:
    """With three rows of each of `keys`."""
    held = tuple(sorted((source_id(key), 3) for key in keys))
    gone = tuple(sorted(map(source_id, minus)))
    return Member(name, 3 * len(keys), size, 0, 0, 0, None, None, "2024", {}, held, 0, gone)


def ids(*keys: str) -> frozenset[int]:
    return frozenset(map(source_id, keys))


# ------------------------------------------------------------------------------------- one file's verdict

AGED = {"mtime_ns": 2_000}
RACY = Known(source(racy=True))
OBJECT = {"fingerprint": ETAG}


@pytest.mark.parametrize(
    ("found", "before", "digest", "verdict", "reason"),
    [
        pytest.param(file(), None, None, "new", "not read before", id="nobody knows it"),
        pytest.param(file(), Known(None), None, "new", "not read before", id="the log doesn't have it"),
        pytest.param(file(), Known(None, "asked for"), None, "new", "asked for", id="new, and somebody asks"),
        pytest.param(
            file(), Known(source(), failed=True), OLD, "failed", "the last attempt failed",
            id="an old version is in, the last attempt failed",
        ),
        pytest.param(
            file(), Known(None, "tried again: torn", failed=True), None, "failed", "tried again: torn",
            id="it never got in, and the attempt says why",
        ),
        pytest.param(file(), Known(source(), "replayed"), OLD, "reread", "replayed", id="somebody asks"),
        pytest.param(
            file(**OBJECT), Known(source(hash=ETAG), "replayed"), None, "reread", "replayed",
            id="somebody asks for an object",
        ),
        pytest.param(
            file(), Known(source()), None, "unchanged", "same size and modification time",
            id="size and time are the same",
        ),
        pytest.param(
            file(), Known(source()), NEW, "unchanged", "same size and modification time",
            id="size and time are the same, nobody asked for its content",
        ),
        pytest.param(
            file(**AGED), Known(source()), OLD, "touched", "new modification time, same content", id="touched"
        ),
        pytest.param(file(**AGED), Known(source()), NEW, "changed", "content differs", id="edited"),
        pytest.param(
            file(size=11), Known(source()), NEW, "changed", "size was 10, is 11", id="longer at the same time"
        ),
        pytest.param(
            file(**AGED), Known(source()), None, "changed", "content differs", id="nobody compared it"
        ),
        pytest.param(file(), RACY, OLD, "unchanged", "same content", id="racy, and compared"),
        pytest.param(file(), RACY, NEW, "changed", "content differs", id="racy, edited within the same tick"),
        pytest.param(
            file(**AGED), RACY, OLD, "touched", "new modification time, same content", id="racy, touched"
        ),
        pytest.param(
            file(racy=True), Known(source()), None, "unchanged", "same size and modification time",
            id="racy only now: it was not when it was read",
        ),
        pytest.param(
            file(spot=7), Known(source(), spot=7), None, "unchanged", "same size and modification time",
            id="where it lay",
        ),
        pytest.param(
            file(spot=7), Known(source()), None, "unchanged", "same size and modification time",
            id="nobody knows where it lay",
        ),
        pytest.param(
            file(), Known(source(), spot=8), None, "unchanged", "same size and modification time",
            id="nobody knows where it lies",
        ),
        pytest.param(
            file(spot=7), Known(source(), spot=8), OLD, "touched", "another file in its place, same content",
            id="another file in its place, with the same bytes",
        ),
        pytest.param(
            file(spot=7), Known(source(), spot=8), NEW, "changed", "content differs",
            id="another file in its place, with other bytes",
        ),
        pytest.param(
            file(spot=7, **AGED), Known(source(), spot=8), OLD, "touched",
            "new modification time, same content", id="elsewhere and touched",
        ),
        pytest.param(
            file(**OBJECT), Known(source(hash=ETAG)), None, "unchanged", "same content", id="the same object"
        ),
        pytest.param(
            file(mtime_ns=9, fingerprint=ETAG), Known(source(hash=ETAG, racy=True)), None, "unchanged",
            "same content", id="the same object, uploaded again",
        ),
        pytest.param(
            file(**OBJECT), Known(source(hash=OTHER_ETAG)), None, "changed", "content differs",
            id="another object of that size and time",
        ),
        pytest.param(
            file(size=11, **OBJECT), Known(source(hash=OTHER_ETAG)), None, "changed", "size was 10, is 11",
            id="a longer object",
        ),
        pytest.param(
            file(spot=7, **OBJECT), Known(source(hash=ETAG), spot=8), None, "changed",
            "it comes from a different bucket or prefix than before", id="an ETag of another bucket",
        ),
        pytest.param(
            file(), Known(source(aside="torn")), None, "quarantined", "torn", id="set aside, and the same"
        ),
        pytest.param(
            file(**OBJECT), Known(source(hash=ETAG, aside="torn")), None, "quarantined", "torn",
            id="an object that is set aside",
        ),
        pytest.param(
            file(), Known(source(aside="")), None, "quarantined", "", id="set aside without a word"
        ),
        pytest.param(
            file(**AGED), Known(source(aside="torn")), NEW, "changed", "content differs",
            id="set aside, and mended",
        ),
        pytest.param(
            file(), Known(source(aside="torn"), "replayed"), None, "reread", "replayed",
            id="set aside, and replayed",
        ),
        pytest.param(
            file(), Known(source(rejected=2)), None, "unchanged", "same size and modification time",
            id="only some of its rows are aside",
        ),
    ],
)  # fmt: skip
def test_a_files_verdict_follows_from_what_is_known_of_it(
    found: FoundFile, before: Known | None, digest: Digest | None, verdict: str, reason: str
) -> None:
    assert verdict_on(found, before, digest, full=False) == FileVerdict("a.csv", verdict, reason)


@pytest.mark.parametrize(
    ("found", "before", "digest", "verdict"),
    [
        pytest.param(file(), Known(source()), OLD, "unchanged", id="same"),
        pytest.param(file(), Known(source()), NEW, "changed", id="edited, with its old time put back"),
        pytest.param(file(), Known(source()), None, "changed", id="not compared"),
        pytest.param(file(**AGED), Known(source()), OLD, "unchanged", id="times don't count"),
        pytest.param(file(spot=7), Known(source(), spot=8), OLD, "unchanged", id="nor does where it lies"),
        pytest.param(file(), Known(source(aside="torn")), OLD, "quarantined", id="aside, and the same"),
        pytest.param(
            file(**OBJECT), Known(source(hash=ETAG)), None, "unchanged", id="an object's ETag will do"
        ),
    ],
)
def test_under_full_fingerprints_only_the_content_counts(
    found: FoundFile, before: Known, digest: Digest | None, verdict: str
) -> None:
    assert verdict_on(found, before, digest, full=True).verdict == verdict


@pytest.mark.parametrize(
    ("found", "before", "fast", "full"),
    [
        pytest.param(file(), None, False, False, id="new"),
        pytest.param(file(), Known(None), False, False, id="never committed"),
        pytest.param(file(), Known(source()), False, True, id="same size and time"),
        pytest.param(file(**AGED), Known(source()), True, True, id="another time"),
        pytest.param(file(size=11), Known(source()), True, True, id="another size"),
        pytest.param(file(), RACY, True, True, id="racy when it was read"),
        pytest.param(file(racy=True), Known(source()), False, True, id="racy only now"),
        pytest.param(file(spot=7), Known(source(), spot=8), True, True, id="elsewhere"),
        pytest.param(file(spot=7), Known(source()), False, True, id="perhaps elsewhere"),
        pytest.param(file(**AGED), Known(source(), "asked for"), False, False, id="read anyway"),
        pytest.param(file(**AGED), Known(source(), failed=True), False, False, id="tried again anyway"),
        pytest.param(file(**OBJECT), Known(source()), False, False, id="with a fingerprint of its own"),
    ],
)
def test_only_files_whose_content_decides_are_opened(
    found: FoundFile, before: Known | None, fast: bool, full: bool
) -> None:
    all_known = {} if before is None else {"a.csv": before}
    before = all_known.get(found.key)
    assert depends_on_content(found, before, full=False) == fast
    assert depends_on_content(found, before, full=True) == full


@pytest.mark.parametrize(
    ("found", "digest", "full", "hash"),
    [
        (file(mtime_ns=1_500_000_000), None, False, "mtime:1.5_size:10"),
        (file(mtime_ns=1_500_000_000), OLD, False, "mtime:1.5_size:10"),
        (file(mtime_ns=1_500_000_000), OLD, True, OLD.sha256),
        (file(mtime_ns=1_500_000_000), None, True, "mtime:1.5_size:10"),
        (file(**OBJECT), OLD, True, ETAG),
        (file(**OBJECT), OLD, False, ETAG),
    ],
)
def test_the_recorded_fingerprint_is_of_the_kind_that_was_asked_for(
    found: FoundFile, digest: Digest | None, full: bool, hash: str
) -> None:
    assert recorded_hash(found, digest, full=full) == hash


# ----------------------------------------------------------------------------------------- a table's plan


def plan(
    found: Sequence[FoundFile],
    known: Mapping[str, Known],
    digests: Mapping[str, Digest] | None = None,
    parts: Sequence[Member] = (),
    *,
    full: bool = False,
    reason: str | None = None,
    some: frozenset[str] | None = None,
    replace: Any = "rewrite",
) -> TablePlan:
    def live(sources: frozenset[int] | None) -> list[Member]:
        return [one for one in parts if sources is None or one.counts_any(sources)]

    again = Again(reason, some) if reason is not None else None
    found = sorted(found, key=lambda one: one.key)
    compared = compare(found, sorted(known.items()), full=full, digest=lambda files: digests or {})
    return make_plan("t", compared, compared.known, again=again, live=live, replace=replace)


def keys(files: Sequence[Any]) -> list[str]:
    return [one.key for one in files]


def paths(members: Sequence[Member]) -> list[str]:
    return [one.path for one in members]


def test_a_plan_lists_every_file_that_is_found_or_known_once_by_key() -> None:
    made = plan(
        [file("new"), file("changed", size=11), file("same"), file("touched", **AGED), file("failed")],
        known("changed", "same", "touched", "vanished") | {"failed": Known(None, failed=True)},
        {"touched": OLD},
    )
    assert {one.key: one.verdict for one in made.files} == {
        "new": "new", "changed": "changed", "same": "unchanged", "touched": "touched", "failed": "failed",
        "vanished": "vanished",
    }  # fmt: skip
    assert keys(made.files) == sorted(keys(made.files))
    assert keys(made.read) == ["changed", "failed", "new"], "in the order of their keys"
    assert (keys(made.vanished), keys(made.note)) == (["vanished"], ["touched"])
    assert made.verdicts == dict.fromkeys(VERDICTS, 1) | {"quarantined": 0, "reread": 0}


def test_what_failed_and_was_never_in_the_table_does_not_vanish_from_it() -> None:
    made = plan([], {"a.csv": Known(None, failed=True)})
    assert (list(made.files), made.vanished, made.idle) == ([], (), True)


def test_what_failed_with_an_old_version_in_the_table_vanishes_like_any_other() -> None:
    made = plan([], {"a.csv": Known(source(), failed=True)}, parts=[part("p", "a.csv")])
    assert keys(made.vanished) == ["a.csv"] and paths(made.drop) == ["p"]


@pytest.mark.parametrize(
    ("found", "before", "replaced"),
    [
        pytest.param([file()], {}, (), id="new"),
        pytest.param([file()], {"a.csv": Known(None, failed=True)}, (), id="never in"),
        pytest.param([file()], known("a.csv"), (), id="unchanged"),
        pytest.param([file(**AGED)], known("a.csv"), ("a.csv",), id="changed"),
        pytest.param([file()], {"a.csv": Known(source(), failed=True)}, ("a.csv",), id="tried again"),
        pytest.param([], known("a.csv"), ("a.csv",), id="vanished"),
    ],
)
def test_old_rows_leave_exactly_where_a_file_is_read_again_or_gone(
    found: list[FoundFile], before: dict[str, Known], replaced: tuple[str, ...]
) -> None:
    made = plan(found, before, parts=[part("p", "a.csv"), part("q", "b.csv")])
    assert made.replaced == ids(*replaced)
    assert paths(made.drop) == ["p"] * len(replaced)


PARTS = [part("alone", "a"), part("both", "a", "b"), part("other", "b"), part("spent", "a", "b", minus=["b"])]


@pytest.mark.parametrize(
    ("replace", "rewrite", "subtract"),
    [("rewrite", ["both"], []), ("minus", [], ["both"]), ("auto", ["both"], [])],
)
def test_parts_of_nothing_else_are_dropped_and_mixed_ones_rewritten_or_subtracted_from(
    replace: str, rewrite: list[str], subtract: list[str]
) -> None:
    made = plan([file("a", size=11), file("b")], known("a", "b"), {"a": NEW}, PARTS, replace=replace)
    assert paths(made.drop) == ["alone", "spent"]
    assert (paths(made.rewrite), paths(made.subtract)) == (rewrite, subtract)
    assert (made.parts_to_rewrite, made.rows_to_rewrite, made.bytes_to_rewrite) == (
        (1, 6, 100) if rewrite else (0, 0, 0)
    )


def test_rows_that_count_no_more_are_not_counted_as_rewritten() -> None:
    parts = [part("p", "a", "b", "c", minus=["c"])]
    assert plan([file("b")], known("a", "b"), parts=parts).rows_to_rewrite == 6


def test_nobody_is_asked_for_members_where_nothing_leaves() -> None:
    def live(sources: frozenset[int] | None) -> list[Member]:
        raise AssertionError("that costs something")

    compared = compare([file(), file("new")], known("a.csv").items(), full=False)
    made = make_plan("t", compared, compared.known, again=None, live=live)
    assert keys(made.read) == ["new"] and not made.drop


@pytest.mark.parametrize("replace", ["rewrite", "minus", "auto"])
def test_a_reason_to_read_everything_drops_every_part_and_reads_every_file(replace: str) -> None:
    before = known("a", "same", "touched", "gone") | {
        "aside": Known(source("aside", aside="torn")),
        "failed": Known(source("failed"), "tried again: torn", failed=True),
        "asked": Known(source("asked"), "replayed"),
    }
    found = [file(key) for key in ("new", "same", "aside", "failed", "asked")] + [file("touched", **AGED)]
    made = plan(
        found, before, {"touched": OLD}, [*PARTS, part("foreign")],
        reason="the recipe changed", replace=replace,
    )  # fmt: skip
    assert {one.key: (one.verdict, one.reason) for one in made.files} == {
        "new": ("new", "not read before"),
        "same": ("reread", "the recipe changed"),
        "touched": ("reread", "the recipe changed"),
        "aside": ("reread", "the recipe changed"),
        "asked": ("reread", "replayed"),
        "failed": ("failed", "tried again: torn"),
        "a": ("vanished", "in the table, no longer in the folder"),
        "gone": ("vanished", "in the table, no longer in the folder"),
    }
    assert (keys(made.read), made.note) == (sorted(keys(found)), ())
    assert paths(made.drop) == ["alone", "both", "other", "spent", "foreign"]
    assert (made.rewrite, made.subtract) == ((), ())
    assert made.replaces_all and made.again == Again("the recipe changed")


def test_some_files_are_read_again_and_their_rows_replaced() -> None:
    made = plan(
        [file("a"), file("b"), file("new")], known("a", "b"), parts=[part("p", "a"), part("q", "b")],
        reason="column 'n' goes from double to string", some=frozenset({"a", "new"}),
    )  # fmt: skip
    assert {one.key: one.verdict for one in made.files} == {"a": "reread", "b": "unchanged", "new": "new"}
    assert keys(made.read) == ["a", "new"] and paths(made.drop) == ["p"]
    assert made.changes_rows and not made.replaces_all


def test_a_reason_to_read_everything_empties_a_table_whose_files_are_all_gone() -> None:
    made = plan([], {}, parts=[part("left over", "a")], reason="--full")
    assert paths(made.drop) == ["left over"] and made.changes_rows


@pytest.mark.parametrize(
    ("found", "before", "digest", "full", "noted", "touches"),
    [
        pytest.param(file(), Known(source()), None, False, False, False, id="nothing to say"),
        pytest.param(file(**AGED), Known(source()), OLD, False, True, True, id="touched"),
        pytest.param(file(), RACY, OLD, False, True, False, id="racy, and has aged"),
        pytest.param(file(racy=True), RACY, OLD, False, False, False, id="still racy"),
        pytest.param(
            file(), Known(source(racy=True, aside="torn")), OLD, False, True, False, id="set aside, aged"
        ),
        pytest.param(file(), Known(source()), OLD, True, True, False, id="from fast to full fingerprints"),
        pytest.param(
            file(), Known(source(hash=OLD.sha256)), OLD, True, False, False, id="full fingerprints stay full"
        ),
        pytest.param(
            file(),
            Known(source(hash=OLD.sha256)),
            None,
            False,
            True,
            False,
            id="from full to fast fingerprints",
        ),
        pytest.param(file(**AGED), Known(source()), NEW, False, False, False, id="read: no need to note it"),
        pytest.param(file(), None, None, False, False, False, id="new"),
        pytest.param(
            file(spot=7), Known(source(), spot=8), OLD, False, True, True, id="another file in its place"
        ),
    ],
)
def test_same_bytes_under_a_new_fingerprint_are_noted_and_not_read(
    found: FoundFile, before: Known | None, digest: Digest | None, full: bool, noted: bool, touches: bool
) -> None:
    digests = {} if digest is None else {"a.csv": digest}
    made = plan([found], {} if before is None else {"a.csv": before}, digests, full=full)
    assert bool(made.note) == noted and made.touches == touches
    assert not (set(made.note) & set(made.read))
    if noted:
        assert made.idle == (not touches), "clearing a racy file is not work that anybody asked about"
        assert not made.changes_rows


# --------------------------------------------------------------------------------------------- its parts


@pytest.mark.parametrize(
    ("replaced", "drop", "mixed"),
    [
        (("a",), ["alone", "spent"], ["both", "other"]),
        (("b",), ["other"], ["alone", "both", "spent"]),
        (("a", "b"), ["alone", "both", "other", "spent"], []),
        ((), [], ["alone", "both", "other", "spent"]),
        (None, ["alone", "both", "other", "spent"], []),
    ],
)
def test_a_part_is_dropped_only_if_none_of_its_rows_stays(
    replaced: tuple[str, ...] | None, drop: list[str], mixed: list[str]
) -> None:
    dropped, kept = split_members(PARTS, None if replaced is None else ids(*replaced))
    assert (paths(dropped), paths(kept)) == (drop, mixed)


MANY = REWRITE_COMMIT // REWRITE_PART


@pytest.mark.parametrize(
    ("sizes", "how", "rewrite"),
    [
        pytest.param([1, REWRITE_PART], "auto", [0, 1], id="as large as a part may be"),
        pytest.param([1, REWRITE_PART + 1], "auto", [0], id="one byte too large"),
        pytest.param([REWRITE_PART + 1, 1], "auto", [1], id="a large one keeps no small one from it"),
        pytest.param([REWRITE_PART] * MANY, "auto", range(MANY), id="as much as a commit may rewrite"),
        pytest.param([REWRITE_PART] * (MANY + 1), "auto", [], id="one part too many: none"),
        pytest.param([REWRITE_PART] * MANY + [1], "auto", [], id="one byte too many: none"),
        pytest.param(
            [REWRITE_PART] * MANY + [REWRITE_PART + 1], "auto", range(MANY), id="a large one doesn't count"
        ),
        pytest.param([1, REWRITE_PART + 1], "rewrite", [0, 1], id="all, if that is said"),
        pytest.param([1, REWRITE_PART + 1], "minus", [], id="none, if that is said"),
        pytest.param([], "auto", [], id="no part"),
    ],
)
def test_small_parts_are_rewritten_all_or_none_and_others_are_subtracted_from(
    sizes: list[int], how: Any, rewrite: Sequence[int]
) -> None:
    parts = [part(f"{number:03}", "a", "b", size=size) for number, size in enumerate(sizes)]
    chosen, left = split_mixed(parts, how)
    assert paths(chosen) == [f"{number:03}" for number in rewrite]
    assert paths(left) == [path for path in paths(parts) if path not in paths(chosen)]


@pytest.mark.parametrize("how", ["rewrite", "minus", "auto"])
def test_a_part_whose_rows_of_a_file_left_before_is_not_changed_for_it_again(how: Replace) -> None:
    parts = [part("1", "a"), part("2", "a", "b"), part("3", "a", "b", minus=["a"])]
    drop, rewrite, subtract = parts_to_change(parts, ids("a"), how)
    assert (paths(drop), paths([*rewrite, *subtract])) == (["1"], ["2"])
    assert parts_to_change(parts, None, how) == (tuple(parts), (), ())


# ------------------------------------------------------------------------------- what a plan says of itself


@pytest.mark.parametrize(
    ("gone", "before", "refused"),
    [(0, 0, False), (0, 4, False), (1, 1, True), (1, 2, False), (2, 3, True), (2, 4, False), (3, 4, True)],
)
def test_more_than_half_of_a_tables_files_vanish_only_if_somebody_says_so(
    gone: int, before: int, refused: bool
) -> None:
    all_known = known(*(f"f{number}" for number in range(before)))
    made = plan([file(f"f{number}") for number in range(gone, before)], all_known)
    guard_vanished(made, allow=True)
    if not refused:
        guard_vanished(made, allow=False)
        return
    with pytest.raises(VanishGuard, match=f"t has lost {gone} of its {before} source file") as error:
        guard_vanished(made, allow=False)
    assert "--allow-vanish" in error.value.hint and (error.value.table, error.value.file) == ("t", "f0")


def test_files_that_never_got_in_do_not_make_the_vanished_ones_fewer() -> None:
    all_known = known("a", "b", "c") | {f"bad{n}": Known(None, failed=True) for n in range(9)}
    made = plan([file("a"), *(file(f"bad{n}") for n in range(9))], all_known)
    with pytest.raises(VanishGuard, match="2 of its 3"):
        guard_vanished(made, allow=False)


@pytest.mark.parametrize(
    ("more", "idle"),
    [
        ({}, True),
        ({"read": (file(),)}, False),
        ({"vanished": (source(),)}, False),
        ({"drop": (part("p", "a"),)}, False),
        ({"touches": True}, False),
        ({"waits": True}, False),
        ({"publish": "the gate opened"}, False),
        ({"note": (file(),)}, True),
        ({"notes": ("the schema is stale",)}, True),
    ],
)
def test_a_plan_is_idle_when_there_is_nothing_that_anybody_would_call_work(
    more: dict[str, Any], idle: bool
) -> None:
    assert TablePlan("t", (), **more).idle == idle


@pytest.mark.parametrize(
    ("verdicts", "waits"),
    [((), False), (("quarantined",), False), (("new",), True), (("quarantined", "changed"), True)],
)
def test_archives_that_a_run_would_open_are_work_and_those_set_aside_are_not(
    verdicts: tuple[Any, ...], waits: bool
) -> None:
    waiting = [FileVerdict(f"{number}.zip", verdict, "why") for number, verdict in enumerate(verdicts)]
    made = with_waiting(plan([file("b.csv")], known("b.csv")), waiting)
    assert keys(made.files) == [*keys(waiting), "b.csv"]
    assert (made.waits, made.idle) == (waits, not waits)


def test_a_quiet_plan_counts_its_files_without_looking_at_them() -> None:
    made = TablePlan("t", AllUnchanged(cast(Any, range(3))))
    assert made.verdicts == dict.fromkeys(VERDICTS, 0) | {"unchanged": 3}
