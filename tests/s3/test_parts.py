"""Parts in a bucket: written whole under their own names, read by ranges, no more of them than is needed."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pyarrow as pa
import pytest
from support.faults import FaultyHttp

from lading.errors import PartError, StorageError
from lading.log.table import Table
from lading.model import Commit, Member, Place
from lading.parts.footer import Origin
from lading.parts.rewrite import rewrite_members
from lading.parts.write import PartWriter
from lading.read.lookup import lookup
from lading.read.scan import scan
from lading.storage.place import storage_of

SCHEMA = pa.schema(
    [("id", pa.int64()), ("noise", pa.binary()), ("small", pa.int8()), ("_source", pa.int64())]
)
GROUPS, ROWS = 8, 500


def rows(group: int) -> pa.Table:
    ids = list(range(group * ROWS, (group + 1) * ROWS))
    noise = [os.urandom(400) for _ in ids]  # does not compress: a group has about 200 kB
    columns = [ids, noise, [n % 100 for n in ids], [n % 2 for n in ids]]
    return pa.table(columns, schema=SCHEMA)


def part(place: Place, run: str = "run") -> Member:
    writer = PartWriter(place, 3, SCHEMA, Origin("table", run, "commit", "id"))
    for group in range(GROUPS):
        writer.write(rows(group))
    return writer.close()


@pytest.fixture
def table(there: Place) -> Table:
    """One part of eight row groups."""
    table = Table.create(there, "t")
    schema = SCHEMA.serialize().to_pybytes()
    table.commit(Commit("c", "r", "2024-01-01", "", add=(part(there),), schema=schema, order_by="id"))
    return table


def through(there: Place, faulty: FaultyHttp) -> Table:
    options = dict(there.options) | {"endpoint": faulty.endpoint}
    table = Table.open(dataclasses.replace(there, options=tuple(sorted(options.items()))))
    faulty.requests.clear()
    faulty.sent = 0
    return table


def test_a_part_is_there_under_its_name_and_nowhere_else(
    there: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "spark"))
    (tmp_path / "spark").mkdir()
    member = part(there)
    [found] = storage_of(there).list()
    assert (found.name, found.size) == (member.path, member.bytes)
    assert member.path.startswith("bucket=000003/part-") and member.rows == GROUPS * ROWS
    assert list((tmp_path / "spark").iterdir()) == []


def test_a_part_that_can_not_be_uploaded_leaves_nothing(
    there: Place, faulty: FaultyHttp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lading.storage import bucket as objects

    monkeypatch.setitem(objects.RETRY, "max_retries", 0)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "spark"))
    (tmp_path / "spark").mkdir()
    options = dict(there.options) | {"endpoint": faulty.endpoint}
    faulty.plan = lambda method, path: "503" if method == "PUT" else None
    with pytest.raises(StorageError):
        part(dataclasses.replace(there, options=tuple(sorted(options.items()))))
    assert list((tmp_path / "spark").iterdir()) == [] == list(storage_of(there).list())


def test_a_lookup_fetches_the_footer_and_one_row_group(
    table: Table, there: Place, faulty: FaultyHttp
) -> None:
    seen = through(there, faulty)
    hit = lookup(seen.state, 1234)
    assert hit.row is not None and (hit.row["small"], hit.opened) == (34, 1)
    size = hit.member is not None and table.state.candidates(None)[0].bytes
    assert {method for method, _ in faulty.requests} == {"GET"} and len(faulty.requests) <= 3
    assert faulty.sent < size / GROUPS * 2 + 66_000  # a group, and the 64 kB in which a footer is looked for


def test_a_scan_fetches_only_the_columns_that_it_needs(
    table: Table, there: Place, faulty: FaultyHttp
) -> None:
    found = scan(through(there, faulty).state, columns=["small"])
    assert found.to_table().num_rows == GROUPS * ROWS
    assert faulty.sent < 100_000 and len(faulty.requests) <= 2 + GROUPS


def test_a_limited_scan_fetches_no_more_than_it_shows(table: Table, there: Place, faulty: FaultyHttp) -> None:
    assert scan(through(there, faulty).state, limit=10).to_table().num_rows == 10
    assert faulty.sent < ROWS * 400 * 2 + 66_000


def test_a_pruned_scan_equals_a_scan_filtered_afterwards(
    table: Table, there: Place, faulty: FaultyHttp
) -> None:
    pruned = scan(through(there, faulty).state, where="id >= 900 and id < 1100", columns=["id", "noise"])
    expected = list(range(900, 1100))
    assert pruned.to_table().column("id").to_pylist() == expected
    assert (pruned.row_groups_scanned, pruned.row_groups_total) == (2, GROUPS)


def test_a_rewritten_part_lies_in_the_bucket_too(table: Table, there: Place) -> None:
    [old] = table.state.candidates(None)
    [new] = rewrite_members(
        there, [old], frozenset([1]), table_id="t", run_id="again", commit_id="c2", order_by="id"
    )
    assert new.rows == GROUPS * ROWS // 2 and storage_of(there).head(new.path).size == new.bytes
    table.commit(Commit("c2", "again", "2024-01-01", "", add=(new,), remove=(old.path,)))
    assert scan(table.state, columns=["_source"]).to_table().column(0).unique().to_pylist() == [0]


def test_a_missing_part_is_named(table: Table, there: Place) -> None:
    [member] = table.state.candidates(None)
    storage_of(there).delete(member.path)
    with pytest.raises(PartError, match=f"{there.url}/{member.path} is missing"):
        scan(table.state).to_table()


def test_a_damaged_part_is_named(table: Table, there: Place) -> None:
    [member] = table.state.candidates(None)
    storage_of(there).put(member.path, b"x" * member.bytes)
    with pytest.raises(PartError, match="can't be read"):
        scan(table.state).to_table()
