"""Where the keys for S3 come from: options, the environment, the AWS files, in this order."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.servers import S3Server

from lading.errors import ConfigError
from lading.storage.aws_files import from_files
from lading.storage.bucket import ObjectStorage

CREDENTIALS = """
[default]
aws_access_key_id = K1
aws_secret_access_key = S1
[work]
aws_access_key_id = K2
aws_secret_access_key = S%2
aws_session_token = T2
"""
SETTINGS = """
[default]
region = eu-central-1
[profile work]
region = eu-west-1
"""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws" / "config").write_text(SETTINGS)
    return {"HOME": str(tmp_path)}


def test_the_default_profile_and_another_one(home: dict[str, str]) -> None:
    first = {"access_key_id": "K1", "secret_access_key": "S1", "region": "eu-central-1"}
    assert from_files(home) == first
    second = from_files({**home, "AWS_PROFILE": "work"})
    assert second == {
        "access_key_id": "K2",
        "secret_access_key": "S%2",
        "session_token": "T2",
        "region": "eu-west-1",
    }
    assert from_files({**home, "AWS_PROFILE": "absent"}) == {}


def test_the_environment_comes_first_and_nothing_is_mixed(home: dict[str, str]) -> None:
    assert from_files({**home, "AWS_ACCESS_KEY_ID": "E"}) == {"region": "eu-central-1"}
    assert "region" not in from_files({**home, "AWS_REGION": "us-east-1"})
    assert from_files({"HOME": "/nowhere"}) == {}


def test_a_malformed_file_is_named_and_not_quoted(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".aws" / "credentials").write_text("sentinel-secret\n")
    with pytest.raises(ConfigError) as caught:
        from_files(home)
    assert "credentials" in caught.value.message and "sentinel" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_environment_alone_reaches_a_bucket(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, home: dict[str, str]
) -> None:
    url = s3_server.bucket("environment")
    for name, value in {
        **home,
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
    }.items():
        monkeypatch.setenv(name, value)
    storage = ObjectStorage(f"{url}/x")
    storage.put_new("a", b"1")
    assert storage.get("a") == b"1"


def test_a_key_without_its_secret_is_refused(monkeypatch: pytest.MonkeyPatch, home: dict[str, str]) -> None:
    monkeypatch.setenv("HOME", home["HOME"])
    with pytest.raises(ConfigError) as caught:
        ObjectStorage("s3://bucket/x", {"access_key_id": "sentinel"})
    assert "go together" in caught.value.hint and "sentinel" not in str(caught.value)
