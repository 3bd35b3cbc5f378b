"""lading.yaml: what it means, and that every mistake is found at once, with its line and key."""

import os
from pathlib import Path

import pytest

from lading.config.file import PROJECT_KEYS, SPARK_KEYS, load
from lading.config.options import READ_OPTIONS
from lading.config.table import TABLE_KEYS
from lading.errors import ConfigError, NotFound
from lading.model import STRICT, Place

WHOLE = r"""
warehouse: out
spark:
  master: "local[2]"
  conf: {spark.driver.memory: 4g, spark.ui.enabled: false, spark.sql.shuffle.partitions: 8}
tables:
  voyages:
    root: data
    path: "voyages/*.csv"
    format: csv
    read_options: {header: true, delimiter: ";", null: NA}
    columns_from_name: "(?P<port>[a-z]+)_(?P<day>\\d{8})\\.csv"
    order_by: departed_at
    bucket_size: 30d
    fingerprint: full
    transform: transforms/voyages.py:clean
    per: table
    on_bad: fail
    drift: strict
  ships:
    path: "**/ships.parquet"
    format: parquet
"""


def config_of(folder: Path, text: str):
    (folder / "lading.yaml").write_text(text, encoding="utf-8")
    return load(folder)


def refused(folder: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        config_of(folder, text)
    assert caught.value.exit_code == 3
    assert caught.value.hint
    return caught.value


def table(*lines: str) -> str:
    given = [line.split(":")[0] for line in lines]
    needed = [line for line in ("path: '*.csv'", "format: csv") if line.split(":")[0] not in given]
    return "tables:\n  t:\n" + "".join(f"    {line}\n" for line in [*needed, *lines])


def test_a_whole_config_comes_out_typed_and_absolute(tmp_path):
    config = config_of(tmp_path, WHOLE)
    assert config.project == tmp_path
    assert config.warehouse == Place(str(tmp_path / "out"))
    assert config.cache == tmp_path / ".lading_cache"
    assert config.spark.master == "local[2]"
    assert config.spark.conf == {
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
    }
    voyages = config.tables["voyages"]
    assert voyages.root == tmp_path / "data"
    assert voyages.read_options == {"header": True, "delimiter": ";", "null": "NA"}
    assert (voyages.bucket_size, voyages.fingerprint, voyages.per) == ("30d", "full", "table")
    assert voyages.transform == "transforms/voyages.py:clean"


def test_what_is_left_out_has_its_default(tmp_path):
    config = config_of(tmp_path, "tables: {t: {path: '*.json', format: json}}\n")
    found = config.tables["t"]
    assert config.warehouse == Place(str(tmp_path / "warehouse"))
    assert config.spark.master == "local[*]"
    assert found.root == tmp_path
    assert (found.order_by, found.bucket_size, found.transform, found.columns_from_name) == (None,) * 4
    assert (found.fingerprint, found.per, found.on_bad, found.policy) == ("fast", "file", "fail", STRICT)


def test_every_table_has_its_places(tmp_path):
    config = config_of(tmp_path, WHOLE)
    assert config.place("ships") == Place(str(tmp_path / "out" / "ships"))
    assert config.source_manifest("ships") == tmp_path / "manifest" / "ships.json"
    assert config.schema_file("ships") == tmp_path / "schema" / "ships.yaml"


def test_an_unknown_table_lists_the_tables_nearest_first(tmp_path):
    config = config_of(tmp_path, WHOLE)
    with pytest.raises(NotFound) as caught:
        config.table("ship")
    assert caught.value.hint == "the tables are: ships, voyages"


def test_a_project_without_a_config_is_told_of_init(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert "lading init" in caught.value.hint


def test_an_unknown_key_names_its_line_and_the_nearest_key(tmp_path):
    error = refused(tmp_path, "tables:\n  voyages:\n    path: '*.csv'\n    formt: csv\n    format: csv\n")
    assert error.message == "lading.yaml:4: tables.voyages.formt: unknown key; did you mean 'format'?"
    assert error.table == "voyages"
    assert error.file == str(tmp_path / "lading.yaml")


def test_every_error_is_listed_at_once(tmp_path):
    error = refused(
        tmp_path,
        "warehous: x\n"
        "spark: {conf: {driver.memory: 4g}}\n"
        "tables:\n"
        "  Ships: {path: '*.csv', format: xlsx}\n"
        "  t:\n"
        "    format: csv\n"
        "    bucket_size: 30d\n"
        "    read_options: {header: perhaps}\n",
    )
    lines = error.message.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["lading.yaml:1", "warehous"],
        ["lading.yaml:2", "spark.conf.driver.memory"],
        ["lading.yaml:4", "tables.Ships"],
        ["lading.yaml:4", "tables.Ships.format"],
        ["lading.yaml:5", "tables.t.path"],
        ["lading.yaml:7", "tables.t.bucket_size"],
        ["lading.yaml:8", "tables.t.read_options.header"],
    ]
    assert "csv, tsv, json, parquet" in lines[3]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("format: jsn", "did you mean 'json'?"),
        ("format: 3", "must be text"),
        ("path: /data/*.csv", "relative to the root"),
        ("path: ../*.csv", "inside the root"),
        ("path: ''", "is empty"),
        ("path: voyages/", "names no file"),
        ("root: ftp://host/x", "aren't supported"),
        ("root: s3://key:secret@bucket/x", "s3://bucket/prefix"),
        ("inside: ../*.csv", "inside the root"),
        ("password_file: ''", "name a file"),
        ("preprocess: {action: ../x.py:f}", "inside the project"),
        ("preprocess: {action: unpack}", "scripts/decode.py:process"),
        ("preprocess: {action: unzip, scope: global}", "file by file"),
        ("preprocess: {action: unzip, options: {a: 1}}", "unzip has no options"),
        ("preprocess: {action: x.py:f, options: {path: 1}}", "argument"),
        ("preprocess: {action: x.py:f, where: cloud}", "driver, cluster"),
        ("fingerprint: quick", "fast, full"),
        ("per: row", "file, table"),
        ("on_bad: ignore", "valid: fail, quarantine"),
        ("drift: loose", "valid: strict"),
        ("transform: clean", "transforms/voyages.py:clean"),
        ("transform: ../x.py:clean", "inside the project"),
        ("transform: a/../../x.py:clean", "inside the project"),
        ("transform: /x.py:clean", "inside the project"),
        ("columns_from_name: '(a'", "not a regular expression"),
        ("columns_from_name: '(a)b'", "no named group"),
        ("columns_from_name: '(?P<_source>a)'", "reserved for lading"),
        ("order_by: 3", "must be text"),
        ("read_options: {sheet: 1}", "unknown key"),
        ("read_options: {heder: true}", "did you mean 'header'?"),
        ("read_options: {delimiter: ''}", "exactly one character"),
        ("read_options: {delimiter: '||'}", "exactly one character"),
        ("read_options: {delimiter: '\"', quote: '\"'}", "same character as delimiter"),
        ("read_options: {delimiter: '\"'}", "same character as delimiter"),
        ("read_options: {comment: ','}", "same character as delimiter"),
        ("read_options: {encoding: klingon}", "not a known encoding"),
        ("read_options: {encoding: base64}", "not a known encoding"),
        ("read_options: {null: ~}", "must be text"),
        ("read_options: [header]", "must be a mapping"),
    ],
)
def test_a_wrong_value_of_a_table_says_what_would_be_right(tmp_path, line, says):
    message = refused(tmp_path, table(line)).message
    assert says in message
    assert message.startswith("lading.yaml:")
    assert "tables.t." + line.split(":")[0] in message


@pytest.mark.parametrize("size", ["0", "-5", "30x", "d", "1.5", "true", "0d", "30 d", "~", "[1]"])
def test_a_bucket_size_that_means_nothing_is_refused(tmp_path, size):
    assert "bucket_size" in refused(tmp_path, table("order_by: a", f"bucket_size: {size}")).message


@pytest.mark.parametrize(("size", "value"), [("100", 100), ("12h", "12h"), ("15m", "15m"), ("7d", "7d")])
def test_a_bucket_size_is_a_number_or_a_span_of_time(tmp_path, size, value):
    assert config_of(tmp_path, table("order_by: a", f"bucket_size: {size}")).tables["t"].bucket_size == value


def test_a_bucket_size_needs_an_order_column(tmp_path):
    assert "needs order_by" in refused(tmp_path, table("bucket_size: 100")).message


def test_parquet_has_no_read_options(tmp_path):
    assert (
        "no read options"
        in refused(tmp_path, table("format: parquet", "read_options: {header: true}")).message
    )


def test_a_warehouse_in_a_bucket_never_shows_its_keys(tmp_path):
    keys = "s3: {access_key_id: sentinel, secret_access_key: sentinel, region: r}\n"
    config = config_of(tmp_path, "warehouse: s3://bucket/prefix/\n" + keys + table())
    place = config.place("voyages")
    assert str(place) == "s3://bucket/prefix/voyages" and dict(place.options) == config.s3
    assert "sentinel" not in repr(config) + repr(place) + str(place)


@pytest.mark.parametrize(
    "url",
    ["ftp://host/x", "gs://", "az://key@box/x", "s3://", "s3://key:secret@bucket/x", "s3://bucket/x?y=1"],
)
def test_a_warehouse_is_a_folder_or_in_s3(tmp_path, url):
    error = refused(tmp_path, f"warehouse: {url}\n" + table())
    assert error.message.startswith("lading.yaml:1: warehouse:") and "secret" not in error.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("- a\n", "must be a mapping"),
        ("warehouse: x\n", "at least one table"),
        ("tables: {}\n", "at least one table"),
        ("tables: []\n", "must be a mapping"),
        ("tables: {t: csv}\n", "must be a mapping"),
        ("tables: {t: }\n", "is missing"),
        ("spark: local\n" + "tables: {t: {path: a, format: csv}}", "must be a mapping"),
        ("spark: {conf: {spark.master: x}}\ntables: {t: {path: a, format: csv}}", "write it as spark"),
        ("spark: {conf: {spark.x: [1]}}\ntables: {t: {path: a, format: csv}}", "must be text, a number"),
        ("tables: {1t: {path: a, format: csv}}", "lower-case"),
        ("tables: {../t: {path: a, format: csv}}", "lower-case"),
        ("tables:\n  t: {path: a, format: csv}\n  t: {path: b, format: csv}\n", "given twice"),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(tmp_path, text, says):
    assert says in refused(tmp_path, text).message


def test_a_project_whose_path_is_not_utf8_is_refused(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff"))
    with pytest.raises(ConfigError, match=r"a\\xff' is not valid UTF-8") as refused:
        load(folder)
    assert "rename the folder" in refused.value.hint


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "lading.yaml").write_bytes(b"warehouse: caf\xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path)


def test_the_environment_works_in_any_value(tmp_path, monkeypatch):
    monkeypatch.setenv("LADING_TEST_ROOT", "2024")
    monkeypatch.setenv("LADING_TEST_SIZE", "100")
    monkeypatch.delenv("LADING_TEST_UNSET", raising=False)
    text = table(
        "root: ${LADING_TEST_ROOT}",
        "order_by: ${LADING_TEST_UNSET:-day}",
        "bucket_size: ${LADING_TEST_SIZE}",
        "read_options: {header: '${LADING_TEST_UNSET:-x}'}",
    )
    assert "header: must be true or false" in refused(tmp_path, text).message
    found = config_of(tmp_path, text.replace("'${LADING_TEST_UNSET:-x}'", "true")).tables["t"]
    assert (found.root, found.order_by, found.bucket_size) == (tmp_path / "2024", "day", 100)


def test_a_variable_that_is_not_set_is_an_error_with_its_line(tmp_path, monkeypatch):
    monkeypatch.delenv("LADING_TEST_UNSET", raising=False)
    message = refused(tmp_path, table("root: ${LADING_TEST_UNSET}")).message
    assert message.startswith(
        "lading.yaml:5: tables.t.root: environment variable LADING_TEST_UNSET is not set"
    )


def test_every_key_and_read_option_is_explained_in_the_guide():
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    options = {option for options in READ_OPTIONS.values() for option in options}
    for key in {*PROJECT_KEYS, *SPARK_KEYS, *TABLE_KEYS, *options}:
        assert f"`{key}`" in guide, f"docs/guide.md does not explain {key}"
