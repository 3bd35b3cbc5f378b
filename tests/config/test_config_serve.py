"""`serve:` is checked whole, before anything runs, each complaint with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.file import load as load_config
from lading.config.serve import Cel, Serve
from lading.errors import ConfigError

HEAD = """\
tables:
  ships:
    path: "*.csv"
    format: csv
    serve:
"""


def served(folder: Path, text: str) -> Serve:
    lines = "".join(f"      {line}\n" for line in text.strip().splitlines())
    (folder / "lading.yaml").write_text(HEAD + lines)
    found = load_config(folder).tables["ships"].serve
    assert found is not None
    return found


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    assert served(tmp_path, "key: imo\nshards: 8") == Serve(key=("imo",), shards=8)


def test_everything_can_be_said(tmp_path: Path) -> None:
    text = """
key: imo
value: [name, flag]
encoding: msgpack
key_encoding: u32be
max_keys_per_shard: 1000000
duplicates: latest
shard_prefix: served/ships
db_path_template: "part-{db_id:03d}"
"""
    assert served(tmp_path, text) == Serve(
        key=("imo",),
        value=("name", "flag"),
        encoding="msgpack",
        key_encoding="u32be",
        max_keys_per_shard=1_000_000,
        duplicates="latest",
        shard_prefix="served/ships",
        db_path_template="part-{db_id:03d}",
    )


def test_a_key_may_have_several_columns_and_a_value_all(tmp_path: Path) -> None:
    found = served(tmp_path, 'key: [port, day]\nvalue: "*"\nshards: 2')
    assert (found.key, found.value) == (("port", "day"), None)


def test_expressions_say_how_many_shards_by_their_tokens_or_by_shards(tmp_path: Path) -> None:
    direct = served(tmp_path, "key: imo\nshards: 8\ncel: {expr: key % 8, columns: {key: int}}")
    assert direct.cel == Cel("key % 8", {"key": "int"}, line=8)
    tokens = served(
        tmp_path, "key: imo\ncel: {expr: region, columns: {region: string}, routing_values: [ap, eu]}"
    )
    assert tokens.cel is not None and tokens.cel.routing_values == ("ap", "eu")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shards: 8", "lading.yaml:5: tables.ships.serve.key: is missing"),
        ("key: imo", "lading.yaml:5: tables.ships.serve.shards: is missing"),
        ("key: imo\nshards: 0", "lading.yaml:7: tables.ships.serve.shards: must be a whole number from 1"),
        ("key: imo\nshards: true", "lading.yaml:7: tables.ships.serve.shards: must be a whole number"),
        ("key: imo\nshard: 8", "unknown key; did you mean 'shards'?"),
        ("key: imo\nshards: 8\nmax_keys_per_shard: 9", "lading.yaml:8: "),
        ("key: [imo, imo]\nshards: 8", "names a column twice"),
        ("key: []\nshards: 8", "must be text or a list of texts"),
        ("key: _source\nshards: 8", "_source is reserved for lading"),
        ("key: [a, b]\nshards: 8\nkey_encoding: u64be", "a key of several columns is stored as raw"),
        ("key: imo\nshards: 8\nencoding: jsno", "'jsno' is unknown; did you mean 'json'?"),
        ("key: imo\nshards: 8\nencoding: raw", "encoding raw stores one column as it is; name that column"),
        ("key: imo\nshards: 8\nencoding: raw\nvalue: [a, b]", "name one, or use json or msgpack"),
        ("key: imo\nshards: 8\nduplicates: first", "'first' is unknown"),
        ("key: imo\nshards: 8\nshard_prefix: ../x", "must be a plain folder name"),
        ("key: imo\nshards: 8\nshard_prefix: a/.", "no folder named only with dots"),
        ("key: imo\nshards: 8\nshard_prefix: ./a", "no folder named only with dots"),
        ("key: imo\nshards: 8\nshard_prefix: a/./b", "no folder named only with dots"),
        ("key: imo\nshards: 8\nshard_prefix: a/...", "no folder named only with dots"),
        (f"key: imo\nshards: 8\nshard_prefix: {'a' * 300}", "shard_prefix: may have at most 200 characters"),
        (f"key: imo\nshards: 8\ndb_path_template: '{'a' * 300}{{db_id}}'", "may have at most 200 characters"),
        ("key: imo\nshards: 8\nshard_prefix: a//b", "must be a plain folder name"),
        ("key: imo\nshards: 8\nshard_prefix: a/", "no slash at either end"),
        ("key: imo\nshards: 8\nshard_prefix: /a", "no slash at either end"),
        ("key: imo\nshards: 8\nshard_prefix: 'a b'", "must be a plain folder name"),
        ("key: imo\nshards: 8\nshard_prefix: 'a?b'", "must be a plain folder name"),
        ("key: imo\nshards: 8\nshard_prefix: 'a%2Fb'", "must be a plain folder name"),
        ("key: imo\nshards: 8\nshard_prefix: a/run_id=1", "is a name that lading reserves"),
        ("key: imo\nshards: 8\ndb_path_template: 'a b{db_id}'", "only letters, digits and _ = . -"),
        ("key: imo\nshards: 8\ndb_path_template: 'a#{db_id}'", "only letters, digits and _ = . -"),
        ("key: imo\nshards: 8\ndb_path_template: '{db_id}%2e'", "only letters, digits and _ = . -"),
        ("key: imo\nshards: 8\ndb_path_template: 'a\\{db_id}'", "only letters, digits and _ = . -"),
        ("key: imo\nshards: 8\ndb_path_template: 'a/{db_id}'", "must be one folder name"),
        ("key: imo\nshards: 8\ndb_path_template: '{db_id}/'", "must be one folder name"),
        ("key: imo\nshards: 8\nshard_prefix: manifests", "is a name that lading reserves"),
        ("key: imo\nshards: 8\nshard_prefix: quarantine/x", "is a name that lading reserves"),
        ("key: imo\nshards: 8\nshard_prefix: bucket=1/x", "is a name that lading reserves"),
        ("key: imo\nshards: 8\ndb_path_template: db", "must be one folder name with {db_id} in it"),
        ("key: imo\nshards: 8\ndb_path_template: '../{db_id}'", "must be one folder name"),
        ("key: imo\nshards: 8\ndb_path_template: '{db_id!r}'", "must be one folder name"),
        ("key: imo\nshards: 8\ncel: {columns: {key: int}}", "serve.cel.expr: is missing"),
        ("key: imo\nshards: 8\ncel: {expr: key}", "serve.cel.columns: is missing"),
        (
            "key: imo\ncel: {expr: key % 8, columns: {key: int}}",
            "give the number of shards: the expression numbers them",
        ),
        (
            "key: imo\nmax_keys_per_shard: 9\ncel: {expr: key, columns: {key: int}}",
            "an expression needs shards",
        ),
        ("key: imo\nshards: 8\ncel: {expr: key, columns: {key: long}}", "'long' is unknown"),
        ("key: [a, b]\nshards: 8\ncel: {expr: key, columns: {key: int}}", "the key has several columns"),
        (
            "key: imo\nshards: 8\ncel: {expr: 'shard_hash(key) % 8', columns: {key: int}}",
            'lading.yaml:8: tables.ships.serve.cel.expr: character 19 of "shard_hash(key) % 8": uint % int',
        ),
        ("key: imo\nshards: 8\ncel: {expr: kye % 8, columns: {key: int}}", "did you mean 'key'?"),
        ("key: imo\nshards: 8\ncel: {expr: key % 9, columns: {key: int}}", "this can give 8, but shards"),
        (
            "key: imo\nshards: 3\ncel: {expr: r, columns: {r: string}, routing_values: [a, b]}",
            "routing_values has 2 tokens, one shard each",
        ),
        ("key: imo\ncel: {expr: r, columns: {r: string}, routing_values: [a, 1]}", "all text or all whole"),
        ("key: imo\ncel: {expr: r, columns: {r: string}, routing_values: [a, a]}", "'a' is listed twice"),
        ("key: imo\ncel: {expr: r, columns: {r: int}, routing_values: [a]}", "gives int, but routing_values"),
    ],
)
def test_what_can_not_be_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        served(tmp_path, text)
    assert said in caught.value.message


def test_every_complaint_is_made_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        served(tmp_path, "key: 3\nshards: none\nencoding: xml")
    assert caught.value.message.count("\n") == 2
