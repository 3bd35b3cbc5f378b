"""lading layout: how a table lies on disk, and which parts a predicate would open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import AsOf, Json, Offset, Ref, Table, config_of, open_published
from lading.words import byte_words, count_words

if TYPE_CHECKING:
    from lading.read.layout import Part

_PARTS = 20

Where = Annotated[
    str | None,
    Option("--where", metavar="EXPR", help="Say which parts a scan with EXPR opens."),
]
Limit = Annotated[
    int | None, Option("--limit", metavar="N", min=0, help=f"List N parts; {_PARTS} by default.")
]


def layout(
    ctx: Context,
    table: Table,
    where: Where = None,
    limit: Limit = None,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Show how a table lies on disk.

    Lists its buckets and parts with their sizes and key ranges. With EXPR, which is as for `lading scan`, it
    says which parts a scan would open, and what rules out the others. No part is opened.

    \b
    Example:
      lading layout voyages
      lading layout voyages --where "departed_at < '2024-03-02'" --json
    """
    import msgspec

    from lading.cli.terminal.screen import print_json, say, show_table

    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        told, parts = reader.layout(where, limit=limit if limit is not None or json else _PARTS)
    if json:
        print_json({"table": table, **msgspec.to_builtins(told), "listed": msgspec.to_builtins(parts)})
        return
    show_table(
        ("bucket", "parts", "rows", "size", *(("opened",) if where else ())),
        (
            (one.bucket, one.parts, one.rows, byte_words(one.bytes), *((one.opened,) if where else ()))
            for one in told.buckets
        ),
        right=("bucket", "parts", "rows", "size", "opened"),
    )
    say("")
    show_table(
        ("part", "rows", "size", "from", "to", *(("opened",) if where else ())),
        (
            (one.path, one.rows, byte_words(one.bytes), one.low, one.high, *_opened(one, where))
            for one in parts
        ),
        right=("rows", "size"),
    )
    if where:
        say(f"A scan opens {told.opened:,} of {count_words(told.parts, 'part')}.")


def _opened(one: Part, where: str | None) -> tuple[str, ...]:
    """Whether a scan opens it, or what rules it out."""
    return (one.reason or "yes",) if where else ()
