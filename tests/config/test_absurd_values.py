"""Every key of lading.yaml with every absurd value: a config or a list of complaints, never a traceback."""

from pathlib import Path

import pytest
import yaml

from lading.config.archives import ARCHIVE_KEYS, PREPROCESS_KEYS
from lading.config.clean import CLEAN_KEYS
from lading.config.file import PROJECT_KEYS, SPARK_KEYS, load
from lading.config.options import READ_OPTIONS
from lading.config.stores import POSTGRES_KEYS, S3_KEYS
from lading.config.table import TABLE_KEYS
from lading.errors import ConfigError

ABSURD = (
    None, True, 0, -1, 2**63, 10**40, 1.5, float("inf"), float("nan"), "", " ", "\n", "x" * 5_000,
    "9" * 5_000 + "d", "9" * 40 + "GB", "(" * 5_000, "[" * 200, "a/" * 3_000, "../..",
    "~nobody/x", "\x1b[31m", "%s{0}{x.y}", "{", "}", "{0[",
    [], {}, [None], [[[[]]]], {"a": {"b": {}}}, ["x"] * 100, {"": ""}, {"x" * 300: 1}, [True, 1.5, {}],
    "postgresql://[", "s3://[", "sc://[", "file://[", "2024-01-01",
    [{"sql": "("}], [{"regex": "("}], [{"range": {}}],
)  # fmt: skip
PLACES = (
    *[(key,) for key in PROJECT_KEYS],
    *[("spark", key) for key in SPARK_KEYS],
    *[("archives", key) for key in ARCHIVE_KEYS],
    *[("clean", key) for key in CLEAN_KEYS],
    *[("s3", key) for key in S3_KEYS],
    *[("postgres", key) for key in POSTGRES_KEYS],
    *[("tables", "t", key) for key in TABLE_KEYS],
    *[("tables", "t", "preprocess", key) for key in PREPROCESS_KEYS],
    *[("tables", "t", "read_options", key) for key in READ_OPTIONS["csv"]],
    *[("tables", "t", "gate", key) for key in ("rows", "nulls", "unique", "sql")],
    *[
        ("tables", "t", "serve", key)
        for key in ("key", "shards", "cel", "db_path_template", "shard_prefix", "value")
    ],
)


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_no_value_of_a_key_ends_in_a_traceback(tmp_path: Path, place: tuple[str, ...]) -> None:
    for value in ABSURD:
        tree: dict = {"tables": {"t": {"path": "*.csv", "format": "csv"}}}
        at = tree
        for key in place[:-1]:
            at = at.setdefault(key, {})
        at[place[-1]] = value
        (tmp_path / "lading.yaml").write_text(yaml.safe_dump(tree))
        try:
            load(tmp_path)
        except ConfigError as error:
            assert error.message and error.hint
