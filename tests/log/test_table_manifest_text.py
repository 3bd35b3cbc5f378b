"""The table manifest's values and bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.errors import ManifestParseError
from lading.layout.table import bucket_key
from lading.log.table_manifest_text import (
    PartMeta,
    TableManifest,
    decode_manifest,
    encode_manifest,
    new_manifest,
    update_with_new_part,
)


@pytest.mark.parametrize(
    ("bucket", "key"),
    [(0, "000000"), (123, "000123"), (-123, "-000123"), (999_999, "999999"), (1_000_000, "1000000")],
)
def test_a_bucket_key_has_six_digits_after_its_sign(bucket: int, key: str) -> None:
    assert bucket_key(bucket) == key


@given(st.integers())
def test_a_bucket_key_is_its_number(bucket: int) -> None:
    assert int(bucket_key(bucket)) == bucket


def test_the_bytes_decode_to_the_manifest() -> None:
    manifest = new_manifest("t")
    update_with_new_part(manifest, -3, PartMeta("p.parquet", 1, 2, 3, 4, "2026-01-01T00:00:00+00:00"))
    assert decode_manifest(encode_manifest(manifest, {"sequence": 1}), "manifest.json") == manifest


@pytest.mark.parametrize("value", ["x", None, 1.5, [], {}, float("inf")])
def test_a_figure_that_is_no_integer_is_refused(value: object) -> None:
    with pytest.raises(ManifestParseError, match="version"):
        TableManifest.from_json_obj({"table": "t", "version": value})


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["table", "partitions", "parts"]), inner),
)


@given(_JSON)
def test_whatever_the_json_holds_only_a_parse_error_comes_out(obj: object) -> None:
    try:
        TableManifest.from_json_obj(obj)
    except ManifestParseError as error:
        assert error.hint
