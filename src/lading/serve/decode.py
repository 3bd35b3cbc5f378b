"""A stored value as it was before it was encoded: `serve.encoding` says how."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from lading.errors import ConfigError, ShardError
from lading.snapshots.manifest import BuildMeta

_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "json": msgspec.json.Decoder().decode,
    "msgpack": msgspec.msgpack.Decoder().decode,
    "raw": bytes,
}


def encoding_of(meta: BuildMeta) -> str | None:
    """json, msgpack or raw; None when the manifest doesn't say, as those that others wrote."""
    serve = meta.custom.get("serve")
    encoding = serve.get("encoding") if isinstance(serve, Mapping) else None
    return encoding if isinstance(encoding, str) else None


def decoder(meta: BuildMeta) -> Callable[[bytes], Any]:
    """bytes -> value, for the snapshot that `meta` describes."""
    encoding = encoding_of(meta)
    decode = _DECODERS.get(encoding or "")

    def decoded(value: bytes) -> Any:
        if decode is None:
            raise ConfigError(
                f"the manifest doesn't say how values are encoded ({encoding})",
                hint="take the bytes as they are: decode=False",
            )
        try:
            return decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ShardError(
                f"a stored value is not {encoding}: {error}", hint="build the table again: lading run --full"
            ) from error

    return decoded


def shown_key(key: Any) -> Any:
    """A key in JSON: bytes in hex, several components as a list."""
    if isinstance(key, tuple):
        return [shown_key(one) for one in key]
    return key.hex() if isinstance(key, bytes) else key


def shown_value(value: Any) -> Any:
    """A value in JSON: bytes as text if they are, else in base64, as everywhere."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
