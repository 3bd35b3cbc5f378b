"""`from:` in lading.yaml: what it means, and every complaint with its line and key, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.derived import Derived, Input, in_order
from lading.config.file import parse
from lading.errors import ConfigError

FILES = 'tables:\n  voyages: {path: "*.csv", format: csv}\n  ports: {path: "p.csv", format: csv}\n'


def derived_of(text: str, name: str = "tonnage") -> Derived:
    found = parse(Path("/project"), FILES + text).tables[name].derived
    assert found is not None
    return found


def test_inputs_are_cut_by_columns_by_bucket_or_given_whole():
    one = derived_of(
        "  tonnage:\n"
        "    from: {voyages: {by: [port, day]}, ports: {by: [name, day]}, flags: {path: ../w/flags}}\n"
        "    sql: select 1\n    slots: 8\n"
    )
    assert one.inputs == (
        Input("voyages", ("port", "day")),
        Input("ports", ("name", "day")),
        Input("flags", path="../w/flags"),
    )
    assert (one.sql, one.slots, one.tables) == ("select 1", 8, ("voyages", "ports"))
    assert derived_of("  tonnage: {from: {voyages: {by: bucket}}, sql: select 1}\n").by_bucket
    assert derived_of("  tonnage: {from: {voyages: {by: [bucket]}}, sql: select 1}\n").inputs[0].by == (
        "bucket",
    )


def test_there_are_256_slots_unless_told_otherwise_and_one_where_nothing_is_cut():
    assert derived_of("  tonnage: {from: {voyages: {by: port}}, sql: select 1}\n").slots == 256
    assert derived_of("  tonnage: {from: {voyages: {}}, sql: select 1}\n").slots == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tonnage: {from: {voyages: {}}, path: x, Q}", ":4: tables.tonnage.path: and `from` exclude"),
        ("tonnage: {from: {voyages: {}}, format: csv, Q}", "tables.tonnage.format: and `from` exclude"),
        ("tonnage: {from: {vojages: {}}, Q}", ":4: tables.tonnage.from.vojages: there is no such table; "
         "did you mean 'voyages'?"),
        ("tonnage: {from: {tonnage: {}}, Q}", "from.tonnage: is made of itself: tonnage → tonnage"),
        ("a: {from: {b: {}}, Q}\n  b: {from: {c: {}}, Q}\n  c: {from: {a: {}}, Q}",
         ":4: tables.a.from.b: is made of itself: a → b → c → a"),
        ("tonnage: {from: {voyages: {}}}", "needs one of `sql` and `transform`"),
        ("tonnage: {from: {voyages: {}}, Q, transform: a.py:f}",
         ":4: tables.tonnage.from: takes `sql` or `transform`, not both"),
        ("tonnage: {from: {}, Q}", "names no table"),
        ("tonnage: {from: {voyages: {}, Voyages: {path: /elsewhere}}, Q}",
         ":4: tables.tonnage.from.Voyages: differs from voyages only in case"),
        ("tonnage: {from: {voyages: {bye: port}}, Q}", "voyages.bye: unknown key; did you mean 'by'?"),
        ("tonnage: {from: {voyages: {by: [port, port]}}, Q}", "names a column twice"),
        ("tonnage: {from: {voyages: {by: 5}}, Q}", "from.voyages.by: must be text"),
        ("tonnage: {from: {voyages: {by: port}}, slots: 0, Q}", "slots: must be a number from 1"),
        ("tonnage: {from: {voyages: {}}, slots: 5, Q}", "slots: needs an input with `by` columns"),
        ("tonnage: {from: {voyages: {by: port}, ports: {by: bucket}}, Q}", "are cut differently"),
        ("tonnage: {from: {voyages: {by: port}, ports: {by: [a, b]}}, Q}", "is cut by 1 columns"),
        ("tonnage: {path: x, format: csv, Q}", "tables.tonnage.sql: needs `from`"),
        ("tonnage: {from: {voyages: {}}, sql: drop table x}", "tables.tonnage.sql: is no query"),
        ("tonnage: {from: {voyages: {}}, sql: from voyages insert into x select *}", "is no query"),
        ("tonnage: {from: {voyages: {}}, sql: \"select date'today' d from voyages\"}", "uses date 'today'"),
        (
            "tonnage: {from: {voyages: {}}, sql: \"select 1 from voyages where at > timestamp 'now '\"}",
            "uses timestamp 'now ', so each evaluation would differ",
        ),
        ("tonnage: {from: {voyages: {}}, sql: 'select * from csv.`/x`'}", "reads files by csv.`…`"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_line_and_key(text, complaint):
    with pytest.raises(ConfigError) as raised:
        parse(Path("/project"), f"{FILES}  {text}\n".replace("Q", "sql: select 1"))
    assert complaint in raised.value.message


@pytest.mark.parametrize("given", ["read_options: {skip: 1}", "spec: specs/a.yaml", "format: csv", "path: x"])
def test_of_a_key_that_only_files_have_nothing_else_is_said(given):
    key = given.partition(":")[0]
    with pytest.raises(ConfigError) as raised:
        derived_of(f"  tonnage: {{from: {{voyages: {{}}}}, sql: select 1, {given}}}\n")
    problem = f"and `from` exclude each other: a table made of tables has no {key}"
    assert raised.value.message == f"lading.yaml:4: tables.tonnage.{key}: {problem}"


@pytest.mark.parametrize(
    ("warehouse", "path"),
    [
        ("", "warehouse/tonnage"),
        ("", "/project/warehouse/ports/"),
        ("", "./x/../warehouse//ports"),
        ("warehouse: ../w\n", "/w/ports"),
        ("warehouse: s3://b/w/\n", "s3://b/w/ports/"),
        ("warehouse: s3://b/w\n", "S3://b/./w//ports"),
    ],
)
def test_a_table_of_the_project_is_not_named_by_its_path(warehouse, path):
    text = f"{warehouse}{FILES}  tonnage:\n    from:\n      it: {{path: {path}}}\n    sql: select 1\n"
    with pytest.raises(ConfigError) as raised:
        parse(Path("/project"), text)
    name = path.rstrip("/").rpartition("/")[2]
    line = text[: text.index("it:")].count("\n") + 1
    problem = f"is {name}, a table of this project: name it without `path`"
    assert raised.value.message == f"lading.yaml:{line}: tables.tonnage.from.it.path: {problem}"


def test_a_link_to_a_table_of_the_project_is_its_path(tmp_path):
    (tmp_path / "warehouse" / "ports").mkdir(parents=True)
    (tmp_path / "elsewhere").symlink_to("warehouse")
    text = f"{FILES}  tonnage: {{from: {{it: {{path: elsewhere/ports}}}}, sql: select 1}}\n"
    with pytest.raises(ConfigError, match="is ports, a table of this project"):
        parse(tmp_path, text)


@pytest.mark.parametrize(
    ("warehouse", "path"),
    [
        ("", "../w/ports"),
        ("", "warehouse/none"),
        ("", "warehouse/ports/x"),
        ("", "s3://b/warehouse/ports"),
        ("warehouse: s3://b/w\n", "s3://c/w/ports"),
        ("warehouse: s3://b/w\n", "w/ports"),
    ],
)
def test_a_table_elsewhere_may_be_an_input(warehouse, path):
    text = f"{warehouse}{FILES}  tonnage: {{from: {{it: {{path: {path}}}}}, sql: select 1}}\n"
    [one] = parse(Path("/project"), text).tables["tonnage"].derived.inputs
    assert one.path == path


@pytest.mark.parametrize(
    "sql",
    [
        "(select 1)",
        "with a as (select 1) select * from a",
        "from voyages |> where a = 'insert into x'",
        "-- drop\n select 1",
        "table voyages",
        "/* drop */ SELECT 'drop'",
        "-- date 'today'\n select date '2024-01-01', 'today' as day, `date` 'today' from voyages",
    ],
)
def test_whatever_only_reads_is_a_query(sql):
    text = sql.replace("\n", "\n      ")
    assert derived_of(f"  tonnage:\n    from: {{voyages: {{}}}}\n    sql: |\n      {text}\n").sql is not None


def test_each_cycle_is_told_once():
    with pytest.raises(ConfigError) as raised:
        parse(
            Path("/project"),
            f"{FILES}  a: {{from: {{b: {{}}}}, sql: select 1}}\n  b: {{from: {{a: {{}}}}, sql: select 1}}\n",
        )
    assert raised.value.message.count("made of itself") == 1


def table(*inputs: str) -> Derived:
    return Derived(tuple(Input(one) for one in inputs))


GRAPH = {
    "top": table("left", "right"),
    "left": table("raw"),
    "right": table("raw"),
    "raw": None,
    "other": None,
}


@pytest.mark.parametrize(
    ("names", "only", "order"),
    [
        (["top"], False, ["raw", "left", "right", "top"]),
        (["top"], True, ["top"]),
        (["top", "raw"], True, ["raw", "top"]),
        (["other", "left"], False, ["other", "raw", "left"]),
        (list(GRAPH), False, ["raw", "left", "right", "top", "other"]),
    ],
)
def test_inputs_come_before_what_is_made_of_them(names, only, order):
    assert in_order(GRAPH, names, only=only) == order
