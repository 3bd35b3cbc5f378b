"""Checks on rows mean the same to Arrow (checks/rows.py) and to Spark: on generated rows, regular expressions
and moments."""

from __future__ import annotations

import random
import re
import warnings
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lading.spark.row_checks import failed_checks
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.checks.java_patterns import re2_of_java
from lading.checks.moments import days_of, micros_of
from lading.checks.rows import RowChecks
from lading.model import Check
from lading.spark.arrow_types import arrow_schema
from lading.spark.sql_checks import spark_bits

PICK = random.Random(20)
ROWS = 300
NUMBERS = [
    "0",
    "1",
    "-1",
    "0.5",
    "1e300",
    "-1e300",
    "127",
    "128",
    "9223372036854775807",
    "1e19",
    "0.1",
    "2.50",
]
FLOATS = [*NUMBERS, "NaN", "Infinity", "-Infinity", "-0.0", "3.4028235e38", "3.5e38", "1e-50"]
MOMENTS = [
    "2024",
    "2024-1-5",
    "1969-12-31 23:59:59.999999",
    "2024-01-05 10:00:00+02:00",
    "epoch",
    "9999-12-31",
]
TEXTS = ["", "a", "B", "é", "\uffff", "\U00010000", "a\n", "10", "9", "oslo"]
PATTERNS = [
    ".*",
    "[a-z]*",
    "-?[0-9]+",
    r"(?i)[A-P]+",
    r"\S+",
    r"\d{4}-\d\d-\d\d",
    r".$",
    "true|a",
    r"[^.]*\.\d+",
    "(?!1).*",
]

EDGES = [0.0, -0.0, 0.1, 0.5, 1.0, np.inf, -np.inf, np.nan]
TYPES: dict[str, tuple[str, Any, list[str]]] = {
    "i8": ("tinyint", lambda: PICK.choice([0, 1, -1, 127, -128]), NUMBERS),
    "i16": ("smallint", lambda: PICK.choice([0, 1, 127, 128, -32768]), NUMBERS),
    "i32": ("int", lambda: PICK.choice([0, 1, 127, 128, 2**31 - 1]), NUMBERS),
    "i64": ("bigint", lambda: PICK.choice([0, 1, -1, 127, 2**63 - 1, -(2**63), 10]), NUMBERS),
    "f32": ("float", lambda: PICK.choice([*EDGES, 3.4028234e38]), FLOATS),
    "f64": ("double", lambda: PICK.choice([*EDGES, 1e300, 1e-50]), FLOATS),
    "dec": ("decimal(9,2)", lambda: Decimal(PICK.randrange(-200, 300)) / 100, NUMBERS),
    "wide": ("decimal(38,18)", lambda: Decimal(PICK.choice(["0", "1e-18", "-0.5", "2.5"])), NUMBERS),
    "text": ("string", lambda: PICK.choice(TEXTS), TEXTS),
    "flag": ("boolean", lambda: PICK.random() < 0.5, ["true", "FALSE"]),
    "day": ("date", lambda: date(2024, 1, 1) + timedelta(PICK.randrange(10)), MOMENTS),
    "at": ("timestamp_ntz", lambda: datetime(2024, 1, 5) + timedelta(hours=PICK.randrange(-20, 20)), MOMENTS),
    "zoned": ("timestamp", lambda: datetime(2024, 1, 5) + timedelta(hours=PICK.randrange(-20, 20)), MOMENTS),
    "list": ("array<int>", lambda: [PICK.randrange(3)], []),
    "raw": ("binary", lambda: PICK.choice([b"", b"a", b"10"]), []),
}  # fmt: skip


class Job:
    """As much of a job as the checks look at."""

    def __init__(self, checks: list[Check]) -> None:
        self.checks = self.row_checks = tuple(checks)
        self.table = "t"


def generated() -> list[Check]:
    checks = [Check("sql", "sql", "k", 1, text="i32 > 1 or text is null")]

    def add(kind: str, name: str, **fields: Any) -> None:
        checks.append(Check(kind, f"{len(checks)}", "k", 1, columns=(name,), **fields))

    for name, (_, _, literals) in TYPES.items():
        add("not_null", name)
        for text in PATTERNS:
            add("pattern", name, text=text)
        for text in literals:
            add("range", name, least=text)
            add("range", name, most=text)
            add("values", name, values=(text, PICK.choice(literals)))
        if literals:
            add("values", name, values=tuple(literals) * 2)
            add("range", name, least=PICK.choice(literals), most=PICK.choice(literals))
    return checks


def test_rows_of_every_type_fail_the_same_checks(spark: SparkSession) -> None:
    rows = [
        tuple(None if PICK.random() < 0.1 else make() for _, make, _ in TYPES.values()) for _ in range(ROWS)
    ]
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    frame = spark.createDataFrame(rows, ddl).coalesce(1).cache()
    schema = arrow_schema(frame.schema)
    table = frame.toArrow().cast(schema)
    everything = generated()
    for start in range(0, len(everything), 60):
        some = everything[start : start + 60]
        old = failed_checks(spark, frame, Job(some))  # type: ignore[arg-type]
        new = RowChecks(tuple(some), schema, "t")
        extra = spark_bits(spark, frame, new.needs_spark, "t")
        found = frame.select(
            old.alias("old"), (F.lit(0).cast("bigint") if extra is None else extra).alias("extra")
        ).toArrow()
        want = found.column("old").to_numpy().astype(np.uint64)
        have = new.failed(table, found.column("extra") if extra is not None else None)
        for number, one in enumerate(some):
            differ = np.flatnonzero((want ^ have) & np.uint64(1 << number))
            shown = [rows[row] for row in differ[:3]]
            assert not len(differ), (one, number in new.needs_spark, shown)


PIECES = [
    "a", "b", "K", "k", "s", "\xe9", "\xc9", "\u017f", "\u212a", "\n", "\r", "\x85", "\u2028", "0", "_",
    " ", "\x0b", "-", "&", "&&", ".", "^", "$", "|", "(", ")", "(?:", "(?i:", "(?s:", "(?i)", "(?s)",
    "(?m)", "(?x)", "(?-i:", "(?i-s:", "(?=", "(?!", "[", "[^", "]", "[a-k]", "[^a-k]", "[A-Z&&K]",
    "[\\w-]", "[-a]", "a-k", "*", "+", "?", "{2}", "{1,}", "{0,2}", "{,2}", "{", "}", "*?", "*+", "++",
    "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\b", "\\B", "\\A", "\\Z", "\\1", "\\.", "\\n", "\\t",
    "\\x41", "\\u00e9", "\\-", "\\]", "\\[", "\\\\", "\\v", "\\a", "\\f", "\\0", "\\_", "(?P<x>", "(?#",
    "\\ud800", "~", "#", "<", ":",
]  # fmt: skip
LETTERS = "aabkKsSéÉ\u017f\u212a\n\r\u0085\u2028\u2029\x0b\x1c 0_-&^$.]\t\U0001f600\u0301A\\"


def test_regular_expressions_mean_the_same_to_re2_and_java(spark: SparkSession) -> None:
    texts = sorted(
        {"".join(PICK.choices(LETTERS, k=size)) for size in (0, 1, 1, 2, 2, 3, 4) for _ in range(40)}
    )
    found = {}
    while len(found) < 1500:
        pattern = "".join(PICK.choices(PIECES, k=PICK.randrange(1, 7)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(pattern)
        except re.error:
            continue
        written = re2_of_java(pattern)
        if written is not None:
            found[pattern] = written
    frame = spark.createDataFrame([(text,) for text in texts], "x string").coalesce(1).cache()
    column = pa.array(frame.toArrow().column("x").to_pylist())
    patterns = list(found)
    for start in range(0, len(patterns), 250):
        some = patterns[start : start + 250]
        matches = [F.col("x").rlike(rf"\A(?:{one})\z").alias(f"p{n}") for n, one in enumerate(some)]
        java = frame.select(*matches).toArrow()
        for number, one in enumerate(some):
            have = pc.match_substring_regex(column, pattern=found[one]).to_pylist()
            want = java.column(number).to_pylist()
            wrong = [text for text, h, w in zip(column.to_pylist(), have, want, strict=True) if h != w]
            assert not wrong, (one, found[one], wrong[:3])


def test_moments_are_read_as_spark_reads_them(spark: SparkSession) -> None:
    parts = [
        "2024",
        "-0044",
        "12345",
        "1234567",
        "-1",
        "-01",
        "-02-30",
        " ",
        "T",
        "10",
        ":0",
        ":00",
        ":59.5",
        ".",
    ]
    parts += ["Z", "+02:00", "-2", " UTC+1", " Europe/Oslo", "+0130", "x", "\t", "24"]
    texts = sorted({"".join(PICK.choices(parts, k=PICK.randrange(1, 7))) for _ in range(1500)})
    texts += [
        f"2024-{PICK.randrange(1, 14)}-{PICK.randrange(1, 32)}{more}" for more in ("", "T1:2:3.25 Z") * 200
    ]
    texts = [text for text in texts if not re.match(r"\s*(T\d|\d+:)", text)]  # a time of today
    frame = spark.createDataFrame([(text,) for text in texts], "x string").select(
        F.unix_date(F.col("x").try_cast("date")),
        F.unix_micros(F.col("x").try_cast("timestamp")),
        F.unix_micros(F.col("x").try_cast("timestamp_ntz").cast("timestamp")),
    )
    for text, row in zip(texts, frame.collect(), strict=True):
        assert (days_of(text), micros_of(text, zoned=True), micros_of(text, zoned=False)) == tuple(row), text
