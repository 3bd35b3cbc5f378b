"""Deliberate defects in what decides what a run does: derived tables, watchers, archives, quarantine."""

from __future__ import annotations

from typing import Any

from simulation.mutant import Mutant, Swap


def _changes_missed(swap: Swap) -> None:
    import lading.ingest.derived.look as look
    from lading.ingest.derived.changed import Changed

    swap(look, "changed_slots", lambda *args: Changed(frozenset()))


def _input_taken_for_the_same(swap: Swap) -> None:
    import lading.ingest.derived.look as look

    swap(look, "_is_as_pinned", lambda shown, pinned: bool(pinned))


def _gone_rows_forgotten(swap: Swap) -> None:
    """Only what an input has now says which slots changed."""
    import lading.ingest.derived.look as look

    def forgetful(before: Any, now: Any, *rest: Any) -> Any:
        return real(now, now, *rest)

    real = swap(look, "changed_slots", forgetful)


def _hints_are_the_truth(swap: Swap) -> None:
    from lading.watcher.schedule import Schedule

    def due(self: Any, at: float) -> list[Any]:
        first = not getattr(self, "listed", False)
        self.listed = True
        return [one for one in real(self, at) if first or one.keys is not None]

    real = swap(Schedule, "due", due)


def _lease_given_up(swap: Swap) -> None:
    from lading.watcher.lease import _Kept

    swap(_Kept, "_is_ours", lambda self: False)


def _lease_for_ever(swap: Swap) -> None:
    from lading.watcher.lease import Holder

    swap(Holder, "is_alive", lambda self, now: True)


def _old_extraction_used(swap: Swap) -> None:
    from lading.sources.archives.input import Input

    swap(Input, "is_still", lambda self, proof, full: self.mtime_ns - proof.mtime_ns < 10**12)


def _aside_not_replayed(swap: Swap) -> None:
    import lading.ingest.replay as replay

    swap(replay, "read_again", lambda known, cfg, **more: dict(known))


def _aside_forgotten(swap: Swap) -> None:
    from dataclasses import replace

    from lading.upkeep.clean.survey import Survey

    def reach(self: Any, *args: Any) -> Any:
        return replace(real(self, *args), aside=frozenset())

    real = swap(Survey, "_reach", reach)


def _cleared_twice(swap: Swap) -> None:
    """What a survey found is deleted, whether it is still there or not."""
    import shutil

    import lading.sources.archives.cache as cache
    from lading.storage.folder import is_locked, locked

    def clear(config: Any) -> list[Any]:
        removed = []
        for one in cache.cache_contents(config):
            if one.needed or is_locked(one.lock):
                continue
            with locked(one.lock):
                shutil.rmtree(one.path)
            removed.append(one)
        return removed

    import simulation.unpacking as unpacking

    swap(unpacking, "clear_cache", clear)


def _gone_archive_unnamed(swap: Swap) -> None:
    from lading.sources.archives.extract import Extraction

    def unpack(self: Any, archive: Any, kind: Any, below: str, depth: int) -> None:
        archive.stat()
        real(self, archive, kind, below, depth)

    real = swap(Extraction, "unpack", unpack)


def _since_forgotten(swap: Swap) -> None:
    """What is told beside the source manifest counts, but for the entries themselves."""
    from lading.sources.since import Since

    def add(self: Any, recorded: Any) -> None:
        files = dict(self.files)
        real(self, recorded)
        self.files = files

    real = swap(Since, "add", add)


def _asked_last_wins(swap: Swap) -> None:
    """A defect of the story: two people edit lading.yaml at once."""
    from simulation.unpacking import Unpacking

    swap(Unpacking, "limit", property(lambda self: self.asked))


def _only_current_needs_inputs(swap: Swap) -> None:
    import lading.upkeep.clean.pinned as pinned
    from lading.snapshots.stores.protocol import ManifestStore

    class Current:
        def __init__(self, store: ManifestStore) -> None:
            self._store = store
            self.manifest_path, self.load_manifest = store.manifest_path, store.load_manifest
            self.load_current = store.load_current

        def list_manifests(self) -> list[Any]:
            current = self._store.load_current()
            return [current] if current is not None else []

    real = swap(pinned, "store_of", lambda config, name: Current(real(config, name)))


OF_RUNS = (
    Mutant("entries beside the source manifest forgotten", ("tabling",), _since_forgotten),
    Mutant("an archive that went while it was unpacked not named", ("unpacking",), _gone_archive_unnamed),
    Mutant(
        "the limit that was asked for last taken for the one that holds",
        ("unpacking",),
        _asked_last_wins,
        None,
        "limit",
    ),
    Mutant("a cache cleared of what is gone already", ("unpacking",), _cleared_twice),
    Mutant("slots that changed and are not found", ("deriving",), _changes_missed),
    Mutant("another snapshot of an input taken for the same", ("deriving",), _input_taken_for_the_same),
    Mutant("rows that went from an input forgotten", ("deriving",), _gone_rows_forgotten),
    Mutant("cleaning that keeps inputs of what readers see alone", ("deriving",), _only_current_needs_inputs),
    Mutant("hints taken for the whole truth", ("watching",), _hints_are_the_truth),
    Mutant("a lease given up when an answer got lost", ("watching",), _lease_given_up, "bucket"),
    Mutant("a lease that never lapses", ("watching",), _lease_for_ever),
    Mutant("an extraction of an older archive used", ("unpacking",), _old_extraction_used),
    Mutant("what a check set aside never read again", ("unpacking",), _aside_not_replayed),
    Mutant("cleaning that forgets the quarantine", ("unpacking",), _aside_forgotten),
)
