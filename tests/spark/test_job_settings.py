"""Settings for one job: which suit it, and that they end with it."""

from __future__ import annotations

import pytest

from lading.spark.job_settings import BATCH_BYTES, COMPILING, held_settings, ingest_settings

MB = 1 << 20
OTHER = "spark.sql.files.maxPartitionBytes"


def settings_of(shop, **changes):
    return ingest_settings(shop.job(shop.csv("k\n1\n"), "k int", **changes))


def test_batches_that_a_task_could_hold_whole_are_not_measured(shop):
    assert settings_of(shop)[BATCH_BYTES] == str(2**31 - 1)


@pytest.mark.parametrize(
    "changes",
    [{"input_bytes": 513 * MB}, {"transform": "/x.py:clean"}, {"spark": {BATCH_BYTES: "1m"}}],
    ids=["more than a task holds", "transform", "the user's own limit"],
)
def test_batches_that_might_grow_are_measured(shop, changes):
    assert BATCH_BYTES not in settings_of(shop, **changes)


def test_settings_are_back_afterwards_also_when_the_job_failed(shop):
    conf = shop.spark.conf
    before = conf.get(BATCH_BYTES, None), conf.get(OTHER, None)
    with (
        pytest.raises(ZeroDivisionError),
        held_settings(shop.spark, {BATCH_BYTES: "77", OTHER: "78", "spark.lading.test": "1"}),
    ):
        assert (conf.get(BATCH_BYTES), conf.get(OTHER)) == ("77", "78")
        _ = 1 / 0
    assert (conf.get(BATCH_BYTES, None), conf.get(OTHER, None)) == before
    assert conf.get("spark.lading.test", None) is None


def test_an_ingest_leaves_the_sessions_settings_as_they_were(shop):
    before = shop.spark.conf.get(BATCH_BYTES, None), shop.spark.conf.get(OTHER, None)
    shop.ingest(shop.csv("k\n1\n"), "k int")
    assert (shop.spark.conf.get(BATCH_BYTES, None), shop.spark.conf.get(OTHER, None)) == before


def test_for_few_rows_of_many_columns_little_is_compiled(shop):
    names = [f"c{number}" for number in range(150)]
    line = ",".join(["1"] * len(names))
    group = shop.stage({1: f"{','.join(names)}\n{line}\n{line}\n"})
    columns = "; ".join(f"{name} int" for name in names)
    compiled = shop.spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    before = compiled.getCount()
    done = shop.ingest([group], columns, order_by="c0")
    assert compiled.getCount() - before <= 2
    assert shop.table(done).select(names).to_pylist() == [dict.fromkeys(names, 1)] * 2


@pytest.mark.parametrize(("columns", "given"), [(100, 1), (150, 9)])
def test_much_or_narrow_input_is_compiled(shop, columns, given):
    listed = "; ".join(f"c{number} int" for number in range(columns))
    job = shop.job([], listed, input_bytes=given * MB)
    assert COMPILING not in ingest_settings(job)
