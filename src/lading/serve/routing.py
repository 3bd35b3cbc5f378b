"""Which shard a key is in: one answer for Spark, Python and readers.

`hash`: xxh3_64 of the key's canonical bytes, seed 0, modulo the number of shards. `cel`: an expression
gives the shard's number, or a token whose place in `routing_values` is the number. routing_arrays.py
says the same of whole columns; the tests hold the two against each other and against xxhash.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import xxhash

from lading.errors import RoutingError, UnknownRoutingTokenError
from lading.serve.keys import Key, KeySpec, canonical
from lading.snapshots.manifest import BuildMeta, Sharding

if TYPE_CHECKING:
    from lading.cel.program import Program

KEY_VARIABLE = "key"  # in a CEL expression: the key, whatever its column is called

_SHOWN = 20  # tokens listed in an error


def shard_hash(value: int | str | bytes) -> int:
    """xxh3_64 of a value's canonical bytes, unsigned: what `shard_hash()` is in CEL."""
    return int(xxhash.xxh3_64_intdigest(canonical(value)))


@dataclass(frozen=True)
class Router:
    """The shard of any key of one table. Immutable, safe for many threads."""

    key: KeySpec
    num_dbs: int
    sharding: Sharding
    _numbers: dict[int | str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = self.sharding.routing_values or ()
        object.__setattr__(self, "_numbers", {token: number for number, token in enumerate(values)})

    @classmethod
    def of_manifest(cls, meta: BuildMeta) -> Router:
        """The router of a published snapshot."""
        return cls(
            KeySpec.of_manifest(meta.key_col, meta.key_encoding, meta.custom), meta.num_dbs, meta.sharding
        )

    @property
    def by_hash(self) -> bool:
        return self.sharding.strategy == "hash"

    @property
    def context(self) -> dict[str, str]:
        """What has to be known beside the key: name -> CEL type. Empty when the key is enough."""
        from_key = {KEY_VARIABLE, *self.key.columns}
        return {n: t for n, t in (self.sharding.cel_columns or {}).items() if n not in from_key}

    @property
    def program(self) -> Program:
        """The compiled expression; asking for it checks it."""
        from lading.cel.program import compile_expression

        columns = self.sharding.cel_columns or {}
        return compile_expression(self.sharding.cel_expr or "", tuple(columns.items()), shard_hash)

    def route(self, key: Key, context: Mapping[str, Any] | None = None) -> int:
        """The shard that holds `key`, if any does. `context` has the other columns that CEL needs."""
        if self.sharding.strategy == "hash":
            return int(xxhash.xxh3_64_intdigest(self.key.canonical(key))) % self.num_dbs
        return self.shard_of(self.program.evaluate(self.variables(key, context)))

    def variables(self, key: Key, context: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What the expression sees of one key."""
        given = context or {}
        found: dict[str, Any] = {}
        if self.key.is_composite:
            self.key.canonical(key)  # refuses what is not a key of this table
            found.update(zip(self.key.columns, key, strict=True))  # type: ignore[arg-type]
        else:
            found[KEY_VARIABLE] = found[self.key.columns[0]] = self.key.checked(key)
        missing = [name for name in self.context if name not in given]
        if missing:
            raise RoutingError(
                f"the key {key!r} alone does not say which shard it is in",
                hint=f"give {', '.join(missing)} too: context={{{missing[0]!r}: …}}, "
                f"or --context {missing[0]}=…",
            )
        return {
            name: found[name] if name in found else given[name] for name in self.sharding.cel_columns or {}
        }

    def parsed_context(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """`--context name=value` as values of the declared types."""
        from lading.cel.program import parsed_value

        known = self.context
        for name in texts:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                listed = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"
                raise RoutingError(f"the routing expression has no {name!r}", hint=listed)
        return {name: parsed_value(text, known[name], name) for name, text in texts.items()}

    def shard_of(self, result: object) -> int:
        """The shard that an expression's result stands for."""
        if self.sharding.routing_values is not None:
            number = self._numbers.get(result) if isinstance(result, str) or type(result) is int else None
            if number is None:
                raise self._unknown_token(result)
            return number
        if type(result) is not int:
            raise RoutingError(
                f"the routing expression gave {result!r}, not a whole number",
                hint="a direct expression gives the shard's number; list tokens in routing_values",
            )
        if not 0 <= result < self.num_dbs:
            raise RoutingError(
                f"the routing expression gave shard {result}, which is out of range",
                hint=f"shards are numbered 0 to {self.num_dbs - 1}",
            )
        return result

    def _unknown_token(self, token: object) -> UnknownRoutingTokenError:
        values = self.sharding.routing_values or ()
        listed = ", ".join(repr(value) for value in values[:_SHOWN])
        more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
        return UnknownRoutingTokenError(
            f"the routing expression gave {token!r}, which routing_values does not list",
            hint=f"known: {listed}{more}",
        )
