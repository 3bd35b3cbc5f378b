"""Counts the rows that don't fit and keeps a sample of them, while the data is read for the first time.

An observation rides along with the job: nothing is read twice and nothing is collected. Spark may
optimise the observed part of a plan away (a transform that keeps nothing, a join with an empty side),
and then there is no observation; only in that case is the question asked by a job of its own.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.layout.table import SOURCE

_PATIENCE = 60.0  # seconds that the figures of a finished job may take to arrive


@dataclass(frozen=True, slots=True)
class Seen:
    """How many bad rows there were, a few of them as (source id, text), and the sources of all, if they
    were asked for."""

    count: int
    sample: tuple[tuple[int, str], ...]
    sources: frozenset[int] = frozenset()


class BadRowProbe:
    """Watches a frame for rows that are `bad`, by default those whose `text` is not null, and lets the
    others pass. `text` is asked of bad rows only."""

    def __init__(
        self, frame: DataFrame, text: Column, bad: Column | None = None, *, sources: bool = False
    ) -> None:
        bad = text.isNotNull() if bad is None else bad
        row = F.when(bad, F.struct(F.col(SOURCE).alias("source"), text.alias("text")))
        self._figures = [
            F.count_if(bad).alias("rows"),
            F.min(row).alias("least"),
            F.max(row).alias("most"),
        ]
        if sources:
            self._figures.append(F.collect_set(F.when(bad, F.col(SOURCE))).alias("sources"))
        self._frame = frame
        self._observation = Observation(f"lading-{uuid4().hex}")
        self.passed = frame.observe(self._observation, *self._figures).where(~bad)

    def seen(self) -> Seen:
        """What was seen by the job that read the frame; call it when that job is done."""
        figures = _arrived(self._observation)
        if figures is None:
            figures = self._frame.agg(*self._figures).collect()[0].asDict()
        found = {
            (row["source"], row["text"]) for row in (figures["least"], figures["most"]) if row is not None
        }
        return Seen(int(figures["rows"]), tuple(sorted(found)), frozenset(figures.get("sources") or ()))


class RowCount:
    """Counts the rows of a frame for which a flag is set, and takes the flag off."""

    def __init__(self, frame: DataFrame, flag: str) -> None:
        self._frame = frame
        self._figure = F.count(F.when(F.col(flag), F.lit(1))).alias("rows")
        self._observation = Observation(f"lading-{uuid4().hex}")
        self.passed = frame.observe(self._observation, self._figure).drop(flag)

    def seen(self) -> int:
        """Call it when the job that read the frame is done."""
        figures = _arrived(self._observation)
        return int((figures or self._frame.agg(self._figure).collect()[0].asDict())["rows"])


def _arrived(observation: Observation) -> dict[str, Any] | None:
    """The observed figures; None if Spark has none to give, for whatever reason it says or doesn't."""
    found: list[dict[str, Any]] = []

    def ask() -> None:
        try:
            found.append(observation.get)
        except Exception:  # 4.3 fails an assertion in the JVM when the observed part was optimised away
            return

    asking = threading.Thread(target=ask, daemon=True)  # older Sparks wait forever in that case
    asking.start()
    asking.join(_PATIENCE)
    return found[0] if found and found[0].get("rows") is not None else None
