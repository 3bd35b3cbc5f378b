"""Deliberate defects, each put in place of the real thing, and how soon the simulation finds it.

A simulation that finds nothing proves something only if it would have found these.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec

from simulation.mutant import Mutant, Swap, mutated
from simulation.mutants_of_postgres import OF_POSTGRES
from simulation.mutants_of_readers import OF_READERS
from simulation.mutants_of_runs import OF_RUNS
from simulation.mutants_of_state import OF_STATE
from simulation.stories import story_case


def _no_log_fsync(swap: Swap) -> None:
    from lading.log.file import LogFile, _write_all

    def append(self: LogFile, frame: bytes, end: int) -> int:
        fd = os.open(self.path, os.O_RDWR)
        try:
            if os.fstat(fd).st_size > end:
                os.ftruncate(fd, end)
            _write_all(fd, frame, end)
        finally:
            os.close(fd)
        return end + len(frame)

    swap(LogFile, "append", append)


def _no_folder_fsync(swap: Swap) -> None:
    import lading.storage.folder as folder

    swap(folder, "fsync_dir", lambda path: None)


def _no_file_fsync(swap: Swap) -> None:
    import lading.storage.folder as folder

    def write(path: Any, pieces: Any) -> None:
        folder.make_dirs(os.path.dirname(path))
        with open(path, "wb") as file:
            file.writelines(pieces)

    swap(folder, "_write_synced", write)


def _no_part_fsync(swap: Swap) -> None:
    from lading.storage.folder import FolderStorage

    def keep(self: Any, draft: Any, name: str, *, durable: bool = True) -> None:
        os.link(draft, self.path(name))
        draft.unlink()

    swap(FolderStorage, "keep", keep)


def _found_is_durable(swap: Swap) -> None:
    from lading.storage.folder import FolderStorage

    swap(FolderStorage, "sync", lambda self, name: None)


def _no_compare_in_folder(swap: Swap) -> None:
    from lading.storage.folder import FolderStorage, _etag_of, write_atomic

    def careless(self: Any, name: str, data: bytes, etag: Any, *, content_type: Any = None) -> str:
        write_atomic(self.path(name), data)
        return _etag_of(data)

    swap(FolderStorage, "swap", careless)


def _no_compare_in_bucket(swap: Swap) -> None:
    from lading.storage.bucket import ObjectStorage

    def careless(self: Any, name: str, data: bytes, etag: Any, *, content_type: Any = None) -> str:
        self.put(name, data)
        return str(self.head(name).etag)

    swap(ObjectStorage, "swap", careless)


def _put_new_replaces(swap: Swap) -> None:
    from lading.storage.bucket import ObjectStorage

    swap(ObjectStorage, "put_new", lambda self, name, data, content_type=None: self.put(name, data))


def _pointer_before_manifest(swap: Swap) -> None:
    import lading.snapshots.publish as publish
    from lading.layout.table import manifest_path
    from lading.model import SnapshotRef
    from lading.snapshots.stores.files import FileStore
    from lading.snapshots.stores.protocol import later

    swap(FileStore, "_require", lambda self, ref, name: None)

    def reversed_(
        shelf: Any, payload: bytes, run_id: str, *, sequence: int, expected: Any = None, now: Any = None
    ) -> Any:
        at = later(now, None)
        name = manifest_path(at, run_id, shelf.manifest_name)
        done = publish._move(
            shelf, SnapshotRef(f"{shelf.storage.prefix}{name}", run_id, at, sequence), expected
        )
        shelf.put_manifest(payload, run_id, at)
        return done

    import lading.snapshots.stores.files as files

    swap(files, "publish_in_two_phases", reversed_)


def _clean_without_grace(swap: Swap) -> None:
    from lading.upkeep.clean.rules import Runs

    swap(Runs, "horizon", lambda self, grace: self.now + timedelta(hours=1))


def _clean_forgets_snapshots(swap: Swap) -> None:
    from lading.upkeep.clean.survey import Survey

    def reach(self: Any, kept: Any, old: Any, staying: Any, files: Any) -> Any:
        return real(self, kept, old, [], files)

    real = swap(Survey, "_reach", reach)


def _clean_forgets_the_log(swap: Swap) -> None:
    from lading.upkeep.clean.apply import LiveLog
    from lading.upkeep.clean.survey import Survey

    def reach(self: Any, *args: Any) -> Any:
        return replace(real(self, *args), is_live=lambda path: False)

    real = swap(Survey, "_reach", reach)
    swap(LiveLog, "is_live", lambda self, path: False)


def _clean_never_gives_up(swap: Swap) -> None:
    import lading.upkeep.clean.apply as apply

    swap(apply, "_give_up", lambda around, found: ())


def _clean_ignores_runs_at_work(swap: Swap) -> None:
    from lading.upkeep.clean.rules import Runs

    swap(Runs, "alive", property(lambda self: []))
    swap(Runs, "ended", lambda self, run_id: True)
    swap(Runs, "horizon", lambda self, grace: self.now)


def _stale_plan(swap: Swap) -> None:
    from lading.log.table import Table

    swap(Table, "catch_up", lambda self: None)


def _no_conflicts(swap: Swap) -> None:
    import lading.log.table as table

    swap(table, "refuse_conflicts", lambda *args: None)
    swap(table.Table, "_refuse_impossible", lambda self, commit: None)


def _nothing_relied_on(swap: Swap) -> None:
    import lading.log.table as table
    from lading.log.conflict import refuse_conflicts

    swap(
        table,
        "refuse_conflicts",
        lambda commit, since, recipe, relies_on=(): refuse_conflicts(commit, since, recipe),
    )


def _torn_tail_kept(swap: Swap) -> None:
    from lading.log.file import LogFile, _write_all

    def append(self: LogFile, frame: bytes, end: int) -> int:
        fd = os.open(self.path, os.O_RDWR)
        try:
            at = os.fstat(fd).st_size
            _write_all(fd, frame, at)
            os.fsync(fd)
        finally:
            os.close(fd)
        return at + len(frame)

    swap(LogFile, "append", append)


def _failed_append_left(swap: Swap) -> None:
    from lading.log.file import LogFile

    swap(LogFile, "_cut_off", lambda self, fd, end, error: None)


def _taken_back_is_made(swap: Swap) -> None:
    from lading.log.file import LogFile

    swap(LogFile, "_refuse_taken_back", lambda self, file, tip: None)


def _no_lock(swap: Swap) -> None:
    from lading.log.file import LogFile

    swap(LogFile, "lock", lambda self: contextlib.nullcontext())


def _lost_answer_is_theirs(swap: Swap) -> None:
    from lading.log.objects import ObjectLog, Taken, log_object

    def append(self: Any, frame: bytes, end: int) -> int:
        try:
            self._storage.put_new(log_object(end + 1), frame)
        except FileExistsError:
            raise Taken from None
        return end + 1

    swap(ObjectLog, "append", append)


def _made_is_conflict(swap: Swap) -> None:
    from lading.log.checkpoint import checkpoints_from
    from lading.log.objects import ObjectLog

    swap(ObjectLog, "_was_given", lambda self, number: bool(checkpoints_from(self._place, number)))


def _never_given(swap: Swap) -> None:
    from lading.log.objects import ObjectLog

    swap(ObjectLog, "_was_given", lambda self, number: False)


def _gaps_are_not_asked_for(swap: Swap) -> None:
    from lading.log.objects import ObjectLog

    def fetched(self: Any, listed: set[int], offset: int, end: int) -> Any:
        found = [self._frame(number) for number in sorted(listed)]
        return [one for one in found if one is not None], []

    swap(ObjectLog, "_fetched", fetched)


def _rollback_does_not_hold(swap: Swap) -> None:
    import lading.snapshots.publish as publish

    real = publish.outcome_of

    def outcome(current: Any, sequence: int, raced: bool) -> Any:
        return real(replace(current, held=False) if current is not None else None, sequence, raced)

    swap(publish, "outcome_of", outcome)


def _older_wins(swap: Swap) -> None:
    import lading.snapshots.publish as publish

    swap(
        publish,
        "outcome_of",
        lambda current, sequence, raced: "held" if current and current.held else "current",
    )


def _compact_log_first(swap: Swap) -> None:
    from lading import ids
    from lading.log.objects import ObjectLog
    from lading.log.table import Table

    def compact(self: Any) -> None:
        if isinstance(self._log, ObjectLog):
            self.checkpoint()
            return
        with self._log.lock():
            self.refresh()
            header = msgspec.structs.replace(self._header, log_id=ids.fresh(), base=self.state.sequence)
            self._log.replace(header)
            self._write_checkpoint(header.log_id, len(header.to_bytes()), self.state.base)
            self._header, self._end = header, len(header.to_bytes())

    swap(Table, "compact", compact)


def _overlay_believed(swap: Swap) -> None:
    import lading.log.file as file

    class Believing(file.Trail):
        def covered(self) -> Any:
            return msgspec.structs.replace(super().covered(), hash=0)

    swap(file, "Trail", Believing)
    import lading.log.table as table

    swap(table, "Trail", Believing)


def _minus_lost(swap: Swap) -> None:
    from lading.log.state import TableState

    def edit(self: Any, commit: Any) -> None:
        real(self, msgspec.structs.replace(commit, minus=()))

    real = swap(TableState, "_edit", edit)


def _deleted_without_notice(swap: Swap) -> None:
    from lading.snapshots.stores.files import FileStore

    def retire(self: Any, name: str, *, marked: bool) -> bool:
        return real(self, name, marked=False)

    real = swap(FileStore, "_retire", retire)


def _publish_without_looking(swap: Swap) -> None:
    from lading.snapshots.stores.files import FileStore

    swap(FileStore, "_require", lambda self, ref, name: None)


def _silence_is_damage(swap: Swap) -> None:
    import lading.upkeep.rebuild as rebuild
    from lading.errors import LadingError

    def whole(folder: Any) -> Any:
        try:
            return real(folder)
        except LadingError:
            return None

    real = swap(rebuild, "_whole_log", whole)


def _superseded_by_itself(swap: Swap) -> None:
    import lading.snapshots.publish as publish
    from lading.snapshots.stores.protocol import Published

    def move(shelf: Any, to: Any, expected: Any) -> Any:
        current = shelf.load_current()
        raced = expected is not None and not publish.same_pointer(current, expected)
        while True:
            outcome = publish.outcome_of(current, to.sequence, raced)
            if current is not None and outcome != "current":
                return Published(to.ref, outcome, current)
            publish.refuse_retired(current, to.ref)
            new = publish.successor(current, to)
            if shelf.swap_current(current, new):
                return Published(to.ref, "current", new)
            raced = True
            current = shelf.load_current()
            if publish.same_pointer(current, new):
                return Published(to.ref, "current", new)

    swap(publish, "_move", move)


def _many_write_manifest_json(swap: Swap) -> None:
    import lading.ingest.record as record
    from lading.log.table_manifest import write_manifest

    def careless(place: Any, manifest: Any, extra: Any, *, mending: bool = False) -> None:
        write_manifest(place, manifest, extra)

    swap(record, "replace_manifest", careless)


def _manifest_json_put(swap: Swap) -> None:
    import lading.ingest.record as record
    import lading.log.table_manifest as file
    from lading.storage.place import storage_of

    def looked_and_put(place: Any, manifest: Any, extra: Any, *, mending: bool = False) -> None:
        if mending or file._has_nothing_later(file._end_of(storage_of(place)), extra):
            file.write_manifest(place, manifest, extra)

    swap(record, "replace_manifest", looked_and_put)


def _mender_knows_best(swap: Swap) -> None:
    import lading.ingest.record as record
    from lading.log.table_manifest import write_manifest

    def replace_manifest(place: Any, manifest: Any, extra: Any, *, mending: Any = None) -> None:
        if mending is None:
            real(place, manifest, extra)
        else:
            write_manifest(place, manifest, extra)

    real = swap(record, "replace_manifest", replace_manifest)


def _sleepers_fail(swap: Swap) -> None:
    import lading.log.checkpoint as checkpoint
    import lading.storage.folder as folder

    def write(path: Any, data: Any, *, temporary: str | None = None) -> None:
        within, name = os.path.split(path)
        beside = os.path.join(within, temporary or folder.fresh_temporary(name))
        folder._write_and_rename(beside, path, (data,) if isinstance(data, bytes) else data)
        folder.fsync_dir(within)

    swap(folder, "write_atomic", write)
    swap(checkpoint, "write_atomic", write)


def _dead_runs_stay(swap: Swap) -> None:
    import lading.upkeep.clean.apply as apply

    real = apply._apply

    def careless(around: Any, report: Any) -> None:
        if report.garbage:
            real(around, report)

    swap(apply, "_apply", careless)


def _tidy_keeps_nothing(swap: Swap) -> None:
    import lading.run as door

    real = door.tidy
    swap(door, "tidy", lambda table, run_id, kept, buckets: real(table, run_id, (), None))


def _gone_forgotten(swap: Swap) -> None:
    from lading.log.state import TableState

    real = swap(
        TableState,
        "apply",
        lambda self, commits: real(self, [msgspec.structs.replace(c, gone=()) for c in commits]),
    )


def _lost_moves_forgotten(swap: Swap) -> None:
    import lading.snapshots.pointer as pointer

    swap(pointer, "_MOVES", 0)


def _sleepers_told_badly(swap: Swap) -> None:
    from lading.log.table import Table

    swap(Table, "_expired", lambda self, run_id: None)


MUTANTS = (
    Mutant("an fsync of the log left out", ("collecting",), _no_log_fsync, "folder"),
    Mutant("an fsync of a folder left out", ("collecting", "pointing"), _no_folder_fsync, "folder"),
    Mutant(
        "an fsync of a file before its rename left out", ("collecting", "pointing"), _no_file_fsync, "folder"
    ),
    Mutant("an fsync of a part left out", ("collecting", "tabling"), _no_part_fsync, "folder", "power"),
    Mutant("what is there taken for durable", ("pointing",), _found_is_durable, "folder", "power"),
    Mutant("a compare left out, in a folder", ("pointing",), _no_compare_in_folder, "folder"),
    Mutant("a compare left out, in a bucket", ("pointing",), _no_compare_in_bucket, "bucket"),
    Mutant("a log object created over another", ("collecting",), _put_new_replaces, "bucket"),
    Mutant("the pointer before the manifest", ("pointing",), _pointer_before_manifest),
    Mutant("cleaning without grace", ("tabling",), _clean_without_grace),
    Mutant("cleaning that forgets the snapshots that stay", ("tabling",), _clean_forgets_snapshots),
    Mutant("cleaning that forgets the log", ("tabling",), _clean_forgets_the_log),
    Mutant("cleaning that gives no dead run up", ("tabling",), _clean_never_gives_up),
    Mutant("cleaning beside runs at work", ("tabling",), _clean_ignores_runs_at_work),
    Mutant("a stale read at commit", ("collecting",), _stale_plan),
    Mutant("conflicts not looked for", ("collecting", "tabling"), _no_conflicts),
    Mutant("an answer that others made wrong", ("collecting",), _nothing_relied_on),
    Mutant("a torn tail kept", ("collecting",), _torn_tail_kept, "folder"),
    Mutant("a failed append left in the log", ("collecting",), _failed_append_left, "folder"),
    Mutant("a commit that was taken back believed", ("collecting",), _taken_back_is_made, "folder", "disk"),
    Mutant("the log's lock left out", ("collecting",), _no_lock, "folder"),
    Mutant(
        "a lost answer taken for somebody else's commit", ("collecting",), _lost_answer_is_theirs, "bucket"
    ),
    Mutant("a commit that was made taken for a conflict", ("collecting",), _made_is_conflict, "bucket"),
    Mutant("a listing's gaps taken for the truth", ("collecting",), _gaps_are_not_asked_for, "bucket"),
    Mutant("a rollback that doesn't hold", ("pointing",), _rollback_does_not_hold),
    Mutant("an older snapshot that wins", ("pointing",), _older_wins),
    Mutant("compaction that empties the log first", ("collecting",), _compact_log_first, "folder"),
    Mutant("a lost minus", ("tabling",), _minus_lost),
    Mutant("a retracted file that comes back", ("tabling",), _gone_forgotten),
    Mutant("a manifest deleted without notice", ("pointing",), _deleted_without_notice, "bucket"),
    Mutant("a publish that doesn't look for its manifest", ("pointing",), _publish_without_looking),
    Mutant("silence taken for damage", ("collecting",), _silence_is_damage, "bucket"),
    Mutant("a move of the pointer that others moved on from", ("pointing",), _lost_moves_forgotten, "bucket"),
    Mutant("a sleeper that is told what it misses first", ("tabling",), _sleepers_told_badly, None, "doze"),
    Mutant("a publish superseded by itself", ("pointing",), _superseded_by_itself, "bucket"),
    Mutant("several that write manifest.json at once", ("tabling",), _many_write_manifest_json, "folder"),
    Mutant(
        "a manifest.json that arrives late and replaces a newer one",
        ("tabling",),
        _manifest_json_put,
        "bucket",
        "late",
    ),
    Mutant(
        "a repair that slept replaces a newer manifest.json", ("tabling",), _mender_knows_best, None, "repair"
    ),
    Mutant("what cleaning took from a sleeper fails it", ("tabling",), _sleepers_fail, "folder", "doze"),
    Mutant("a dead run that nobody gives up", ("tabling",), _dead_runs_stay),
    Mutant("tidying that keeps nothing", ("tabling",), _tidy_keeps_nothing),
    *OF_STATE,
    *OF_READERS,
    *OF_RUNS,
    *OF_POSTGRES,
)


@dataclass(frozen=True)
class Caught:
    seconds: float
    histories: int
    story: str = ""
    seed: int = 0
    kind: str = ""  # empty: not caught


def hunt(mutant: Mutant, seconds: float, first: int = 0) -> Caught:
    """Histories until one goes wrong, for so many seconds of one core."""
    from simulation.case import play

    began = time.process_time()
    number = 0
    with mutated(mutant):
        for seed in range(first, first + 1_000_000):
            if time.process_time() - began > seconds:
                break
            story = mutant.stories[seed % len(mutant.stories)]
            case = story_case(story, seed)
            if not mutant.may_show_in(case):
                continue
            number += 1
            wrong = play(case).wrong
            if wrong is not None:
                return Caught(time.process_time() - began, number, story, seed, wrong.kind)
    return Caught(time.process_time() - began, number)


def table_of_mutants(only: str | None, *, seconds: float) -> int:
    """Prints each with the time that it took; 1 if one got through."""
    from simulation import machine

    machine.install()
    through = 0
    for mutant in MUTANTS:
        if only and only not in mutant.name:
            continue
        found = hunt(mutant, seconds)
        through += not found.kind
        what = f"{found.kind} ({found.story} {found.seed})" if found.kind else "NOT CAUGHT"
        print(f"{mutant.name:<50} {found.seconds:6.1f} s  {found.histories:>5} histories  {what}", flush=True)
    return 1 if through else 0
