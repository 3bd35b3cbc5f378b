from __future__ import annotations

import pytest

from lading.errors import ConfigError, SourceError
from lading.model import FoundFile
from lading.sources.names import columns_from_name, name_columns

PATTERN = r"(?P<port>[a-z]+)_(?P<day>\d{8})(?P<part>-\d+)?\.csv"


def _found(key: str) -> FoundFile:
    return FoundFile(key, f"/data/{key}", 1, 1, False)


def test_groups_become_text_columns_and_zeros_stay() -> None:
    values = columns_from_name(PATTERN, [_found("x/oslo_00240101.csv"), _found("rio_20240102-3.csv")])
    assert values == {
        "x/oslo_00240101.csv": {"port": "oslo", "day": "00240101", "part": None},
        "rio_20240102-3.csv": {"port": "rio", "day": "20240102", "part": "-3"},
    }
    assert name_columns(PATTERN) == ("port", "day", "part")
    assert name_columns(None) == ()


@pytest.mark.parametrize(
    "key", ["oslo_20240101.csv.bak", "Xoslo_20240101.csv", "oslo_20240101.csv/other.csv"]
)
def test_a_name_that_does_not_match_as_a_whole_is_an_error(key: str) -> None:
    with pytest.raises(SourceError, match="does not match") as caught:
        columns_from_name(PATTERN, [_found(key)])
    assert caught.value.file == key


def test_an_empty_group_is_null() -> None:
    assert columns_from_name(r"(?P<a>.*)\.csv", [_found(".csv")]) == {".csv": {"a": None}}


def test_a_broken_pattern_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        name_columns("(")
