"""lading get, multiget and route: read a table's shards by key."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Argument, Context, Option
from lading.cli.terminal.invocation import AsOf, Json, Offset, Ref, Table, config_of, open_published
from lading.errors import ConfigError
from lading.serve.decode import shown_key, shown_value
from lading.words import count_words

if TYPE_CHECKING:
    from lading.api import Reader


def get(
    ctx: Context,
    table: Table,
    key: Key,
    context: Beside = None,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Print the value of a key.

    The table must be served by key. A missing key prints "not found" and is not an error.

    \b
    Example:
      lading get ships 9074729
      lading get ships 9074729 --offset 1 --json
      lading get ports '["DE", "hamburg"]' --context region=eu
    """
    from lading.cli.terminal.screen import say
    from lading.read.text import row_json

    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        wanted = reader.parse_key(key)
        beside = context_of(reader, context)
        value = reader.get(wanted, context=beside, decode=decodes(reader))
        shard = reader.route(wanted, context=beside)
        run_id = reader.snapshot.run_id
    found = value is not None
    if json:
        said = {"key": shown_key(wanted), "found": found, "value": shown_value(value)}
        print(row_json({**said, "shard": shard, "run_id": run_id}).decode())
    else:
        say(value_text(value) if found else f"not found (shard {shard})")


Keys = Annotated[
    list[str] | None,
    Argument(metavar="KEY", help="Keys; without any, read one per line from stdin."),
]


def multiget(
    ctx: Context,
    table: Table,
    keys: Keys = None,
    context: Beside = None,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Print the values of many keys.

    Prints one line per key: the key, a tab and its value. Nothing follows the tab if the key is missing.

    \b
    Example:
      lading multiget ships 9074729 9074730
      cut -f1 wanted.tsv | lading multiget ships --json
    """
    from lading.cli.terminal.screen import note, plain
    from lading.read.text import row_json

    texts = keys or [line for line in sys.stdin.read().splitlines() if line.strip()]
    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        wanted = [reader.parse_key(text) for text in texts]
        beside = context_of(reader, context)
        values = reader.multi_get(wanted, context=beside, decode=decodes(reader))
        run_id = reader.snapshot.run_id
    missing = sum(value is None for value in values.values())
    if json:
        entries = [
            {"key": shown_key(key), "found": value is not None, "value": shown_value(value)}
            for key, value in values.items()
        ]
        print(row_json({"values": entries, "missing": missing, "run_id": run_id}).decode())
        return
    for key, value in values.items():
        shown = shown_key(key)
        name = row_json(shown).decode() if isinstance(shown, list) else str(shown)
        print(f"{plain(name)}\t{'' if value is None else plain(value_text(value))}")
    if missing:
        note(f"{missing} of {count_words(len(values), 'key')} not found")


def route(
    ctx: Context,
    table: Table,
    key: Key,
    context: Beside = None,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Show which shard a key is in.

    Needs only the key, plus --context if the routing expression uses other columns. Opens no shard.

    \b
    Example:
      lading route ships 9074729
      lading route ports 17 --context region=eu --json
    """
    from lading.cli.terminal.screen import print_json, say

    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        wanted = reader.parse_key(key)
        number = reader.route(wanted, context=context_of(reader, context))
        shard = next((one for one in reader.shards() if one.db_id == number), None)
        run_id = reader.snapshot.run_id
    url = None if shard is None else shard.db_url
    if json:
        print_json({"key": shown_key(wanted), "shard": number, "db_url": url, "run_id": run_id})
    else:
        say(f"shard {number}, {url or 'which is empty'}")


Key = Annotated[str, Argument(metavar="KEY", help="A number, text, bytes in hex, or a JSON list.")]
Beside = Annotated[
    list[str] | None,
    Option("--context", metavar="NAME=VALUE", help="A value that routing needs besides the key; repeatable."),
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
    return reader.encoding() is not None


def value_text(value: Any) -> str:
    """A value on one line for people."""
    from lading.read.text import row_json

    return shown_value(value) if isinstance(value, bytes) else row_json(value).decode()
