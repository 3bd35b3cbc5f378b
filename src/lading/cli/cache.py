"""lading cache: extracted and copied files, and which of them can go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lading.cli.terminal.command import Context
from lading.cli.terminal.invocation import Json, config_of
from lading.words import byte_words, count_words

if TYPE_CHECKING:
    from lading.sources.archives.cache import Cached


def cache_status(ctx: Context, json: Json = False) -> None:
    """Show what is in the cache, and which tables need it.

    Lists extracted archives, output of preprocess scripts, indexes of what only Spark's tasks extract, copies
    of objects, and leftovers of killed runs.

    \b
    Example:
      lading cache status
    """
    config = config_of(ctx)
    from lading.cli.terminal.screen import print_json, say, show_table
    from lading.sources.archives.cache import cache_contents

    found = cache_contents(config)
    if json:
        print_json({"cache": str(config.cache), "contents": [_cached_object(one) for one in found]})
        return
    if not found:
        say("the cache is empty")
        return
    show_table(
        ("kind", "name", "files", "size", "needed", "why"),
        (
            (
                one.kind,
                one.path.name,
                one.files,
                byte_words(one.bytes),
                "yes" if one.needed else "no",
                one.why,
            )
            for one in found
        ),
        right=("files", "size"),
    )
    spare = [one for one in found if not one.needed]
    if spare:
        size = byte_words(sum(one.bytes for one in spare))
        say(
            f"{count_words(len(spare), 'folder')} ({size}) no longer needed; remove with `lading cache clear`"
        )


def cache_clear(ctx: Context, json: Json = False) -> None:
    """Remove what no table needs from the cache.

    Anything a table still needs stays: the next run would only have to make it again.

    \b
    Example:
      lading cache clear
    """
    config = config_of(ctx)
    from lading.cli.terminal.screen import print_json, say
    from lading.sources.archives.cache import clear_cache

    removed = clear_cache(config)
    if json:
        freed = sum(one.bytes for one in removed)
        print_json({"removed": [_cached_object(one) for one in removed], "bytes": freed})
        return
    for one in removed:
        say(f"removed {one.kind} {one.path.name}: {one.why}")
    size = byte_words(sum(one.bytes for one in removed))
    say(f"{count_words(len(removed), 'folder')} removed ({size})" if removed else "nothing to remove")


def _cached_object(one: Cached) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "path": str(one.path),
        "made_from": one.made_from,
        "files": one.files,
        "bytes": one.bytes,
        "tables": list(one.tables),
        "needed": one.needed,
        "why": one.why,
    }
