"""What checks, gates and `where` may say: something about the row or about aggregates, nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lading.config.file import load
from lading.config.sql import calls, is_moment, sql_problem
from lading.errors import ConfigError, PredicateError
from lading.where.bind import bind, parse

SCHEMA = pa.schema({"id": pa.int64(), "note": pa.string(), "day": pa.date32(), "at": pa.timestamp("us")})

QUERIES = [
    "exists (select 1 from text.`/etc/passwd`)",
    "id in (SELECT value FROM text.`/etc/passwd`)",
    "id > (select/**/max(id) from csv.`/x`)",
    "(with a as (select 1) select * from a) > id",
    "(from text.`/x` |> aggregate count(*)) > 1",
    "(table other) = id",
    "id in (values 1, 2)",
    "id in (values (1), (2))",
    "(map id using 'cat' from other) = id",
    "from text.`/x` |> aggregate count(*) > 1",
    "id > 1 -- and more",
    "id > 1 /* and more */",
]
CHANGING = [
    "id > rand()",
    "id > RAND ( 5 )",
    "id > `rand`()",
    "id > system.builtin.rand()",
    "id > identifier('rand')()",
    "uuid() = note",
    "at < now()",
    "at < current_timestamp",
    "day < current_date",
    "note = session_user",
    "note = user()",
    "note = input_file_name()",
    "id > monotonically_increasing_id()",
    "id = spark_partition_id()",
    "at < timestamp 'now'",
    "day <= date 'today'",
    "day <= date r'today'",
    "note = java_method('java.lang.System', 'getenv', 'HOME')",
    "note = reflect('java.lang.System', 'getenv', 'HOME')",
    "note = try_reflect('java.lang.System', 'getenv', 'HOME')",
    "first(id) > 1",
    "any_value(id) > 1",
]
FINE = [
    "id > 1 and note is not null",
    "arrived_at >= departed_at",
    "min(tonnes) >= 0",
    "count(*) > 0 and count(distinct id) = count(*)",
    "note != 'select 1 from rand()'",
    'note != "its now() -- or /* never */"',
    r"note != r'\' and id > 1",
    r"note != 'it\'s (select 1)'",
    "`select` > 1 and `rand` < 2 and `current_date` is null",
    "s.select > 1 and s.current_date is null",
    "rand > 1 and user = 'me' and uuid is not null",
    "values > 1 and (table is null or (from - 1) > 2)",
    "extract(year from day) > 2000",
    "trim(both ' ' from note) != ''",
    "note is distinct from 'a'",
    "exists(tags, tag -> tag = 'a') and forall(tags, x -> x > 1)",
    "size(map(1, 2)) = 1",
    "case when id > 1 then true else false end",
    "day > date '2024-01-01' and at < timestamp '2024-01-01 00:00:00'",
    "note = 'now'",
    "id in (1, 2, 3)",
    "cast(price as decimal(9, 2)) = price",
    "unix_timestamp(at) > 5",
]


@pytest.mark.parametrize("text", QUERIES + CHANGING)
def test_nothing_but_the_row_and_aggregates_can_be_asked_about(tmp_path: Path, text: str) -> None:
    """In a check, in a gate and in a `where`: said with file, line and key before anything runs."""
    quoted = text.replace("'", "''")
    table = "tables:\n  t:\n    path: '*'\n    format: csv\n"
    for more, place in [
        (f"    checks:\n      - sql: '{quoted}'\n", "lading.yaml:6: tables.t.checks[0].sql"),
        (f"    gate:\n      sql:\n        - '{quoted}'\n", "lading.yaml:6: tables.t.gate.sql"),
    ]:
        (tmp_path / "lading.yaml").write_text(table + more)
        with pytest.raises(ConfigError) as caught:
            load(tmp_path)
        assert place in str(caught.value), caught.value
    with pytest.raises(PredicateError):
        bind(parse(text), SCHEMA)


@pytest.mark.parametrize("text", FINE)
def test_whatever_is_about_the_row_or_aggregates_can_be_asked(text: str) -> None:
    assert sql_problem(text) is None


def test_called_functions_are_named_whatever_they_look_like() -> None:
    assert calls("Upper(a) = `my ``own```(b) and c in (1) and a.f (x)") == {"upper", "my `own`", "in", "f"}


@pytest.mark.parametrize(("text", "told"), [("now", True), (" Today ", True), ("tomorrow UTC", True)])
def test_words_that_spark_takes_for_a_time_of_its_own_are_known(text: str, told: bool) -> None:
    assert is_moment(text) is told
    assert not is_moment("2024-01-01") and not is_moment("nowhere") and not is_moment("epoch")
