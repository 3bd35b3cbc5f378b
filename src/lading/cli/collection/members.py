"""lading collection: commands that treat Parquet files, wherever they are, as one set with a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.collection.place import Dir, collection_at
from lading.cli.scan import As, Columns, Format, Limit, Stats, Where, print_hit, print_scan
from lading.cli.terminal.command import Argument, Context, Option
from lading.cli.terminal.invocation import Json
from lading.words import byte_words, count_words

if TYPE_CHECKING:
    from lading.collection import Listed

Files = Annotated[list[str], Argument(metavar="FILE", help="Parquet files, wherever they are.")]
Members = Annotated[list[str], Argument(metavar="MEMBER", help="Paths as listed, or unique file names.")]
Member = Annotated[str, Argument(metavar="MEMBER", help="A path as listed, or a unique file name.")]
Tier = Annotated[int, Argument(metavar="N", min=0, help="Any number from 0 up; its meaning is yours.")]
KeyColumn = Annotated[
    str | None,
    Option("--key", metavar="COL", help="The column to look rows up by; it is remembered."),
]
Into = Annotated[str | None, Option("--into", metavar="NAME", help="Name of the new file in DIR.")]


def add(ctx: Context, folder: Dir, files: Files, key: KeyColumn = None, json: Json = False) -> None:
    """Add files to a collection, creating it if needed.

    Reads footers in parallel and makes one commit. The files don't change. Without --key, the key is the
    column that the files declare they are sorted by, if any.

    \b
    Example:
      lading collection add ./corpus shard0.parquet shard1.parquet --key url
      lading collection add ./corpus /far/away/*.parquet --json
      lading collection add s3://bucket/corpus shard0.parquet s3://other/shard1.parquet
    """
    from lading.cli.terminal.screen import print_json, say

    with collection_at(ctx, folder) as collection:
        done = collection.add(*files, key=key)
        live = len(collection)
    if json:
        found = {"added": done.added, "changed": done.changed, "unchanged": done.unchanged}
        print_json({**found, "members": live, "sequence": done.sequence})
        return
    changed = f", {len(done.changed)} updated" if done.changed else ""
    same = f", {len(done.unchanged)} unchanged" if done.unchanged else ""
    say(f"{count_words(len(done.added), 'member')} added{changed}{same}; {live:,} live")


def list_(ctx: Context, folder: Dir, json: Json = False) -> None:
    """List the live members.

    Shows each member's key range, rows, bytes and tier, and the columns it can be pruned on.

    \b
    Example:
      lading collection list ./corpus
      lading collection list ./corpus --json
    """
    from lading.cli.terminal.screen import say
    from lading.read.text import row_json

    with collection_at(ctx, folder) as collection:
        members = collection.members()
    if json:
        print(row_json({"members": [_member_object(member) for member in members]}).decode())
        return
    say(f"members: {len(members)} live")
    width = max((len(member.path) for member in members), default=0)
    for member in members:
        say(f"  {member.path:<{width}}  {_member_line(member)}")


def remove(ctx: Context, folder: Dir, members: Members, json: Json = False) -> None:
    """Remove members from a collection. Their files stay where they are.

    \b
    Example:
      lading collection remove ./corpus shard0.parquet
    """
    from lading.cli.terminal.screen import print_json, say

    with collection_at(ctx, folder) as collection:
        removed = collection.remove(*members)
        live, sequence = len(collection), collection.sequence
    if json:
        print_json({"removed": removed, "members": live, "sequence": sequence})
    else:
        say(f"{count_words(len(removed), 'member')} removed; {live:,} live")


def tier(ctx: Context, folder: Dir, member: Member, n: Tier, json: Json = False) -> None:
    """Set the tier of a member.

    \b
    Example:
      lading collection tier ./corpus shard0.parquet 2
    """
    from lading.cli.terminal.screen import print_json, say

    with collection_at(ctx, folder) as collection:
        path = collection.tier(member, n)
        sequence = collection.sequence
    if json:
        print_json({"member": path, "tier": n, "sequence": sequence})
    else:
        say(f"{path} is now in tier {n}")


def merge(ctx: Context, folder: Dir, members: Members, into: Into = None, json: Json = False) -> None:
    """Merge members into one file.

    Rows are sorted by the key, if there is one, and the swap is one commit. The merged files are yours and
    stay where they are.

    \b
    Example:
      lading collection merge ./corpus shard0.parquet shard1.parquet --into shards.parquet
    """
    from lading.cli.terminal.screen import print_json, say

    with collection_at(ctx, folder) as collection:
        path = collection.merge(*members, into=into)
        live, sequence = len(collection), collection.sequence
        [new] = [member for member in collection.members() if member.path == path]
    if json:
        print_json(
            {"member": path, "rows": new.rows, "bytes": new.bytes, "members": live, "sequence": sequence}
        )
    else:
        say(f"{path} has {count_words(new.rows, 'row')}; {count_words(live, 'member')} live")


def _member_object(member: Listed) -> dict[str, Any]:
    return {
        "path": member.path,
        "rows": member.rows,
        "bytes": member.bytes,
        "tier": member.tier,
        "key_min": member.key_min,
        "key_max": member.key_max,
        "zones": member.zones,
    }


def _member_line(member: Listed) -> str:

    key = "(no sort key)" if member.key_min is None else f"key [{member.key_min} ... {member.key_max}]"
    size = f"{count_words(member.rows, 'row')}  {byte_words(member.bytes)}  tier {member.tier}"
    prunable = [name for name, zone in member.zones.items() if zone["min"] is not None or zone["nulls"]]
    return f"{key}  {size}  zones: {', '.join(prunable) or 'none'}"


Key = Annotated[str, Argument(metavar="KEY", help="A value in the collection's key column.")]


def collection_scan(
    ctx: Context,
    folder: Dir,
    where: Where = None,
    columns: Columns = None,
    limit: Limit = None,
    fmt: As = Format.table,
    stats: Stats = False,
    json: Json = False,
) -> None:
    """Print rows of a collection.

    Doesn't open files that EXPR rules out. EXPR, --format and --stats work as in `lading scan`; --json means
    --format jsonl.

    \b
    Example:
      lading collection scan ./corpus --where "status = 404" --columns url,status --stats
    """
    with collection_at(ctx, folder) as collection:
        print_scan(collection.scan, where, columns, limit, Format.jsonl if json else fmt, stats)


def collection_lookup(ctx: Context, folder: Dir, key: Key, json: Json = False) -> None:
    """Find rows by the collection's key.

    Opens one file if the members' key ranges don't overlap. A missing key prints "not found" and is not an
    error.

    \b
    Example:
      lading collection lookup ./corpus https://example.com/page --json
    """
    with collection_at(ctx, folder) as collection:
        hit = collection.lookup(key)
    print_hit(hit, json)
