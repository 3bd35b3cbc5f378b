"""Keys as bytes: what is hashed, what is stored, and what is refused."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import RoutingError
from lading.serve.keys import KeySpec, canonical
from lading.serve.routing_arrays import stored_keys

INT = KeySpec(("imo",), ("int",), "u64be")
SHORT = KeySpec(("imo",), ("int",), "u32be")
TEXT = KeySpec(("name",), ("str",), "utf8")
RAW = KeySpec(("tag",), ("bytes",), "raw")
MIXED = KeySpec(("a", "b", "c"), ("int", "str", "bytes"), "raw")

ints = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)))
mixed = st.tuples(ints, texts, st.binary())


def test_what_is_hashed_is_little_endian_signed_and_utf8() -> None:
    assert canonical(-2) == b"\xfe" + b"\xff" * 7
    assert canonical(258) == struct.pack("<q", 258)
    assert canonical("ä") == b"\xc3\xa4"
    assert canonical(b"\0\xff") == b"\0\xff"


def test_what_is_stored_is_big_endian_so_that_bytes_sort_as_numbers() -> None:
    assert INT.stored(258) == b"\0\0\0\0\0\0\x01\x02"
    assert SHORT.stored(258) == b"\0\0\x01\x02"
    assert TEXT.stored("ä") == b"\xc3\xa4"
    assert RAW.stored(b"\0") == b"\0"


@pytest.mark.parametrize(
    ("spec", "key", "said"),
    [
        (INT, -1, "-1 can't be stored as u64be"),
        (INT, 2**63, "can't be stored as u64be"),
        (SHORT, 2**32, "can't be stored as u32be"),
        (INT, True, "True of imo is bool, not int"),
        (INT, "7", "'7' of imo is str, not int"),
        (TEXT, 7, "7 of name is int, not str"),
        (TEXT, "\ud800", "can't be written as UTF-8"),
        (RAW, "x", "'x' of tag is str, not bytes"),
        (MIXED, (1, "x"), "is not 3 values"),
        (MIXED, "abc", "is not 3 values"),
        (MIXED, (1, 2, b""), "2 is int, not str"),
        (MIXED, (2**63, "", b""), "does not fit into 64 bits"),
    ],
)
def test_a_key_that_can_not_be_stored_is_refused_by_name(spec: KeySpec, key: object, said: str) -> None:
    with pytest.raises(RoutingError, match=said) as caught:
        spec.stored(key)  # type: ignore[arg-type]
    assert caught.value.hint


@given(mixed)
def test_a_composite_key_comes_back_as_it_was(key: tuple[int, str, bytes]) -> None:
    assert MIXED.decoded(MIXED.stored(key)) == key


@given(st.lists(mixed, min_size=2, max_size=8))
def test_composite_keys_sort_as_their_components_do(keys: list[tuple[int, str, bytes]]) -> None:
    by_value = sorted(keys, key=lambda key: (key[0], key[1].encode(), key[2]))
    assert sorted(MIXED.stored(key) for key in keys) == [MIXED.stored(key) for key in by_value]


def test_components_never_run_into_one_another() -> None:
    pair = KeySpec(("a", "b"), ("str", "str"), "raw")
    assert pair.stored(("ab", "c")) != pair.stored(("a", "bc"))
    assert pair.stored(("a\0", "b")) != pair.stored(("a", "\0b"))


@settings(deadline=None)
@given(st.lists(mixed, min_size=1, max_size=20))
def test_columns_are_stored_as_single_keys_are(keys: list[tuple[int, str, bytes]]) -> None:
    a, b, c = (list(column) for column in zip(*keys, strict=True))
    columns = [pa.array(a, pa.int64()), pa.array(b, pa.string()), pa.array(c, pa.binary())]
    assert stored_keys(MIXED, columns).to_pylist() == [MIXED.stored(key) for key in keys]
    assert stored_keys(TEXT, [columns[1]]).to_pylist() == [TEXT.stored(key) for key in b]
    assert stored_keys(RAW, [columns[2]]).to_pylist() == c
    positive = [abs(number) % 2**32 for number in a]
    for spec in (INT, SHORT):
        assert stored_keys(spec, [pa.array(positive)]).to_pylist() == [spec.stored(n) for n in positive]


def test_a_column_with_a_key_that_can_not_be_stored_is_refused() -> None:
    with pytest.raises(RoutingError, match="the key -3 of imo can't be stored as u64be"):
        stored_keys(INT, [pa.array([1, -3, 2])])
    with pytest.raises(RoutingError, match="the key 4294967296 of imo can't be stored as u32be"):
        stored_keys(SHORT, [pa.array([2**32])])
    with pytest.raises(RoutingError, match="2 rows have no imo"):
        stored_keys(INT, [pa.array([1, None, None], pa.int64())])


def test_people_type_keys_as_text() -> None:
    assert INT.parsed("42") == 42
    assert TEXT.parsed("42") == "42"
    assert RAW.parsed("00ff") == b"\0\xff"
    assert MIXED.parsed('[-1, "x", "00"]') == (-1, "x", b"\0")
    for spec, text in ((INT, "4x"), (RAW, "zz"), (MIXED, "1,2,3"), (MIXED, "[1]")):
        with pytest.raises(RoutingError):
            spec.parsed(text)


def test_what_manifests_show_of_keys() -> None:
    assert INT.shown(INT.stored(7)) == 7
    assert TEXT.shown(TEXT.stored("ä")) == "ä"
    assert RAW.shown(b"\0\xff") == "00ff"
    assert MIXED.shown(MIXED.stored((0, "", b""))).startswith("01")  # type: ignore[union-attr]


def test_a_manifest_that_others_wrote_says_enough_by_its_encoding() -> None:
    assert KeySpec.of_manifest("id", "utf8", {}) == KeySpec(("id",), ("str",), "utf8")
    own = {"serve": {"key": ["a", "b"], "kinds": ["int", "str"]}}
    assert KeySpec.of_manifest("a,b", "raw", own) == KeySpec(("a", "b"), ("int", "str"), "raw")
    bent = {"serve": {"key": ["a", "b"], "kinds": ["int", "nonsense"]}}
    assert KeySpec.of_manifest("id", "u64be", bent) == KeySpec(("id",), ("int",), "u64be")


def test_stored_bytes_of_another_table_are_refused_not_guessed() -> None:
    for bent in (b"\x02", b"\x01\0", b"\x01" + bytes(8) + b"\x02abc", MIXED.stored((1, "a", b"b")) + b"x"):
        with pytest.raises(RoutingError):
            MIXED.decoded(bent)
