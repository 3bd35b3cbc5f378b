"""Keys as bytes: what routing hashes, and what a shard stores.

The two differ on purpose. Routing hashes canonical bytes, which every writer and reader must agree on
whatever a table stores; a shard stores a key so that SQLite's byte order is the key's own order. See
docs/format/shards.md. No numpy and no pyarrow: a reader that gets one key pays for neither
(routing_arrays.py does the same for columns).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import msgspec

from lading.errors import RoutingError
from lading.words import count_words

Kind = Literal["int", "str", "bytes"]
Encoding = Literal["u64be", "u32be", "utf8", "raw"]
Key = int | str | bytes | tuple[int | str | bytes, ...]

KINDS: tuple[Kind, ...] = get_args(Kind)
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
ENCODINGS_OF: Mapping[Kind, tuple[Encoding, ...]] = {
    "int": ("u64be", "u32be"),
    "str": ("utf8",),
    "bytes": ("raw",),
}

# Composite keys: one tag a component, then the component so that bytes compare as the values do.
TAGS: Mapping[Kind, bytes] = {"int": b"\x01", "str": b"\x02", "bytes": b"\x03"}
END = b"\0\0"  # after text and bytes; a NUL inside them is written as NUL FF
ESCAPED_NUL = b"\0\xff"
SIGN = 1 << 63

_KIND_OF: Mapping[Encoding, Kind] = {"u64be": "int", "u32be": "int", "utf8": "str", "raw": "bytes"}
_TYPES: Mapping[Kind, type] = {"int": int, "str": str, "bytes": bytes}
_LIMITS: Mapping[Encoding, int] = {"u64be": 1 << 63, "u32be": 1 << 32}


def canonical(value: int | str | bytes) -> bytes:
    """What routing hashes of one value: an int as 8 bytes, signed, little-endian; text as UTF-8."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _misfit(value, "int, str or bytes")
    try:
        return struct.pack("<q", value)
    except struct.error:
        raise RoutingError(
            f"the key {value} does not fit into 64 bits", hint="keys are -2^63 to 2^63-1"
        ) from None


def composite(values: Sequence[int | str | bytes], kinds: Sequence[Kind]) -> bytes:
    """Several components as one key: hashed and stored alike, in the order of the components."""
    if not isinstance(values, tuple | list) or len(values) != len(kinds):
        raise RoutingError(
            f"the key {values!r} is not {len(kinds)} values", hint=f"give a tuple of {', '.join(kinds)}"
        )
    return b"".join(_component(value, kind) for value, kind in zip(values, kinds, strict=True))


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Which columns a table's key is made of and how it is stored."""

    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    encoding: Encoding

    @classmethod
    def of_manifest(cls, key_col: str, encoding: Encoding, custom: Mapping[str, Any]) -> KeySpec:
        """The key of a published snapshot; one that others wrote says no more than its encoding."""
        serve = custom.get("serve")
        if isinstance(serve, Mapping) and isinstance(serve.get("key"), list):
            kinds = tuple(kind for kind in serve.get("kinds", ()) if kind in KINDS)
            if len(kinds) == len(serve["key"]) > 0:
                return cls(tuple(map(str, serve["key"])), cast(tuple[Kind, ...], kinds), encoding)
        return cls((key_col,), (_KIND_OF[encoding],), encoding)

    @property
    def is_composite(self) -> bool:
        return len(self.columns) > 1

    def canonical(self, key: Key) -> bytes:
        """What routing hashes."""
        if self.is_composite:
            return composite(cast(Sequence[int | str | bytes], key), self.kinds)
        return canonical(self.checked(key))

    def stored(self, key: Key) -> bytes:
        """What `kv.k` holds."""
        return self.encoder()(key)

    def encoder(self) -> Callable[[Any], bytes]:
        """`stored`, with everything decided that does not depend on the key: for loops."""
        if self.is_composite:
            kinds = self.kinds
            return lambda key: composite(key, kinds)
        if self.encoding in _LIMITS:
            return self._stored_int
        return lambda key: canonical(self.checked(key))

    def checked(self, key: Key) -> int | str | bytes:
        """The key, if it is of the table's type."""
        if not isinstance(key, _TYPES[self.kinds[0]]) or isinstance(key, bool):
            raise _misfit(key, self.kinds[0], self.columns[0])
        return cast(int | str | bytes, key)

    def shown(self, stored: bytes) -> int | str:
        """A stored key as manifests show it (`min_key`, `max_key`): bytes and composite keys in hex."""
        if self.encoding in _LIMITS:
            return int.from_bytes(stored, "big")
        return stored.decode() if self.encoding == "utf8" else stored.hex()

    def decoded(self, stored: bytes) -> Key:
        """The key that `stored` was made of."""
        if self.is_composite:
            return tuple(_components(stored, self.kinds))
        if self.encoding in _LIMITS:
            return int.from_bytes(stored, "big")
        return stored.decode() if self.encoding == "utf8" else stored

    def parsed(self, text: str) -> Key:
        """A key as a person types it: 42, abc, hex for bytes, a JSON list for a composite key."""
        if not self.is_composite:
            return _parsed(text, self.kinds[0])
        try:
            values = msgspec.json.decode(text, type=list[int | str])
        except msgspec.DecodeError as error:
            raise RoutingError(
                f"the key {text!r} is not a JSON list: {error}",
                hint=f"this table's key is {', '.join(self.columns)}: write it as '[1, \"abc\"]'",
            ) from None
        if len(values) != len(self.kinds):
            raise RoutingError(
                f"the key {text!r} has {count_words(len(values), 'value')}, not {len(self.kinds)}",
                hint=f"this table's key is {', '.join(self.columns)}",
            )
        return tuple(_parsed(str(value), kind) for value, kind in zip(values, self.kinds, strict=True))

    def _stored_int(self, key: Any) -> bytes:
        limit = _LIMITS[self.encoding]
        if type(key) is not int:
            self.checked(key)
        if not 0 <= key < limit:
            raise RoutingError(
                f"the key {key} can't be stored as {self.encoding}, which holds 0 to {limit - 1}",
                hint="negative keys need key_encoding utf8 on a text column, or a composite key",
            )
        return int(key).to_bytes(8 if self.encoding == "u64be" else 4, "big")


def _component(value: object, kind: Kind) -> bytes:
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        raise _misfit(value, kind)
    if isinstance(value, int):
        if not -SIGN <= value < SIGN:
            raise RoutingError(f"the key {value} does not fit into 64 bits", hint="keys are -2^63 to 2^63-1")
        return TAGS[kind] + (value + SIGN).to_bytes(8, "big")
    data = _utf8(value) if isinstance(value, str) else cast(bytes, value)
    return TAGS[kind] + data.replace(b"\0", ESCAPED_NUL) + END


_COMPONENTS: Mapping[Kind, re.Pattern[bytes]] = {
    "int": re.compile(rb"\x01(.{8})", re.DOTALL),
    "str": re.compile(rb"\x02((?:[^\0]|\0\xff)*)\0\0"),
    "bytes": re.compile(rb"\x03((?:[^\0]|\0\xff)*)\0\0"),
}


def _components(stored: bytes, kinds: Sequence[Kind]) -> list[int | str | bytes]:
    found: list[int | str | bytes] = []
    at = 0
    for kind in kinds:
        match = _COMPONENTS[kind].match(stored, at)
        if match is None:
            break
        at = match.end()
        data = match[1].replace(ESCAPED_NUL, b"\0") if kind != "int" else match[1]
        found.append(
            int.from_bytes(data, "big") - SIGN if kind == "int" else data.decode() if kind == "str" else data
        )
    if len(found) != len(kinds) or at != len(stored):
        raise RoutingError("this is not a key of the table", hint="docs/format/shards.md says how keys look")
    return found


def _parsed(text: str, kind: Kind) -> int | str | bytes:
    try:
        if kind == "int":
            return int(text)
        return text if kind == "str" else bytes.fromhex(text)
    except ValueError:
        wanted = "a whole number" if kind == "int" else "bytes in hex, such as 00ff1a"
        raise RoutingError(f"the key {text!r} is not {wanted}", hint="correct the key") from None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise RoutingError(
            f"the key {text!r} can't be written as UTF-8: {error.reason}", hint="correct the key"
        ) from None


def _misfit(value: object, wanted: str, column: str = "") -> RoutingError:
    of = f" of {column}" if column else ""
    return RoutingError(
        f"the key {value!r}{of} is {type(value).__name__}, not {wanted}", hint=f"give the key as {wanted}"
    )
