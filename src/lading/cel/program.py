"""Routing expressions, compiled: checked against typed columns, then asked row by row.

columns.py asks them of whole columns. Neither needs more than the base install.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lading.cel.check import check
from lading.cel.parse import CelProblem, Node
from lading.cel.rows import Fault, Hash, OnRow, on_row
from lading.errors import ConfigError, RoutingError

_PYTHON: dict[str, type] = {
    "int": int,
    "uint": int,
    "double": float,
    "string": str,
    "bytes": bytes,
    "bool": bool,
}
_RANGES = {"int": (-(2**63), 2**63 - 1), "uint": (0, 2**64 - 1)}


@dataclass(frozen=True, slots=True)
class Program:
    """One compiled expression. Safe for many threads."""

    text: str
    tree: Node
    columns: Mapping[str, str]
    _on_row: OnRow

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The result for one row."""
        return self._evaluate(
            {name: _value(values[name], dtype, name) for name, dtype in self.columns.items()}
        )

    def evaluate_all(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
        """The result for each row of `columns`, whose values are of the declared types."""
        evaluate = self._evaluate
        return [evaluate(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def _evaluate(self, row: Mapping[str, Any]) -> Any:
        try:
            return self._on_row(row)
        except (Fault, RoutingError, RecursionError) as error:
            raise RoutingError(
                f"{self.text!r} can't be evaluated for {dict(row)!r}: {error}",
                hint="correct the row, or the expression",
            ) from error


@lru_cache(maxsize=64)
def compile_expression(text: str, columns: tuple[tuple[str, str], ...], shard_hash: Hash) -> Program:
    """The expression over typed columns; ConfigError with the position when it does not fit them."""
    try:
        tree = check(text, dict(columns))
    except CelProblem as problem:
        raise ConfigError(problem.explained(text), hint=problem.hint or "correct the expression") from None
    return Program(text, tree, dict(columns), on_row(tree, shard_hash))


def parsed_value(text: str, dtype: str, name: str) -> Any:
    """A value of a CEL type as a person types it."""
    try:
        if dtype in ("int", "uint"):
            return int(text)
        if dtype == "double":
            return float(text)
        if dtype == "bytes":
            return bytes.fromhex(text)
        if dtype == "bool":
            return {"true": True, "false": False}[text.lower()]
        return text
    except (ValueError, KeyError):
        raise RoutingError(f"{name}: {text!r} is not {dtype}", hint="correct the value") from None


def _value(value: Any, dtype: str, name: str) -> Any:
    """A value that somebody gave, as one of the declared type; RoutingError when it is none."""
    wanted = _PYTHON[dtype]
    found: Any = value if value.__class__ is wanted else _converted(value, wanted)
    if wanted is int and found is not None:
        least, most = _RANGES[dtype]
        if not least <= found <= most:
            found = None
    if found is None:
        raise RoutingError(f"{name}: {value!r} is not {dtype}", hint="correct the value")
    return found


def _converted(value: Any, wanted: type) -> Any:
    """Numpy's scalars, and what Python has two types for; None for all that CEL keeps apart."""
    value = value.item() if hasattr(value, "item") else value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is bytes and isinstance(value, bytearray):
        return bytes(value)
    return value if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)) else None
