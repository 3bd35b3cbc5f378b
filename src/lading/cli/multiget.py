"""lading multiget: the values of many keys, all of one snapshot."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lading.cli.keys import Context, context_of, decodes, shown_key, shown_value, value_text
from lading.cli.session import AsOf, Json, Offset, Ref, Table, config_of, open_published

Keys = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY", help="Keys; when left out, one a line from standard input."),
]


def multiget(
    ctx: typer.Context,
    table: Table,
    keys: Keys = None,
    context: Context = None,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Print the values of many keys.

    One line a key: the key, a tab, its value; nothing behind the tab when it isn't there.

    \b
    Example:
      lading multiget ships 9074729 9074730
      cut -f1 wanted.tsv | lading multiget ships --json
    """
    from lading.cli.rows import row_json
    from lading.cli.screen import note, plain

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
        note(f"{missing} of {len(values)} keys are not there")
