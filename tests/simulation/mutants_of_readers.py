"""Deliberate defects in what is made for readers: shards, and Iceberg's metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from simulation.mutant import Mutant, Swap


def _shards_shared_wrongly(swap: Swap) -> None:
    from lading.serve.shard import _Base

    swap(_Base, "touched", lambda self, table, spec, session: set())


def _any_row_wins(swap: Swap) -> None:
    import lading.serve.build.task as task

    swap(task, "sort_order", lambda spec: ["k", "v"])


def _winners_dropped(swap: Swap) -> None:
    from lading.serve.build.place import ShardPlace

    real = swap(ShardPlace, "drop_losers", lambda self, winners: real(self, list(winners)[1:]))


def _shards_forgotten(swap: Swap) -> None:
    from lading.upkeep.clean.survey import Survey

    def reach(self: Any, *args: Any) -> Any:
        return replace(real(self, *args), shards=frozenset())

    real = swap(Survey, "_reach", reach)


def _losers_stay(swap: Swap) -> None:
    from lading.upkeep.clean import rules

    swap(rules, "_shard", lambda *args: None)


def _attempts_share_a_folder(swap: Swap) -> None:
    from pathlib import Path

    from lading.layout.table import SHARD_TEMPORARY, attempt_folder
    from lading.serve.build.place import Claim, ShardPlace
    from lading.storage.folder import make_dirs

    def claim(self: Any, db_id: int, attempt: int) -> Claim:
        if self.url is not None:
            return real(self, db_id, attempt)  # type: ignore[no-any-return]
        name = attempt_folder(f"{self._run}/{self.template.format(db_id=db_id)}", 0)
        make_dirs(Path(self.table_dir, name))
        return Claim(name, 0, Path(self.table_dir, name, SHARD_TEMPORARY))

    real = swap(ShardPlace, "claim", claim)


def _slow_download_dropped(swap: Swap) -> None:
    from lading import clock
    from lading.serve.open.cache import ShardCache

    swap(
        ShardCache,
        "_is_abandoned",
        lambda self, entry: clock.now().timestamp() - entry.stat().st_mtime > 3600,
    )


OF_READERS = (
    Mutant("shards shared though their keys changed", ("serving",), _shards_shared_wrongly),
    Mutant("of equal keys any row that wins", ("serving",), _any_row_wins),
    Mutant("a winning attempt dropped with the losers", ("serving",), _winners_dropped),
    Mutant("cleaning that forgets shards", ("serving",), _shards_forgotten),
    Mutant("losing attempts that stay for ever", ("serving",), _losers_stay),
    Mutant("attempts that share a folder", ("serving",), _attempts_share_a_folder, "folder"),
    Mutant("a slow download taken for abandoned", ("serving",), _slow_download_dropped, "bucket"),
)
