"""`store:`, `s3:` and `postgres:` in lading.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.file import load
from lading.config.project import Config
from lading.config.stores import PostgresNames
from lading.errors import ConfigError

TABLES = "\ntables: {voyages: {path: '*.csv', format: csv}}\n"


def config_of(folder: Path, text: str, tables: str = TABLES) -> Config:
    (folder / "lading.yaml").write_text(text + tables, encoding="utf-8")
    return load(folder)


def test_without_a_store_manifests_lie_with_the_data(tmp_path: Path) -> None:
    config = config_of(tmp_path, "")
    assert (config.store, config.s3, config.postgres) == (None, {}, PostgresNames())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("manifests", "{project}/manifests"),
        ("../elsewhere", "{parent}/elsewhere"),
        ("/somewhere", "/somewhere"),
        ("file:///some%20where", "/some where"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("postgresql://user:p%40ss@host:5432/db?sslmode=require", None),
        ("memory://x", "memory://x"),
    ],
)
def test_a_store_is_a_folder_or_a_url(tmp_path: Path, given: str, expected: str | None) -> None:
    project = tmp_path / "project"
    project.mkdir()
    config = config_of(project, f"store: {given}")
    assert config.store == (expected or given).format(project=project, parent=tmp_path)


def test_credentials_come_from_the_environment_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_KEY", "sentinel-key")
    monkeypatch.setenv("DIGITS", "0123456")
    keys = "s3:\n  access_key_id: ${SENTINEL_KEY}\n  secret_access_key: ${DIGITS}\n  allow_http: true"
    config = config_of(tmp_path, f"store: s3://b/x\n{keys}")
    assert config.s3 == {
        "access_key_id": "sentinel-key",
        "secret_access_key": "0123456",
        "allow_http": "true",
    }
    assert "sentinel" not in repr(config) and "0123456" not in repr(config)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("store: ftp://host/x", "ftp:// is unknown"),
        ("store: ''", "is empty"),
        ("store: s3://", "s3://bucket/prefix"),
        ("store: s3://key:sentinel@bucket/x", "s3://bucket/prefix"),
        ("store: postgresql://u:sentinel@x@host/db", "as %XX"),
        ("store: postgresql://u:sen/tinel@host/db", "as %XX"),
        ("store: postgresql://u:sentinel@host:port/db", "not a URL"),
        ("store: postgres//u:sentinel@host", "neither a folder nor a URL"),
        ("store: postgresql:/u:sentinel@host/db", "neither a folder nor a URL"),
        ("store: 'postgresql:u:sentinel@host/db'", "neither a folder nor a URL"),
        ("store: host=h password=sentinel dbname=d", "neither a folder nor a URL"),
        ("store: password = 'sentinel'", "neither a folder nor a URL"),
        ("store: //u:sentinel@host/db", "neither a folder nor a URL"),
        ("store: 'postgresql://u:my sentinel@host/db'", "has a space in it"),
        ("warehouse: s3//key:sentinel@bucket", "neither a folder nor a URL"),
        ("store: file://host/x", "file:///folder"),
        ("s3: {end_point: x}", "did you mean 'endpoint'?"),
        ("s3: {secret_access_key: [sentinel]}", "must be text"),
        ("s3: {session_token: ''}", "must be text"),
        ("s3: {allow_http: maybe}", "true or false"),
        ("s3: {endpoint: 'http://127.0.0.1:9000'}", "allow_http"),
        ("postgres: {prefx: x}", "did you mean 'prefix'?"),
        ("postgres: {prefix: ''}", "is empty"),
        ("stor: x", "did you mean 'store'?"),
    ],
)
def test_a_mistake_is_named_and_a_secret_is_not(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(tmp_path, text)
    assert complaint in caught.value.message and "lading.yaml:1" in caught.value.message
    assert "sentinel" not in str(caught.value) and "tinel" not in str(caught.value)


def test_exact_names_are_for_one_table_only(tmp_path: Path) -> None:
    two = "\ntables: {a: {path: '*.csv', format: csv}, b: {path: '*.csv', format: csv}}\n"
    with pytest.raises(ConfigError, match="several tables"):
        config_of(tmp_path, "postgres: {pointer: shardyfusion_pointer}", two)
    assert config_of(tmp_path, "postgres: {pointer: '{table}_now'}", two).postgres.pointer == "{table}_now"
    assert (
        config_of(tmp_path, "postgres: {pointer: shardyfusion_pointer}").postgres.pointer
        == "shardyfusion_pointer"
    )


def test_every_key_is_in_the_guide() -> None:
    from lading.config.stores import POSTGRES_KEYS, S3_KEYS

    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    for key in ("store", "s3", "postgres", *S3_KEYS, *POSTGRES_KEYS):
        assert f"`{key}`" in guide


@pytest.mark.parametrize("url", ["gs://bucket/x", "az://box/x"])
def test_google_and_azure_are_places_that_take_no_key_of_s3(tmp_path: Path, url: str) -> None:
    table = f"t: {{root: {url}/raw, path: '*.csv', format: csv}}"
    text = f"warehouse: {url}\nstore: {url}/store\ns3: {{access_key_id: sentinel}}\ntables: {{{table}}}\n"
    (tmp_path / "lading.yaml").write_text(text)
    config = load(tmp_path)
    assert config.place("t").url == f"{url}/t" and config.place("t").options == ()
    assert config.tables["t"].url == f"{url}/raw" and config.store == f"{url}/store"
