"""`replace:` of a table."""

from __future__ import annotations

import pytest

from lading.config.file import load
from lading.errors import ConfigError

TABLE = "tables:\n  t:\n    path: '*.csv'\n    format: csv\n"


def test_the_default_goes_by_size(tmp_path):
    (tmp_path / "lading.yaml").write_text(TABLE)
    assert load(tmp_path).table("t").replace == "auto"


@pytest.mark.parametrize("how", ["auto", "rewrite", "minus"])
def test_it_can_be_set(tmp_path, how):
    (tmp_path / "lading.yaml").write_text(f"{TABLE}    replace: {how}\n")
    assert load(tmp_path).table("t").replace == how


def test_an_unknown_way_is_refused_with_a_suggestion(tmp_path):
    (tmp_path / "lading.yaml").write_text(f"{TABLE}    replace: rewrit\n")
    with pytest.raises(ConfigError, match="did you mean 'rewrite'"):
        load(tmp_path)
