"""What `get`, `multiget` and `route` share: keys and context as typed, values as shown."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lading.errors import ConfigError

if TYPE_CHECKING:
    from lading.api import Reader

Key = Annotated[str, typer.Argument(metavar="KEY", help="A number, text, bytes in hex, or a JSON list.")]
Context = Annotated[
    list[str] | None,
    typer.Option("--context", metavar="NAME=VALUE", help="What routing needs beside the key; repeatable."),
]


def context_of(reader: Reader, given: Sequence[str] | None) -> dict[str, Any] | None:
    """`--context name=value`, in the types that the routing expression declares."""
    if not given:
        return None
    texts = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"--context {item!r} is not NAME=VALUE", hint="write it as --context region=eu")
        texts[name] = value
    return reader.parse_context(texts)


def decodes(reader: Reader) -> bool:
    """Whether the snapshot says how values are encoded; another writer's doesn't, and they are bytes."""
    return reader.info().get("serve", {}).get("encoding") is not None


def shown_key(key: Any) -> Any:
    """A key in JSON: bytes in hex, several components as a list."""
    if isinstance(key, tuple):
        return [shown_key(one) for one in key]
    return key.hex() if isinstance(key, bytes) else key


def shown_value(value: Any) -> Any:
    """A value in JSON: bytes as text if they are, else in base64, as everywhere on the command line."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def value_text(value: Any) -> str:
    """A value on one line for people."""
    from lading.cli.rows import row_json

    return shown_value(value) if isinstance(value, bytes) else row_json(value).decode()
