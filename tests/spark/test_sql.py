"""What an expression's words hide, its plan shows: on real Spark, on rows that must never be asked."""

from __future__ import annotations

import pytest

from lading.errors import ConfigError
from lading.model import Check
from lading.spark.determinism import nondeterministic
from lading.spark.whole_table import broken_by, may_name

COLUMNS = "id bigint, note string, day date, at timestamp, tags array<int>"
HIDDEN = [
    ("own_rule(id)", r"calls own_rule\(\), which is not a built-in Spark function"),
    ("id > own_limit", "uses the session's variable own_limit"),
    ("(values -1) = id", "uses a query of its own"),
    ("at < 'now'", "uses 'now' as a time"),
    ("day <= cast('today' as date)", "uses 'today' as a time"),
    ("at < to_timestamp('now')", "uses 'now' as a time"),
    ("at < try_cast('now' as timestamp)", "uses 'now' as a time"),
    ("day <= to_date('today')", "uses 'today' as a time"),
    ("at < try_to_timestamp('tomorrow UTC')", "uses 'tomorrow' as a time"),
    ("at between 'yesterday' and 'tomorrow'", "uses 'yesterday' as a time"),
    ("nullif(day, 'today') is null", "uses 'today' as a time"),
    ("cast(note as date) between '2024-01-01' and 'today'", "uses 'today' as a time"),
    ("aes_encrypt(note, '0000111122223333') is null", r"uses aes_encrypt\(\) without an iv"),
    ("user = note", r"uses current_user\(\)"),
    ("unix_timestamp() > id", r"uses current_timestamp\(\)"),
    ("exists (select 1 from text.`{file}`)", "contains a query"),
    ("rand() < 2", r"uses rand\(\)"),
]


@pytest.fixture(scope="module")
def own(spark):
    spark.udf.register("own_rule", lambda value: True, "boolean")
    spark.sql("DECLARE OR REPLACE VARIABLE own_limit INT DEFAULT 5")
    yield spark
    spark.sql("DROP TEMPORARY FUNCTION own_rule")
    spark.sql("DROP TEMPORARY VARIABLE own_limit")


@pytest.mark.parametrize(("text", "told"), HIDDEN)
def test_a_check_is_refused_for_what_its_plan_shows(shop, own, text, told):
    groups = shop.csv("id,note,day,at\n1,a,2024-01-01,2024-01-01 00:00:00\n")
    text = text.format(file=shop.folder / "outside")
    check = Check("sql", "n", "tables.t.checks[0].sql", 7, text=text)
    with pytest.raises(ConfigError, match=f"lading.yaml:7: tables.t.checks.0..sql: .*{told}"):
        shop.ingest(groups, "id bigint; note string; day date; at timestamp", checks=(check,))


@pytest.mark.parametrize(("text", "told"), [*HIDDEN, ("sum(id) > (values -1)", "a query of its own")])
def test_a_gate_is_refused_for_what_its_plan_shows(own, text, told, tmp_path):
    rows = own.createDataFrame([], COLUMNS)
    with pytest.raises(ConfigError, match=rf"gate.sql: .*{told}") as caught:
        broken_by(rows, lambda _: rows, text.format(file=tmp_path))
    assert "nothing was published" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sum(id) > 5", None),
        ("sum(id) > 6", "it is false"),
        ("id > 2 or note = '(select 1)'", "it is false for 1 row"),
        ("exists(tags, x -> x > 1) or note = 'now'", "it is false for 1 row"),
        ("note between 'now' and 'today' or nullif(note, 'now') = 'a'", None),
        ("to_date('2024-01-01') < at or id > 0", None),
        ("hex(aes_encrypt(note, '0000111122223333', 'ECB')) = 'x'", "it is false for 1 row"),
        ("count(note) > 1", "it is false"),
        ("note is null", "it is false for 1 row"),
    ],
)
def test_a_gate_asks_rows_or_aggregates(spark, text, told):
    rows = spark.createDataFrame([(1, "a", None, None, [1]), (5, None, None, None, [2])], COLUMNS)
    bare = spark.createDataFrame([], COLUMNS)
    assert broken_by(bare, lambda names: rows.select(*names), text) == told


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("sum(ID) > 5", ["id"]),
        ("count(*) > 5", ["id"]),  # one, so that there is something to count
        ("count( * ) * max(note) > 5", ["note"]),
        ("id > 1 and date(at) > '2024-01-01'", ["id", "at"]),
        ("max(struct(*)) is null", ["id", "note", "at"]),
        ("hash(note, *) > 0", ["id", "note", "at"]),
        ("count(distinct *) > 1", ["id", "note", "at"]),
    ],
)
def test_columns_that_no_word_can_mean_are_not_read(text, read):
    assert may_name(text, ["id", "note", "at"]) == read


def test_a_column_that_is_spelled_otherwise_in_sql_is_read():
    assert may_name("`a``b` > 1", ["id", "a`b"]) == ["a`b"]


@pytest.mark.parametrize(
    ("text", "said"), [("id >", "PARSE_SYNTAX_ERROR"), ("nobody > 1", "UNRESOLVED_COLUMN")]
)
def test_a_gate_that_makes_no_sense_is_a_config_error(spark, text, said):
    with pytest.raises(ConfigError, match=f"can't be evaluated: .*{said}"):
        bare = spark.createDataFrame([], COLUMNS)
        broken_by(bare, lambda _: bare, text)


def test_a_range_that_moves_with_the_clock_is_refused(shop):
    groups = shop.csv("day\n2024-01-01\n")
    check = Check("range", "n", "tables.t.checks[0].range", 7, columns=("day",), most="today")
    with pytest.raises(ConfigError, match="'today' can't be compared with 'day', which is date"):
        shop.ingest(groups, "day date", checks=(check,))


def test_a_transform_that_casts_a_word_to_the_clock_is_seen(spark):
    rows = spark.createDataFrame([], COLUMNS)
    assert nondeterministic(rows.selectExpr("at < 'tomorrow UTC'")) == "'tomorrow' as a time"
    assert nondeterministic(rows.selectExpr("note = 'tomorrow'", "cast(note as date)")) is None
    assert nondeterministic(rows.selectExpr("to_date('today') as seen")) == "'today' as a time"
    assert nondeterministic(rows.selectExpr("nvl(note, 'now')", "to_date(note, 'yyyy')")) is None
    cipher = "aes_encrypt(note, '0000111122223333', {}) as hidden"
    assert nondeterministic(rows.selectExpr(cipher.format("'GCM'"))) == "aes_encrypt() without an iv"
    assert nondeterministic(rows.selectExpr(cipher.format("'ECB'"))) is None
    assert nondeterministic(rows.selectExpr(cipher.format("'CBC', 'PKCS', unhex('00')"))) is None
