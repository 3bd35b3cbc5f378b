"""What a reader says of itself: the snapshot it shows, and whether answers are to be had from it."""

from __future__ import annotations

from typing import Any

from lading import clock
from lading.errors import LadingError
from lading.read.view import Opener, View
from lading.serve.decode import encoding_of
from lading.serve.get import KeyReader
from lading.state.members import MemberStore


def info(view: View) -> dict[str, Any]:
    """The snapshot in figures."""
    keys = view.keys
    found = {
        "table": view.table,
        "run_id": view.ref.run_id,
        "published_at": view.ref.published_at.isoformat(),
        **(_parts(view.members) if view.has_parts else _no_parts(keys)),
        "served": keys.served,
    }
    if (made_of := keys.meta.custom.get("inputs")) is not None:
        found["inputs"] = made_of  # the snapshots that a table made of tables was made from
    if keys.served:
        found["serve"] = {
            "key": list(keys.router.key.columns),
            "key_encoding": keys.meta.key_encoding,
            "encoding": encoding_of(keys.meta),
            "strategy": keys.meta.sharding.strategy,
            "context": keys.router.context,
            "num_dbs": keys.meta.num_dbs,
            "shards": len(keys.shards),
            "keys": keys.count,
            "bytes": _bytes(keys),
        }
    return found


def _parts(members: MemberStore) -> dict[str, Any]:
    return {
        "sequence": members.meta.sequence,
        "rows": members.row_count(),
        "parts": members.count(),
        "buckets": members.bucket_count(),
        "sources": members.source_count(),
        "order_by": members.meta.order_by,
    }


def _no_parts(keys: KeyReader) -> dict[str, Any]:
    return {"sequence": 0, "rows": keys.count, "parts": 0, "buckets": 0, "sources": 0, "order_by": None}


def _bytes(keys: KeyReader) -> int | None:
    """None where the manifest doesn't say."""
    sizes = [shard.db_bytes for shard in keys.shards.values()]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def health(opener: Opener, view: View, *, max_age: float | None, deep: bool) -> dict[str, Any]:
    """`failing`: some answer can't be given. `degraded`: they can, but not the newest or not in time."""
    age = (clock.now() - view.ref.published_at).total_seconds()
    failures = _shard_problems(view, deep)
    concerns = []
    if view.fallback is not None:
        concerns.append(
            f"{view.fallback.ref} is malformed, so an earlier snapshot is used: {view.fallback.reason}"
        )
    if max_age is not None and age > max_age:
        concerns.append(f"the snapshot is {age:.0f} s old, more than {max_age:.0f}")
    behind: bool | None = None
    try:
        behind = not view.shows(opener.latest())
    except LadingError as error:
        failures.append(f"can't tell what is current: {error.message}")
    return {
        "status": "failing" if failures else "degraded" if concerns else "ok",
        "table": view.table,
        "run_id": view.ref.run_id,
        "manifest_ref": view.ref.ref,
        "published_at": view.ref.published_at.isoformat(),
        "age_seconds": round(age, 3),
        "held": view.ref.held,
        "behind": behind,
        "fallback_from": None if view.fallback is None else view.fallback.ref,
        "served": view.keys.served,
        "shards": len(view.keys.shards),
        "problems": failures + concerns,
    }


def _shard_problems(view: View, deep: bool) -> list[str]:
    found = []
    for number, shard in view.keys.shards.items():
        try:
            if deep:
                view.keys.check(number)
            else:
                view.keys.places.look(shard)
        except LadingError as error:
            found.append(f"shard {number}: {error.message}")
    return found
