"""Loading a transform, what it must leave, and which plans are refused."""

from __future__ import annotations

import pytest

from lading.errors import TransformError
from lading.model import Check


def run(shop, transform, **changes):
    return shop.ingest(
        shop.csv("k,s\n1,x\n2,y\n"), "k bigint; s string", order_by="k", transform=transform, **changes
    )


def test_a_transform_sees_rows_and_context_and_changes_the_columns(shop, rows_of):
    transform = shop.transform(
        'assert "_source" in df.columns\n'
        'return df.withColumn("table", F.lit(context.table)).withColumn("s", F.upper("s"))'
    )
    assert rows_of(run(shop, transform))[0] == {"k": 1, "s": "X", "table": "t", "_source": 1}


def test_an_edited_transform_takes_effect_at_once(shop, rows_of):
    for letter in ("a", "b"):
        transform = shop.transform(f'return df.withColumn("s", F.lit("{letter}"))')
        assert {row["s"] for row in rows_of(run(shop, transform))} == {letter}


def test_functions_of_the_file_reach_the_workers(shop, rows_of):
    path = shop.folder / "udf.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from pyspark.sql import functions as F\n\n@dataclass\nclass Suffix:\n    text: str\n\n"
        "def _add(s):\n    return s + Suffix('!').text\n\n"
        "def clean(df, context):\n    return df.withColumn('s', F.udf(_add, 'string')('s'))\n"
    )
    assert [row["s"] for row in rows_of(run(shop, f"{path}:clean"))] == ["x!", "y!"]


def test_a_missing_function_lists_those_there(shop):
    transform = shop.transform("return df", name="tidy")
    with pytest.raises(TransformError, match="no function 'clean'; it has: tidy"):
        run(shop, transform.replace(":tidy", ":clean"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\nimport not_a_module_at_all\n", "line 2: ModuleNotFoundError"),
        ("x = 1\n\ndef clean(df:\n", "line 3: SyntaxError"),
    ],
)
def test_a_file_that_does_not_run_is_named_with_its_line(shop, text, told):
    path = shop.folder / "broken.py"
    path.write_text(text)
    with pytest.raises(TransformError, match=told) as raised:
        run(shop, f"{path}:clean")
    assert raised.value.file == str(path)


def test_a_missing_file_is_named(shop):
    with pytest.raises(TransformError, match=r"nowhere\.py can't be read"):
        run(shop, f"{shop.folder}/nowhere.py:clean")


def test_an_error_in_the_function_names_its_line(shop):
    with pytest.raises(TransformError, match="line 6: clean raised ZeroDivisionError"):
        run(shop, shop.transform("x = 1\nx / 0\nreturn df"))
    with pytest.raises(TransformError, match=r"line 5: clean raised AnalysisException.*nope"):
        run(shop, shop.transform('return df.select("nope")'))


def test_an_error_on_a_row_names_the_transform(shop):
    body = 'return df.withColumn("k", F.udf(lambda k: 1 // (k - 1), "bigint")("k"))'
    with pytest.raises(TransformError, match=r"line 5: .*ZeroDivisionError"):
        run(shop, shop.transform(body))
    with pytest.raises(TransformError, match="CAST_INVALID_INPUT"):
        run(shop, shop.transform('return df.withColumn("k", F.col("s").cast("bigint"))'))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return 5", "returned int, not a DataFrame"),
        ('return df.drop("_source")', "dropped the column '_source'"),
        ('return df.withColumn("_source", F.col("_source").cast("string"))', "'_source' as string"),
        ('return df.select("*", F.lit(1).alias("k"))', "two columns named 'k'"),
    ],
)
def test_what_a_transform_returns_is_checked(shop, body, told):
    with pytest.raises(TransformError, match=told):
        run(shop, shop.transform(body))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('return df.withColumn("x", F.rand())', "rand"),
        ('return df.withColumn("x", F.rand(5))', "rand"),
        ('return df.withColumn("x", F.randn(1) + 1)', "randn"),
        ('return df.withColumn("x", F.uuid())', "uuid"),
        ('return df.withColumn("x", F.current_timestamp())', "current_timestamp"),
        ('return df.withColumn("x", F.current_date())', "current_date"),
        ('return df.withColumn("x", F.now())', "now"),
        ('return df.withColumn("x", F.expr("unix_timestamp()"))', "current_timestamp"),
        ('return df.withColumn("x", F.localtimestamp())', "localtimestamp"),
        ('return df.withColumn("x", F.monotonically_increasing_id())', "monotonically_increasing_id"),
        ('return df.withColumn("x", F.spark_partition_id())', "spark_partition_id"),
        ('return df.withColumn("x", F.shuffle(F.array("k", "k")))', "shuffle"),
        ('return df.withColumn("x", F.input_file_name())', "input_file_name"),
        ('return df.where("k > (select max(id) * 0 from range(3) where rand() < 2)")', "rand"),
        ("return df.sample(0.5)", "sample"),
        ('return df.select("*", *[F.lit(n).alias(f"c{n}") for n in range(60)], F.rand().alias("x"))', "rand"),
    ],
)
def test_a_plan_that_chance_or_the_clock_decides_is_refused(shop, body, named):
    with pytest.raises(TransformError, match=rf"uses {named}\(\)"):
        run(shop, shop.transform(body))


def test_names_that_merely_look_like_chance_are_fine(shop, rows_of):
    body = (
        'df = df.withColumn("brand", F.lit("b")).withColumn("now", F.lit("n"))\n'
        '@F.udf("string")\n'
        "def brand(s):\n    return s\n"
        'df = df.withColumn("rand(5)", F.col("k")).withColumn("uuid", brand("s"))\n'
        'return df.where("`rand(5)` > 0").withColumn("current_stock", F.col("`rand(5)`") + 1)'
    )
    assert rows_of(run(shop, shop.transform(body)))[0]["current_stock"] == 2


def test_modules_of_the_project_are_imported_and_travel_to_the_workers(shop, rows_of):
    folder = shop.folder / "transforms"
    (folder / "words").mkdir(parents=True)
    (folder / "words" / "__init__.py").write_text("from .loud import LOUD\n")
    (folder / "words" / "loud.py").write_text('LOUD = "!"\n')
    (shop.folder / "top.py").write_text("import words\n\ndef louder(s):\n    return s + words.LOUD\n")
    path = folder / "clean.py"
    path.write_text(
        "from pyspark.sql import functions as F\nimport top\nfrom top import louder\n\n"
        "def twice(s):\n    return top.louder(louder(s))\n\n"
        "def clean(df, context):\n    return df.withColumn('s', F.udf(twice, 'string')('s'))\n"
    )
    done = run(shop, f"{path}:clean", project=str(shop.folder))
    assert [row["s"] for row in rows_of(done)] == ["x!!", "y!!"]
    (folder / "words" / "loud.py").write_text('LOUD = "?"\n')
    done = run(shop, f"{path}:clean", project=str(shop.folder))
    assert [row["s"] for row in rows_of(done)] == ["x??", "y??"]
    assert not list(shop.folder.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("F.lit(42).cast('bigint')", "rows with 42 in '_source'"),
        ("F.lit(None).cast('bigint')", "rows where '_source' is null"),
        ("F.when(F.col('k') == 1, F.col('_source')).otherwise(F.col('k') + 40)", "rows with 42 in '_source'"),
    ],
)
@pytest.mark.parametrize(
    "bad", [{}, {"quarantine": True, "checks": (Check("sql", "n", "k", 1, text="k > 5"),)}]
)
def test_a_row_of_no_file_that_is_read_is_refused(shop, value, told, bad):
    transform = shop.transform(f'return df.withColumn("_source", {value})')
    with pytest.raises(TransformError, match=told) as raised:
        run(shop, transform, **bad)
    assert ":clean" not in str(raised.value) and "clean returned rows" in raised.value.message
    assert "per: table" in raised.value.hint and raised.value.file == transform.partition(":")[0]


def test_a_row_without_an_order_value_and_of_no_file_is_refused_as_of_no_file(shop):
    body = 'return df.selectExpr("cast(null as bigint) k", "s", "cast(42 as bigint) _source")'
    with pytest.raises(TransformError, match="rows with 42 in '_source'"):
        run(shop, shop.transform(body))


def test_rows_may_be_repeated_moved_between_files_or_left_out(shop, rows_of):
    groups = [shop.stage({1: "k\n1\n2\n", 2: "k\n3\n"})]
    body = 'return df.union(df).where("k != 2").withColumn("_source", F.lit(2).cast("bigint"))'
    ingested = shop.ingest(groups, "k bigint", transform=shop.transform(body))
    assert sorted((row["k"], row["_source"]) for row in rows_of(ingested)) == [(1, 2), (1, 2), (3, 2), (3, 2)]


@pytest.mark.parametrize(("value", "kept"), [("F.lit(None)", 0), ("F.lit(0)", 0), ("F.lit(1)", 1)])
def test_rows_of_a_whole_table_may_be_of_no_file(shop, rows_of, value, kept):
    transform = shop.transform(f'return df.withColumn("_source", {value}.cast("bigint"))')
    assert [row["_source"] for row in rows_of(run(shop, transform, per="table"))] == [kept, kept]
    other = shop.transform('return df.withColumn("_source", F.lit(42).cast("bigint"))')
    with pytest.raises(TransformError, match="rows with 42"):
        run(shop, other, per="table")
