"""lading collection compact, check and rebuild: work on the log itself, also on a table's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lading.cli.collection.place import Dir, collection_at, s3_of
from lading.cli.terminal.command import Context, Exit, Option
from lading.cli.terminal.invocation import Json, config_of, invocation_of
from lading.words import byte_words, count_words

if TYPE_CHECKING:
    from lading.snapshots.stores.protocol import ManifestStore

KeyColumn = Annotated[
    str | None,
    Option(
        "--key", metavar="COL", help="The key column, if only the files are left and they don't declare it."
    ),
]


def compact(ctx: Context, folder: Dir, json: Json = False) -> None:
    """Drop a log's history and keep its live members.

    Writes a checkpoint first, then an empty log. If it is killed in between, the old log still opens. In a
    bucket, the objects of the old log stay.

    \b
    Example:
      lading collection compact ./corpus
    """
    from lading.cli.terminal.screen import print_json, say

    with collection_at(ctx, folder) as collection:
        before = collection.log_bytes()
        collection.compact()
        after, live, sequence = collection.log_bytes(), len(collection), collection.sequence
    members = count_words(live, "member")
    if json:
        sizes = {"log_bytes_before": before, "log_bytes_after": after}
        print_json({"members": live, "sequence": sequence, **sizes})
    elif after == before:
        say(f"the checkpoint has {members}; the log stays at {byte_words(after)}")
    else:
        say(f"the log shrank from {byte_words(before)} to {byte_words(after)}; {members} live")


def check(ctx: Context, folder: Dir, json: Json = False) -> None:
    """Check that a log and its files are intact.

    Verifies every checksum of the log and its checkpoint, and the size and row count of every file.
    Reads no rows. Exits with 1 if something is wrong.

    \b
    Example:
      lading collection check ./corpus --json
    """
    from lading.cli.terminal.screen import print_json, say
    from lading.collection import check_collection

    members, problems = check_collection(folder, s3=s3_of(ctx, folder))
    if json:
        found = [dataclasses.asdict(problem) for problem in problems]
        print_json({"ok": not problems, "members": members, "problems": found})
    elif problems:
        for problem in problems:
            say(f"{problem.path}: {problem.problem}")
    else:
        say(f"{count_words(members, 'member')}, all intact")
    if problems:
        raise Exit(1)


def rebuild(ctx: Context, folder: Dir, key: KeyColumn = None, json: Json = False) -> None:
    """Restore a lost or damaged log.

    Uses the checkpoint and log if it can, else the snapshot that readers see (in the project's store, if
    DIR is one of its tables), else the Parquet files. Says what it could not decide. Damaged files are
    kept next to the new ones. An intact log is left alone.

    \b
    Example:
      lading collection rebuild ./corpus
      lading collection rebuild warehouse/voyages --json
    """
    from lading.cli.terminal.screen import print_json, say
    from lading.collection import Collection

    found = Collection.rebuild(folder, key=key, store=_store(ctx, folder), s3=s3_of(ctx, folder))
    if json:
        print_json(dataclasses.asdict(found))
        return
    if not found.written:
        say(f"the log is intact ({count_words(found.members, 'member')}); nothing was written")
        return
    live = count_words(found.members, "member")
    say(f"restored from the {found.found_in}: {live}, sequence {found.sequence}")
    for undecided in found.undecided:
        say(f"  not decided: {undecided}")
    for name in found.kept:
        say(f"  kept: {name}")


def _store(ctx: Context, folder: str) -> ManifestStore | None:
    """Where the manifests of DIR are, if it is a table of the project and lading.yaml says so."""
    if not invocation_of(ctx).is_project:
        return None
    from lading.snapshots.stores.by_url import store_of

    config = config_of(ctx)
    name = folder.rstrip("/").rsplit("/", 1)[-1]
    if config.store is None or not name.isidentifier():
        return None
    place = config.place(name)
    same = place.url == folder.rstrip("/") or Path(place.url).resolve() == Path(folder).resolve()
    return store_of(config, name) if same else None
