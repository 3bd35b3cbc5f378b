"""`serve:` against a table: what fits, what is refused and by which line, and what makes all shards old."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lading.config.serve import Cel, Serve
from lading.errors import ConfigError
from lading.model import Column
from lading.serve.spec import resolve, schema_of
from lading.serve.spec_id import shard_count, spec_id

SCHEMA = pa.schema(
    [
        ("imo", pa.int64()),
        ("name", pa.string()),
        ("mark", pa.binary()),
        ("tonnage", pa.float64()),
        ("day", pa.date32()),
        ("_source", pa.int64()),
    ]
)
BYTES = SCHEMA.serialize().to_pybytes()
PLAIN = Serve(key=("imo",), shards=8, lines={"": 5, "key": 6, "value": 9, "cel": 11})


@pytest.mark.parametrize(
    ("serve", "encoding"),
    [
        (PLAIN, "u64be"),
        (replace(PLAIN, key_encoding="u32be"), "u32be"),
        (replace(PLAIN, key=("name",)), "utf8"),
        (replace(PLAIN, key=("mark",)), "raw"),
        (replace(PLAIN, key=("imo", "name")), "raw"),
    ],
)
def test_the_encoding_follows_the_key(serve: Serve, encoding: str) -> None:
    assert resolve(serve, BYTES, 10, None, table="ships").key.encoding == encoding


def test_every_column_is_the_value_unless_some_are_named() -> None:
    assert resolve(PLAIN, BYTES, 10, None, table="ships").value == ("imo", "name", "mark", "tonnage", "day")
    assert resolve(replace(PLAIN, value=("name",)), BYTES, 10, None, table="ships").value == ("name",)


@pytest.mark.parametrize(
    ("serve", "said", "hint"),
    [
        (replace(PLAIN, key=("imoo",)), "lading.yaml:6: tables.ships.serve.key: the table has no", "'imo'"),
        (replace(PLAIN, key=("tonnage",)), "'tonnage' is double, which can't be a key", "transform"),
        (replace(PLAIN, key=("day",)), "'day' is date32[day], which can't be a key", "transform"),
        (replace(PLAIN, key_encoding="utf8"), "utf8 does not fit 'imo', which is int", "u64be or u32be"),
        (replace(PLAIN, value=("nam",)), "lading.yaml:9: ", "'name'"),
        (replace(PLAIN, value=("imo",), encoding="raw"), "'imo' is int64, and encoding raw", "json"),
        (
            replace(PLAIN, cel=Cel("port == 'a' ? 0 : 1", {"port": "string"})),
            "lading.yaml:11: tables.ships.serve.cel: the table has no column 'port' (character 1 of",
            "its columns are",
        ),
        (
            replace(PLAIN, cel=Cel("name", {"name": "int"})),
            "'name' is declared as int but is string",
            "columns",
        ),
        (replace(PLAIN, max_keys_per_shard=1, shards=None), "would need", "raise max_keys_per_shard"),
    ],
)
def test_what_the_table_does_not_have_is_refused_with_the_line(serve: Serve, said: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(serve, BYTES, 1_000_000, None, table="ships")
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_key_means_the_key_and_nothing_else() -> None:
    schema = SCHEMA.append(pa.field("key", pa.int64())).serialize().to_pybytes()
    with pytest.raises(ConfigError, match="a column has that name too"):
        resolve(replace(PLAIN, cel=Cel("key % 8", {"key": "int"})), schema, 1, None, table="ships")


def test_a_limit_of_keys_gives_a_power_of_two_that_only_the_rows_decide_on() -> None:
    serve = Serve(key=("imo",), max_keys_per_shard=1_000_000)
    counts = [shard_count(serve, rows) for rows in (0, 1_000_000, 1_000_001, 1_900_000, 8_000_000)]
    assert counts == [1, 1, 2, 2, 16]
    small = Serve(key=("imo",), max_keys_per_shard=100)
    assert 1000 / shard_count(small, 1000) < 60  # room for the fullest shard


def test_only_what_shards_hold_and_where_they_lie_makes_them_old() -> None:
    same = spec_id(PLAIN, BYTES, "imo", 10)
    assert same.startswith("be9f30bd7c58"), (
        "as lading 0.1.0 called it: nothing is built again after an update"
    )
    assert spec_id(replace(PLAIN, lines={"key": 7}), BYTES, "imo", 99) == same
    assert spec_id(replace(PLAIN, shard_prefix="x"), BYTES, "imo", 99) != same
    assert spec_id(replace(PLAIN, db_path_template="x{db_id}"), BYTES, "imo", 99) != same
    others = [
        spec_id(replace(PLAIN, shards=9), BYTES, "imo", 10),
        spec_id(replace(PLAIN, value=("name",)), BYTES, "imo", 10),
        spec_id(replace(PLAIN, encoding="msgpack"), BYTES, "imo", 10),
        spec_id(replace(PLAIN, duplicates="latest"), BYTES, "imo", 10),
        spec_id(replace(PLAIN, cel=Cel("key % 8", {"key": "int"})), BYTES, "imo", 10),
        spec_id(PLAIN, BYTES, "day", 10),
        spec_id(PLAIN, SCHEMA.remove(3).serialize().to_pybytes(), "imo", 10),
    ]
    assert len({same, *others}) == len(others) + 1


@pytest.mark.parametrize(
    ("expr", "before", "same"),
    [
        ("name.contains('a') ? 0 : 1", "91826af6f0bf", True),
        ("name.matches('^a') ? 0 : 1", "cb80895bc347", False),
    ],
)
def test_only_shards_that_may_have_been_routed_by_other_patterns_are_built_again(
    expr: str, before: str, same: bool
) -> None:
    found = spec_id(replace(PLAIN, cel=Cel(expr, {"name": "string"})), b"schema", "imo", 10)
    assert found.startswith(before) is same


def test_pinned_columns_are_enough_to_refuse_a_misfit() -> None:
    schema = schema_of(
        [Column("imo", "bigint"), Column("tags", "array<string>"), Column("p", "decimal(9,2)")]
    )
    assert schema.field("imo").type == pa.int64()
    assert pa.types.is_nested(schema.field("tags").type)


def test_columns_that_no_shard_holds_may_come_go_and_change() -> None:
    """With `value`, only what it, the key, the expression and the order name counts; without, all columns."""
    some = replace(PLAIN, value=("name",), cel=Cel("name == 'a' ? 0 : 1", {"name": "string"}))
    latest = replace(some, duplicates="latest")
    tonnage, name = SCHEMA.get_field_index("tonnage"), SCHEMA.get_field_index("name")
    other = SCHEMA.remove(tonnage).append(pa.field("more", pa.int64())).serialize().to_pybytes()
    assert spec_id(some, other, "imo", 10) == spec_id(some, BYTES, "imo", 10)
    assert spec_id(PLAIN, other, "imo", 10) != spec_id(PLAIN, BYTES, "imo", 10)
    retyped = SCHEMA.set(name, pa.field("name", pa.binary())).serialize().to_pybytes()
    assert spec_id(some, retyped, "imo", 10) != spec_id(some, BYTES, "imo", 10)
    ranked = SCHEMA.set(tonnage, pa.field("tonnage", pa.int64())).serialize().to_pybytes()
    assert spec_id(some, ranked, "tonnage", 10) == spec_id(some, BYTES, "tonnage", 10)
    assert spec_id(latest, ranked, "tonnage", 10) != spec_id(latest, BYTES, "tonnage", 10)
    routed = replace(some, cel=Cel("tonnage > 1.0 ? 0 : 1", {"tonnage": "double"}))
    assert spec_id(routed, ranked, "imo", 10) != spec_id(routed, BYTES, "imo", 10)
