"""JSON lines: one object a line, nothing forced, nothing dropped."""

from __future__ import annotations

from typing import Any

import pytest

SCHEMA = (
    "a bigint; s string; t timestamp; o struct<p:bigint,q:string>; r array<bigint>; l array<struct<x:bigint>>"
)


def lines(shop: Any, *texts: str, **changes: Any) -> Any:
    group = shop.stage({1: "\n".join(texts) + "\n"}, ext="json")
    return shop.ingest([group], SCHEMA, format="json", **changes)


def test_nested_values_numbers_as_text_and_blank_lines_are_read(shop, rows_of):
    done = lines(
        shop,
        '{"a":1,"s":"x","t":"2024-01-31T10:00:00Z","o":{"p":1,"q":"z"},"r":[1,null],"l":[{"x":1},{}]}',
        "",
        '   {"a":2,"s":12}',
        "{}",
        order_by=None,
    )
    assert done.bad == ()
    rows = sorted(rows_of(done), key=lambda row: row["a"] or 9)
    assert rows[0]["o"] == {"p": 1, "q": "z"}
    assert rows[0]["r"] == [1, None]
    assert rows[0]["l"] == [{"x": 1}, {"x": None}]
    assert rows[1]["s"] == "12"
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ('{"a":"12"}', "a", '"12" is not a bigint'),
        ('{"a":1.0}', "a", "1.0 is not a bigint"),
        ('{"a":1,"new":3}', "new", "the key 'new' is not in the schema"),
        ('{"A":1}', "A", "the key 'A' is not in the schema"),
        ('{"a":1,"a":2}', "a", "has the key 'a' twice"),
        ('{"a":1,"t":12345}', "t", "12345 is not a timestamp"),
        ('{"a":1,"t":"12:30"}', "t", '"12:30" is not a timestamp'),
        ('{"a":1,"r":[1,"x"]}', "r", '[1, "x"] is not an array<bigint>'),
        (
            '{"a":1,"o":{"p":1,"zz":2}}',
            "o",
            "'o' has a key that is not in its type struct<p:bigint,q:string>",
        ),
        (
            '{"a":1,"l":[{"x":1},{"y":1}]}',
            "l",
            "'l' has a key that is not in its type array<struct<x:bigint>>",
        ),
        ('{"a":1} garbage', None, "is not one JSON object"),
        ('{"a":1}{"a":2}', None, "is not one JSON object"),
        ('{"a":1},{"a":2}', None, "is not one JSON object"),
        ('{"a":1}} x', None, "is not one JSON object"),
        ('{"a":1}] x', None, "is not one JSON object"),
        ("{'a':1}", None, "is not one JSON object"),
        ('[{"a":1}]', None, "is not a JSON object"),
        ("5", None, "is not a JSON object"),
        ("null", None, "is not a JSON object"),
        ("{", None, "is not one JSON object"),
    ],
)
def test_a_line_that_does_not_fit_is_a_bad_row(shop, text, column, reason):
    done = lines(shop, '{"a":7}', text)
    assert (done.bad_rows, len(done.bad)) == (1, 1)
    assert shop.table(done).num_rows == 1
    assert done.bad[0].text == text
    assert done.bad[0].column == column
    assert done.bad[0].reason.startswith(reason)


def test_a_wrong_value_inside_a_struct_is_a_bad_row(shop):
    done = lines(shop, '{"a":1,"o":{"p":"bad","q":"z"}}')
    assert done.bad_rows == 1


def test_undecodable_bytes_are_a_bad_row(shop):
    group = shop.stage({1: b'{"s":"ok"}\n{"s":"\xff"}\n'}, ext="json")
    done = shop.ingest([group], SCHEMA, format="json")
    assert done.bad_rows == 1
    assert shop.table(done).column("s").to_pylist() == ["ok"]


def test_a_byte_order_mark_is_no_error(shop):
    group = shop.stage({1: b'\xef\xbb\xbf{"a":1}\n'}, ext="json")
    done = shop.ingest([group], SCHEMA, format="json")
    assert (done.bad_rows, shop.table(done).column("a").to_pylist()) == (0, [1])


def test_a_whole_file_may_be_one_array_or_one_object(shop):
    group = shop.stage({1: '[\n {"a":1,\n  "s":"x"},\n {"a":2}\n]\n', 2: '{\n "a": 3\n}\n'}, ext="json")
    done = shop.ingest([group], SCHEMA, format="json", read_options={"multiline": True}, order_by="a")
    assert done.bad == ()
    table = shop.table(done)
    assert table.column("a").to_pylist() == [1, 2, 3]
    assert table.column("_source").to_pylist() == [1, 1, 2]


def test_elements_of_a_whole_file_are_checked_one_by_one(shop):
    group = shop.stage({1: '[{"a":1}, {"a":"x"}, 5]', 2: '[{"a":2}] garbage', 3: "nonsense"}, ext="json")
    done = shop.ingest([group], SCHEMA, format="json", read_options={"multiline": True}, order_by="a")
    assert done.bad_rows == 4
    assert shop.table(done).column("a").to_pylist() == [1, 2]  # what stands before the garbage is whole
