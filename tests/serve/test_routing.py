"""Every way to a shard is the same way: golden vectors, xxhash itself, Python and whole columns."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from lading.errors import RoutingError, UnknownRoutingTokenError
from lading.serve.keys import KeySpec, Kind
from lading.serve.routing import Router, shard_hash
from lading.serve.routing_arrays import shards_of, xxh3_64_of_bytes, xxh3_64_of_ints
from lading.snapshots.manifest import HASH, BuildMeta, Sharding

VECTORS = json.loads((Path(__file__).parent / "routing_vectors.json").read_text())
SPECS: dict[str, KeySpec] = {
    "int": KeySpec(("k",), ("int",), "u64be"),
    "str": KeySpec(("k",), ("str",), "utf8"),
    "bytes": KeySpec(("k",), ("bytes",), "raw"),
}
MILLION = 1_000_000


def value_of(kind: Kind, value: Any) -> Any:
    return bytes.fromhex(value) if kind == "bytes" else value


def by_cel(
    expr: str, columns: dict[str, str], num_dbs: int = 4, tokens: tuple[Any, ...] | None = None
) -> Router:
    sharding = Sharding(
        strategy="cel", hash_algorithm="xxh3_64", cel_expr=expr, cel_columns=columns, routing_values=tokens
    )
    return Router(KeySpec(("imo",), ("int",), "u64be"), len(tokens) if tokens else num_dbs, sharding)


@pytest.mark.parametrize("vector", VECTORS["values"], ids=lambda v: f"{v['kind']}-{str(v['value'])[:12]!a}")
def test_golden_vectors_hold(vector: dict[str, Any]) -> None:
    value = value_of(vector["kind"], vector["value"])
    assert shard_hash(value) == vector["xxh3_64"]
    for shards in (8, 1000):
        router = Router(SPECS[vector["kind"]], shards, HASH)
        assert router.route(value) == vector[f"shard_of_{shards}"]
        batch = pa.RecordBatch.from_pydict({"k": [value]})
        assert shards_of(router, batch).tolist() == [vector[f"shard_of_{shards}"]]


@pytest.mark.parametrize("vector", VECTORS["composite"], ids=lambda v: "-".join(v["kinds"]))
def test_golden_vectors_of_composite_keys_hold(vector: dict[str, Any]) -> None:
    kinds = tuple(vector["kinds"])
    key = tuple(value_of(kind, value) for kind, value in zip(kinds, vector["values"], strict=True))
    spec = KeySpec(tuple("abc"[: len(kinds)]), kinds, "raw")
    assert spec.canonical(key).hex() == spec.stored(key).hex() == vector["canonical"]
    assert Router(spec, 8, HASH).route(key) == vector["shard_of_8"]


def test_a_million_ints_hash_in_numpy_as_in_xxhash() -> None:
    ends = [0, 1, -1, 2**63 - 1, -(2**63)]
    values = np.concatenate([np.random.default_rng(7).integers(-(2**63), 2**63 - 1, MILLION - 5), ends])
    digest, pack = xxhash.xxh3_64_intdigest, struct.Struct("<q").pack
    expected = np.fromiter((digest(pack(value)) for value in values.tolist()), np.uint64, MILLION)
    assert np.array_equal(xxh3_64_of_ints(values), expected)


def test_a_million_texts_and_bytes_hash_in_columns_as_in_xxhash() -> None:
    rng = random.Random(7)
    data = [rng.randbytes(rng.choice((0, 1, 3, 4, 8, 9, 16, 17, 40))) for _ in range(MILLION)]
    texts = [value.hex() for value in data]
    digest = xxhash.xxh3_64_intdigest
    for column in (pa.array(data, pa.binary()), pa.array(texts, pa.string())):
        values = data if column.type == pa.binary() else [text.encode() for text in texts]
        assert np.array_equal(
            xxh3_64_of_bytes(column), np.fromiter((digest(value) for value in values), np.uint64, MILLION)
        )


@pytest.mark.parametrize("kind", ["int", "str", "bytes"])
def test_one_key_and_a_column_of_keys_are_routed_alike(kind: Kind) -> None:
    rng = random.Random(3)
    keys: list[Any] = [rng.getrandbits(63) for _ in range(2000)]
    if kind == "str":
        keys = [f"ä{key}" for key in keys]
    if kind == "bytes":
        keys = [key.to_bytes(8, "big") for key in keys]
    router = Router(SPECS[kind], 37, HASH)
    found = shards_of(router, pa.RecordBatch.from_pydict({"k": keys}))
    assert found.tolist() == [router.route(key) for key in keys]
    assert set(found.tolist()) == set(range(37))


@pytest.mark.parametrize(
    "column", [pa.array([1, None], pa.int64()), pa.array(["a", None]), pa.array([b"a", None])]
)
def test_a_row_without_a_key_goes_to_no_shard_and_is_told(column: pa.Array) -> None:
    kind: Kind = "int" if pa.types.is_integer(column.type) else "str" if column.type == "string" else "bytes"
    with pytest.raises(RoutingError, match="1 row has no k, which is the key"):
        shards_of(Router(SPECS[kind], 2, HASH), pa.RecordBatch.from_pydict({"k": column}))


def test_narrow_integers_are_routed_by_value_not_by_width() -> None:
    router = Router(SPECS["int"], 1000, HASH)
    for type in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        assert shards_of(router, pa.RecordBatch.from_pydict({"k": pa.array([-7], type)})).tolist() == [
            router.route(-7)
        ]


def test_a_direct_expression_gives_the_shard_itself() -> None:
    router = by_cel("key % 4", {"key": "int"})
    assert [router.route(key) for key in (0, 5, 7)] == [0, 1, 3]
    assert router.context == {}


def test_the_key_goes_by_its_column_name_too() -> None:
    assert by_cel("imo % 4", {"imo": "int"}).route(6) == 2


def test_shard_hash_is_the_hash_that_routes_by_hash() -> None:
    router = by_cel("shard_hash(key) % 8u", {"key": "int"}, 8)
    plain = Router(SPECS["int"], 8, HASH)
    assert [router.route(key) for key in range(200)] == [plain.route(key) for key in range(200)]


def test_a_categorical_expression_gives_the_place_of_its_token() -> None:
    router = by_cel("region", {"region": "string"}, tokens=("ap", "eu", "us"))
    assert router.route(1, {"region": "us"}) == 2
    assert router.context == {"region": "string"}


def test_an_unknown_token_is_an_error_that_lists_the_known_ones() -> None:
    router = by_cel("region", {"region": "string"}, tokens=("ap", "eu"))
    with pytest.raises(UnknownRoutingTokenError, match="'mars'") as caught:
        router.route(1, {"region": "mars"})
    assert "'ap', 'eu'" in caught.value.hint
    with pytest.raises(UnknownRoutingTokenError, match="'mars'"):
        shards_of(router, pa.RecordBatch.from_pydict({"imo": [1, 2], "region": ["ap", "mars"]}))


def test_what_is_missing_beside_the_key_is_named() -> None:
    router = by_cel("region", {"region": "string"}, tokens=("ap", "eu"))
    with pytest.raises(RoutingError, match="does not say which shard") as caught:
        router.route(1)
    assert "--context region=" in caught.value.hint


def test_a_result_outside_the_shards_is_an_error() -> None:
    router = by_cel("key - 1", {"key": "int"})
    for key in (0, 9):
        with pytest.raises(RoutingError, match="out of range"):
            router.route(key)
    with pytest.raises(RoutingError, match="out of range"):
        shards_of(router, pa.RecordBatch.from_pydict({"imo": [1, 9]}))


def test_a_row_that_an_expression_fails_on_is_shown() -> None:
    router = by_cel("10 / key", {"key": "int"}, 11)
    with pytest.raises(RoutingError, match=r"'10 / key' can't be evaluated for \{'key': 0\}"):
        shards_of(router, pa.RecordBatch.from_pydict({"imo": [1, 0]}))
    with pytest.raises(RoutingError, match="1 row has no region"):
        shards_of(
            by_cel("region", {"region": "string"}, tokens=("a",)),
            pa.RecordBatch.from_pydict({"imo": [1], "region": pa.array([None], pa.string())}),
        )


def test_a_context_that_people_type_gets_the_declared_types() -> None:
    router = by_cel("region == 'eu' ? tier : 0", {"region": "string", "tier": "int"})
    context = router.parsed_context({"region": "eu", "tier": "3"})
    assert router.route(5, context) == 3
    with pytest.raises(RoutingError, match="'x' is not int"):
        router.parsed_context({"tier": "x"})
    with pytest.raises(RoutingError) as caught:
        router.parsed_context({"regoin": "eu"})
    assert "did you mean 'region'?" in caught.value.hint


def test_a_router_comes_out_of_a_manifest() -> None:
    from datetime import UTC, datetime

    meta = BuildMeta(
        run_id="r", created_at=datetime.now(UTC), num_dbs=7, key_col="imo", key_encoding="u64be",
        custom={"serve": {"key": ["imo"], "kinds": ["int"]}},
    )  # fmt: skip
    assert Router.of_manifest(meta) == Router(KeySpec(("imo",), ("int",), "u64be"), 7, HASH)
