"""Invariant 4: pruning never loses a row. Every type, null, NaN, missing statistic; generated predicates.

The oracle evaluates predicates in plain Python, row by row, in three-valued logic; it shares no code
with the product and never sees an Arrow expression.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from lading.read.scan import scan

Truth = bool | None
Row = dict[str, Any]
Test = Callable[[Row], Truth]
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Sort:
    """One kind of column: its cells as Arrow takes them, as the oracle sees them, and literals for it."""

    type: pa.DataType
    cells: st.SearchStrategy[Any]
    seen: Callable[[Any], Any] = lambda cell: cell
    literals: st.SearchStrategy[tuple[str, Any]] | None = None  # (as text, as the oracle sees it)
    text: bool = False


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def integers(type: pa.DataType, low: int, high: int) -> Sort:
    near = st.sampled_from([low, low + 1, -1, 0, 1, 2, 5, high - 1, high]).filter(lambda n: low <= n <= high)
    cells = st.one_of(near, st.integers(max(low, -3), min(high, 3)), st.integers(low, high))
    whole = st.one_of(cells, st.sampled_from([low - 1, high + 1, -(2**70), 2**70]))
    broken = st.integers(-9, 9).map(lambda n: Decimal(n) / 2)
    literals = st.one_of(whole.map(lambda n: (str(n), n)), broken.map(lambda d: (str(d), Fraction(d))))
    return Sort(type, cells, literals=literals)


def floats(type: pa.DataType, width: Any, code: str) -> Sort:
    def rounded(number: float) -> float:
        return float(struct.unpack(code, struct.pack(code, number))[0])

    special = st.sampled_from([0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 2.0])
    cells = st.one_of(special, special, st.floats(width=width))
    fine = st.sampled_from([0.1, 0.3, -2.7, 1.0, 0.0, -0.0])
    numbers = st.one_of(fine, cells).filter(lambda x: not math.isnan(x))
    literals = numbers.map(lambda x: (f"'{x}'" if math.isinf(x) else repr(x), rounded(x)))
    return Sort(type, cells, literals=literals)


def decimals(type: pa.DataType) -> Sort:
    most = 10**type.precision - 1
    unscaled = st.one_of(st.integers(-300, 300), st.integers(-most, most), st.sampled_from([-most, most]))

    def value(number: int) -> Decimal:
        digits = tuple(int(digit) for digit in str(abs(number)))
        return Decimal((int(number < 0), digits, -type.scale))

    finer = st.integers(-4000, 4000).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -type.scale - 1))
    )
    literal = st.one_of(
        unscaled.map(value), finer, st.sampled_from([Decimal(10) ** 60, -(Decimal(10) ** 60)])
    )
    return Sort(type, unscaled.map(value), Fraction, literal.map(lambda d: (format(d, "f"), Fraction(d))))


def words(type: pa.DataType) -> Sort:
    short = st.text(st.sampled_from("aAbé'%_\\\n\U0010ffff\0"), max_size=3)
    endings = st.sampled_from(["", "a", "b", "é", "\U0010ffff"])
    long = st.one_of(
        endings.map(lambda end: "p" * 70 + end),
        endings.map(lambda end: "\U0010ffff" * 64 + end),
        endings.map(lambda end: "é" * 63 + "\ud7ff" + end),
        endings.map(lambda end: "q" * 63 + end),
    )
    cells = st.one_of(short, short, long)
    return Sort(type, cells, literals=cells.map(lambda s: (quoted(s), s)), text=True)


def octets(type: pa.DataType, fixed: int | None = None) -> Sort:
    short = st.lists(st.sampled_from([0, 1, 0x61, 0xFE, 0xFF]), max_size=3).map(bytes)
    long = st.sampled_from([b"", b"\xff", b"a"]).map(lambda end: b"\xff" * 64 + end)
    literal = st.one_of(short, long, long.map(lambda b: b"p" * 5 + b))
    cells = literal if fixed is None else st.binary(min_size=fixed, max_size=fixed)
    literals = st.one_of(cells, literal).map(lambda b: (f"x'{b.hex()}'", b))
    return Sort(type, cells, literals=literals)


def days(type: pa.DataType) -> Sort:
    cells = st.one_of(st.integers(-3, 3), st.integers(-50_000, 50_000))

    def literal(day: int, hour: int | None) -> tuple[str, Fraction]:
        text = (date(1970, 1, 1) + timedelta(days=day)).isoformat()
        text += "" if hour is None else f" {hour:02}:00"
        return quoted(text), day + Fraction(hour or 0, 24)

    def stored(day: int) -> date:
        return date(1970, 1, 1) + timedelta(days=day)

    literals = st.builds(literal, cells, st.sampled_from([None, None, 0, 12]))
    typed = literals.map(lambda pair: (("timestamp " if ":" in pair[0] else "date ") + pair[0], pair[1]))
    return Sort(
        type,
        cells.map(stored),
        lambda day: (day - date(1970, 1, 1)).days,
        st.one_of(literals, typed),
    )


def instants(type: pa.DataType) -> Sort:
    step = NANOSECONDS[type.unit]
    reach = min(2**62 // step, 10**11 * (10**9 // step)) if step > 1 else 2**62
    cells = st.one_of(st.integers(-3, 3), st.integers(-reach // 4, reach // 4))

    def literal(cell: int, extra: int, minutes: int | None) -> tuple[str, int]:
        whole, rest = divmod(cell * step + extra, 10**9)
        moment = datetime(1970, 1, 1) + timedelta(seconds=whole)
        text = moment.isoformat() + (f".{rest:09}" if rest else "")
        offset = 0
        if minutes is not None and type.tz:
            sign = "-" if minutes < 0 else "+"
            text += f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
            offset = minutes * 60 * 10**9
        return quoted(text), cell * step + extra - offset

    near = st.one_of(st.integers(-3, 3), st.integers(-(10**9), 10**9), cells)
    inside = near.filter(lambda n: abs(n * step) < 2 * 10**19)
    literals = st.builds(
        literal, inside, st.sampled_from([0, 0, 0, 1, 500_000]), st.sampled_from([None, 0, 90, -60])
    )
    return Sort(type, cells, lambda cell: cell * step, literals)


def clocks(type: pa.DataType) -> Sort:
    step = NANOSECONDS[type.unit]
    cells = st.one_of(st.integers(0, 3), st.integers(0, 86_400 * 10**9 // step - 1))

    def literal(cell: int, extra: int) -> tuple[str, int]:
        at = cell * step + extra
        seconds, rest = divmod(at, 10**9)
        return quoted(f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:09}"), at

    return Sort(type, cells, lambda cell: cell * step, st.builds(literal, cells, st.sampled_from([0, 0, 1])))


SORTS = {
    **{
        f"int{n}": integers(getattr(pa, f"int{n}")(), -(2 ** (n - 1)), 2 ** (n - 1) - 1)
        for n in (8, 16, 32, 64)
    },
    **{f"uint{n}": integers(getattr(pa, f"uint{n}")(), 0, 2**n - 1) for n in (8, 16, 32, 64)},
    "half": floats(pa.float16(), 16, "<e"),
    "float": floats(pa.float32(), 32, "<f"),
    "double": floats(pa.float64(), 64, "<d"),
    "decimal(9,2)": decimals(pa.decimal128(9, 2)),
    "decimal(38,10)": decimals(pa.decimal128(38, 10)),
    "decimal256": decimals(pa.decimal256(50, 3)),
    "string": words(pa.string()),
    "large_string": words(pa.large_string()),
    "dictionary": words(pa.dictionary(pa.int32(), pa.string())),
    "binary": octets(pa.binary()),
    "fixed binary": octets(pa.binary(2), 2),
    "bool": Sort(pa.bool_(), st.booleans(), literals=st.booleans().map(lambda b: (str(b).lower(), b))),
    "date32": days(pa.date32()),
    "date64": days(pa.date64()),
    **{f"timestamp {unit}": instants(pa.timestamp(unit)) for unit in NANOSECONDS},
    **{f"timestamp {unit} zone": instants(pa.timestamp(unit, "Europe/Paris")) for unit in NANOSECONDS},
    "time32 s": clocks(pa.time32("s")),
    "time32 ms": clocks(pa.time32("ms")),
    "time64 us": clocks(pa.time64("us")),
    "time64 ns": clocks(pa.time64("ns")),
    "duration": Sort(pa.duration("us"), st.integers(-5, 5)),
    "list": Sort(pa.list_(pa.int64()), st.lists(st.integers(-5, 5), max_size=2)),
    "struct": Sort(pa.struct([("a", pa.int64()), ("b", pa.string())]), st.just({"a": 1, "b": "x"})),
}


def truth_of(op: str, left: Any, right: Any) -> Truth:
    if left is None:
        return None
    if isinstance(left, float) and math.isnan(left):
        return op == "!="
    results: dict[str, Callable[[], bool]] = {
        "=": lambda: left == right,
        "!=": lambda: left != right,
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: left > right,
        ">=": lambda: left >= right,
    }
    return results[op]()


def both(one: Truth, two: Truth) -> Truth:
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def negated(one: Truth) -> Truth:
    return None if one is None else not one


def either(one: Truth, two: Truth) -> Truth:
    return negated(both(negated(one), negated(two)))


def like(text: str, pattern: Sequence[tuple[str, str]]) -> bool:
    """Pattern as (kind, character) pairs: kind is "any", "one" or "is"."""
    if not pattern:
        return text == ""
    kind, character = pattern[0]
    if kind == "any":
        return any(like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    return text != "" and (kind == "one" or text[0] == character) and like(text[1:], pattern[1:])


@st.composite
def patterns(draw: st.DrawFn, cells: st.SearchStrategy[str]) -> tuple[str, list[tuple[str, str]]]:
    word = draw(cells)
    start = word[: draw(st.integers(0, len(word)))]
    tail = draw(st.sampled_from(["", "%", "%", "%%", "_", "_%", "%a", "%b%"]))
    wild = {"%": ("any", ""), "_": ("one", "")}
    pieces = [("is", character) for character in start] + [wild.get(c, ("is", c)) for c in tail]
    escaped = "".join(f"\\{c}" if c in "%_\\" else c for c in start)
    return escaped + tail, pieces


@st.composite
def leaves(draw: st.DrawFn, sorts: dict[str, Sort]) -> tuple[str, Test]:
    column = draw(st.sampled_from(sorted(sorts)))
    sort = sorts[column]
    forms = ["null", "not null"]
    if sort.literals is not None:
        forms += ["compare"] * 5 + ["flipped", "in", "many", "not in", "between"]
    if sort.text:
        forms += ["like", "like", "not like"]
    form = draw(st.sampled_from(forms))
    if form in ("null", "not null"):
        wants_null = form == "null"
        return f"{column} is {form}", lambda row: (row[column] is None) == wants_null
    if form in ("like", "not like"):
        text, pieces = draw(patterns(sort.cells))

        def matches(row: Row) -> Truth:
            found = None if row[column] is None else like(row[column], pieces)
            return found if form == "like" else negated(found)

        return f"{column} {form} {quoted(text)}", matches
    assert sort.literals is not None
    if form == "compare":
        op = draw(st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="]))
        text, value = draw(sort.literals)
        plain = "!=" if op == "<>" else op
        return f'"{column}" {op} {text}', lambda row: truth_of(plain, row[column], value)
    if form == "flipped":
        text, value = draw(sort.literals)
        return f"{text} < `{column}`", lambda row: truth_of(">", row[column], value)
    if form == "between":
        (low, a), (high, b) = draw(sort.literals), draw(sort.literals)
        return f"{column} BETWEEN {low} AND {high}", lambda row: both(
            truth_of(">=", row[column], a), truth_of("<=", row[column], b)
        )
    size = (20, 24) if form == "many" else (1, 3)
    listed = draw(st.lists(sort.literals, min_size=size[0], max_size=size[1]))

    def inside(row: Row) -> Truth:
        if row[column] is None:
            return None
        return any(truth_of("=", row[column], value) for _, value in listed)

    def outside(row: Row) -> Truth:
        return negated(inside(row))

    word = "not in" if form == "not in" else "in"
    text = ", ".join(text for text, _ in listed)
    return f"{column} {word} ({text})", outside if word == "not in" else inside


def predicates(sorts: dict[str, Sort]) -> st.SearchStrategy[tuple[str, Test]]:
    def wider(inner: st.SearchStrategy[tuple[str, Test]]) -> st.SearchStrategy[tuple[str, Test]]:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            inner.map(lambda p: (f"not ({p[0]})", lambda row: negated(p[1](row)))),
            pairs.map(
                lambda p: (f"({p[0][0]}) and ({p[1][0]})", lambda row: both(p[0][1](row), p[1][1](row)))
            ),
            pairs.map(
                lambda p: (f"({p[0][0]}) OR ({p[1][0]})", lambda row: either(p[0][1](row), p[1][1](row)))
            ),
        )

    return st.recursive(leaves(sorts), wider, max_leaves=5)


@dataclass(frozen=True)
class Case:
    schema: pa.Schema
    parts: list[pa.Table]
    minus: list[tuple[int, ...]]
    rows: list[Row]  # as the oracle sees them, `minus` taken away
    where: str
    test: Test
    zones: str
    parquet: dict[str, Any]


@st.composite
def part_rows(draw: st.DrawFn, sorts: dict[str, Sort]) -> list[Row]:
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        row = {
            name: draw(st.one_of(st.none(), s.cells, s.cells, s.cells, s.cells)) for name, s in sorts.items()
        }
        rows.append(row | {"_source": draw(st.sampled_from([-7, 11, 2**62]))})
    return rows


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = draw(st.lists(st.sampled_from(sorted(SORTS)), min_size=1, max_size=3))
    sorts = {f"c{at}": SORTS[kind] for at, kind in enumerate(kinds)}
    schema = pa.schema(
        [(name, sort.type) for name, sort in sorts.items()] + [("_source", pa.int64()), ("row", pa.int64())]
    )
    parts, minus, seen = [], [], []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(part_rows(sorts))
        older = draw(st.sampled_from([None, None, None, *sorts]))
        gone = tuple(sorted(draw(st.sampled_from([(), (), (11,), (-7, 2**62)]))))
        fields = [field for field in schema if field.name != older]
        for row in rows:
            row["row"] = number
            number += 1
            if row["_source"] not in gone:
                cells = {
                    n: None if n == older or row[n] is None else s.seen(row[n]) for n, s in sorts.items()
                }
                seen.append(cells | {"row": row["row"]})
        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in fields]
        parts.append(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
        minus.append(gone)
    where, test = draw(predicates(sorts))
    parquet = {
        "row_group_size": draw(st.sampled_from([1, 2, 3, 100])),
        "write_statistics": draw(st.sampled_from([True, True, True, False, ["c0"]])),
        "use_dictionary": draw(st.booleans()),
    }
    zones = draw(st.sampled_from(["exact", "exact", "footer", "none"]))
    event(f"zones {zones}")
    return Case(schema, parts, minus, seen, where, test, zones, parquet)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(case=cases(), limit=st.sampled_from([None, None, None, 0, 1, 3]))
def test_a_pruned_scan_returns_what_a_full_scan_filtered_afterwards_returns(
    make_table: Callable[..., Any], case: Case, limit: int | None
) -> None:
    table = make_table(case.schema, case.parts, zones=case.zones, minus=case.minus, **case.parquet)
    wanted = [row["row"] for row in case.rows if case.test(row) is True]

    found = scan(table, where=case.where, columns=["row"], limit=limit)

    assert found.to_table()["row"].to_pylist() == wanted[:limit]
    assert found.rows == len(wanted[:limit])
    if case.zones != "none":
        event("pruned a file" if found.files_scanned < found.files_total else "pruned none")


@pytest.mark.parametrize("kind", sorted(SORTS))
def test_every_type_survives_its_own_predicates(make_table: Callable[..., Any], kind: str) -> None:
    sorts = {"c0": SORTS[kind]}

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        groups = [data.draw(part_rows(sorts)) for _ in range(2)]
        schema = pa.schema([("c0", SORTS[kind].type), ("row", pa.int64())])
        rows = [row | {"row": at} for at, row in enumerate(row for group in groups for row in group)]
        parts, start = [], 0
        for group in groups:
            part = rows[start : start + len(group)]
            start += len(group)
            arrays = [pa.array([row[field.name] for row in part], field.type) for field in schema]
            parts.append(pa.Table.from_arrays(arrays, schema=schema))
        where, test = data.draw(predicates(sorts))
        seen = [row | {"c0": None if row["c0"] is None else SORTS[kind].seen(row["c0"])} for row in rows]
        wanted = [row["row"] for row in seen if test(row) is True]
        table = make_table(schema, parts, zones="exact", row_group_size=2)
        assert scan(table, where=where).to_table()["row"].to_pylist() == wanted

    check()
