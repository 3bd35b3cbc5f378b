"""Why a row doesn't fit, told from its text and from what Spark found nothing in."""

from __future__ import annotations

import pytest

from lading.model import Column, Field, Layout
from lading.spark.read.faults import MISFIT, advice, fault, same_record


def columns(types: dict[str, str], *, inferred: bool = False) -> dict[str, Column]:
    return {name: Column(name, type, inferred=inferred) for name, type in types.items()}


def csv_fault(text: str, unread: dict[str, str], **options: str) -> tuple[str | None, str]:
    return fault(text, fmt="csv", options=options, names=("id", "port"), unread=columns(unread))


def test_a_row_with_too_many_or_too_few_fields():
    assert csv_fault("1", {}) == (None, "has 1 field, but the header has 2")
    assert csv_fault('1,"a,b",c', {}) == (None, "has 3 fields, but the header has 2")


def test_the_value_that_is_there_and_was_not_read_is_to_blame():
    assert csv_fault("x,oslo", {"id": "bigint"}) == ("id", "'x' is not a bigint")
    assert csv_fault("1;y", {"port": "int"}, delimiter=";") == ("port", "'y' is not an int")
    assert csv_fault(",y", {"id": "bigint", "port": "date"}) == ("port", "'y' is not a date")
    assert csv_fault("NA,y", {"id": "bigint"}, null="NA") == (None, MISFIT)


@pytest.mark.parametrize(
    ("text", "unread", "said"),
    [
        ("{", {}, (None, "is not one JSON object: Expecting property name")),
        ("[1]", {}, (None, "is not a JSON object")),
        ('{"id": 1, "x": 2}', {}, ("x", "the key 'x' is not in the schema")),
        ('{"id": 1, "id": 2}', {}, ("id", "has the key 'id' twice")),
        ('{"id": {"a": 1}}', {"id": "bigint"}, ("id", '{"a": 1} is not a bigint')),
        ('{"id": 1, "port": null}', {"port": "string"}, (None, MISFIT)),
    ],
)
def test_json(text, unread, said):
    column, reason = fault(text, fmt="json", options={}, names=("id", "port"), unread=columns(unread))
    assert column == said[0] and reason.startswith(said[1])


def test_fixed_width():
    layout = Layout((Field("id", 0, 3, "bigint"), Field("port", 3, 4, "string")))

    def of(text: str, unread: dict[str, str]) -> tuple[str | None, str]:
        names = ("id", "port")
        return fault(text, fmt="fixed_width", options={}, names=names, unread=columns(unread), layout=layout)

    assert of("12", {}) == (None, "has 2 characters, but the spec needs 7")
    assert of(" x osl", {"id": "bigint"})[1] == "has 6 characters, but the spec needs 7"
    assert of(" x oslo", {"id": "bigint"}) == ("id", "'x' is not a bigint")


def test_a_value_that_only_an_inferred_type_refuses_is_told_from_one_that_no_type_takes():
    unread = columns({"id": "bigint"}, inferred=True)
    said = [fault(v, fmt="csv", options={}, names=("id",), unread=unread)[1] for v in ("00501", "x")]
    assert said[0].startswith("'00501' does not fit the inferred type bigint")
    assert said[1] == "'x' is not a bigint"


@pytest.mark.parametrize(
    ("text", "format", "column", "says"),
    [
        ("1,2,3", "csv", None, "`delimiter`"),
        ("1,2,3", "csv", None, "`multiline`"),
        ("# total", "tsv", None, "`comment`"),
        ('[{"a": 1}]', "json", None, "{multiline: true}"),
        ('  {"a": 1},', "json", None, "{multiline: true}"),
        ("{", "json", None, "{multiline: true}"),
        ("12", "fixed_width", None, "`length`"),
        ("x", "fixed_width", Column("a", "int"), "the type in the spec"),
        ("x", "csv", Column("a", "int"), "the type in schema/t.yaml"),
        ("007", "csv", Column("a", "bigint", inferred=True), "lading discover-schema t"),
        ("007", "csv", Column("a", "bigint", inferred=True), "deleting the column's `because`"),
    ],
)
def test_the_hint_fits_what_is_wrong(text, format, column, says):
    hint = advice(text, column, table="t", fmt=format, options={})
    assert says in hint
    assert column is not None or "schema/t.yaml" not in hint


def test_quotes_that_need_not_be_there_make_no_other_record():
    assert same_record('"a",1', "a,1", "csv", {})
    assert not same_record("a,1", "a,2", "csv", {})
    assert same_record('{"a":1}', '{"a":1}\r', "json", {})
    assert not same_record('{"a":1}', '{"a": 1}', "json", {})
