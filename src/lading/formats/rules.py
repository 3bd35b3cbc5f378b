"""How the values of single columns are read: the table's way, or what lading.yaml says of the column."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lading.errors import ConfigError
from lading.formats.arrow_types import arrow_type
from lading.formats.reader import ReadSpec
from lading.formats.reasons import a_type
from lading.formats.values import Texts
from lading.layout.project import CONFIG
from lading.model import Column, ColumnRule

Fault = tuple[str | None, str]  # the column to blame, if one is, and the reason


class Rules:
    """Of the columns of one table."""

    def __init__(self, spec: ReadSpec, texts: Texts | None = None) -> None:
        self._texts = texts or Texts.of(spec.options)
        self._by_name = {rule.name: rule for rule in spec.rules}
        self._policy = spec.policy
        self._defaults = {column.name: self._default(column) for column in spec.columns}

    def texts(self, name: str) -> Texts:
        rule = self._by_name.get(name)
        return self._texts if rule is None else texts_by(rule, self._texts)

    def nulls(self, name: str) -> tuple[str, ...] | None:
        """The texts that mean null, where lading.yaml says them of the column."""
        rule = self._by_name.get(name)
        return None if rule is None else rule.nulls

    def of_texts(self, name: str) -> Texts | None:
        """How texts are read as values of the column, where lading.yaml says it: cells of workbooks, which
        may be dates and numbers as such."""
        rule = self._by_name.get(name)
        return None if rule is None or not rule.reads_texts else self.texts(name)

    def quotes_numbers(self, name: str) -> bool:
        """Whether JSON's texts are read as numbers: with a decimal mark, there is nothing else to read."""
        rule = self._by_name.get(name)
        return rule is not None and rule.decimal is not None

    def filled(self, values: pa.Array, name: str) -> pa.Array:
        """With the column's default in place of nulls."""
        default = self._defaults[name]
        return values if default is None or not values.null_count else pc.fill_null(values, default)

    def lacking(self, column: Column, count: int) -> pa.Array:
        """The values of a column that a file doesn't have."""
        default = self._defaults[column.name]
        return pa.nulls(count, arrow_type(column.type)) if default is None else pa.repeat(default, count)

    def sets_aside(self, name: str | None) -> bool:
        """Whether a misfit of the column is set aside whatever `on_bad` says."""
        return name is not None and self._policy.types_of(name) == "quarantine"

    def blame(self, faults: dict[int, Fault], place: int, fault: Fault) -> None:
        """The first fault of a row counts; one that is set aside in any case only if there is no other."""
        known = faults.get(place)
        if known is None or (self.sets_aside(known[0]) and not self.sets_aside(fault[0])):
            faults[place] = fault

    def _default(self, column: Column) -> pa.Scalar | None:
        rule = self._by_name.get(column.name)
        if rule is None or rule.default is None:
            return None
        values, _ = self.texts(column.name).read(
            pa.array([rule.default], pa.string()), replace(column, inferred=False)
        )
        if values.null_count:
            raise ConfigError(
                f"{CONFIG}:{rule.line}: the default {rule.default!r} of column {column.name!r} is not "
                f"{a_type(column.type)}",
                hint="write it as the files write such a value, or give the column another `type`",
            )
        return values[0]


def texts_by(rule: ColumnRule, texts: Texts) -> Texts:
    """What a column says for itself replaces what holds for the table."""
    return replace(
        texts,
        dates=texts.dates if rule.dates is None else rule.dates,
        timestamps=texts.timestamps if rule.timestamps is None else rule.timestamps,
        nulls=texts.nulls if rule.nulls is None else rule.nulls,
        decimal=rule.decimal or texts.decimal,
    )
