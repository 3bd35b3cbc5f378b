"""New tables in lading.yaml: the rest of its text stays as it is, to the byte."""

import pytest

from lading.config.file import parse
from lading.config.insert import with_tables
from lading.errors import ConfigError

BLOCK = 'ships:\n  # why\n  path: "ships.csv"\n  format: csv\n'


def inserted(text: str | None) -> str:
    return with_tables(text, {"ships": BLOCK})


TEXTS = {
    "as people write": "# mine\nwarehouse: w   # here\ntables:\n  a: {path: a.csv, format: csv}\n",
    "something behind": "tables:\n  a:\n    path: a.csv\n    format: csv\n\n# S\nspark:\n  master: local\n",
    "comments in the last table": (
        "tables:\n  a:\n    path: a.csv\n    format: csv\n    # per: table\n\n    # more\n"
        "# not its\nclean: {grace: 1h}\n"
    ),
    "no line end": "tables:\n  a:\n    path: a.csv\n    format: csv",
    "CRLF": "tables:\r\n  a:\r\n    path: a.csv\r\n    format: csv\r\nwarehouse: w\r\n",
    "four spaces": "tables:\n    a:\n        path: a.csv\n        format: csv\n",
    "a mark": "\ufefftables:\n  a:\n    path: a.csv\n    format: csv\n",
    "a long text at the end": "tables:\n  a:\n    format: csv\n    path: >-\n      a.csv\n\nwarehouse: w\n",
    "anchors": "tables:\n  a: &a\n    path: a.csv\n    format: csv\n  b:\n    <<: *a\n    path: b.csv\n",
    "a list at the end": "tables:\n  a:\n    path: a.csv\n    format: csv\n    checks:\n    - not_null: x\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_everything_that_was_there_stays(text, tmp_path):
    result = inserted(text)
    lines, kept = result.splitlines(), text.splitlines()
    rest = iter(lines)
    assert all(line in rest for line in kept), "the old lines, in their order"
    before, after = (
        parse(tmp_path, text.removeprefix("\ufeff")),
        parse(tmp_path, result.removeprefix("\ufeff")),
    )
    assert list(after.tables) == [*before.tables, "ships"]
    assert {name: after.tables[name] for name in before.tables} == before.tables
    assert (after.warehouse, after.spark, after.clean) == (before.warehouse, before.spark, before.clean)
    assert "# why" in result
    assert ("\r\n" in text) == ("\r\n" in result) and not (
        "\r\n" in text and "\n" in result.replace("\r\n", "")
    )
    assert result.startswith("\ufeff") == text.startswith("\ufeff")


def test_comments_of_the_last_table_stay_with_it():
    lines = inserted(TEXTS["comments in the last table"]).splitlines()
    assert lines.index("    # more") < lines.index("  ships:") < lines.index("# not its")


def test_without_a_file_one_is_begun(tmp_path):
    config = parse(tmp_path, inserted(None))
    assert list(config.tables) == ["ships"]


@pytest.mark.parametrize(
    "text",
    [
        "warehouse: w\n",
        "warehouse: w\ntables:\n",
        "tables:   # none yet\nwarehouse: w\n",
        "warehouse: w\ntables: {}\n",
        "tables: {}  # none yet\nwarehouse: w\n",
        "warehouse: w\ntables: { }",
    ],
)
def test_a_file_without_tables_takes_the_first(text, tmp_path):
    assert list(parse(tmp_path, inserted(text)).tables) == ["ships"]


@pytest.mark.parametrize(
    "text",
    [
        "tables: {a: {path: a.csv, format: csv}}\n",
        "{tables: {}}\n",
        "tables: [a]\n",
        "tables: {\n",
        "tables: ~\n",
    ],
)
def test_what_can_not_be_opened_is_refused(text):
    with pytest.raises(ConfigError, match="can't take a table"):
        inserted(text)
