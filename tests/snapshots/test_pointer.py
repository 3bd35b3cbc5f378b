"""The pointer's bytes: what is written, what is read, what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.errors import ManifestParseError
from lading.model import SnapshotRef
from lading.snapshots.pointer import (
    POINTER_LIMIT,
    decode_pointer,
    encode_pointer,
    new_swap_id,
    parse_pointer,
)

_AT = datetime(2026, 4, 20, 15, 23, 1, 123456, tzinfo=UTC)
_FOREIGN = {
    "manifest_ref": "s3://bucket/t/manifests/x/manifest",
    "manifest_content_type": "application/x-sqlite3",
    "run_id": "r1",
    "updated_at": "2026-04-20T15:23:01.123456+00:00",
    "format_version": 1,
}


def test_a_pointer_holds_the_five_known_keys_and_three_of_our_own() -> None:
    ref = SnapshotRef("manifests/x/manifest", "r1", _AT, sequence=7, held=True, swap_id="abc")
    assert json.loads(encode_pointer(ref)) == {
        "manifest_ref": "manifests/x/manifest",
        "manifest_content_type": "application/x-sqlite3",
        "run_id": "r1",
        "updated_at": "2026-04-20T15:23:01.123456Z",
        "format_version": 1,
        "sequence": 7,
        "held": True,
        "swap_id": "abc",
    }
    assert parse_pointer(encode_pointer(ref)) == ref


def test_a_foreign_pointer_has_sequence_zero_and_is_not_held() -> None:
    ref = parse_pointer(json.dumps(_FOREIGN).encode())
    assert ref == SnapshotRef("s3://bucket/t/manifests/x/manifest", "r1", _AT, 0, False, "")


def test_a_time_without_a_zone_is_utc_and_another_zone_is_turned_into_it() -> None:
    naive = parse_pointer(json.dumps(_FOREIGN | {"updated_at": "2026-04-20T15:23:01.123456"}).encode())
    other = parse_pointer(json.dumps(_FOREIGN | {"updated_at": "2026-04-20T17:23:01.123456+02:00"}).encode())
    assert naive.published_at == other.published_at == _AT
    assert naive.published_at.utcoffset() == other.published_at.utcoffset() == timedelta(0)
    east = SnapshotRef("r", "r1", _AT.astimezone(timezone(timedelta(hours=5))))
    assert parse_pointer(encode_pointer(east)).published_at == _AT


@pytest.mark.parametrize("missing", ["manifest_ref", "manifest_content_type", "run_id", "updated_at"])
def test_a_missing_key_is_refused_by_name(missing: str) -> None:
    without = {key: value for key, value in _FOREIGN.items() if key != missing}
    with pytest.raises(ManifestParseError, match=missing):
        parse_pointer(json.dumps(without).encode())


@pytest.mark.parametrize(
    "wrong",
    [
        {"format_version": 2},
        {"format_version": "1"},
        {"manifest_content_type": "application/json"},
        {"manifest_ref": ""},
        {"manifest_ref": None},
        {"run_id": 7},
        {"updated_at": "yesterday"},
        {"updated_at": "0001-01-01T00:00:00+23:59"},
        {"sequence": -1},
        {"sequence": True},
        {"held": "no"},
        {"swap_id": 3},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ManifestParseError) as caught:
        parse_pointer(json.dumps(_FOREIGN | wrong).encode())
    assert caught.value.hint


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"\xff\xfe", b'{"x":' * 5000, b'{"a":"\\ud800"}', b" " * (POINTER_LIMIT + 1)],
)
def test_bytes_that_are_no_pointer_are_refused(data: bytes) -> None:
    with pytest.raises(ManifestParseError):
        decode_pointer(data)


@given(st.binary(max_size=200) | st.integers(0, 400).map(lambda n: json.dumps(_FOREIGN).encode()[:n]))
def test_a_cut_or_random_pointer_only_ever_fails_to_parse(data: bytes) -> None:
    try:
        assert parse_pointer(data).run_id == "r1"
    except ManifestParseError as error:
        assert error.hint


def test_every_move_has_its_own_name() -> None:
    assert len({new_swap_id() for _ in range(1000)}) == 1000
