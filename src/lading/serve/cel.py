"""CEL expressions, compiled by the `cel` package and evaluated on rows.

The package gives Python's ints back as signed wherever they fit, so whatever is unsigned (a hash, a
uint column) is wrapped in uint() before it is compiled. Needs the extra `cel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lading.cel.text import CelProblem, Node
from lading.cel.types import HASH_FUNCTION, check
from lading.errors import ConfigError, MissingExtra, RoutingError

_HASH = "lading_shard_hash"  # no name that an expression may contain


@dataclass(frozen=True, slots=True)
class Program:
    """One compiled expression. Safe for many threads."""

    text: str
    tree: Node
    type: str
    columns: Mapping[str, str]
    _compiled: Any

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The result for one row."""
        try:
            return self._compiled.execute({**values, _HASH: _shard_hash})
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise RoutingError(
                f"{self.text!r} can't be evaluated for {dict(values)!r}: {error}",
                hint="correct the row, or the expression",
            ) from error

    def evaluate_all(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
        """The result for each row of `columns`."""
        execute = self._compiled.execute
        names = (*names, _HASH)
        try:
            return [
                execute(dict(zip(names, (*row, _shard_hash), strict=True)))
                for row in zip(*columns, strict=True)
            ]
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            for row in zip(*columns, strict=True):
                self.evaluate(dict(zip(names[:-1], row, strict=True)))  # says which row
            raise


@lru_cache(maxsize=64)
def compile_expression(text: str, columns: tuple[tuple[str, str], ...]) -> Program:
    """The expression over typed columns; ConfigError with the position when it does not fit them."""
    try:
        import cel
    except ImportError:
        raise MissingExtra(
            "routing by an expression needs the CEL package", hint="pip install 'lading[cel]'"
        ) from None
    declared = dict(columns)
    try:
        tree, type = check(text, declared)
        compiled = cel.compile(_unsigned(text, tree, declared))
    except CelProblem as problem:
        raise ConfigError(explained(text, problem), hint=problem.hint or "correct the expression") from None
    except ValueError as error:
        said = str(error).splitlines()[0]
        raise ConfigError(f"the expression {text!r}: {said}", hint="correct the expression") from error
    return Program(text, tree, type, declared, compiled)


def explained(text: str, problem: CelProblem) -> str:
    """A problem with its place: `character 12 of "region == 3": …`."""
    return f'character {problem.at + 1} of "{text}": {problem.text}'


def parsed_value(text: str, type: str, name: str) -> Any:
    """A value of a CEL type as a person types it."""
    try:
        if type in ("int", "uint"):
            return int(text)
        if type == "double":
            return float(text)
        if type == "bytes":
            return bytes.fromhex(text)
        if type == "bool":
            return {"true": True, "false": False}[text.lower()]
        return text
    except (ValueError, KeyError):
        raise RoutingError(f"{name}: {text!r} is not {type}", hint="correct the value") from None


def _shard_hash(value: Any) -> int:
    from lading.serve.routing import shard_hash

    return shard_hash(value)


def _unsigned(text: str, tree: Node, columns: Mapping[str, str]) -> str:
    """The text to compile: what is unsigned said so, and the hash by its own name."""
    edits = sorted(_edits(tree, columns), reverse=True)
    for at, length, put in edits:
        text = text[:at] + put + text[at + length :]
    return text


def _edits(node: Node, columns: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    if node.kind == "name" and columns.get(str(node.value)) == "uint":
        yield node.start, node.end - node.start, f"uint({node.value})"
    if node.kind == "call" and node.value == HASH_FUNCTION:
        yield node.end, 0, ")"
        yield node.start, len(HASH_FUNCTION), f"uint({_HASH}"
    for arg in node.args:
        yield from _edits(arg, columns)
