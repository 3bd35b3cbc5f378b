"""Names decide what is deleted: layout/ accepts exactly what the patterns before it accepted.

Those stand here as they were in upkeep/clean/names.py, parts/write.py, parts/intake.py, log/*.py,
snapshots/stores/protocol.py and config/serve.py.
"""

from __future__ import annotations

import ast
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

import lading
from lading.layout import beside, project, table

# The patterns of before.

_BUCKET = r"bucket=-?[0-9]+"
_PART = r"part-[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\.parquet"
_BESIDE = r"\.[^/]+\.[0-9a-f]{32}\.tmp"
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"
_OF_RUN = rf"{_TIME}_run_id=[^/]+"
_RECORD = rf"runs/{_OF_RUN}_[0-9a-f]{{32}}"
_OTHERS = rf"(?:{_BUCKET}|quarantine|runs|manifests|log|checkpoint)/"
_ANYWHERE = {
    "part": rf"{_BUCKET}/{_PART}",
    "quarantine": rf"quarantine/{_PART}",
    "record": rf"{_RECORD}/run\.yaml",
    "shard": rf"(?!{_OTHERS})[^/].*/run_id=(?P<run>[^/]+)/[^/]+/attempt=[0-9]+/"
    r"(?:shard\.db|\.shard\.db\.tmp)",
}
_IN_FOLDERS = {
    "temporary": rf"(?:{_BUCKET}|quarantine)/\.{_PART}\.tmp|manifest\.json\.tmp|{_BESIDE}"
    rf"|{_BUCKET}/\.{_PART.removesuffix('parquet')}arrow\.tmp"
    rf"|(?:{_RECORD}|manifests/{_OF_RUN})/{_BESIDE}",
}
_IN_BUCKETS = {"log": r"log/(?!0{20})[0-9]{20}", "checkpoint": r"checkpoint/[0-9]{20}"}
_PART_NAME = re.compile(
    r"(?=.*\.parquet(?:\.tmp)?\Z|\..*\.arrow\.tmp\Z)\.?"
    r"part-([0-9a-f]{8}-[0-9a-f]{4})-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\.(?:parquet|arrow)(\.tmp)?"
)
_FOLDER = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)_run_id=([^/]+)")
_STEP = re.compile(r"(?:run_id|attempt)=.*")
_TAKEN = re.compile(r"bucket=.*|manifests|runs|quarantine|log|checkpoint|manifest\..*|_.*|\.+")


def _old_kind(path: str, in_bucket: bool) -> tuple[str, str | None] | None:
    for kind, pattern in (_ANYWHERE | (_IN_BUCKETS if in_bucket else _IN_FOLDERS)).items():
        match = re.fullmatch(pattern, path)
        if match is not None:
            return kind, match.groupdict().get("run")
    return None


def _old_is_part_of(name: str, run_id: str) -> bool:
    match = _PART_NAME.fullmatch(name.rsplit("/", 1)[-1])
    token = xxhash.xxh3_64_intdigest(run_id.encode()) >> 16
    return match is not None and int(match[1].replace("-", ""), 16) == token


def _old_folder(name: str) -> tuple[datetime, str] | None:
    match = _FOLDER.fullmatch(name)
    if match is None:
        return None
    try:
        return datetime.fromisoformat(match[1]), match[2]
    except ValueError:
        return None


def _old_number(name: str) -> int | None:
    text = name.rpartition("/")[2]
    return int(text) if len(text) == 20 and text.isascii() and text.isdigit() else None


# Names as lading gives them, and names that are a character away.

RUN_IDS = st.one_of(
    st.sampled_from(["20240131-101500-0a1b2c3d", "r", "run_id=x", "a_b", "ü", "x" * 20]),
    st.text(min_size=1, max_size=12).filter(table.is_run_id),
)
TIMES = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))
BUCKETS = st.one_of(st.integers(-(10**9), 10**9), st.sampled_from([0, -1, 999_999, 1_000_000]))
NUMBERS = st.one_of(st.sampled_from([0, 1, 10**19, 10**20 - 1]), st.integers(0, 10**20 - 1))
PARTS = st.builds(table.part_name, RUN_IDS)
FOLDERS = st.one_of(st.builds(table.bucket_folder, BUCKETS), st.just(table.QUARANTINE))
PLAIN = st.sampled_from(["manifest", "run.yaml", "manifest.log", "_CURRENT", "a b", "x\n"])
PREFIXES = st.sampled_from(["shards", "serving/shards", "runs2", "bucket", "bucket=x", "a\nb", "log", "runs"])
DBS = st.builds(lambda n: table.SHARD_TEMPLATE.format(db_id=n), st.integers(0, 10**6))
ATTEMPTS = st.integers(0, 300)


def shard_folder(prefix: str, run_id: str, db: str, attempt: int) -> str:
    return table.attempt_folder(f"{table.shards_of_run(prefix, run_id)}/{db}", attempt)


SHARDS = st.builds(
    lambda folder, name: f"{folder}/{name}",
    st.builds(shard_folder, PREFIXES, RUN_IDS, DBS, ATTEMPTS),
    st.sampled_from([table.SHARD, table.SHARD_TEMPORARY]),
)
RECORDS = st.builds(table.record_folder, TIMES, RUN_IDS)
MANIFESTS = st.builds(table.manifest_path, TIMES, RUN_IDS)
GIVEN = st.one_of(
    st.builds("{}/{}".format, FOLDERS, PARTS),
    st.builds("{}/{}".format, FOLDERS, PARTS.map(beside.temporary_of)),
    st.builds(table.passing_path, BUCKETS, RUN_IDS),
    PARTS,
    SHARDS,
    RECORDS.map(table.record_path),
    st.builds("runs/{}/{}".format, RECORDS, PLAIN.map(beside.fresh_temporary)),
    MANIFESTS,
    st.builds(table.manifest_path, TIMES, RUN_IDS, PLAIN.map(beside.fresh_temporary)),
    PLAIN.map(beside.fresh_temporary),
    NUMBERS.map(table.log_object),
    NUMBERS.map(table.checkpoint_object),
    st.sampled_from(
        [
            *(table.LOG, table.LOG_LOCK, table.OVERLAY, table.CHECKPOINT, table.TABLE_MANIFEST),
            *(table.TABLE_MANIFEST_TEMPORARY, table.POINTER, table.POINTER_LOCK),
        ]
    ),
)
BORDER = (*"/\n\0.-_=0789afAFgzZ\u0663\uff13²é ", "//", "../", "./", ".tmp", "0" * 20, "run_id=", "\r\n")


@st.composite
def near(draw: st.DrawFn) -> str:
    """A name that is given, changed in up to three places."""
    name = draw(GIVEN)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(name)))
        how = draw(st.sampled_from(["insert", "delete", "replace", "cut", "case", "step", "join"]))
        if how == "insert":
            name = name[:at] + draw(st.sampled_from(BORDER)) + name[at:]
        elif how == "delete":
            name = name[:at] + name[at + 1 :]
        elif how == "replace":
            name = name[:at] + draw(st.sampled_from(BORDER)) + name[at + 1 :]
        elif how == "cut":
            name = name[at:] if draw(st.booleans()) else name[:at]
        elif how == "case":
            name = name[:at] + name[at:].swapcase()
        elif how == "step":
            steps = name.split("/")
            del steps[draw(st.integers(0, len(steps) - 1))]
            name = "/".join(steps)
        else:
            name = f"{name}/{draw(GIVEN)}" if draw(st.booleans()) else f"{draw(GIVEN)}/{name}"
    return name


def assert_told_as_before(path: str) -> None:
    for in_bucket in (True, False):
        old, new = _old_kind(path, in_bucket), table.kind_of(path, in_bucket=in_bucket)
        if old is None:
            assert new is None or new[0] not in table.CLEANED, path
        else:
            assert new is not None and new[0] == old[0], path
            assert old[0] != "shard" or new[1] == old[1], path
    steps = path.split("/")
    for folder in (path, *steps):
        assert table.parse_manifest_folder(folder) == _old_folder(folder), folder
        bucket = re.fullmatch(r"bucket=(-?[0-9]+)", folder)
        assert table.bucket_key_of(folder) == (bucket[1] if bucket else None), folder
    manifest = _old_folder(steps[1]) if len(steps) == 3 and steps[0] == "manifests" else None
    assert table.parse_manifest(path) == manifest, path
    lies = re.fullmatch(r"bucket=(-?[0-9]+)/[^/]+", path)
    assert table.bucket_of(path) == (int(lies[1]) if lies else None), path
    assert table.number_of(path) == _old_number(path), path
    taken = _TAKEN.fullmatch(steps[0]) or any(map(_STEP.fullmatch, steps))
    assert table.is_taken(path) == bool(taken), path


_HEX32 = "0123456789abcdef" * 2
_OWN = "part-01234567-89ab-8def-8123-456789abcdef.parquet"
_FOLDER_OF_RUN = "2024-01-31T10:15:00.000000Z_run_id=r"


@pytest.mark.parametrize(
    "path",
    [
        f"bucket=-7/{_OWN}",
        f"bucket=7/.{_OWN}.tmp",
        f"quarantine/{_OWN}",
        f"quarantine/.{_OWN}.tmp",
        f"runs/{_FOLDER_OF_RUN}_{_HEX32}/run.yaml",
        f"runs/{_FOLDER_OF_RUN}_{_HEX32}/.run.yaml.{_HEX32}.tmp",
        f"manifests/{_FOLDER_OF_RUN}/manifest",
        f"manifests/{_FOLDER_OF_RUN}/.m.{_HEX32}.tmp",
        f"{_FOLDER_OF_RUN}/x",
        f"._CURRENT.{_HEX32}.tmp",
        "manifest.json.tmp",
        "s/run_id=r/db=0/attempt=0/shard.db",
        "s/t/run_id=r/db=0/attempt=12/.shard.db.tmp",
        "bucket=7/run_id=r/db=0/attempt=0/shard.db",
        "quarantine/run_id=r/db=0/attempt=0/shard.db",
        "runs/run_id=r/db=0/attempt=0/shard.db",
        "manifests/run_id=r/db=0/attempt=0/shard.db",
        "log/run_id=r/db=0/attempt=0/shard.db",
        "checkpoint/run_id=r/db=0/attempt=0/shard.db",
        f"log/{0:020}",
        f"log/{7:020}",
        f"checkpoint/{0:020}",
    ],
)
def test_no_name_that_is_one_character_away_is_told_otherwise_than_before(path: str) -> None:
    assert_told_as_before(path)
    for at in range(len(path) + 1):
        assert_told_as_before(path[:at])
        assert_told_as_before(path[at:])
        assert_told_as_before(path[:at] + path[at + 1 :])
        for other in BORDER:
            assert_told_as_before(path[:at] + other + path[at:])
            assert_told_as_before(path[:at] + other + path[at + 1 :])


@settings(max_examples=500, deadline=None)
@given(near())
def test_names_are_told_as_before(path: str) -> None:
    assert_told_as_before(path)


@given(
    st.one_of(PREFIXES, st.sampled_from(["_x", "..", "manifest.x", "manifest", "x/attempt=1", "x/y", "x\ny"]))
)
def test_a_prefix_for_shards_is_refused_as_before(prefix: str) -> None:
    assert_told_as_before(prefix)


@settings(deadline=None)
@given(near(), RUN_IDS)
def test_a_run_takes_the_same_parts_for_its_own_as_before(path: str, run_id: str) -> None:
    own = table.part_name(run_id)
    nearly = [own[:at] + other + own[at + 1 :] for at in range(len(own)) for other in "\n/8f"]
    nearly += [own[:at] + other + own[at:] for at in range(len(own) + 1) for other in ("\n", ".", ".tmp")]
    for name in (path, own, f"bucket=000001/{path}", path[: len(path) // 2] + own, *nearly):
        assert table.is_part_of(name, run_id) == _old_is_part_of(name, run_id), name


def test_unicode_digits_are_no_date() -> None:
    """The pattern of before let them pass, and the calendar refused them."""
    name = "\uff12\uff10\uff12\uff14-01-31T10:15:00.000000Z_run_id=r"
    assert _FOLDER.fullmatch(name) and _old_folder(name) is None
    assert table.parse_manifest_folder(name) is None
    assert table.parse_manifest_folder("2024-02-30T10:15:00.000000Z_run_id=r") is None


# Every name that is made is told again.


@given(BUCKETS, RUN_IDS, st.booleans())
def test_a_part_is_told_with_its_bucket_and_its_run(bucket: int, run_id: str, in_bucket: bool) -> None:
    folder, name = table.bucket_folder(bucket), table.part_name(run_id)
    assert table.kind_of(f"{folder}/{name}", in_bucket=in_bucket) == ("part", None)
    assert table.kind_of(f"{table.QUARANTINE}/{name}", in_bucket=in_bucket) == ("quarantine", None)
    assert table.bucket_key_of(folder) == table.bucket_key(bucket)
    assert table.bucket_of(f"{folder}/{name}") == bucket
    assert folder.startswith(table.BUCKET) and name.endswith(table.PART_SUFFIX)
    assert uuid.UUID(name.removeprefix("part-").removesuffix(".parquet")).version == 8
    hidden = beside.temporary_of(name)
    for one in (name, hidden, f"{folder}/{hidden}"):
        assert table.is_part_of(one, run_id) and not table.is_part_of(one, run_id + "x")
    for where in (folder, table.QUARANTINE):
        assert table.kind_of(f"{where}/{hidden}", in_bucket=False) == ("temporary", None)
        assert table.kind_of(f"{where}/{hidden}", in_bucket=True) is None


@given(st.sampled_from(["shards", "serving/shards", "x"]), RUN_IDS, DBS, ATTEMPTS, st.booleans())
def test_a_shard_is_told_with_its_run(
    prefix: str, run_id: str, db: str, attempt: int, in_bucket: bool
) -> None:
    folder = shard_folder(prefix, run_id, db, attempt)
    for name in (table.SHARD, table.SHARD_TEMPORARY):
        assert table.kind_of(f"{folder}/{name}", in_bucket=in_bucket) == ("shard", run_id)
    assert table.is_shard_of(folder, run_id) and not table.is_shard_of(folder, run_id + "x")
    steps = folder.split("/")
    assert [step for step in steps if table.is_run_step(step)][:1] == [f"run_id={run_id}"]
    assert Path(*steps[-2:]).match(table.ANY_ATTEMPT.rstrip("/"))


@given(TIMES, RUN_IDS, st.booleans())
def test_manifests_and_records_are_told_with_their_run(at: datetime, run_id: str, in_bucket: bool) -> None:
    path = table.manifest_path(at, run_id)
    assert table.kind_of(path, in_bucket=in_bucket) == ("manifest", run_id)
    assert table.parse_manifest(path) == (at, run_id)
    assert table.parse_manifest(table.manifest_path(at, run_id, "other")) == (at, run_id)
    record = table.record_path(table.record_folder(at, run_id))
    assert table.kind_of(record, in_bucket=in_bucket) == ("record", run_id)
    for final in (path, record):
        folder, _, name = final.rpartition("/")
        hidden = f"{folder}/{beside.fresh_temporary(name)}"
        assert table.kind_of(hidden, in_bucket=False) == ("temporary", None)


@given(NUMBERS)
def test_objects_of_the_log_are_told_with_their_number(number: int) -> None:
    log, checkpoint = table.log_object(number), table.checkpoint_object(number)
    assert table.number_of(log) == table.number_of(checkpoint) == number
    assert table.kind_of(log, in_bucket=True) == ("log" if number else "state", None)
    assert table.kind_of(checkpoint, in_bucket=True) == ("checkpoint", None)
    assert table.kind_of(log, in_bucket=False) is table.kind_of(checkpoint, in_bucket=False) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (table.LOG, "state"),
        (table.CHECKPOINT, "state"),
        (table.OVERLAY, "state"),
        (table.TABLE_MANIFEST, "state"),
        (table.POINTER, "pointer"),
        (table.LOG_LOCK, "lock"),
        (table.POINTER_LOCK, "lock"),
        (table.TABLE_MANIFEST_TEMPORARY, "temporary"),
        (f".{table.LOG}.{'0f' * 16}.tmp", "temporary"),
        (f".{table.POINTER}.{'0f' * 16}.tmp", "temporary"),
    ],
)
def test_what_lies_at_a_tables_root_is_told(name: str, kind: str) -> None:
    assert table.kind_of(name, in_bucket=False) == (kind, None)
    assert (kind in table.CLEANED) == (kind == "temporary")


@given(st.text(min_size=1, max_size=20).filter(lambda text: "/" not in text and "." not in text))
def test_a_leftover_is_told_with_what_it_was_to_become(name: str) -> None:
    fresh = beside.fresh_temporary(name)
    for one in (fresh, beside.inputs_beside(fresh), beside.replaced_name(name)):
        assert beside.leftover_of(one) == name
    assert beside.leftover_of(name) is None and beside.leftover_of(beside.lock_of(name)) is None
    assert beside.is_temporary(fresh) and not beside.is_temporary(beside.lock_of(name))
    assert re.fullmatch(beside.BESIDE, fresh)


def test_a_projects_names_are_what_they_were() -> None:
    assert (project.source_manifest("ships"), project.schema_file("ships")) == (
        "manifest/ships.json",
        "schema/ships.yaml",
    )
    assert project.served_file("ships") == "served/ships.json"
    assert beside.lock_of(project.work_folder("r", "ships")) == "r-ships.lock"
    assert re.fullmatch(r"yale_1950a_zip_[0-9a-f]{8}", project.made_folder("in/yale.1950a.zip", "data/x"))


def test_no_other_file_spells_such_a_name() -> None:
    """As text of its own; sentences for people may."""
    names = re.compile(
        r"_source|.*bucket=.*|.*part-.*|quarantine/.*|_CURRENT.*|manifests(/.*)?|runs/.*|.*run_id=.*|run\.yaml"
        r"|.*manifest\.(log|db|lock|overlay|json)|.*attempt=.*|.*shard\.db|.*\.lading_cache|(.*/)?lading\.yaml"
        r"|.*\.lading-index.*|schema/.*|manifest/.*|logs(/.*)?|_global.*|.*\.tmp|.*\.lock"
    )
    package = Path(lading.__file__).parent
    spelt = []
    for file in sorted(package.rglob("*.py")):
        if file.parent.name == "layout":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and names.fullmatch(node.value):
                spelt.append(f"{file.relative_to(package)}:{node.lineno}: {node.value}")
    assert spelt == []
