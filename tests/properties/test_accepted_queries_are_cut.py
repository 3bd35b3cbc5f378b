"""Whatever query is accepted can be cut: evaluated over some of the slots, it gives the rows that it gives
for them as a whole.

Queries are made at random, by one who knows nothing of slots, so that a good part of them can't be cut. Each
value of `port` is a slot of its own here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from support.machines import SEED, SOAK
from support.queries import columns_cut_by

from lading.errors import LadingError
from lading.spark.determinism import nondeterministic

TABLES = {
    "voyages": [("port", "string"), ("month", "int"), ("tonnes", "bigint"), ("flag", "string")],
    "ports": [("port", "string"), ("order id", "string"), ("size", "int")],
    "flags": [("flag", "string"), ("name", "string")],
}
PORTS = ["hh", "ro", "(si", "a, b", None]
FLAGS = ["de", "nl", "hh", ")", None]
ODD = ["order id", "a (b", "c] d", "sum(n)", "x, y", "p#1"]
QUERIES = 60 if not SOAK else 6_000
PORTIONS = 2 if not SOAK else 40

Relation = tuple[str, list[tuple[str, str]]]  # a query, and its columns


class Maker:
    """Makes queries, and the rows that they are asked of."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names = 0
        self.whole = {"flags"} | ({"ports"} if self.chance.random() < 0.3 else set())

    def query(self) -> str:
        sql, columns = self.relation(self.chance.choice([1, 2, 2, 3]))
        self.chance.shuffle(columns)
        outer = ", ".join(quoted(name) for name, _ in columns)
        return sql if self.chance.random() < 0.5 else f"select {outer} from ({sql})"

    def relation(self, depth: int) -> Relation:
        if depth == 0:
            name = self.chance.choices([*TABLES], [5, 3, 1])[0]
            return f"select * from {name}", list(TABLES[name])
        steps: list[Callable[[int], Relation]] = [
            self.project, self.filter, self.aggregate, self.window, self.distinct, self.lateral, self.explode,
            self.rollup, self.join, self.join, self.listed, self.union, self.shared, self.limit,
        ]  # fmt: skip
        weights = [4, 4, 4, 4, 1, 1, 1, 1, 4, 4, 2, 3, 2, 0.3]
        return self.chance.choices(steps, weights)[0](depth - 1)

    # Steps.

    def project(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        kept = self.some(columns)
        items, out = [quoted(name) for name, _ in kept], list(kept)
        for _ in range(self.chance.randrange(2)):
            expression, dtype = self.expression(columns)
            name = self.name(out, like=[one for one, _ in columns])
            items.append(f"{expression} as {quoted(name)}")
            out.append((name, dtype))
        return f"select {', '.join(items)} from ({sql})", out

    def filter(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        return f"select * from ({sql}) where {self.condition(columns)}", columns

    def aggregate(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        groups = self.some(columns, none=0.1)
        made, dtype = self.measure(columns)
        name = self.name(groups)
        items = [*(quoted(one) for one, _ in groups), f"{made} as {quoted(name)}"]
        by = f" group by {', '.join(quoted(one) for one, _ in groups)}" if groups else ""
        return f"select {', '.join(items)} from ({sql}){by}", [*groups, (name, dtype)]

    def rollup(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        first, second = (quoted(self.chance.choice(columns)[0]) for _ in range(2))
        kind = self.chance.choice([f"{first}, rollup({second})", f"cube({first}, {second})"])
        kind = kind if first != second else first
        out = [(one, dtype) for one, dtype in columns if quoted(one) in (first, second)]
        name = self.name(out)
        items = [*(quoted(one) for one, _ in out), f"count(*) as {quoted(name)}"]
        return f"select {', '.join(items)} from ({sql}) group by {kind}", [*out, (name, "bigint")]

    def window(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        parts = self.some(columns, none=0.15)
        by = f"partition by {', '.join(quoted(one) for one, _ in parts)}" if parts else ""
        order = f"order by {quoted(self.chance.choice(columns)[0])}"
        made, dtype = self.measure(columns)
        over = self.chance.choice([f"{made} over ({by})", f"rank() over ({by} {order})"])
        name = self.name(columns)
        alias = f" as {quoted(name)}"
        return f"select *, {over}{alias} from ({sql})", [
            *columns,
            (name, dtype if "rank" not in over else "int"),
        ]

    def distinct(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        kept = self.some(columns)
        return f"select distinct {', '.join(quoted(one) for one, _ in kept)} from ({sql})", kept

    def limit(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        return f"select * from ({sql}) limit {self.chance.randrange(1, 4)}", columns

    def lateral(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        expression, dtype = self.expression(columns)
        name = self.name(columns)
        return f"select * from ({sql}), lateral (select {expression} as {quoted(name)})", [
            *columns,
            (name, dtype),
        ]

    def explode(self, depth: int) -> Relation:
        sql, columns = self.relation(depth)
        name = self.name(columns, odd=False)
        return f"select * from ({sql}) lateral view explode(array(1, 2)) e as {name}", [
            *columns,
            (name, "int"),
        ]

    def join(self, depth: int) -> Relation:
        (one, left), (other, right) = self.relation(depth), self.relation(self.chance.randrange(depth + 1))
        how = self.chance.choice(
            ["join", "left join", "right join", "full join", "left semi join", "left anti join"]
        )
        kept, names = self.sides(left, right if "semi" not in how and "anti" not in how else [])
        return (
            f"select {', '.join(kept)} from ({one}) l {how} ({other}) r on {self.meeting(left, right)}",
            names,
        )

    def listed(self, depth: int) -> Relation:
        """A join as it was written before there were joins."""
        (one, left), (other, right) = self.relation(depth), self.relation(0)
        kept, names = self.sides(left, right)
        return (
            f"select {', '.join(kept)} from ({one}) l, ({other}) r where {self.meeting(left, right)}",
            names,
        )

    def shared(self, depth: int) -> Relation:
        """A common table expression, joined with itself."""
        sql, columns = self.relation(depth)
        kept, names = self.sides(columns, columns)
        table = f"t{self.number()}"
        where = self.meeting(columns, columns)
        return (
            f"with {table} as ({sql}) select {', '.join(kept)} from {table} l join {table} r on {where}",
            names,
        )

    def union(self, depth: int) -> Relation:
        (one, left), (other, right) = self.relation(depth), self.relation(self.chance.randrange(depth + 1))
        texts = [[name for name, dtype in side if dtype == "string"] for side in (left, right)]
        width = min(map(len, texts))
        if not width:
            return one, left
        for side in texts:
            if self.chance.random() < 0.4:
                self.chance.shuffle(side)
        kind = self.chance.choice(
            ["union all", "union", "except", "intersect", "except all", "intersect all"]
        )
        both = [", ".join(quoted(name) for name in side[:width]) for side in texts]
        sql = f"select {both[0]} from ({one}) {kind} select {both[1]} from ({other})"
        return sql, [(name, "string") for name in texts[0][:width]]

    # What steps are made of.

    def sides(
        self, left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]]
    ) -> tuple[list[str], list]:
        items, out = [], []
        for alias, columns in (("l", left), ("r", right)):
            for name, dtype in columns:
                if name in [one for one, _ in out]:
                    if self.chance.random() < 0.6:
                        continue
                    fresh = self.name(out)
                    items.append(f"{alias}.{quoted(name)} as {quoted(fresh)}")
                    out.append((fresh, dtype))
                elif alias == "l" and right and name == "port" and self.chance.random() < 0.2:
                    continue  # then it may come from the right
                else:
                    items.append(f"{alias}.{quoted(name)}")
                    out.append((name, dtype))
        return (items, out) if items else (["1 as one"], [("one", "int")])

    def meeting(self, left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]]) -> str:
        """What the rows of two sides have in common."""
        names = [{name for name, _ in side} for side in (left, right)]
        both = [f"l.{quoted(one)} = r.{quoted(one)}" for one in sorted(names[0] & names[1])]
        texts = [[name for name, dtype in side if dtype == "string"] for side in (left, right)]
        found = ["l.port = r.port"] if "l.port = r.port" in both and self.chance.random() < 0.7 else []
        if both and self.chance.random() < 0.4:
            found.append(self.chance.choice(both))
        if all(texts) and self.chance.random() < 0.3:
            found.append(
                f"l.{quoted(self.chance.choice(texts[0]))} = r.{quoted(self.chance.choice(texts[1]))}"
            )
        return f" {self.chance.choice(['and', 'and', 'and', 'or'])} ".join(found) or "true"

    def condition(self, columns: Sequence[tuple[str, str]]) -> str:
        name, dtype = self.chance.choice(list(columns))
        column = quoted(name)
        if dtype != "string":
            return self.chance.choice([f"{column} > 2", f"{column} > (select count(*) from flags)"])
        return self.chance.choice(
            [
                f"{column} <> '('", f"{column} in ('hh', 'de', ')')", f"{column} in (select flag from flags)",
                f"{column} not in (select name from flags where name is not null)", f"{column} is null",
                f"exists (select 1 from ports p where p.port = {column})",
                f"concat({column}, '[') <> 'x, y' and {column} > ''",
            ]
        )  # fmt: skip

    def expression(self, columns: Sequence[tuple[str, str]]) -> tuple[str, str]:
        name, dtype = self.chance.choice(list(columns))
        column = quoted(name)
        if dtype != "string":
            return self.chance.choice([f"{column} + 1", f"-{column}", column]), dtype
        texts = [column, f"upper({column})", f"split_part({column}, '(', 1)", f"concat({column}, ', ', ')')"]
        texts += [f"coalesce({column}, 'hh')", "', '", "'#1'"]
        return self.chance.choice(texts), "string"

    def measure(self, columns: Sequence[tuple[str, str]]) -> tuple[str, str]:
        name, dtype = self.chance.choice(list(columns))
        if dtype == "string":
            return self.chance.choice([f"max({quoted(name)})", f"min({quoted(name)})"]), "string"
        return self.chance.choice([f"sum({quoted(name)})", "count(*)", f"count({quoted(name)})"]), "bigint"

    def some(self, columns: Sequence[tuple[str, str]], none: float = 0.0) -> list[tuple[str, str]]:
        """Some of the columns; `port` more often than others."""
        if self.chance.random() < none:
            return []
        kept = [one for one in columns if self.chance.random() < (0.85 if one[0] == "port" else 0.5)]
        return kept or [self.chance.choice(list(columns))]

    def name(self, taken: Sequence[tuple[str, str]], like: Sequence[str] = (), odd: bool = True) -> str:
        names = {name.lower() for name, _ in taken}
        wished = [one for one in (*like, *(ODD if odd else ())) if one not in names]
        if wished and self.chance.random() < 0.4:
            return self.chance.choice(wished)
        return f"c{self.number()}"

    def number(self) -> int:
        self.names += 1
        return self.names

    # Rows.

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        draw = {
            "port": lambda: self.chance.choice(PORTS),
            "flag": lambda: self.chance.choice(FLAGS),
            "name": lambda: self.chance.choice([*FLAGS, *PORTS]),
            "order id": lambda: self.chance.choice(FLAGS),
        }
        columns = TABLES[table]
        number = self.chance.randrange(9, 14) if table != "flags" else 4
        return [
            tuple(draw.get(name, lambda: self.chance.randrange(4))() for name, _ in columns)
            for _ in range(number)
        ]


def quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


class Asked:
    """One query, asked of views."""

    def __init__(self, spark: Any, seed: int) -> None:
        self.spark = spark
        self.made = Maker(seed)
        self.sql = self.made.query()
        self.data = {name: self.made.rows(name) for name in TABLES}
        self.by = {name: () if name in self.made.whole else ("port",) for name in TABLES}

    def accepted(self) -> bool | None:
        """None if it is no query at all."""
        self._show(PORTS)
        try:
            rows = self.spark.sql(self.sql)
        except AnalysisException:
            return None
        if len(set(rows.columns)) < len(rows.columns) or nondeterministic(rows):
            return None
        try:
            return columns_cut_by(self.spark, rows, self.sql, TABLES, self.by) == ("port",)
        except LadingError:
            return False

    def found(self, ports: Sequence[str | None], of: Sequence[str | None]) -> Counter[tuple[Any, ...]]:
        """The rows in the slots `of`, if only those of `ports` are there."""
        self._show(ports)
        rows = [tuple(row.asDict().items()) for row in self.spark.sql(self.sql).collect()]
        return Counter(row for row in rows if dict(row)["port"] in of)

    def _show(self, ports: Sequence[str | None]) -> None:
        for name, columns in TABLES.items():
            rows = self.data[name]
            if self.by[name]:
                rows = [row for row in rows if row[0] in ports]
            ddl = ", ".join(f"`{column}` {dtype}" for column, dtype in columns)
            self.spark.createDataFrame(rows, ddl).createOrReplaceTempView(name)


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_what_is_accepted_gives_slot_by_slot_what_it_gives_as_a_whole(spark, portion):
    asked: Counter[bool | None] = Counter()
    for number in range(QUERIES // PORTIONS):
        seed = SEED + portion * QUERIES + number
        one = Asked(spark, seed)
        accepted = one.accepted()
        asked[accepted] += 1
        if accepted:
            some = random.Random(seed).sample(PORTS, 2)
            assert one.found(some, some) == one.found(PORTS, some), f"LADING_SEED={seed}: {one.sql}"
    for name in TABLES:
        spark.catalog.dropTempView(name)
    assert asked[None] < sum(asked.values()) / 5 and asked[True] > sum(asked.values()) / 20, asked
