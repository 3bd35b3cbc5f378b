"""Which of several attempts at a shard counts: one rule, whoever asks.

Spark may run a task twice (retries, speculation), and each run leaves a shard of its own. All are equal
in content; the choice has to be the same for everybody all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lading.errors import ShardCoverageError
from lading.snapshots.manifest import ShardMeta

_HINT = "nothing was published; run again, and look into spark/spark.log in the cache folder if it stays"


def preference(shard: ShardMeta) -> tuple[int, int, str]:
    """The least of these wins."""
    task = shard.writer_info.task_attempt_id
    return (shard.attempt, 2**63 - 1 if task is None else task, shard.db_url or "")


def select_winners(attempts: Iterable[ShardMeta], expected: Collection[int]) -> tuple[ShardMeta, ...]:
    """One attempt for each shard of `expected`, by id; ShardCoverageError when one has none."""
    best: dict[int, ShardMeta] = {}
    for shard in attempts:
        known = best.get(shard.db_id)
        if known is None or preference(shard) < preference(known):
            best[shard.db_id] = shard
    missing = sorted(set(expected) - best.keys())
    if missing:
        raise ShardCoverageError(f"no task has built {_listed(missing)} of {len(expected)}", hint=_HINT)
    strange = sorted(best.keys() - set(expected))
    if strange:
        raise ShardCoverageError(f"{_listed(strange)} were built, which nobody asked for", hint=_HINT)
    return tuple(best[db_id] for db_id in sorted(best))


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{'shards' if len(numbers) > 1 else 'shard'} {shown}{' and more' if len(numbers) > 10 else ''}"
