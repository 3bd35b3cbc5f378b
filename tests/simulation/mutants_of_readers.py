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


def _hint_stays(swap: Swap) -> None:
    import lading.iceberg.show as show

    real = swap(
        show, "follow", lambda store, place, **more: None if show.where(place) else real(store, place, **more)
    )


def _hint_first(swap: Swap) -> None:
    """The next version, and the hint, before the pointer moves."""
    import lading.ingest.release as release
    from lading.iceberg.follow import where
    from lading.storage.place import storage_of

    def publish(store: Any, table: Any, payload: bytes, run_id: str) -> Any:
        at = where(table.place)
        if at is not None:
            storage_of(table.place).put("metadata/version-hint.text", str(at.version + 1).encode())
        return real(store, table, payload, run_id)

    real = swap(release, "publish_snapshot", publish)


def _pointer_read_first(swap: Swap) -> None:
    """And the newest version only behind it."""
    import lading.iceberg.show as show

    class Early:
        def __init__(self, store: Any) -> None:
            self._store, self._early = store, [store.load_current()]

        def load_current(self) -> Any:
            return self._early.pop() if self._early else self._store.load_current()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

    real = swap(show, "follow", lambda store, place, **more: real(Early(store), place, **more))


def _no_positions(swap: Swap) -> None:
    import pyarrow as pa

    import lading.iceberg.snapshot as snapshot

    swap(snapshot, "dead_rows", lambda root, member: pa.array([], pa.int64()))


def _metadata_forgotten(swap: Swap) -> None:
    from lading.iceberg.follow import where
    from lading.iceberg.followed import Followed
    from lading.upkeep.clean import survey

    def today(place: Any, horizon: Any) -> Any:
        at = where(place)
        return None if at is None else Followed(at.version)

    swap(survey, "followed_since", today)


def _never_shown_is_new(swap: Swap) -> None:
    import lading.ingest.settle as settle
    from lading.parts.field_ids import field_id, gone_names

    def renumbered(before: Any, now: Any) -> list[str]:
        old = gone_names(before) | {field.name: field_id(field) for field in before}
        return [field.name for field in now if old.get(field.name, field_id(field)) != field_id(field)]

    swap(settle, "renumbered", renumbered)


def _unsettled_stays(swap: Swap) -> None:
    import lading.ingest.release as release

    swap(release, "waits_to_be_settled", lambda *args: False)


def _any_hint_leads_there(swap: Swap) -> None:
    import lading.iceberg.show as show
    from lading.iceberg.follow import where

    swap(show, "is_followed", lambda store, place, current: where(place) is not None)


OF_READERS = (
    Mutant("any hint taken for one that leads to the pointer", ("showing",), _any_hint_leads_there),
    Mutant("parts that nobody settles again", ("showing",), _unsettled_stays),
    Mutant("a hint that stays where it is", ("showing",), _hint_stays),
    Mutant("the hint before the pointer", ("showing",), _hint_first),
    Mutant("the pointer read before the newest version", ("showing",), _pointer_read_first, None, "sticky"),
    Mutant("position deletes left out", ("showing",), _no_positions),
    Mutant("metadata that somebody follows cleaned away", ("showing",), _metadata_forgotten),
    Mutant("a column that was never shown taken for new", ("showing",), _never_shown_is_new),
    Mutant("shards shared though their keys changed", ("serving",), _shards_shared_wrongly),
    Mutant("of equal keys any row that wins", ("serving",), _any_row_wins),
    Mutant("a winning attempt dropped with the losers", ("serving",), _winners_dropped),
    Mutant("cleaning that forgets shards", ("serving",), _shards_forgotten),
    Mutant("losing attempts that stay for ever", ("serving",), _losers_stay),
    Mutant("attempts that share a folder", ("serving",), _attempts_share_a_folder, "folder"),
    Mutant("a slow download taken for abandoned", ("serving",), _slow_download_dropped, "bucket", "nap"),
)
