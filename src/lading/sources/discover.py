"""Which files a table has right now: one listing, one stat a file, nothing opened.

A file that discovery misses has its rows retracted, so whatever can't be listed stops the run:
a shorter list must never come from an error. For the same reason links are either followed inside
the root or refused aloud.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from lading import clock
from lading.config.project import Config, TableConfig
from lading.errors import ConfigError, SourceError
from lading.formats.opening import bound_below
from lading.model import FoundFile, Place
from lading.sources.fingerprint import FIRST_NS, Spots, time_ns
from lading.sources.found import FoundFiles, Row
from lading.sources.glob import ANY_FOLDERS, compile_segment, glob_segments, plain_suffix
from lading.sources.objects import Objects

# A file whose mtime is younger than this may change again within its clock tick.
RACY_NS = 2_000_000_000

_NAME = itemgetter(0)
_REMEDIES = dict.fromkeys((errno.EMFILE, errno.ENFILE), "allow more open files (ulimit -n)")
_TO_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_NameTest = Callable[[str], object]
# A folder to go on with: its path, the prefix of the keys in it, the states inside it, and the real paths
# of the folders above it.
_Folder = tuple[str, str, frozenset[int], tuple[str, ...]]
_Files = tuple[str, list[Row]]  # files that come next: the prefix of their keys, and their rows


def discover(root: Path, pattern: str, *, now_ns: int) -> FoundFiles:
    """Every file below `root` whose key matches the glob, sorted by key."""
    top = os.path.abspath(root)
    if not os.path.isdir(top):
        raise SourceError(
            f"the root {top} does not exist or is not a folder",
            hint="check `root` in lading.yaml, and that the disk is mounted; no rows were retracted",
            file=top,
        )
    return _Walk(top, pattern, now_ns).files()


class _Walk:
    """One listing. A state is an index into the glob's segments: what the next name has to match."""

    def __init__(self, top: str, pattern: str, now_ns: int) -> None:
        segments = glob_segments(pattern)
        self._last = len(segments) - 1
        self._tests: list[_NameTest | None] = [
            None if segment == ANY_FOLDERS else compile_segment(segment).fullmatch for segment in segments
        ]
        self._suffix = plain_suffix(segments[-1])
        self._top = top
        self._real_top = os.path.realpath(top)
        self._racy_after = now_ns - RACY_NS
        self._spots = Spots()
        self._nameless: dict[frozenset[int], frozenset[int]] = {}  # states below those that take any name

    def files(self) -> FoundFiles:
        found = FoundFiles(self._top)
        pending: list[_Folder | _Files] = [(self._top, "", self._closed({0}), (self._real_top,))]
        while pending:
            first = pending.pop()
            if len(first) == 2:
                found.add(*first)
            else:
                pending += self._list(*first)
        return found.complete()

    def _list(
        self, folder: str, prefix: str, states: frozenset[int], above: tuple[str, ...]
    ) -> list[_Folder | _Files]:
        """The folder's files and the folders to go on with, the last of them first."""
        try:
            # Opened once: its files are then asked about by their names, not by their whole paths.
            fd = os.open(folder, _TO_LIST)
            try:
                with os.scandir(fd) as entries:
                    return self._take(entries, folder, prefix, states, above)
            finally:
                os.close(fd)
        except OSError as error:
            below = error.filename if isinstance(error.filename, str) else ""
            raise SourceError(
                f"{os.path.join(folder, below) if below else folder} can't be listed: {error.strerror}",
                hint=_REMEDIES.get(
                    error.errno or 0, "make it readable, or exclude it from the table's `path`"
                )
                + "; no rows were retracted",
                file=folder,
            ) from error

    def _take(
        self,
        entries: Iterable[os.DirEntry[str]],
        folder: str,
        prefix: str,
        states: frozenset[int],
        above: tuple[str, ...],
    ) -> list[_Folder | _Files]:
        matches = self._tests[self._last] if self._last in states else None
        folders: list[_Folder] = []
        found: list[Row] = []
        # Locals, not attributes: this loop runs once a file.
        take, suffix = found.append, self._suffix
        first, racy_after = FIRST_NS, self._racy_after
        here: int | None = None
        root = folder if folder.endswith("/") else folder + "/"
        for entry in entries:
            name = entry.name
            if entry.is_file(follow_symlinks=False):
                if matches is None or not (name.endswith(suffix) if suffix else matches(name)):
                    continue
                if not name.isascii():
                    _check_name(root + name)
                stat = entry.stat()
                at, racy = stat.st_mtime_ns, False
                if not first <= at <= racy_after:
                    at, racy = time_ns(stat), True
                if here is None:  # all files of a folder are taken to be on one device
                    here, inodes = self._spots.folder(above[-1], stat.st_dev)
                lies = here ^ stat.st_ino if inodes else here
                take((name, stat.st_size, at, racy, lies))
            elif entry.is_dir(follow_symlinks=False):
                below = self._below(states, name)
                if below:
                    if not name.isascii():
                        _check_name(root + name)
                    folders.append((root + name, f"{prefix}{name}/", below, (*above, f"{above[-1]}/{name}")))
            else:
                self._special(entry, root + name, prefix, states, above, folders, found)
        return _in_key_order(prefix, found, folders)

    def _special(
        self,
        entry: os.DirEntry[str],
        path: str,
        prefix: str,
        states: frozenset[int],
        above: tuple[str, ...],
        folders: list[_Folder],
        found: list[Row],
    ) -> None:
        """Links, and things that are neither file nor folder. What they lead to is added."""
        matches = self._tests[self._last] if self._last in states else None
        wanted = matches is not None and bool(matches(entry.name))
        below = self._below(states, entry.name)
        if not wanted and not below:
            return
        _check_name(path)
        real = self._inside(path) if entry.is_symlink() else path
        stat = os.stat(real)
        if S_ISDIR(stat.st_mode):
            if below and real in above:
                raise SourceError(
                    f"{path} links back to {real}, a folder that contains it",
                    hint="remove the link, which is an endless loop",
                    file=prefix + entry.name,
                )
            if below:
                folders.append((path, f"{prefix}{entry.name}/", below, (*above, real)))
            return
        if wanted and not S_ISREG(stat.st_mode):
            raise SourceError(
                f"{path} is neither a file nor a folder",
                hint="move it away, or exclude it from the table's `path`",
                file=prefix + entry.name,
            )
        if wanted:
            at = time_ns(stat)
            racy = at > self._racy_after or stat.st_mtime_ns < FIRST_NS
            found.append((entry.name, stat.st_size, at, racy, self._spots.file(real, stat)))

    def _inside(self, path: str) -> str:
        """Where a link leads; an error unless that exists and lies below the root."""
        real = os.path.realpath(path)
        if real != self._real_top and not real.startswith(self._real_top.rstrip("/") + "/"):
            raise SourceError(
                f"{path} links to {real}, outside the root {self._top}",
                hint="copy the file into the root, or set `root` to a folder that contains both",
                file=path,
            )
        if not os.path.exists(real):
            raise SourceError(
                f"{path} links to {real}, which does not exist",
                hint="remove the link or restore its target; no rows were retracted",
                file=path,
            )
        return real

    def _below(self, states: frozenset[int], name: str) -> frozenset[int]:
        """The states inside a folder of that name: empty when nothing there can match."""
        if states in self._nameless:
            return self._nameless[states]
        following = set()
        asked = False
        for state in states:
            test = self._tests[state]
            if test is None:
                following.add(state)
            elif state < self._last:
                asked = True
                if test(name):
                    following.add(state + 1)
        below = self._closed(following)
        if not asked:
            self._nameless[states] = below
        return below

    def _closed(self, states: set[int]) -> frozenset[int]:
        """`**` also matches no folder: with it, what follows it may come at once."""
        closed = set(states)
        for state in sorted(states):
            while self._tests[state] is None:
                state += 1
                closed.add(state)
        return frozenset(closed)


def _in_key_order(prefix: str, found: list[Row], folders: list[_Folder]) -> list[_Folder | _Files]:
    """A folder's files and what lies below it, the last ones first: a folder comes where the keys in it do,
    between files, so that a listing is sorted as it grows."""
    found.sort()
    if not folders:
        return [(prefix, found)] if found else []
    folders.sort(key=lambda one: one[1])
    ordered: list[_Folder | _Files] = []
    done = 0
    for folder in folders:
        before = bisect_left(found, folder[1][len(prefix) :], done, key=_NAME)
        if before > done:
            ordered.append((prefix, found[done:before]))
        ordered.append(folder)
        done = before
    if done < len(found):
        ordered.append((prefix, found[done:]))
    ordered.reverse()
    return ordered


def _check_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise SourceError(
            f"the name of {os.fsencode(path)!r} is not valid UTF-8",
            hint="rename it; keys must be text",
            file=path.encode(errors="backslashreplace").decode(),
        ) from error


def objects_of(config: Config, cfg: TableConfig) -> Objects | None:
    """The bucket that a table's files are in; None when they are in a folder."""
    if cfg.url is None:
        return None
    return Objects(Place(cfg.url, tuple(sorted(config.s3.items()))), cfg.root)


def discover_files(config: Config, cfg: TableConfig, objects: Objects | None) -> Sequence[FoundFile]:
    for folder in (config.project, cfg.root):
        bound_below(str(folder), config.archives)
    if objects is not None:
        listed = objects.discover(cfg.path)
        _refuse_own_files(config, ((file.key, f"{objects.url}/{file.key}") for file in listed))
        return listed
    found = discover(cfg.root, cfg.path, now_ns=clock.wall_ns())
    if any(_may_meet(cfg.root, own) for own in (config.warehouse, config.cache)):
        _refuse_own_files(config, ((file.key, file.path) for file in found))
    return found


def _may_meet(root: Path, own: object) -> bool:
    path = Path(str(own))
    return path.is_relative_to(root) or root.is_relative_to(path)


def _refuse_own_files(config: Config, found: Iterable[tuple[str, str]]) -> None:
    """A glob that reaches into the warehouse or the cache would feed a table its own parts."""
    own = (f"{config.warehouse}/", f"{config.cache}/")
    for key, path in found:
        if path.startswith(own):
            raise ConfigError(
                f"`path` matches {path}, which lading wrote itself",
                hint="set `root` to the folder of the raw files, or narrow `path`, in lading.yaml",
                file=key,
            )
