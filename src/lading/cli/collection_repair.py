"""lading collection compact, check and rebuild: the log itself. They work on a table's directory too."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from lading.cli.session import Json

Dir = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a collection or table.")]
KeyColumn = Annotated[
    str | None,
    typer.Option("--key", metavar="COL", help="The key, if only the files are left and don't declare it."),
]


def compact(dir: Dir, json: Json = False) -> None:
    """Drop the history of a log and keep what is live.

    The members stay the same. A checkpoint is written first, then an empty log behind it; killed in
    between, the old log still opens.

    \b
    Example:
      lading collection compact ./corpus
    """
    from lading.cli.screen import byte_words, print_json, say
    from lading.collection import Collection

    log = dir / "manifest.log"
    with Collection(dir) as collection:
        before = log.stat().st_size if log.exists() else 0
        collection.compact()
        live, sequence = len(collection), collection.sequence
    after = log.stat().st_size
    if json:
        sizes = {"log_bytes_before": before, "log_bytes_after": after}
        print_json({"members": live, "sequence": sequence, **sizes})
    else:
        say(f"the log went from {byte_words(before)} to {byte_words(after)}; {live:,} members live")


def check(dir: Dir, json: Json = False) -> None:
    """Check that a log is whole and that its files are there.

    Every checksum of the log and its checkpoint, and the size and row count of every file; no rows are
    read. Exits with 1 if something is wrong.

    \b
    Example:
      lading collection check ./corpus --json
    """
    from lading.cli.screen import count_words, print_json, say
    from lading.collection import check_collection

    members, problems = check_collection(dir)
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


def rebuild(dir: Dir, key: KeyColumn = None, json: Json = False) -> None:
    """Restore a log from whatever is left of it.

    From checkpoint and log; without them from the snapshot that readers see; without that from the
    Parquet files. Says what it could not decide. The damaged files are kept beside the new ones; a log
    that is whole is left alone.

    \b
    Example:
      lading collection rebuild ./corpus
      lading collection rebuild warehouse/voyages --json
    """
    from lading.cli.screen import count_words, print_json, say
    from lading.collection import Collection

    found = Collection.rebuild(dir, key=key)
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
