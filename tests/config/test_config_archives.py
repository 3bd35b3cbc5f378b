"""Archives, preprocessing and buckets in lading.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.archives import ArchiveLimits, Preprocess
from lading.config.file import load
from lading.config.project import Config
from lading.errors import ConfigError

TABLE = "tables:\n  t:\n    path: '*.zip'\n    format: csv\n"


def loaded(folder: Path, text: str) -> Config:
    (folder / "lading.yaml").write_text(text)
    return load(folder)


def test_the_limits_are_the_promised_ones_unless_said_otherwise(tmp_path):
    assert loaded(tmp_path, TABLE).archives == ArchiveLimits(100_000, 100_000_000_000, 200, 1)
    limits = "max_members: 5, max_bytes: 20GB, max_ratio: 1000, max_nesting: 2"
    text = f"archives: {{{limits}, self_extracting: true}}\n" + TABLE
    assert loaded(tmp_path, text).archives == ArchiveLimits(5, 20_000_000_000, 1000, 2, self_extracting=True)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("max_bytes: 20 cows", "20GB"),
        ("max_members: 0", "above 0"),
        ("max_ratio: true", "above 0"),
        ("max_nestin: 2", "did you mean 'max_nesting'"),
    ],
)
def test_a_wrong_limit_says_what_would_be_right(tmp_path, line, word):
    with pytest.raises(ConfigError, match=word):
        loaded(tmp_path, f"archives: {{{line}}}\n{TABLE}")


def test_a_script_and_its_options_are_kept_as_they_are(tmp_path):
    text = TABLE + (
        "    inside: '**/*.dat'\n    password_file: secret\n"
        "    preprocess:\n      action: scripts/x.py:process\n"
        "      scope: global\n      where: cluster\n      options: {a: 1, b: [x, {c: null}]}\n"
    )
    table = loaded(tmp_path, text).table("t")
    options = {"a": 1, "b": ["x", {"c": None}]}
    assert table.preprocess == Preprocess("scripts/x.py:process", "global", "cluster", options)
    assert table.inside == "**/*.dat" and table.password_file == tmp_path / "secret"


def test_a_root_in_a_bucket_is_a_url_and_its_copies_go_to_the_cache(tmp_path):
    table = loaded(tmp_path, TABLE + "    root: s3://bucket/raw/\n").table("t")
    assert table.url == "s3://bucket/raw" and table.root == tmp_path / ".lading_cache" / "objects" / "t"
    assert loaded(tmp_path, TABLE + "    root: data\n").table("t").url is None
