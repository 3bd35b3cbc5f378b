"""What lading.yaml says of single columns, and of names, when files are read and looked at."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.reading import columns_of, read, source
from support.written import FORMATS, written

from lading.config.names import Naming, folded, snaked
from lading.errors import ConfigError, SchemaDrift, SourceError
from lading.formats.infer.look import LookSpec, look
from lading.formats.infer.settle import settle
from lading.formats.reader import ReadSpec
from lading.model import ColumnRule, Field, Layout, NamesPolicy, Policy

ADD, IGNORE, ASIDE = Policy("add"), Policy("ignore"), Policy("strict", "quarantine")
TYPED = ("parquet", "orc", "avro")


def spec_of(
    fmt: Any,
    columns: str,
    *rules: ColumnRule,
    names: NamesPolicy = "exact",
    policy: Policy = Policy(),  # noqa: B008
    inferred: bool = False,
    **options: Any,
) -> ReadSpec:
    wanted = columns_of(columns, inferred=inferred)
    return ReadSpec(fmt, options, wanted, policy, naming=Naming.of(names, rules), rules=rules)


def types_of(spec: ReadSpec, *paths: Path) -> dict[str, str]:
    """The columns that looks at the files give."""
    looking = LookSpec(spec.format, spec.options, naming=spec.naming, rules=spec.rules)
    files = [(path.name, look(source(path), looking)) for path in paths]
    found = settle(files, spec.format, spec.options, types=lambda _: "widen", rules=spec.rules)
    return {column.name: column.type for column in found.columns}


@pytest.mark.parametrize("fmt", FORMATS)
def test_aliases_folds_and_snakes_name_the_columns_of_every_format(tmp_path: Path, fmt: str) -> None:
    path = written(tmp_path, fmt, ("PortNo", "AMT"), ("7", "x"), ("8", None))
    rule = ColumnRule("Amount", headers=("AMT", "amt_2"))
    rows = [{"Amount": "x", "n": "7"}, {"Amount": None, "n": "8"}]
    snake = spec_of(fmt, "Amount string; port_no string", rule, names="snake")
    assert read(snake, path).rows == [{"Amount": r["Amount"], "port_no": r["n"]} for r in rows]
    fold = spec_of(fmt, "Amount string; PORTNO string", rule, names="fold")
    assert read(fold, path).rows == [{"Amount": r["Amount"], "PORTNO": r["n"]} for r in rows]
    exact = spec_of(fmt, "Amount string; PortNo string", rule)
    assert read(exact, path).rows == [{"Amount": r["Amount"], "PortNo": r["n"]} for r in rows]
    numbers = "string" if fmt in (*TYPED, "json", "excel") else "bigint"
    assert types_of(snake, path) == {"port_no": numbers, "Amount": "string"}
    assert types_of(fold, path) == {"portno": numbers, "Amount": "string"}


@pytest.mark.parametrize("fmt", FORMATS)
def test_two_headers_for_one_column_are_refused_with_both_names(tmp_path: Path, fmt: str) -> None:
    path = written(tmp_path, fmt, ("Amount", "n", "AMT"), ("x", "1", "y"))
    spec = spec_of(fmt, "Amount string; n string", ColumnRule("Amount", headers=("AMT",)))
    if fmt == "json":
        [bad] = read(spec, path).bad
        assert bad.reason == "has the keys 'Amount' and 'AMT', which both mean the column 'Amount'"
        assert types_of(spec, path) == {}, "a bad row says nothing of the types"
        return
    line = {"csv": ":1", "tsv": ":1", "excel": ":1"}.get(fmt, "")
    says = f"{path.name}{line}: the headers 'Amount' and 'AMT' both mean the column 'Amount'"
    for use in (read, types_of):
        with pytest.raises(SourceError) as caught:
            use(spec, path) if use is read else types_of(spec, path)
        assert caught.value.message == says
        assert caught.value.hint


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("policy", [Policy(), ADD, IGNORE], ids=["strict", "add", "ignore"])
def test_names_in_a_file_that_differ_only_in_case_are_refused(
    tmp_path: Path, fmt: str, policy: Policy
) -> None:
    path = written(tmp_path, fmt, ("port", "Port"), ("x", "y"))
    spec = spec_of(fmt, "port string", policy=policy)
    if fmt == "json":
        [bad] = read(spec, path).bad
        assert (
            bad.reason == "the key 'Port' is not in the schema (there is 'port', which differs only in case)"
        )
        return
    with pytest.raises(SourceError, match="the columns 'port' and 'Port' differ only in case, and Spark"):
        read(spec, path)
    fold = replace(spec, naming=Naming("fold"))
    with pytest.raises(SourceError, match="the headers 'port' and 'Port' both mean the column 'port'"):
        read(fold, path)


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_file_whose_names_differ_only_in_case_is_refused_with_the_way_out(tmp_path: Path, fmt: str) -> None:
    path = written(tmp_path, fmt, ("Port",), ("x",))
    spec = spec_of(fmt, "port string")
    if fmt == "json":
        for policy in (Policy(), IGNORE):
            assert "which differs only in case" in read(replace(spec, policy=policy), path).bad[0].reason
    else:
        with pytest.raises(
            SchemaDrift, match=r"column 'port' is missing .*'Port', which differs only in case"
        ) as caught:
            read(spec, path)
        assert caught.value.hint is not None
        assert "`names: fold`" in caught.value.hint
    assert read(replace(spec, naming=Naming("fold")), path).rows == [{"port": "x"}]


def test_files_whose_names_differ_only_in_case_have_no_schema_unless_they_are_folded(tmp_path: Path) -> None:
    for fmt in FORMATS:
        one = written(tmp_path, fmt, ("port",), ("x",), name="one")
        two = written(tmp_path, fmt, ("Port",), ("x",), name="two")
        with pytest.raises(
            SchemaDrift, match=r"'port' in one.* and 'Port' in two.* differ only in case"
        ) as caught:
            types_of(spec_of(fmt, "port string"), one, two)
        assert "`names: fold`" in str(caught.value.hint)
        assert types_of(spec_of(fmt, "port string", names="fold"), one, two) == {"port": "string"}


@pytest.mark.parametrize("fmt", ["csv", "tsv", "excel"])
def test_headers_that_would_be_one_column_are_renamed_where_asked(tmp_path: Path, fmt: str) -> None:
    path = written(tmp_path, fmt, ("a", "A", "a_2"), ("1", "2", "3"))
    exact = spec_of(fmt, "a string; A_3 string; a_2 string", duplicates="rename")
    assert read(exact, path).rows == [{"a": "1", "A_3": "2", "a_2": "3"}]
    fold = spec_of(fmt, "a string; a_2 string; a_3 string", names="fold", duplicates="rename")
    assert read(fold, path).rows == [{"a": "1", "a_2": "3", "a_3": "2"}]


NAMES = st.text(st.sampled_from("aAbB éÉ1_-"), min_size=1, max_size=5).filter(
    lambda name: name.strip() and snaked(name) != folded("")
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(NAMES, min_size=1, max_size=4, unique_by=snaked),
    st.sampled_from(["exact", "fold", "snake"]),
    st.sampled_from(["csv", "json", "parquet", "excel"]),
    st.data(),
)
def test_reading_by_other_names_is_reading_a_file_that_has_the_names(
    tmp_path: Path, headers: list[str], how: NamesPolicy, fmt: Any, data: st.DataObject
) -> None:
    aliases = {header: f"c{at}" for at, header in enumerate(headers) if data.draw(st.booleans())}
    rules = tuple(ColumnRule(name, headers=(header,)) for header, name in aliases.items())
    naming = Naming.of(how, rules)
    names = [naming.column_of(header) for header in headers]
    cells = st.one_of(st.none(), st.sampled_from(["1", "x", "-"]))
    rows = data.draw(st.lists(st.tuples(*[cells] * len(headers)), min_size=1, max_size=5))
    columns = columns_of("; ".join(f"{at} string" for at in range(len(names))))
    columns = tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))
    there = written(tmp_path, fmt, headers, *rows, name="there")
    renamed = written(tmp_path, fmt, names, *rows, name="renamed")
    spec = ReadSpec(fmt, {}, columns, naming=naming, rules=rules)
    one, other = read(spec, there), read(ReadSpec(fmt, {}, columns), renamed)
    assert (one.rows, [bad.reason for bad in one.bad]) == (other.rows, [bad.reason for bad in other.bad])
    assert types_of(spec, there) == types_of(ReadSpec(fmt, {}, columns), renamed)


def test_more_spellings_of_keys_than_are_learned_are_read_all_the_same(tmp_path: Path) -> None:
    spellings = [
        "".join(char.upper() if number >> at & 1 else char for at, char in enumerate("amountsold"))
        for number in range(1 << 10)
    ]
    lines = [f'{{"{name}":{at},"b":[{{"x":1}}]}}' for at, name in enumerate(spellings)]
    path = tmp_path / "a.json"
    path.write_text("\n".join(lines))
    spec = spec_of("json", "amountsold bigint; b array<struct<x:int>>", names="fold")
    seen = read(spec, path)
    assert seen.bad == []
    assert seen.table["amountsold"].to_pylist() == list(range(1 << 10))
    assert [row["b"] for row in seen.rows] == [[{"x": 1}]] * (1 << 10)


def test_keys_that_are_left_out_are_told_from_those_that_are_spelled_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"A":1,"x":2}\n{"a":2}\n{"\\"A\\"":3}\n{"a":{"b":1}}\n{"A":{"new":1,"B":5}}\n')
    spec = spec_of("json", "a string", names="fold", policy=IGNORE)
    seen = read(spec, path)
    assert [row["a"] for row in seen.rows] == ["1", "2", None, '{"b":1}', '{"new":1,"B":5}']
    nested = read(spec_of("json", "a struct<b:int>", names="fold", policy=IGNORE), path)
    assert [row["a"] for row in nested.rows] == [None, {"b": 1}, {"b": None}], "keys inside are as they are"
    strange = spec_of("json", 'a string; "q" string', names="fold")
    assert [bad.reason for bad in read(strange, path).bad] == [
        "the key 'x' is not in the schema",
        "the key '\"A\"' is not in the schema",
    ]
    exact = spec_of("json", 'a string; "q" string', policy=IGNORE)
    assert [bad.record for bad in read(exact, path).bad] == [1, 5], "A is not left out: it is too much like a"
    path.write_text('{"A":1,"\\"Q\\"":2}\n{"a":1,"A":2}\n')
    seen = read(strange, path)
    assert seen.rows == [{"a": "1", '"q"': "2"}]
    assert [bad.reason for bad in seen.bad] == ["has the keys 'a' and 'A', which both mean the column 'a'"]


@pytest.mark.parametrize("fmt", FORMATS)
def test_formats_and_nulls_of_a_column_are_its_own(tmp_path: Path, fmt: str) -> None:
    headers = ("day", "amount", "text")
    path = written(
        tmp_path, fmt, headers, ("31.12.2024", "1,5", "-"), ("2024-01-01", "n/a", "x"), ("-", "2", "n/a")
    )
    rules = (
        ColumnRule("day", "date", dates=("dd.MM.yyyy", "yyyy-MM-dd"), nulls=("-",)),
        ColumnRule("amount", "decimal(5,2)", decimal=",", nulls=("n/a",)),
        ColumnRule("text", "string", nulls=("-",)),
    )
    spec = spec_of(fmt, "day date; amount decimal(5,2); text string", *rules)
    seen = read(spec, path)
    assert [bad.reason for bad in seen.bad] == []
    assert seen.rows == [
        {"day": date(2024, 12, 31), "amount": Decimal("1.50"), "text": None},
        {"day": date(2024, 1, 1), "amount": None, "text": "x"},
        {"day": None, "amount": Decimal("2.00"), "text": "n/a"},
    ]
    texts = {"day": "string", "amount": "string", "text": "string"}
    known = texts if fmt in TYPED else {"day": "date", "amount": "double", "text": "string"}
    assert types_of(spec, path) == known


def test_what_a_column_says_replaces_what_the_table_says(tmp_path: Path) -> None:
    path = written(tmp_path, "csv", ("country", "code", "day"), ("NA", "NA", "01.02.2024"))
    rules = (ColumnRule("country", nulls=()), ColumnRule("day", dates=("dd.MM.yyyy",)))
    spec = spec_of("csv", "country string; code string; day date", *rules, null="NA", date_format="yyyy")
    assert read(spec, path).rows == [{"country": "NA", "code": None, "day": date(2024, 2, 1)}]


@pytest.mark.parametrize("fmt", ["csv", "json", "excel"])
def test_an_inferred_type_takes_what_a_look_with_the_same_rules_would_call_so(
    tmp_path: Path, fmt: str
) -> None:
    rules = (ColumnRule("a", dates=("dd.MM.yyyy",), decimal=","),)
    spec = spec_of(fmt, "a string", *rules)
    for text, kind in (("01.02.2024", "date"), ("1,5", "double"), ("7", "bigint"), ("007", "string")):
        path = written(tmp_path, fmt, ("a",), (text,))
        assert types_of(spec, path) == {"a": kind}
        for other in ("date", "double", "bigint"):
            inferred = spec_of(fmt, f"a {other}", *rules, inferred=True)
            takes = kind == other or (kind, other) == ("bigint", "double")
            assert (read(inferred, path).bad == []) == takes, (text, other)


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_default_stands_in_place_of_nulls_and_in_files_that_lack_the_column(
    tmp_path: Path, fmt: str
) -> None:
    path = written(tmp_path, fmt, ("a", "b"), ("1", None), ("2", "x"), ("-", "y"))
    rules = (
        ColumnRule("a", "bigint", nulls=("-",), default="0", decimal="."),
        ColumnRule("b", default="web"),
        ColumnRule("c", "date", dates=("dd.MM.yyyy",), default="01.02.2024"),
    )
    spec = spec_of(fmt, "a bigint; b string; c date", *rules)
    seen = read(spec, path)
    assert seen.bad == []
    assert [tuple(row.values()) for row in seen.rows] == [
        (1, "web", date(2024, 2, 1)),
        (2, "x", date(2024, 2, 1)),
        (0, "y", date(2024, 2, 1)),
    ]
    found = types_of(spec, path)
    assert "c" not in found, "a default says nothing of the file"


def test_a_default_says_nothing_of_the_values(tmp_path: Path) -> None:
    path = written(tmp_path, "csv", ("a", "b"), ("1", "x"), (None, "y"))
    assert types_of(spec_of("csv", "a bigint", ColumnRule("a", default="9.5")), path)["a"] == "bigint"


def test_a_date_in_a_format_of_the_columns_own_is_no_timestamp(tmp_path: Path) -> None:
    path = written(tmp_path, "csv", ("a",), ("2024-01-01",), ("2024-01-01 10:00",))
    assert types_of(spec_of("csv", "a string"), path) == {"a": "timestamp_ntz"}
    own = spec_of("csv", "a string", ColumnRule("a", dates=("yyyy-MM-dd",)))
    assert types_of(own, path) == {"a": "string"}


def test_a_default_takes_the_place_of_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n,\n"",""\nx,x\n')
    spec = spec_of("csv", "a bigint; b string", ColumnRule("a", default="5"), ColumnRule("b", default="-"))
    seen = read(spec, path)
    assert seen.rows == [{"a": 5, "b": "-"}, {"a": 5, "b": ""}]
    assert [bad.reason for bad in seen.bad] == ["'x' is not a bigint"]


def test_a_default_that_is_no_value_of_its_type_is_refused_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "csv", ("a",), ("1",))
    for default, nulls in (("x", ()), ("", ()), ("7", ("7",))):
        rule = ColumnRule("a", default=default, nulls=nulls, line=12)
        says = f"lading.yaml:12: the default {default!r} of column 'a' is not a bigint"
        with pytest.raises(ConfigError) as caught:
            read(spec_of("csv", "a bigint", rule), path)
        assert caught.value.message == says


def test_fixed_width_columns_have_formats_nulls_and_defaults(tmp_path: Path) -> None:
    layout = Layout((Field("a", 0, 3, "double"), Field("d", 3, 10, "date")))
    rules = (
        ColumnRule("a", decimal=",", default="9,5"),
        ColumnRule("d", dates=("dd.MM.yyyy",), nulls=("none",)),
    )
    path = tmp_path / "a.dat"
    path.write_text("1,501.02.2024\n   none      \nx  01.02.2024\n")
    policy = Policy(by_column=(("a", "quarantine"),))
    spec = ReadSpec("fixed_width", {}, columns_of("a double; d date"), policy, layout, rules=rules)
    seen = read(spec, path)
    assert seen.rows == [{"a": 1.5, "d": date(2024, 2, 1)}, {"a": 9.5, "d": None}]
    assert [(bad.column, bad.quarantine) for bad in seen.bad] == [("a", True)]


@pytest.mark.parametrize("fmt", ["csv", "tsv", "json", "excel"])
def test_misfits_are_marked_by_the_policy_of_their_column(tmp_path: Path, fmt: str) -> None:
    path = written(tmp_path, fmt, ("a", "b"), ("x", "1"), ("1", "y"), ("x", "y"), ("1", "2"))
    rules = (ColumnRule("a", decimal="."), ColumnRule("b", decimal="."))
    spec = spec_of(fmt, "a bigint; b bigint", *rules, policy=Policy(by_column=(("a", "quarantine"),)))
    seen = read(spec, path)
    assert [(bad.record, bad.column, bad.quarantine) for bad in seen.bad] == [
        (1, "a", True),
        (2, "b", False),
        (3, "b", False),  # which is also a misfit of a, but that of b stops a run
    ]
    whole = read(replace(spec, policy=ASIDE), path)
    assert [(bad.column, bad.quarantine) for bad in whole.bad] == [("a", True), ("b", True), ("a", True)]


def test_rows_that_are_bad_in_themselves_are_not_marked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1\n\xff,1\n1,2,3\n")
    assert [bad.quarantine for bad in read(spec_of("csv", "a bigint; b string", policy=ASIDE), path).bad] == [
        False
    ] * 3
    path = tmp_path / "a.json"
    path.write_text('{"a":1,"a":2}\n{"x":1}\n[]\n{"a":{"b":1}}\n{"a":"x"}\n')
    seen = read(spec_of("json", "a bigint", policy=ASIDE), path)
    assert [bad.quarantine for bad in seen.bad] == [False, False, False, True, True]


def test_an_error_in_a_cell_is_a_misfit_of_its_column(tmp_path: Path) -> None:
    path = written(tmp_path, "excel", ("a", "b"), ("=1/0", 1), (2, "x"), ("#DIV/0!", "x"))
    policy = Policy(by_column=(("a", "quarantine"),))
    seen = read(spec_of("excel", "a bigint; b bigint", policy=policy), path)
    assert [(bad.column, bad.quarantine) for bad in seen.bad] == [("a", True), ("b", False), ("b", False)]


@pytest.mark.parametrize("fmt", TYPED)
def test_a_column_of_another_type_is_read_by_its_texts_where_misfits_are_set_aside(
    tmp_path: Path, fmt: str
) -> None:
    path = written(tmp_path, fmt, ("a",), ("1",), ("x",), (None,))
    with pytest.raises(SchemaDrift, match="column 'a' is string, but the schema says bigint"):
        read(spec_of(fmt, "a bigint"), path)
    seen = read(spec_of(fmt, "a bigint", policy=ASIDE), path)
    assert seen.rows == [{"a": 1}, {"a": None}]
    assert [(bad.record, bad.reason, bad.quarantine) for bad in seen.bad] == [
        (2, "'x' is not a bigint", True)
    ]
    whole = written(tmp_path, fmt, ("a",), (True,), (None,), kind="boolean")
    seen = read(spec_of(fmt, "a array<int>", policy=ASIDE), whole)
    assert (seen.rows, len(seen.bad)) == ([{"a": None}], 1)
    numbers = written(tmp_path, fmt, ("a",), (1.5,), (2.0,), kind="double")
    seen = read(spec_of(fmt, "a double", policy=ASIDE), numbers)
    assert seen.rows == [{"a": 1.5}, {"a": 2.0}]


@pytest.mark.parametrize("fmt", TYPED)
def test_a_type_in_lading_yaml_reads_texts_of_files_that_have_types(tmp_path: Path, fmt: str) -> None:
    path = written(tmp_path, fmt, ("a",), ("1",), ("x",))
    seen = read(spec_of(fmt, "a bigint", ColumnRule("a", "bigint")), path)
    assert (seen.rows, [bad.quarantine for bad in seen.bad]) == ([{"a": 1}], [False])
    with pytest.raises(SchemaDrift):
        read(spec_of(fmt, "a array<int>", ColumnRule("a", "array<int>")), path)
