"""The log in a bucket: commit n is the object `log/<n>`, created only if it isn't there.

So writers on many machines need no lock: whoever creates an object has made that commit, and the others
take it in and try the next number. `log/0` is the header. Each object holds one frame, the same bytes that
a log on disk has. An answer that got lost is no riddle: what lies there is read back, and its bytes, which
carry the commit's id, say whose it is.

Compaction writes a checkpoint and leaves the objects. Cleaning deletes old ones and leaves the newest, so
that a writer that fell behind sees that numbers are missing instead of taking one of them for free. One that
fell behind between looking and creating finds out afterwards: there is a checkpoint behind its own commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta

import msgspec

from lading import clock
from lading.errors import CommitUnknown, Conflict, LogCorrupt, NotFound, StorageError
from lading.layout.table import LOG_FOLDER, log_object, number_of
from lading.log.checkpoint import checkpoints_from
from lading.log.file import LogTail, OpenedLog, Tip
from lading.model import Commit, Place
from lading.state.log_frames import Frames, LogHeader, Salvage, decode_frames, decode_header
from lading.state.overlay import Overlay
from lading.storage.place import storage_of
from lading.storage.protocol import SwapLost

_THREADS = 16  # frames fetched at a time
_PROBES = 16  # numbers that a listing left out and that are asked for one by one
_ATTEMPTS = 8  # to create one object, when the store keeps saying neither yes nor no
_CLOCKS = timedelta(minutes=1)  # that a store's machines may differ by
_PAUSE = 0.05  # seconds, doubled each time


class Taken(Exception):
    """Somebody else made the commit with this number: take it in and try the next."""


class ObjectLog:
    """The log of one place. An offset in it is a sequence number."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._storage = storage_of(place)

    def exists(self) -> bool:
        return is_taken(self._place, 0)

    def size(self) -> int:
        return sum(one.size for one in self._storage.list(LOG_FOLDER))

    def mark(self) -> object:
        """Nothing that says by itself whether somebody wrote."""
        return None

    def is_behind(self, sequence: int) -> bool:
        """Whether there is a commit after `sequence`, for one request."""
        return is_taken(self._place, sequence + 1)

    def create(self, header: LogHeader) -> None:
        """Start a log; FileExistsError if there is one."""
        self._storage.put_new(log_object(0), header.to_bytes())

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Nothing to hold: `append` succeeds for one writer only."""
        yield

    def read(self, log_id: str = "", offset: int = 0, tip: Tip | None = None) -> LogTail:
        """The commits behind `offset`, which nobody takes back. If some of them are no longer there, the
        header's `base` says up to which number."""
        header = self._header()
        if log_id and header.log_id != log_id:
            raise LogCorrupt(
                f"{self._place} was created again: its log is not the one from before",
                hint="open the table again, and delete checkpoints of the old one",
            )
        listed = {n for n in map(number_of, self._names_after(offset)) if n is not None}
        end = max(listed, default=offset)
        found, missing = self._fetched(listed, offset, end)
        if missing:
            header = msgspec.structs.replace(header, base=max(header.base, *missing))
        commits = [commit for commit in found if commit.sequence > header.base]
        return LogTail(header, Frames(commits, end, torn=False))

    def overlay(self) -> None:
        """There is none in a bucket."""

    def open(self, log_id: str, offset: int, base: int, overlay: Overlay | None = None) -> OpenedLog:
        """As `read`, for whoever has the checkpoint of sequence `base`."""
        return OpenedLog(self.read(log_id, offset))

    def sync(self) -> None:
        """What can be read is durable."""

    def append(self, frame: bytes, end: int) -> int:
        """Create the object behind `end`; Taken if somebody else did, CommitUnknown if that can't be told,
        Conflict if the number had been given and cleaned away since `end` was read."""
        name = log_object(end + 1)
        for attempt in range(_ATTEMPTS):
            try:
                self._storage.put_new(name, frame)
                return self._made(end + 1)
            except FileExistsError:
                doubt = None
            except StorageError as error:
                doubt = error
            found = self._looked_up(name, doubt)
            if found == frame:
                return self._made(end + 1)
            if found is not None:
                raise Taken
            clock.sleep(_PAUSE * 2**attempt)
        raise self._unknown(name, doubt)

    def _made(self, number: int) -> int:
        """`number`, unless it had been given before and cleaned away: what was created now then lies where no
        reader looks. CommitUnknown, and never Conflict, where the store's clock can't tell: after a Conflict
        files of the commit are deleted."""
        try:
            passed = self._was_given(number)
        except StorageError as error:
            raise self._unknown(log_object(number), error) from error
        if passed:
            raise Conflict(
                f"{self._place}: others committed past sequence {number} in between",
                hint="run again: it will plan from the new state",
            )
        return number

    def _was_given(self, number: int) -> bool:
        """Whether `number`, which was created just now, had been given before. Then cleaning has left a later
        commit and a checkpoint at or behind it, which is older than what was created now; a younger one has
        taken it in."""
        checkpoints = checkpoints_from(self._place, number)
        if not checkpoints or not any(self._names_after(number)):
            return False
        mine = self._storage.head(log_object(number)).modified
        oldest = min(one.modified for one in checkpoints)
        if mine - _CLOCKS < oldest <= mine:
            raise StorageError(f"a checkpoint is from the same moment as sequence {number}", hint="run again")
        return oldest <= mine

    def _looked_up(self, name: str, doubt: StorageError | None) -> bytes | None:
        try:
            return self._storage.get(name)
        except FileNotFoundError:
            return None
        except StorageError as error:
            raise self._unknown(name, doubt or error) from error

    def _unknown(self, name: str, doubt: StorageError | None) -> CommitUnknown:
        why = doubt.message if doubt is not None else "the store says both that it is there and that it isn't"
        return CommitUnknown(
            f"there is no telling whether the commit {self._place}/{name} was made: {why}",
            hint="run again when the store answers: it starts from what the log holds by then",
        )

    def _header(self) -> LogHeader:
        try:
            return decode_header(self._storage.get(log_object(0)))[0]
        except FileNotFoundError:
            raise NotFound(
                f"{self._place} has no log", hint="is this a lading table? `lading status` lists them"
            ) from None

    def _names_after(self, offset: int) -> Iterable[str]:
        return (one.name for one in self._storage.list(LOG_FOLDER, after=log_object(offset)))

    def _fetched(self, listed: set[int], offset: int, end: int) -> tuple[list[Commit], list[int]]:
        """The commits up to `end`, in order, and the numbers that aren't there. A listing is not a moment in
        time: it may leave out a number and still have a later one, so what it lacks is asked for."""
        lacking = [n for n in range(offset + 1, end + 1) if n not in listed] if end > offset else []
        asked = sorted(listed.union(lacking[-_PROBES:]))
        if len(asked) < 2:
            frames = [self._frame(number) for number in asked]
        else:
            with ThreadPoolExecutor(min(_THREADS, len(asked))) as pool:
                frames = list(pool.map(self._frame, asked))
        missing = [number for number, commit in zip(asked, frames, strict=True) if commit is None]
        return [commit for commit in frames if commit is not None], lacking[:-_PROBES] + missing

    def _frame(self, number: int) -> Commit | None:
        name = log_object(number)
        try:
            data = self._storage.get(name)
        except FileNotFoundError:
            return None
        frames = decode_frames(data, 0)
        if frames.torn or len(frames.commits) != 1 or frames.commits[0].sequence != number:
            raise LogCorrupt(
                f"{self._place}/{name} is not the commit that its name says",
                hint="someone else wrote it: restore it from the bucket's versions or a backup",
                file=f"{self._place}/{name}",
            )
        return frames.commits[0]

    def salvage(self) -> Salvage:
        """What can be read of a log that may be damaged; numbers that were cleaned away are no damage."""
        try:
            header = decode_header(self._storage.get(log_object(0)))[0]
        except (FileNotFoundError, LogCorrupt, msgspec.DecodeError):
            header = None
        numbers = [n for n in map(number_of, (one.name for one in self._storage.list(LOG_FOLDER))) if n]
        commits: list[Commit] = []
        for at, number in enumerate(numbers):
            try:
                commit = self._frame(number)
            except LogCorrupt:
                return Salvage(header, commits, len(numbers) - at - 1)
            if commit is not None:
                commits.append(commit)
        return Salvage(header, commits, 0)

    def last_number(self) -> int:
        """The greatest number that a commit was given, 0 before the first."""
        return max((number_of(one.name) or 0 for one in self._storage.list(LOG_FOLDER)), default=0)


def replace_header(place: Place, header: LogHeader, keep_as: str) -> tuple[str, ...]:
    """Start over under another id; gives the name under which the old header is kept, if there was one.
    Conflict if somebody else did so meanwhile."""
    storage, name = storage_of(place), log_object(0)
    kept: tuple[str, ...] = ()
    etag = None
    with suppress(FileNotFoundError):
        old, etag = storage.get_with_etag(name)
        kept = (f"{LOG_FOLDER}/{keep_as}",)
        storage.put(kept[0], old)
    try:
        storage.swap(name, header.to_bytes(), etag)
    except SwapLost:
        raise Conflict(
            f"someone else rebuilt {place} meanwhile", hint="look at it: lading collection check"
        ) from None
    return kept


def is_taken(place: Place, number: int) -> bool:
    """Whether there is a commit of that number, or the header for 0."""
    try:
        storage_of(place).head(log_object(number))
    except FileNotFoundError:
        return False
    return True
