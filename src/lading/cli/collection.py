"""lading collection: Parquet files that lie somewhere, as one set with a log. One group of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lading.cli.collection_place import Dir, collection_at
from lading.cli.collection_read import collection_lookup, collection_scan
from lading.cli.collection_repair import check, compact, rebuild
from lading.cli.groups import group
from lading.cli.session import Json

if TYPE_CHECKING:
    from lading.collection import Listed

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Parquet files, anywhere.")]
Members = Annotated[
    list[str], typer.Argument(metavar="MEMBER", help="Listed paths, or file names that are unique.")
]
Member = Annotated[
    str, typer.Argument(metavar="MEMBER", help="A listed path, or a file name that is unique.")
]
Tier = Annotated[int, typer.Argument(metavar="N", min=0, help="Any number from 0 on; yours to interpret.")]
KeyColumn = Annotated[
    str | None,
    typer.Option("--key", metavar="COL", help="The column that rows are looked up by; remembered."),
]
Into = Annotated[
    str | None, typer.Option("--into", metavar="NAME", help="What to call the new file, in DIR.")
]


def add(ctx: typer.Context, dir: Dir, files: Files, key: KeyColumn = None, json: Json = False) -> None:
    """Add files to a collection, which is started if there is none.

    Reads their footers, in parallel, and makes one commit. The files are left as they are.
    Without --key it is the column that the files declare to be sorted by, if they do.

    \b
    Example:
      lading collection add ./corpus shard0.parquet shard1.parquet --key url
      lading collection add ./corpus /far/away/*.parquet --json
      lading collection add s3://bucket/corpus shard0.parquet s3://other/shard1.parquet
    """
    from lading.cli.screen import count_words, print_json, say

    with collection_at(ctx, dir) as collection:
        done = collection.add(*files, key=key)
        live = len(collection)
    if json:
        found = {"added": done.added, "changed": done.changed, "unchanged": done.unchanged}
        print_json({**found, "members": live, "sequence": done.sequence})
        return
    changed = f", {len(done.changed)} described anew" if done.changed else ""
    same = f", {len(done.unchanged)} as before" if done.unchanged else ""
    say(f"{count_words(len(done.added), 'member')} added{changed}{same}; {live:,} live")


def list_(ctx: typer.Context, dir: Dir, json: Json = False) -> None:
    """List the live members.

    Each with its key span, rows, bytes, tier, and the columns that it can be pruned on.

    \b
    Example:
      lading collection list ./corpus
      lading collection list ./corpus --json
    """
    from lading.cli.rows import row_json
    from lading.cli.screen import say

    with collection_at(ctx, dir) as collection:
        members = collection.members()
    if json:
        print(row_json({"members": [_member_object(member) for member in members]}).decode())
        return
    say(f"members: {len(members)} live")
    width = max((len(member.path) for member in members), default=0)
    for member in members:
        say(f"  {member.path:<{width}}  {_member_line(member)}")


def remove(ctx: typer.Context, dir: Dir, members: Members, json: Json = False) -> None:
    """Take members out of a collection. Their files stay where they are.

    \b
    Example:
      lading collection remove ./corpus shard0.parquet
    """
    from lading.cli.screen import count_words, print_json, say

    with collection_at(ctx, dir) as collection:
        removed = collection.remove(*members)
        live, sequence = len(collection), collection.sequence
    if json:
        print_json({"removed": removed, "members": live, "sequence": sequence})
    else:
        say(f"{count_words(len(removed), 'member')} removed; {live:,} live")


def tier(ctx: typer.Context, dir: Dir, member: Member, n: Tier, json: Json = False) -> None:
    """Set the tier of a member.

    \b
    Example:
      lading collection tier ./corpus shard0.parquet 2
    """
    from lading.cli.screen import print_json, say

    with collection_at(ctx, dir) as collection:
        path = collection.tier(member, n)
        sequence = collection.sequence
    if json:
        print_json({"member": path, "tier": n, "sequence": sequence})
    else:
        say(f"{path} is in tier {n}")


def merge(ctx: typer.Context, dir: Dir, members: Members, into: Into = None, json: Json = False) -> None:
    """Merge members into one file.

    Sorted by the key, if there is one, and swapped in one commit. The merged files stay where they
    are: they are yours.

    \b
    Example:
      lading collection merge ./corpus shard0.parquet shard1.parquet --into shards.parquet
    """
    from lading.cli.screen import count_words, print_json, say

    with collection_at(ctx, dir) as collection:
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
    from lading.cli.screen import byte_words, count_words

    key = "(no sort key)" if member.key_min is None else f"key [{member.key_min} ... {member.key_max}]"
    size = f"{count_words(member.rows, 'row')}  {byte_words(member.bytes)}  tier {member.tier}"
    prunable = [name for name, zone in member.zones.items() if zone["min"] is not None or zone["nulls"]]
    return f"{key}  {size}  zones: {', '.join(prunable) or 'none'}"


GROUP = group(
    "Parquet files, wherever they lie, as one set described by one log.",
    add=add,
    list=list_,
    remove=remove,
    tier=tier,
    scan=collection_scan,
    lookup=collection_lookup,
    merge=merge,
    compact=compact,
    check=check,
    rebuild=rebuild,
)
