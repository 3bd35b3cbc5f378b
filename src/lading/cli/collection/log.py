"""lading collection compact, check and rebuild: the log itself. They work on a table's directory too."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lading.cli.collection.place import Dir, collection_at, s3_of
from lading.cli.terminal.invocation import Json, config_of, invocation_of

if TYPE_CHECKING:
    from lading.snapshots.stores.protocol import ManifestStore

KeyColumn = Annotated[
    str | None,
    typer.Option("--key", metavar="COL", help="The key, if only the files are left and don't declare it."),
]


def compact(ctx: typer.Context, dir: Dir, json: Json = False) -> None:
    """Drop the history of a log and keep what is live.

    The members stay the same. A checkpoint is written first, then an empty log behind it; killed in
    between, the old log still opens. In a bucket the objects of the old log stay.

    \b
    Example:
      lading collection compact ./corpus
    """
    from lading.cli.terminal.screen import byte_words, count_words, print_json, say

    with collection_at(ctx, dir) as collection:
        before = collection.log_bytes()
        collection.compact()
        after, live, sequence = collection.log_bytes(), len(collection), collection.sequence
    members = count_words(live, "member")
    if json:
        sizes = {"log_bytes_before": before, "log_bytes_after": after}
        print_json({"members": live, "sequence": sequence, **sizes})
    elif after == before:
        say(f"a checkpoint holds the {members} live; {byte_words(after)} of log stay")
    else:
        say(f"the log went from {byte_words(before)} to {byte_words(after)}; {members} live")


def check(ctx: typer.Context, dir: Dir, json: Json = False) -> None:
    """Check that a log is whole and that its files are there.

    Every checksum of the log and its checkpoint, and the size and row count of every file; no rows are
    read. Exits with 1 if something is wrong.

    \b
    Example:
      lading collection check ./corpus --json
    """
    from lading.cli.terminal.screen import count_words, print_json, say
    from lading.collection import check_collection

    members, problems = check_collection(dir, s3=s3_of(ctx, dir))
    if json:
        found = [dataclasses.asdict(problem) for problem in problems]
        print_json({"ok": not problems, "members": members, "problems": found})
    elif problems:
        for problem in problems:
            say(f"{problem.path}: {problem.problem}")
    else:
        say(f"{count_words(members, 'member')}, all whole")
    if problems:
        raise typer.Exit(1)


def rebuild(ctx: typer.Context, dir: Dir, key: KeyColumn = None, json: Json = False) -> None:
    """Restore a log from whatever is left of it.

    From checkpoint and log; without them from the snapshot that readers see (in the project's store, if
    DIR is one of its tables); without that from the Parquet files. Says what it could not decide. The
    damaged files are kept beside the new ones; a log that is whole is left alone.

    \b
    Example:
      lading collection rebuild ./corpus
      lading collection rebuild warehouse/voyages --json
    """
    from lading.cli.terminal.screen import count_words, print_json, say
    from lading.collection import Collection

    found = Collection.rebuild(dir, key=key, store=_store(ctx, dir), s3=s3_of(ctx, dir))
    if json:
        print_json(dataclasses.asdict(found))
        return
    if not found.written:
        say(f"the log is whole: {count_words(found.members, 'member')}; nothing had to be written")
        return
    live = count_words(found.members, "member")
    say(f"restored from the {found.found_in}: {live}, sequence {found.sequence}")
    for undecided in found.undecided:
        say(f"  not decided: {undecided}")
    for name in found.kept:
        say(f"  kept: {name}")


def _store(ctx: typer.Context, dir: str) -> ManifestStore | None:
    """Where the manifests of DIR are, if it is a table of the project and lading.yaml says so."""
    if not invocation_of(ctx).is_project:
        return None
    from lading.snapshots.stores.by_url import store_of

    config = config_of(ctx)
    name = dir.rstrip("/").rsplit("/", 1)[-1]
    if config.store is None or not name.isidentifier():
        return None
    place = config.place(name)
    same = place.url == dir.rstrip("/") or Path(place.url).resolve() == Path(dir).resolve()
    return store_of(config, name) if same else None
