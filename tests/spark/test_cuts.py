"""Queries that can be seen not to be cut are refused, with the reason; those that are cut are not. The plans
are Spark's own, of frames without rows."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from support.queries import columns_cut_by

from lading.errors import LadingError
from lading.spark.determinism import plans_of
from lading.spark.plan_tree import tree_of
from lading.spark.query_plans import used_columns

TABLES = {
    "voyages": [("port", "string"), ("month", "int"), ("tonnes", "bigint"), ("flag", "string")],
    "ports": [("port", "string"), ("country", "string")],
    "flags": [("flag", "string"), ("name", "string")],
    "calls": [("harbour", "string"), ("ship (IMO)", "string"), ("order id", "string")],
}
COLUMNS = {table: [name for name, _ in columns] for table, columns in TABLES.items()}
BY = {
    "voyages": ("port",),
    "ports": ("port",),
    "flags": (),
    "calls": ("harbour",),
}


@pytest.fixture(scope="module")
def inputs(spark):
    """Views as spark/derived.py makes them."""
    for name, columns in TABLES.items():
        ddl = ", ".join(f"c{at} {dtype}" for at, (_, dtype) in enumerate(columns))
        frame = spark.range(0, 1, 1, 1).mapInArrow(lambda batches: iter(()), ddl)
        frame.toDF(*COLUMNS[name]).createOrReplaceTempView(name)
    yield spark
    for name in TABLES:
        spark.catalog.dropTempView(name)


def check(spark, sql: str, by: dict[str, tuple[str, ...]] = BY) -> tuple[str, ...]:
    return columns_cut_by(spark, spark.sql(sql), sql, TABLES, by)


def check_rows(spark, rows: DataFrame) -> tuple[str, ...]:
    return columns_cut_by(spark, rows, None, TABLES, BY)


@pytest.mark.parametrize(
    "sql",
    [
        "select port, tonnes * 2 as double from voyages where tonnes > 3 order by tonnes",
        "select port, sum(tonnes), count(distinct flag) from voyages group by port",
        "select port, month, sum(tonnes) from voyages group by all having count(*) > 1",
        "select port, flag, sum(tonnes) from voyages join ports using (port) join flags using (flag) "
        "group by all",
        "select v.port, country from voyages v left join ports p on v.port = p.port and p.country <> 'x'",
        "select p.port, tonnes from voyages v right join ports p on p.port = v.port",
        "select * from voyages full join ports using (port)",
        "select coalesce(v.port, p.port) port, count(*) n from voyages v full join ports p "
        "on v.port = p.port group by 1",
        "select port from voyages left semi join ports using (port)",
        "select port from voyages left anti join ports using (port)",
        "select port, row_number() over (partition by port, month order by tonnes, flag) n from voyages",
        "select port, tonnes from voyages union all select port, 0 from ports",
        "select port from voyages union select port from ports",
        "select port from voyages except select port from ports",
        "select distinct port, month from voyages",
        "with a as (select port, max(month) m from voyages group by port) select a.port, tonnes from a join "
        "voyages v on a.port = v.port and a.m = v.month",
        "select port, explode(array(1, 2)) x from voyages",
        "select port, sort_array(collect_list(tonnes)) x from voyages group by port",
        "select port, name from voyages join flags on voyages.flag = flags.flag",
        "select port, (select count(*) from flags) n from voyages",
        "select port from voyages where flag in (select flag from flags order by name limit 3)",
        "select port from voyages where flag in (select name from (from flags order by flag) limit 1)",
        "select port, (select max(name) from flags limit 1) n from voyages",
        "select port from voyages v where exists (select 1 from flags f where f.flag = v.flag limit 1)",
        "with f as (select flag from flags order by name) "
        "select port from voyages where flag in (select flag from f limit 3)",
        "from voyages |> where tonnes > 1 |> select port, month |> set month = 1",
        "select port, sort_array(collect_set(flag)) x, approx_count_distinct(flag) n from voyages group by 1",
        "select a.port, b.tonnes from voyages a join voyages b on a.port = b.port",
        "select port p2, upper(port) u, port from voyages",
        "select port, sum(n) n from (select port, count(*) n from voyages group by 1, month) group by port",
        "from voyages |> where tonnes > 1 |> aggregate sum(tonnes) as t group by port",
        "select port, listagg(flag, ',') within group (order by flag) x from voyages group by port",
        "select port, mode() within group (order by flag) x from voyages group by port",
        "select port, first_value(flag) over (partition by port order by tonnes) from voyages",
        "select port, sum(tonnes) over (partition by port), count(*) over (partition by port) from voyages",
        "select harbour, `ship (IMO)`, count(*) from calls group by all",
        "select harbour as port, 'a, b' as text, `order id` from calls where `ship (IMO)` <> '('",
        "select split_part(flag, '(', 1) x, port, sum(tonnes) s from voyages group by all",
        "select port, regexp_extract(flag, '\\\\(([^)]*)\\\\)', 1) x, ', ' y from voyages where flag <> '\n'",
        "select port, x, sum(x) over (partition by port) s from "
        "(select v.port, x from voyages v, lateral (select v.tonnes * 2 as x))",
        "select port, f.name from voyages v join lateral (select name from flags f where f.flag = v.flag) f",
        "select v.port, country, name from voyages v, ports p, flags f "
        "where v.port = p.port and f.flag = v.flag and v.tonnes > 3",
        "select v.port, w.month from voyages v join ports p left join voyages w on w.port = v.port "
        "where v.port = p.port",
        "select port, month, sum(tonnes) s from voyages group by port, rollup(month)",
        "select port, month, sum(tonnes) s from voyages group by grouping sets ((port, month), (port))",
        "select port, k, v from voyages unpivot (v for k in (tonnes))",
        "select * from (select port, flag, tonnes from voyages) "
        "pivot (sum(tonnes) for flag in ('a (x' as a, 'b' as b))",
        "select port, upper(flag) as `a (b` from voyages",
        "select v.port, upper(c.harbour) as harbour from voyages v join calls c on c.harbour = v.port",
    ],
)
def test_a_query_that_is_cut_passes(inputs, sql):
    check(inputs, sql)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select port, tonnes from voyages limit 5", "it has a limit"),
        ("select max(port) as port from voyages", "it aggregates rows of several slots of voyages"),
        ("select first(port) as port from voyages", "first\\(\\) depends on the order"),
        ("select max(port) port, month from voyages group by month", "it aggregates rows of several slots"),
        ("select port, collect_list(tonnes) x from voyages group by port", "collect_list\\(\\) depends"),
        ("select port, rank() over (order by tonnes) n from voyages", "a window goes over rows of several"),
        ("select port, sum(tonnes) over (partition by month) n from voyages", "a window goes over"),
        ("select port, month, sum(tonnes) from voyages group by rollup (port, month)", "it aggregates rows"),
        ("select v.port, p.country from voyages v cross join ports p", "it joins rows of different slots"),
        (
            "select v.port from voyages v join ports p on v.flag = p.country",
            "it joins rows of different slots",
        ),
        ("select v.port from voyages v join ports p on v.port = p.port or v.month = 1", "different slots"),
        (
            "select v.port from flags f left join voyages v on v.flag = f.flag",
            "a join keeps rows of an input",
        ),
        ("select v.port from voyages v full join flags f on v.flag = f.flag", "a join keeps rows"),
        ("select name as port from flags f left semi join voyages v on f.flag = v.flag", "a join keeps rows"),
        ("select port from voyages union all select name from flags", "a union adds rows of an input"),
        ("select port from voyages union all select 'x'", "a union adds rows of an input"),
        ("select flag as port from flags intersect select port from voyages", "given whole"),
        ("select upper(port) as port from voyages", "is not port as the input has it"),
        ("select flag as port from voyages", "is not port as the input has it"),
        ("select p.port from voyages v left join ports p on v.port = p.port", "is not port as the input"),
        ("select port from voyages where tonnes > (select avg(tonnes) from voyages)", "as a plain join"),
        (
            "select port from voyages where exists (select 1 from ports p where p.port = voyages.port)",
            "within",
        ),
        ("select name as port from flags", "it uses no input that is cut"),
        ("select distinct flag as port from voyages", "distinct rows of several slots"),
        ("select port from voyages where flag = 'x' offset 2", "it has a limit"),
        ("select port, tonnes, sum(tonnes) over () from voyages", "a window goes over rows of several"),
        ("select upper(port) as port, count(*) from voyages group by upper(port)", "it aggregates rows"),
        ("select harbour, `order id`, count(*) over () n from calls", "a window goes over rows of several"),
        (
            "select split_part(port, '(', 1) as x, upper(port) as port from voyages",
            "is not port as the input",
        ),
        ("select ', ' as x, upper(port) as port, ')' as y from voyages", "is not port as the input"),
        (
            "select port, sum(x) over () s from (select port, x from voyages v, lateral (select v.tonnes x))",
            "a window goes over rows of several",
        ),
        ("select v.port from voyages v join lateral (select port from ports p) p on true", "as a plain join"),
        (
            "select port from voyages v where tonnes = (select count(*) from ports p where p.port = v.port)",
            "as a plain join",
        ),
        (
            "select port, (select max(x) from voyages, lateral (select tonnes as x)) m from voyages",
            "as a plain join",
        ),
        ("select port, first_value(flag) x from voyages group by port", "first_value\\(\\) depends"),
        ("select port, string_agg(flag, ',') x from voyages group by port", "string_agg\\(\\) depends"),
        ("select port, mode(flag) x from voyages group by port", "mode\\(\\) depends"),
        (
            "select port, listagg(flag, ',') a, listagg(flag, ',') within group (order by flag) b "
            "from voyages group by port",
            "listagg\\(\\) depends",
        ),
        (
            "select port, collect_list(flag) over (partition by port) f from voyages",
            "collect_list\\(\\) depends",
        ),
        (
            "select port, percentile_approx(tonnes, 0.5) x from voyages group by port",
            "percentile_approx\\(\\) dep",
        ),
        (
            "select port, approx_percentile(tonnes, 0.5) x from voyages group by port",
            "_percentile\\(\\) depends",
        ),
        (
            "select port, histogram_numeric(tonnes, 3) x from voyages group by port",
            "histogram_numeric\\(\\) dep",
        ),
        ("select port, approx_top_k(flag, 3) x from voyages group by port", "approx_top_k\\(\\) depends"),
        (
            "select port, hll_sketch_estimate(hll_sketch_agg(flag)) x from voyages group by 1",
            "hll_sketch_agg",
        ),
        ("select port, kll_sketch_agg_bigint(tonnes) x from voyages group by port", "kll_sketch_agg_bigint"),
        (
            "select port from voyages where flag in (select flag from flags limit 3)",
            "a limit on rows in no order",
        ),
        (
            "with recursive t as (select 1 n union all select n + 1 from t where n < 3) select port, n "
            "from voyages, t",
            "it is recursive",
        ),
        ("select transform(port) using 'cat' as (port string) from voyages", "it runs a program"),
        ("from voyages |> select flag as port", "is not port as the input"),
        ("from voyages |> extend sum(tonnes) over (partition by month) as n", "a window goes over"),
        (
            "select port from voyages where flag in (select flag from flags sort by name limit 3)",
            "in no order",
        ),
        ("select v.port from voyages v, ports p where v.port = p.port or v.month = 1", "different slots"),
        ("select port, month, sum(tonnes) s from voyages group by rollup(port), month", "it aggregates rows"),
        ("select p.port from voyages v left join ports p on true where v.port = p.port", "different slots"),
        ("select port from (select port, flag as `a (b` from voyages) where `a (b` > 'x'", "unreadable"),
    ],
)
def test_a_query_that_is_not_cut_is_refused_with_the_reason(inputs, sql, why):
    with pytest.raises(LadingError, match=why):
        check(inputs, sql)


def test_the_slot_is_told_by_the_columns_that_hold_it(inputs):
    sql = "select v.port, upper(c.harbour) as harbour from voyages v join calls c on c.harbour = v.port"
    assert check(inputs, sql) == ("port",)
    assert check(
        inputs, "select upper(port) as port, harbour from voyages v, calls c where port = harbour"
    ) == ("harbour",)


def test_columns_that_are_hard_to_read_in_a_plan_cut_all_the_same(inputs):
    by = BY | {"calls": ("ship (IMO)",), "voyages": (), "ports": ()}
    assert check(inputs, "select `ship (IMO)`, count(*) from calls group by all", by) == ("ship (IMO)",)
    with pytest.raises(LadingError, match=r"group by ship \(IMO\) too|several slots of calls"):
        check(inputs, "select max(`ship (IMO)`) as `ship (IMO)`, harbour from calls group by harbour", by)


def test_what_is_none_of_the_inputs_is_not_read(inputs, tmp_path):
    inputs.range(3).write.parquet(str(tmp_path / "other"))
    with pytest.raises(LadingError, match="none of its inputs"):
        check(inputs, f"select port from voyages join parquet.`{tmp_path}/other` on true")


def test_a_step_that_nobody_knows_is_let_pass(inputs):
    unknown = inputs.table("voyages").groupBy("month").applyInPandas(lambda rows: rows, "port string, n int")
    check_rows(inputs, unknown)
    check_rows(inputs, unknown.groupBy("port").max())


@pytest.mark.parametrize(
    "above", [lambda rows: rows.groupBy().agg({"port": "max"}), lambda rows: rows.limit(3)]
)
def test_above_a_step_that_nobody_knows_all_rows_are_not_taken_together(inputs, above):
    unknown = inputs.table("voyages").groupBy("month").applyInPandas(lambda rows: rows, "port string")
    with pytest.raises(LadingError, match=r"several slots of voyages|it has a limit"):
        check_rows(inputs, above(unknown).toDF("port"))


def test_duplicates_that_are_dropped_at_random_are_refused(inputs):
    with pytest.raises(LadingError, match="dropDuplicates"):
        check_rows(inputs, inputs.table("voyages").dropDuplicates(["port"]))


@pytest.mark.parametrize(
    ("sql", "used"),
    [
        ("select port, sum(tonnes) from voyages group by port", {"voyages": {"port", "tonnes"}}),
        ("select v.port from voyages v join ports using (port)", {"voyages": {"port"}, "ports": {"port"}}),
        ("select * from ports", {"ports": {"port", "country"}}),
        ("table flags", {"flags": {"flag", "name"}}),
        ("select count(*) from voyages", {}),
        (
            "select a.port from voyages a join voyages b on a.month = b.tonnes",
            {"voyages": {"port", "month", "tonnes"}},
        ),
    ],
)  # fmt: skip
def test_only_the_columns_that_a_query_uses_are_read(inputs, sql, used):
    found = used_columns(*plans_of(inputs.sql(sql)), COLUMNS)
    assert {name: columns for name, columns in found.items() if columns} == used


def test_the_tree_of_a_plan_has_queries_within_expressions_apart():
    tree = tree_of("Filter a\n:  +- Inner x\n:     +- Leaf\n+- Child y\n   :- Left\n   +- Right\n")
    assert [one.text for one in tree.inner] == ["Inner x"]
    assert [one.text for one in tree.children] == ["Child y"]
    assert [one.text for one in tree.children[0].children] == ["Left", "Right"]
