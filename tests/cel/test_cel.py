"""Routing expressions: refused with their place in the text, and evaluated alike on rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lading.cel import program
from lading.cel.check import check, check_results
from lading.cel.columns import TYPES, NotSimple, by_kernels, evaluate
from lading.cel.parse import CelProblem, parse
from lading.errors import ConfigError, RoutingError
from lading.serve.routing import shard_hash
from lading.serve.routing_arrays import xxh3_64_of_bytes, xxh3_64_of_ints


def compile_expression(text: str, columns: tuple[tuple[str, str], ...]) -> program.Program:
    return program.compile_expression(text, columns, shard_hash)


COLUMNS = {"key": "int", "tier": "int", "region": "string", "size": "uint", "ratio": "double", "on": "bool"}


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("regoin", 0, "no column 'regoin'"),
        ("key % (tier + nope)", 14, "no column 'nope'"),
        ("shard_hash(key) % 8", 18, "uint % int"),
        ("region + 1", 9, "string + int"),
        ("key == 'a'", 7, "int == string"),
        ("on ? 1 : 'a'", 9, "'?:' gives int or string"),
        ("key ? 1 : 2", 0, "a condition before '?' needs bool, not int"),
        ("!key ? 1 : 2", 1, "'!' needs bool, not int"),
        ("-region", 1, "'-' needs double or int, not string"),
        ("region in [1, 2] ? 1 : 0", 10, "'in' needs list of any or list of string, not list of int"),
        ("[1, 'a']", 0, "a list of int or string"),
        ("ratio", 0, "gives double, which can't choose a shard"),
        ("on", 0, "gives bool"),
        ("[1]", 0, "gives list of int"),
        ("size(region)", 0, "no function 'size'"),
        ("region.lower()", 6, "no function 'lower'"),
        ("shard_hash(key, key)", 0, "takes 1 argument"),
        ("region.startsWith(1) ? 1 : 0", 18, "startsWith() of int"),
        ("shard_hash(ratio)", 11, "shard_hash() of double"),
        ("key.field", 0, "columns have no fields"),
        ("key[0]", 0, "columns have no fields"),
        ("key %", 5, "the end is not expected"),
        ("(key", 4, "')' is missing"),
        ("key key", 4, "'key' is not expected"),
        ("key @ 2", 4, "'@' is not expected"),
        ("", 0, "the end is not expected"),
        ("'abc", 0, "is not expected"),
        ("99999999999999999999", 0, "does not fit into 64 bits"),
        ("9223372036854775808", 0, "does not fit into 64 bits"),
        ("(" * 200 + "1" + ")" * 200, 40, "nested too deeply"),
        ("-" * 200 + "key", 40, "nested too deeply"),
        ("region.matches('(') ? 1 : 0", 15, "'(' is not a pattern"),
        (
            "[1] < [2] ? 1 : 0",
            0,
            "'<' needs bool or bytes or double or int or string or uint, not list of int",
        ),
        ("key + package", 6, "'package' is a reserved word of CEL"),
        ("int(key,)", 8, "')' is not expected"),
        (r"region + '\q'", 9, "is not a valid string"),
        ("key \u00a0% 8", 4, "is not expected"),
    ],
)
def test_an_expression_that_does_not_fit_is_refused_with_its_place(text: str, at: int, said: str) -> None:
    with pytest.raises(CelProblem) as caught:
        check(text, COLUMNS)
    assert said in caught.value.text
    assert caught.value.at == pytest.approx(at, abs=1 if "deeply" in said else 0)


@pytest.mark.parametrize(
    ("text", "num_dbs", "tokens", "at", "said"),
    [
        ("key % 16", 8, None, 0, "can give 15, but shards are numbered 0 to 7"),
        ("int(shard_hash(key) % 16u)", 8, None, 4, "can give 15"),
        ("on ? 0 : 9", 4, None, 9, "can give 9"),
        ("on ? -1 : 0", 4, None, 5, "can give -1"),
        ("region", 4, None, 0, "gives text, not the number of a shard"),
        ("key", None, ["a"], 0, "gives int, but routing_values are string"),
        ("region", None, [1, 2], 0, "gives string, but routing_values are int"),
        ("on ? 'a' : 'z'", None, ["a", "b"], 11, "routing_values does not list 'z'"),
    ],
)
def test_results_that_no_shard_can_have_are_refused_before_any_row(
    text: str, num_dbs: int | None, tokens: list[Any] | None, at: int, said: str
) -> None:
    tree = check(text, COLUMNS)
    with pytest.raises(CelProblem) as caught:
        check_results(tree, num_dbs, tokens)
    assert said in caught.value.text
    assert caught.value.at == at


def test_what_fits_passes() -> None:
    for text, num_dbs, tokens in [
        ("key % 8", 8, None),
        ("shard_hash(key) % 8u", 8, None),
        ("key / 1000000", 8, None),
        ("region", None, ["a"]),
        ("size", None, [1, 2]),
        ("on && key > 3 || !(tier <= -2) ? 'a' : region", None, ["a"]),
    ]:
        check_results(check(text, COLUMNS), num_dbs, tokens)


def test_an_endless_chain_is_refused_and_not_a_crash() -> None:
    with pytest.raises(CelProblem, match="too long"):
        check(" + ".join(["key"] * 5000), COLUMNS)


def test_the_place_is_told_to_people_counting_from_one() -> None:
    with pytest.raises(ConfigError, match='character 19 of "shard_hash\\(key\\) % 8": uint % int') as caught:
        compile_expression("shard_hash(key) % 8", (("key", "int"),))
    assert "8u" in caught.value.hint


def test_a_hash_is_unsigned_whatever_its_first_bit() -> None:
    program = compile_expression("shard_hash(key) % 4u", (("key", "int"),))
    assert {program.evaluate({"key": key}) for key in range(50)} == {0, 1, 2, 3}


def test_an_unsigned_column_is_unsigned_whatever_its_value() -> None:
    program = compile_expression("n % 10u", (("n", "uint"),))
    assert program.evaluate({"n": 7}) == 7
    assert program.evaluate({"n": 2**64 - 1}) == 5


def test_text_and_comments_are_read_as_cel_has_them() -> None:
    columns = (("region", "string"),)
    assert compile_expression("region + 'x'  // why", columns).evaluate({"region": "é"}) == "éx"
    assert compile_expression(r"region == 'a\'b' ? 1 : 0", columns).evaluate({"region": "a'b"}) == 1
    assert compile_expression("region == r'\\n' ? 0x10 : 0", columns).evaluate({"region": "\\n"}) == 16
    assert parse("'''it's'''").value == "it's"


def test_a_row_that_fails_is_an_error_with_its_values() -> None:
    program = compile_expression("10 / key", (("key", "int"),))
    with pytest.raises(RoutingError, match=r"\{'key': 0\}"):
        program.evaluate({"key": 0})


@pytest.mark.parametrize(
    ("type", "given"),
    [
        ("int", None), ("int", True), ("int", "3"), ("int", 3.0), ("int", 2**63),
        ("uint", -1), ("uint", 2**64), ("string", None), ("string", 3), ("string", b"a"),
        ("double", "x"), ("double", True), ("bool", 1),
        ("bytes", "a"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_and_never_compared(type: str, given: Any) -> None:
    program = compile_expression("x == x ? 1 : 0", (("x", type),))
    with pytest.raises(RoutingError, match=f"x: .* is not {type}"):
        program.evaluate({"x": given})


@pytest.mark.parametrize(
    ("type", "given"),
    [
        ("int", np.int32(5)), ("uint", np.uint64(2**64 - 1)), ("double", np.float32(2)), ("double", 2),
        ("bool", np.bool_(True)), ("string", np.str_("a")), ("bytes", bytearray(b"a")),
    ],
)  # fmt: skip
def test_what_numpy_calls_a_number_is_one(type: str, given: Any) -> None:
    assert compile_expression("x == x ? 1 : 0", (("x", type),)).evaluate({"x": given}) == 1


def test_a_fault_deep_on_the_right_is_met_once_and_not_twice_a_level() -> None:
    text = "on && (" * 38 + "1 / key == 1" + ")" * 38 + " ? 1 : 0"
    program = compile_expression(text, (("key", "int"), ("on", "bool")))
    with pytest.raises(RoutingError, match="division by zero"):
        program.evaluate({"key": 0, "on": True})


def hashes(values: pa.Array) -> Any:
    if pa.types.is_integer(values.type):
        return xxh3_64_of_ints(values.to_numpy(zero_copy_only=False))
    return xxh3_64_of_bytes(values)


# Expressions over ints, texts and booleans, well typed by construction.
_ints = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["key", "tier", "0", "1", "-3", "7", "9223372036854775807"]),
        st.builds("({} {} {})".format, _ints, st.sampled_from(["+", "-", "*"]), _ints),
        st.builds("({} {} {})".format, _ints, st.sampled_from(["/", "%"]), st.sampled_from(["2", "-3", "7"])),
        st.builds("({} ? {} : {})".format, _bools, _ints, _ints),
        st.builds("int(shard_hash({}) % 9u)".format, st.one_of(_ints, _texts)),
        st.builds("-({})".format, _ints),
    )
)
_texts = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["region", "'a'", "'é'", "''"]),
        st.builds("({} + {})".format, _texts, _texts),
        st.builds("string({})".format, _ints),
        st.builds("({} ? {} : {})".format, _bools, _texts, _texts),
    )
)
_bools = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["on", "true", "false"]),
        st.builds("({} {} {})".format, _ints, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), _ints),
        st.builds("({} {} {})".format, _texts, st.sampled_from(["==", "!=", "<", ">="]), _texts),
        st.builds("({} {} {})".format, _bools, st.sampled_from(["&&", "||"]), _bools),
        st.builds("!({})".format, _bools),
        st.builds("({} in [1, 2, -3])".format, _ints),
        st.builds("{}.{}('a')".format, _texts, st.sampled_from(["startsWith", "endsWith", "contains"])),
    )
)
_row = st.tuples(
    st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9),
    st.integers(-9, 9),
    st.text("aéb'\\"),
    st.booleans(),
)


@settings(deadline=None, max_examples=150)
@given(st.one_of(_ints, _texts), st.lists(_row, min_size=1, max_size=5))
def test_columns_give_what_rows_give(text: str, rows: list[tuple[int, int, str, bool]]) -> None:
    declared = {"key": "int", "tier": "int", "region": "string", "on": "bool"}
    assume(text.count("(") < 20)  # deeper ones are refused
    program = compile_expression(text, tuple(declared.items()))
    lists = [list(column) for column in zip(*rows, strict=True)]
    columns = {
        name: pa.array(values, TYPES[type])
        for (name, type), values in zip(declared.items(), lists, strict=True)
    }

    try:
        found = by_kernels(program.tree, columns, len(rows), hashes).to_pylist()
    except NotSimple:
        return
    assert found == program.evaluate_all(tuple(declared), lists)


def test_what_is_common_needs_no_row_by_row_evaluation() -> None:
    columns = {"key": pa.array([1, 2**40]), "region": pa.array(["eu", "us"])}
    for text in (
        "key % 8",
        "shard_hash(key) % 8u",
        "region",
        "region == 'eu' ? 0 : 1",
        "region in ['eu'] ? 1 : 2",
        "region.matches('^e') ? 1 : 2",
        "shard_hash(region + ':' + string(key)) % 8u",
    ):
        tree = check(text, {"key": "int", "region": "string"})
        assert len(by_kernels(tree, columns, 2, hashes)) == 2


def test_an_overflow_is_left_to_the_rows_which_refuse_it() -> None:
    program = compile_expression("key + 1", (("key", "int"),))
    columns = {"key": pa.array([1, 2**63 - 1])}
    with pytest.raises(NotSimple):
        by_kernels(program.tree, columns, 2, hashes)
    with pytest.raises(RoutingError, match=r"\{'key': 9223372036854775807\}: integer overflow"):
        evaluate(program, columns, 2, hashes)


def test_a_fault_that_logic_absorbs_stops_no_column() -> None:
    program = compile_expression("key == 0 || 10 / key > 3 ? 1 : 0", (("key", "int"),))
    assert evaluate(program, {"key": pa.array([0, 1, 5])}, 3, hashes).to_pylist() == [1, 1, 0]


def test_large_unsigned_results_stay_unsigned_beside_small_ones() -> None:
    program = compile_expression("ratio > 1.0 ? size : 0u", (("ratio", "double"), ("size", "uint")))
    columns = {"ratio": pa.array([2.0, 0.5]), "size": pa.array([2**64 - 1, 1], pa.uint64())}
    assert evaluate(program, columns, 2, hashes).to_pylist() == [2**64 - 1, 0]
