"""`spark.read.format("lading")`: the rows that a reader sees, pruned before Spark reads anything."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.aging import Aging, columns
from support.project import Project

import lading
from lading.checks.measure import broken
from lading.read import spark_source as lading_spark
from lading.spark.datasource import spark_schema
from lading.spark.whole_table import whole_table
from lading.state.members import MemberStore
from lading.where.tree import Compare, In, IsNull, Like, Not


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    """Two snapshots; in the second a part of the first has a minus or was rewritten."""
    project = Project(tmp_path_factory.mktemp("datasource") / "p")
    for number in range(3):
        project.put(f"{number}.csv", [(n * 3 + number, n % 28 + 1, f"n{n % 5}") for n in range(40)])
    project.run()
    project.put("1.csv", [(5000, 3, "new")], age=5)
    project.run()
    return project


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    lading_spark.register(spark)
    lading_spark.register(spark)  # more often does no harm
    return spark


@pytest.fixture
def pushing(session: SparkSession) -> Iterator[SparkSession]:
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield session
    session.conf.unset("spark.sql.python.filterPushdown.enabled")


def rows(frame: DataFrame) -> Counter[Any]:
    return Counter(tuple(row) for row in frame.collect())


def seen(project: Project, where: str | None = None, **options: Any) -> Counter[Any]:
    with lading.open(project.table, **options) as reader:
        return Counter(tuple(row.values()) for row in reader.scan(where).to_table().to_pylist())


def test_spark_reads_what_readers_see(session: SparkSession, project: Project) -> None:
    frame = session.read.format("lading").load(str(project.table))
    assert frame.columns == ["id", "day", "note", "_source"]
    assert dict(frame.dtypes) == {"id": "bigint", "day": "date", "note": "string", "_source": "bigint"}
    assert rows(frame) == seen(project)
    assert frame.count() == 81


def test_older_snapshots_are_read_by_ref_offset_and_time(session: SparkSession, project: Project) -> None:
    with lading.open(project.table, offset=1) as before:
        ref, at = before.snapshot.ref, before.snapshot.published_at
    read = session.read.format("lading")
    for name, value in {"offset": "1", "ref": ref, "asOf": at.isoformat()}.items():
        frame = read.option(name, value).load(str(project.table))
        assert rows(frame) == seen(project, offset=1), name
        read = session.read.format("lading")


CONDITIONS = [
    "id = 7",
    "id > 100 and note = 'n3'",
    "id in (1, 5, 5000, -1) and day >= date'2024-01-02'",
    "note like 'n1%' and note is not null and not (id < 50)",
    "note <=> 'new'",
    "(id = 7 or id = 8) and id <> 8",
    "note like '%ew'",
    "id = 1 and id = 2",
]


def test_a_pushed_filter_gives_the_rows_that_it_gives_anywhere(
    pushing: SparkSession, project: Project
) -> None:
    frame = pushing.read.format("lading").load(str(project.table))
    plain = pushing.createDataFrame([tuple(row) for row in frame.collect()], frame.schema)
    for condition in CONDITIONS:
        pushed = pushing.read.format("lading").option("pushdown", "true").load(str(project.table))
        assert rows(pushed.where(condition)) == rows(plain.where(condition)), condition


def test_one_frame_in_two_queries_is_right_even_if_the_session_pushes_filters(
    pushing: SparkSession, project: Project
) -> None:
    """Spark keeps one set of pushed filters a frame, and would apply the last one to both."""
    frame = pushing.read.format("lading").load(str(project.table))
    assert rows(frame.where("id = 7")) == seen(project, "id = 7")
    assert rows(frame) == seen(project)
    both = frame.where("id = 7").unionAll(frame.where("id = 9"))
    assert rows(both) == seen(project, "id in (7, 9)")


def test_spark_still_keeps_pushed_filters_with_the_frame(pushing: SparkSession, project: Project) -> None:
    """Why `pushdown` is not on by itself (docs/decisions/0042). If this fails, Spark has mended it."""
    frame = pushing.read.format("lading").option("pushdown", "true").load(str(project.table))
    assert rows(frame.where("id = 7")) == seen(project, "id = 7")
    assert rows(frame) == seen(project, "id = 7") != seen(project)


def test_columns_that_are_not_chosen_are_not_read(session: SparkSession, project: Project) -> None:
    """The bytes of one column are made unreadable: whoever doesn't want it doesn't notice."""
    with lading.open(project.table) as reader:
        part = project.table / reader.scan()._members[0].path
    data = part.read_bytes()
    groups = pq.ParquetFile(part).metadata
    broken = bytearray(data)
    for group in range(groups.num_row_groups):
        chunk = groups.row_group(group).column(groups.schema.names.index("note"))
        start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
        broken[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    expected = Counter((row[0], row[1]) for row in seen(project).elements())
    part.write_bytes(broken)
    try:
        read = session.read.format("lading").option("columns", "id,day")
        assert rows(read.load(str(project.table))) == expected
        with lading.open(project.table) as reader:
            assert rows(reader.to_spark(session, columns=["id", "day"])) == expected
        with pytest.raises(PySparkException):
            session.read.format("lading").load(str(project.table)).collect()
    finally:
        part.write_bytes(data)


def test_parts_that_can_not_match_are_not_opened(pushing: SparkSession, project: Project) -> None:
    """A part that can't match is made unreadable: the query doesn't notice, a full one does."""
    with lading.open(project.table) as reader:
        members = reader.scan()._members
    part = project.table / next(member.path for member in members if member.key_max < 50)  # type: ignore[operator]
    data = part.read_bytes()
    part.write_bytes(b"not parquet")
    read = pushing.read.format("lading")
    try:
        chosen = read.option("where", "id >= 5000").load(str(project.table))
        assert rows(chosen) == seen(project, "id >= 5000")
        with pytest.raises(PySparkException, match="can't be read"):
            pushing.read.format("lading").load(str(project.table)).collect()
        pushed = pushing.read.format("lading").option("pushdown", "true").load(str(project.table))
        assert rows(pushed.where("id >= 5000")) == seen(project, "id >= 5000")
    finally:
        part.write_bytes(data)


def test_columns_are_chosen_by_option_or_by_schema(session: SparkSession, project: Project) -> None:
    read = session.read.format("lading")
    assert read.option("columns", "note, id").load(str(project.table)).columns == ["note", "id"]
    by_schema = session.read.format("lading").schema("id bigint").load(str(project.table))
    assert by_schema.columns == ["id"] and by_schema.count() == 81
    for wrong in ("id int", "nothing string"):
        with pytest.raises(PySparkException):
            session.read.format("lading").schema(wrong).load(str(project.table)).collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ofset": "1"}, "no option"),
        ({"offset": "x"}, "not a number"),
        ({"where": "nope = 1"}, "no such column"),
    ],
)
def test_what_can_not_be_is_said_at_once(
    session: SparkSession, project: Project, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        session.read.format("lading").options(**options).load(str(project.table))
    with pytest.raises(PySparkException, match="nothing is published"):
        session.read.format("lading").load(str(project.folder / "nothing"))


def test_a_reader_hands_its_own_snapshot_to_spark(session: SparkSession, project: Project) -> None:
    with lading.open(project.table, offset=1) as reader:
        frame = reader.to_spark(session, where="id < 30", columns=["id", "note"])
        assert rows(frame) == Counter(
            (key[0], key[2]) for key in seen(project, "id < 30", offset=1).elements()
        )
    with lading.open(project.table) as reader:
        assert rows(reader.to_spark(session)) == seen(project)
        table = reader.to_arrow().read_all()
        assert Counter(tuple(row.values()) for row in table.to_pylist()) == seen(project)
        assert len(reader.to_pandas(limit=5)) == 5
        assert reader.to_polars(columns=["id"]).collect().height == 81
        assert reader.to_duckdb("id = 5000").fetchall()[0][:3] == (5000, dt.date(2024, 1, 3), "new")


def test_filters_on_floats_and_on_what_lading_has_no_word_for_are_left_to_spark(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.float64()), ("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    door = lading_spark.TableDoor("", None, "", schema.serialize().to_pybytes(), ("x", "n", "t"), None)
    noon = dt.datetime(2024, 1, 1, 12)
    assert door.accepts(Compare("n", ">", 1))
    assert door.accepts(Not(IsNull("n")))
    assert door.accepts(Compare("t", ">", noon.replace(tzinfo=dt.UTC)))
    for filter in (
        Compare("x", ">", 1.0),  # NaN is a value to Spark
        Compare("n", "=", None),
        In("n", (1, None)),
        Like("n", "a%"),
        Compare("gone", "=", 1),
    ):
        assert not door.accepts(filter), filter


def test_every_type_of_a_part_has_its_type_in_spark(session: SparkSession) -> None:
    from lading.spark.arrow_types import arrow_schema

    ddl = (
        "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h string, i binary, j date, "
        "k timestamp, l timestamp_ntz, m decimal(20,3), n array<int>, o map<string,bigint>, p struct<q:date>"
    )
    schema = session.createDataFrame([], ddl).schema
    assert spark_schema(arrow_schema(schema)) == schema


def test_parts_that_are_older_than_the_columns_are_read_by_spark_too(
    pushing: SparkSession, tmp_path: Path
) -> None:
    """By the data source, and by what a gate asks of the whole table."""
    table = Aging(tmp_path, n=pa.int64(), gone=pa.string())
    old = table.part([1, 1, 2], [1, 2, 3], n=[9, 10, 2**60], gone=["a", "b", "c"])
    table.add(old)
    types = {"n": pa.float64(), "new": pa.string()}
    table.schema = columns(**types)
    fresh = table.part(2, [3], n=[0.5], new=["x"])
    table.turn(fresh, minus=[(old.path, [2])], **types)
    table.publish()
    frame = pushing.read.format("lading").load(str(table.folder))
    expected = Counter([(1, 9.0, None, 1), (2, 10.0, None, 1), (3, 0.5, "x", 2)])
    assert rows(frame) == expected
    assert rows(frame.where("n > 9")) == Counter([(2, 10.0, None, 1)])
    assert rows(frame.where("new is null").select("k")) == Counter([(1,), (2,)])
    state = table.table.state
    whole = whole_table(pushing, state.root, state.candidates(None), table.schema)
    assert rows(whole) == expected


def test_a_gate_asks_spark_about_values_of_today(spark: SparkSession, tmp_path: Path) -> None:
    table = Aging(tmp_path, n=pa.int64())
    table.add(table.part(1, [1, 2], n=[9, 10]))
    table.turn(n=pa.string(), more=pa.int64())
    members = _members(table)
    assert broken(members, "max(n) = '9' and max(more) is null", lambda: spark) is None
    told = broken(members, "length(n) = 1", lambda: spark)
    assert told == "`length(n) = 1`: it is false for 1 row"


def _members(table: Aging) -> MemberStore:
    con = sqlite3.connect(":memory:", isolation_level=None)
    state = table.table.state
    state.settled().write_root(con, state.meta)
    return MemberStore(con, state.root)
