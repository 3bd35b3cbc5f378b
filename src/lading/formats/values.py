"""The rules from text to value, strictly: what is not plainly a value of the type is none.

Written once, for whoever reads a file, infers a schema or says why a row is bad. Nothing is rounded, cut or
guessed: '1.239' is no decimal(5,2), '00:30' no time of today. A type that a person wrote takes what the guide
says. One that was inferred takes less, only what inference over all files would still call so: '00501' read
as 501 would depend on which files came first.

A column is read in one go where every text is plain, as nearly all are; only a block with a text that is not
is looked at more carefully.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.config.date_patterns import DatePattern, date_pattern
from lading.errors import ConfigError
from lading.formats.arrow_types import arrow_type
from lading.formats.glance import Glance
from lading.formats.moments import Moments, moments
from lading.formats.text_shapes import (
    DATE,
    EXACT_DIGITS,
    PLAIN_BIGINT,
    PLAIN_DOUBLE,
    plain_timestamp_shape,
    timestamp_shape,
    whole,
)
from lading.model import Column

_BOOLEAN = r"\A(?:[tT][rR][uU][eE]|[fF][aA][lL][sS][eE])\z"  # (?i) would take the long s as well
_INTEGER = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_SPECIAL = r"\A(?:NaN|[+-]?Inf(?:inity)?)\z"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("timestamp", "timestamp_ntz")
_DIGITS = 38  # of the widest decimal
_FIRST = -719_162  # the day 0001-01-01
_ISO_DATE = DatePattern(
    "ISO", r"\A(?P<g0>[0-9]{4})-(?P<g1>[0-9]{2})-(?P<g2>[0-9]{2})\z", ("year", "month", "day")
)
_ISO_TIMES = DatePattern(
    "ISO",
    r"\A(?P<g0>[0-9]{4})-(?P<g1>[0-9]{2})-(?P<g2>[0-9]{2})"
    r"(?:[T ](?P<g3>[0-9]{2}):(?P<g4>[0-9]{2})(?::(?P<g5>[0-9]{2})(?:\.(?P<g6>[0-9]{1,6})0*)?)?"
    r"(?P<g7>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?\z",
    ("year", "month", "day", "hour", "minute", "second", "fraction", "zone"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Texts:
    """How a table writes its dates, its times, its nulls and its numbers."""

    dates: tuple[str, ...] = ()  # patterns; the first that reads a text counts
    timestamps: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()
    decimal: str = "."
    empty_is_null: bool = True  # for all types but string; in JSON, "" is a text like any other

    @classmethod
    def of(cls, read_options: Mapping[str, Any], *, empty_is_null: bool = True) -> Texts:
        dates, timestamps, nulls = (
            _listed(read_options.get(name)) for name in ("date_format", "timestamp_format", "null")
        )
        return cls(dates, timestamps, nulls, read_options.get("decimal", "."), empty_is_null)

    def read(self, texts: pa.Array, column: Column) -> tuple[pa.Array, pa.Array | None]:
        """The values, and which texts say something that is no value of the type; None when there is none."""
        rule = None if column.type in ("string", "binary") else self._rule(column)
        said = self.said(texts, column)
        if rule is None:
            return (said if column.type == "string" else pc.cast(said, pa.binary())), None
        values = rule.quick(said)
        if values is not None:
            return values, None
        # Most often, a text or two are nothing like the type, and the others are plain.
        values = rule.quick(_where(rule.shape, said))
        if values is None:
            values = rule.careful(said)
        misfits = pc.and_(pc.is_valid(said), pc.is_null(values))
        return values, misfits if misfits.true_count else None

    def all_fit(self, texts: pa.Array, column: Column) -> bool:
        """Whether each text is a value of the type, or null."""
        if column.type in ("string", "binary"):
            return True
        rule, said = self._rule(column), self.said(texts, column)
        if rule.quick(said) is not None:
            return True
        return matches(rule.shape, said) and rule.careful(said).null_count == said.null_count

    def fits(self, texts: pa.Array, column: Column) -> np.ndarray:
        """Which texts are values of the type, or null."""
        if column.type in ("string", "binary"):
            return np.ones(len(texts), bool)
        rule, said = self._rule(column), self.said(texts, column)
        if rule.quick(said) is not None:
            return np.ones(len(texts), bool)
        fits: np.ndarray = pc.fill_null(pc.match_substring_regex(said, rule.shape), True).to_numpy(
            zero_copy_only=False
        )
        shaped = np.flatnonzero(fits)
        if len(shaped):
            there = said.take(pa.array(shaped))
            values = rule.quick(there)
            if values is None:
                misfits = pc.and_(pc.is_valid(there), pc.is_null(rule.careful(there)))
                fits = fits.copy()
                fits[shaped] = ~misfits.to_numpy(zero_copy_only=False)
        return fits

    def said(self, texts: pa.Array, column: Column) -> pa.Array:
        """The texts, null where they say nothing."""
        textual = column.type in ("string", "binary")
        texts = texts if pa.types.is_string(texts.type) else pc.cast(texts, pa.string())
        for null in (*self.nulls, "") if self.empty_is_null and not textual else self.nulls:
            here = pc.equal(texts, null)
            if here.true_count:
                texts = pc.if_else(here, pa.scalar(None, texts.type), texts)
        return texts

    def _rule(self, column: Column) -> _Rule:
        rule = _rule(self, column.type, column.inferred)
        if rule is None:
            raise ConfigError(
                f"column {column.name!r} is {column.type}, which can't be read from text",
                hint="make it string in the table's schema file and parse it in a transform",
            )
        return rule

    def dates_rule(self, inferred: bool) -> _Rule:
        def fit(pattern: DatePattern, found: Moments) -> np.ndarray:
            if not inferred:
                return found.there
            return found.there & (pattern.is_day and pattern.is_full)

        def made(found: Moments, where: np.ndarray) -> pa.Array:
            return found.dates(where)

        if self.dates:
            return _in_patterns(self.dates, pa.date32(), fit, made)

        def quick(texts: pa.Array) -> pa.Array | None:
            values = _cast(texts, pa.date32())
            least = None if values is None else pc.min(values.view(pa.int32())).as_py()
            return values if least is None or least >= _FIRST else None

        return _Rule(whole(DATE), quick, _by([_ISO_DATE], pa.date32(), fit, made))

    def timestamps_rule(self, dtype: str, inferred: bool) -> _Rule:
        target = arrow_type(dtype)
        zoned = dtype == "timestamp"

        def fit(pattern: DatePattern, found: Moments) -> np.ndarray:
            if not inferred:
                return found.there
            fit: np.ndarray = found.there & (found.zoned == zoned) & pattern.is_full
            return fit

        def made(found: Moments, where: np.ndarray) -> pa.Array:
            return found.timestamps(where, target)

        if self.timestamps:
            return _in_patterns(self.timestamps, target, fit, made)
        dates = "a pattern" if self.dates else None
        shape = whole(plain_timestamp_shape(dtype, date_format=dates) if inferred else timestamp_shape(dtype))
        careful = _by([_ISO_TIMES], target, fit, made)

        def quick(texts: pa.Array) -> pa.Array | None:
            if not matches(shape, texts):
                return None
            values = _cast(texts, target)  # which takes texts that all have a zone, or all have none
            bare = _cast(texts, pa.timestamp("us")) if values is None and zoned else None
            return values if bare is None else bare.view(target)

        return _Rule(shape, quick, lambda texts: careful(_where(shape, texts)))


@dataclass(frozen=True, slots=True)
class _Rule:
    shape: str  # that every value has
    quick: Callable[[pa.Array], pa.Array | None]  # the values, if all texts are plain ones of the type
    careful: Callable[[pa.Array], pa.Array]  # the values; null where a text is none


@lru_cache(1024)
def _rule(texts: Texts, dtype: str, inferred: bool) -> _Rule | None:
    """None for a type that no text is a value of."""
    if dtype in _INTEGERS:
        return _integers(arrow_type(dtype), plain=inferred)
    if dtype in ("double", "float"):
        return _floats(arrow_type(dtype), texts.decimal, plain=inferred and dtype == "double")
    if dtype.startswith("decimal("):
        return _decimals(arrow_type(dtype), texts.decimal)
    if dtype == "boolean":
        return _Rule(_BOOLEAN, _cast_if(_BOOLEAN, pa.bool_()), _cast_where(_BOOLEAN, pa.bool_()))
    if dtype == "date":
        return texts.dates_rule(inferred)
    if dtype in _TIMES:
        return texts.timestamps_rule(dtype, inferred)
    return None


def matches(pattern: str, texts: pa.Array) -> bool:
    """Whether all that are not null do."""
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _listed(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _where(pattern: str, texts: pa.Array) -> pa.Array:
    """The texts that match; the others null."""
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, texts.type))


def _cast(texts: pa.Array, target: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(texts, target)
    except pa.ArrowInvalid:
        return None


def _cast_if(shape: str, target: pa.DataType) -> Callable[[pa.Array], pa.Array | None]:
    return lambda texts: _cast(texts, target) if matches(shape, texts) else None


def _cast_where(shape: str, target: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda texts: pc.cast(_where(shape, texts), target)


def _integers(target: pa.DataType, *, plain: bool) -> _Rule:
    shape = whole(PLAIN_BIGINT if plain else _INTEGER)
    least, most = (-(2 ** (target.bit_width - 1)), 2 ** (target.bit_width - 1) - 1)

    def careful(texts: pa.Array) -> pa.Array:
        bare = pc.replace_substring_regex(_where(shape, texts), r"\A([+-]?)0+([0-9])", r"\1\2")
        wide = pc.cast(_where(rf"\A[+-]?[0-9]{{1,{_DIGITS}}}\z", bare), pa.decimal128(_DIGITS, 0))
        here = pc.and_(pc.greater_equal(wide, _number(least)), pc.less_equal(wide, _number(most)))
        return pc.cast(pc.if_else(here, wide, pa.scalar(None, wide.type)), target)

    def quick(texts: pa.Array) -> pa.Array | None:
        seen = Glance(texts)
        known = seen.has_only(b"0123456789") and not (plain and seen.has_leading_zeros())
        return _cast(texts, target) if known or matches(shape, texts) else None

    return _Rule(shape, quick, careful)


def _number(value: int) -> pa.Scalar:
    return pa.scalar(value).cast(pa.decimal128(_DIGITS, 0))


def _pointed(texts: pa.Array, mark: str) -> pa.Array:
    return texts if mark == "." else pc.replace_substring(texts, mark, ".")


def _marked(shape: str, mark: str) -> str:
    """A shape of numbers with another decimal mark."""
    return shape.replace(r"\.", re.escape(mark))


def _floats(target: pa.DataType, mark: str, *, plain: bool) -> _Rule:
    shape = whole(_marked(PLAIN_DOUBLE if plain else _NUMBER, mark))

    def quick(texts: pa.Array) -> pa.Array | None:
        seen = Glance(texts)
        known = mark == "." and seen.has_only(b"0123456789.-")
        if plain:
            known = known and seen.longest <= EXACT_DIGITS and not seen.has_leading_zeros()
        values = _cast(_pointed(texts, mark), target) if known or matches(shape, texts) else None
        return values if values is not None and pc.all(pc.is_finite(values), min_count=0).as_py() else None

    def careful(texts: pa.Array) -> pa.Array:
        values = pc.cast(_pointed(_where(shape, texts), mark), target)
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, target))
        return values if plain else pc.coalesce(values, pc.cast(_where(_SPECIAL, texts), target))

    return _Rule(shape if plain else rf"{shape}|{_SPECIAL}", quick, careful)


def _decimals(target: pa.DataType, mark: str) -> _Rule:
    before, after = target.precision - target.scale, target.scale
    # Zeros that say nothing may be as many as they like. A point alone is left to the cast.
    shape = rf"\A[+-]?0*[0-9]{{0,{before}}}(?:{re.escape(mark)}[0-9]{{0,{after}}}0*)?\z"

    def quick(texts: pa.Array) -> pa.Array | None:
        # Of more digits than it can hold, Arrow makes another number without a word.
        if Glance(texts).longest > _DIGITS or not matches(shape, texts):
            return None
        return _cast(_pointed(texts, mark), target)

    def careful(texts: pa.Array) -> pa.Array:
        bare = _pointed(_where("[0-9]", _where(shape, texts)), mark)
        bare = pc.replace_substring_regex(bare, r"\A([+-]?)0*(\.|[0-9])", r"\1\2")
        bare = pc.replace_substring_regex(bare, r"\A([+-]?)\.", r"\10.")
        bare = pc.replace_substring_regex(bare, rf"(\.[0-9]{{{after}}})0+\z", r"\1")
        return pc.cast(bare, target)

    return _Rule(shape, quick, careful)


_Fit = Callable[[DatePattern, Moments], np.ndarray]
_Made = Callable[[Moments, np.ndarray], pa.Array]


def _in_patterns(texts: Sequence[str], target: pa.DataType, fit: _Fit, made: _Made) -> _Rule:
    patterns = [date_pattern(text) for text in texts]
    shape = "|".join(re.sub(r"\(\?P<\w+>", "(?:", pattern.regex) for pattern in patterns)
    return _Rule(shape, lambda _: None, _by(patterns, target, fit, made))


def _by(
    patterns: Sequence[DatePattern], target: pa.DataType, fit: _Fit, made: _Made
) -> Callable[[pa.Array], pa.Array]:
    def careful(texts: pa.Array) -> pa.Array:
        values = pa.nulls(len(texts), target)
        for pattern in patterns:
            left = pc.if_else(pc.is_null(values), texts, pa.scalar(None, texts.type))
            if left.null_count == len(left):
                break
            found = moments(left, pattern)
            values = pc.coalesce(values, made(found, fit(pattern, found)))
        return values

    return careful
