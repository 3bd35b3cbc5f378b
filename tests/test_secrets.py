"""Whatever lading says went through one function, and that function lets no secret through."""

import json
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.cli.main import invoke
from lading.errors import LadingError
from lading.secrets import hide, hide_within, holds_secret
from lading.signals.log import JsonLog, log_exception
from lading.snapshots.runs import list_runs, start

CARRIERS = (
    "sc://host:15002/;user_id=me;token={}",
    "sc://host/;token={};use_ssl=true",
    "postgresql://me:{}@host:5432/db",
    "postgresql://:{}@host",
    "postgres//me:{}@host/db",
    "postgres:/me:{}@host/db",
    "/srv/project/postgres/me:{}@host/db",
    "postgresql://host/db?user=me&password={}",
    "postgresql://host/db?sslpassword={}&sslmode=require",
    "host=h user=me password={} dbname=d",
    "host=h password = {} dbname=d",
    "https://b.s3.amazonaws.com/k?X-Amz-Credential={0}&X-Amz-Signature={0}&X-Amz-Security-Token={0}",
    "https://account.blob/x?sv=1&sig={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "access_key={} secret={}",
    "Authorization: Bearer {}",
    "sc://host/;x-api-key={};authorization={}",
    "(sc://host/;token={})",
    "sc://host/;token=it's{}",
    "postgresql://me:" + "%2F" * 500 + "{}@host/db",
)
# What may stand in a URL unescaped, in any of the places above.
SECRETS = st.text(string.ascii_letters + string.digits + "-._~%+/!*,", min_size=4, max_size=40).map(
    lambda text: "S3CR3T" + text
)


@pytest.mark.parametrize("carrier", CARRIERS)
@settings(deadline=None, max_examples=25)
@given(secret=SECRETS, around=st.sampled_from(["{}", "at {!r}: refused", "could not reach {} (tried twice)"]))
def test_no_secret_gets_through(carrier: str, secret: str, around: str) -> None:
    text = around.format(carrier.format(secret, secret))
    assert "S3CR3T" not in hide(text) and "***" in hide(text)
    assert hide(hide(text)) == hide(text)
    error = LadingError(text, hint=text, table=text, file=text)
    assert (
        "S3CR3T"
        not in f"{error} {error!r} {error.args} {error.message} {error.hint} {error.file} {error.table}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "voyages/2024.csv:7: 'x' is not a bigint in column 'token'",
        "sc://host:15002/;user_id=me",
        "s3://bucket/prefix/a:b@c.csv",
        "raw/a:b@c.csv",
        "tokens = 5 and name = 'x'",
        "postgresql://user@host:5432/database?sslmode=require",
        "write postgresql://user:password@host:5432/database, special characters as %XX",
        "bucket=000001/part-1.parquet",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert hide(text) == text and not holds_secret(text)


def test_only_the_secret_is_hidden() -> None:
    assert hide("at 'sc://h/;token=a\"b': refused") == "at 'sc://h/;token=***': refused"
    assert (
        hide("no postgresql://a:b@h, nor postgres//c:d@e@h.")
        == "no postgresql://a:***@h, nor postgres//c:***@h."
    )


def test_a_long_text_is_searched_in_a_moment() -> None:
    for piece in ("token", "a.b-", "//a:", "=", "password=", "x ", "Bearer ", "s3:", "token='", "token=)"):
        hide(piece * 50_000 + " @ = ")
        hide(piece * 50_000 + "@")


def test_texts_inside_of_values_are_searched_too() -> None:
    assert hide_within({"a": ["token=x", 5, None, {"b": ("password=y",)}]}) == {
        "a": ["token=***", 5, None, {"b": ["password=***"]}]
    }


def lading(project: Path, *args: str) -> str:
    """What a process of its own says: this one may have a Spark already."""
    command = [sys.executable, "-c", "from lading.cli.main import main; main()", "-C", str(project), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "lading.yaml").write_text(
        "spark: {master: 'sc://127.0.0.1:1/;token=sentinel;user_id=me'}\n"
        "tables: {ships: {path: '*.csv', format: csv}}\n"
    )
    return tmp_path


def test_a_token_for_spark_connect_is_in_no_output_no_log_and_no_record(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = lading(project, "run") + lading(project, "run", "--json")
    assert said.count("sc://127.0.0.1:1/;token=***;user_id=me") >= 2 and "sentinel" not in said
    for command in ("plan", "status", "runs", "history ships", "health ships"):
        for json_wanted in ([], ["--json"]):
            invoke(["-C", str(project), *command.split(), *json_wanted])
    assert "sentinel" not in "".join(capfd.readouterr())
    for file in project.rglob("*"):
        if file.is_file() and file.name != "lading.yaml":
            assert b"sentinel" not in file.read_bytes() and "sentinel" not in file.name, file


@pytest.mark.parametrize("address", ["host:port", "[::1"])
def test_an_address_of_spark_connect_that_is_none_is_an_error_without_its_token(
    project: Path, address: str
) -> None:
    said = lading(project, "run", "--spark-master", f"sc://{address}/;token=sentinel")
    assert "is not the address of a Spark Connect server" in said and "sentinel" not in said


def test_a_traceback_in_the_log_holds_no_secret(tmp_path: Path) -> None:
    error = RuntimeError("libpq says: connection to postgresql://me:sentinel@host failed")
    assert log_exception(tmp_path, error) is not None
    JsonLog(tmp_path).write("event", where=["sc://h/;token=sentinel"])
    lines = (tmp_path / "logs" / "lading.jsonl").read_text().splitlines()
    assert len(lines) == 2 and "sentinel" not in "".join(lines)
    assert "me:***@host" in json.loads(lines[0])["traceback"]


def test_a_run_record_holds_no_secret(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), start(tmp_path, "r1"):
        raise RuntimeError("no answer from sc://h/;token=sentinel")
    [one], _ = list_runs(tmp_path)
    assert one.record.error == "RuntimeError: no answer from sc://h/;token=***"
