"""`clean:` of lading.yaml: what cleaning keeps when it is not told otherwise."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lading.config.clean import Keep, parse_span
from lading.config.file import load
from lading.config.project import Config
from lading.errors import ConfigError

TABLE = "tables: {ships: {path: '*.csv', format: csv}}\n"


def config_of(folder: Path, text: str) -> Config:
    (folder / "lading.yaml").write_text(text + TABLE)
    return load(folder)


def test_ten_runs_and_a_day_are_kept_unless_it_says_otherwise(tmp_path: Path) -> None:
    assert config_of(tmp_path, "").clean == Keep(10, timedelta(hours=24))
    assert config_of(tmp_path, "clean:\n").clean == Keep(10, timedelta(hours=24))
    assert config_of(tmp_path, "clean: {keep_runs: 3}\n").clean == Keep(3, timedelta(hours=24))
    assert config_of(tmp_path, "clean: {grace: 7d}\n").clean == Keep(10, timedelta(days=7))
    assert config_of(tmp_path, "clean: {keep_runs: 1, grace: 0s}\n").clean == Keep(1, timedelta(0))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clean: {keep_run: 3}", r"lading.yaml:1: clean.keep_run: unknown key; did you mean 'keep_runs'"),
        ("clean: {older_than: 3d}", r"clean.older_than: unknown key; valid: keep_runs, grace"),
        ("clean: {keep_runs: 0}", r"clean.keep_runs: must be a whole number, 1 or more"),
        ("clean: {keep_runs: true}", r"clean.keep_runs: must be a whole number"),
        ("clean: {keep_runs: many}", r"clean.keep_runs: must be a whole number"),
        ("clean: {grace: soon}", r"clean.grace: 'soon' is not a duration; write 30m, 24h or 7d"),
        ("clean: {grace: 24}", r"clean.grace: must be text"),
        ("clean: {grace: 99999999999999w}", r"is not a duration"),
        ("clean: 7d", r"clean: must be a mapping"),
    ],
)
def test_what_is_wrong_is_said_with_line_key_and_remedy(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        config_of(tmp_path, text + "\n")


def test_spans_are_written_as_people_write_them() -> None:
    given = ("0s", "90s", "30m", "24h", "7d", "2w", " 7d ", "7 d", "", "d", "-1d", "1.5h", "1y", "٣d")
    spans = [span if span is None else int(span.total_seconds()) for span in map(parse_span, given)]
    day = 86400
    assert spans == [0, 90, 1800, day, 7 * day, 14 * day, 7 * day, 7 * day, *[None] * 6]
