"""A table's archives: extracted by a run, and under `on_bad: quarantine` set aside when they are refused.

An archive that was set aside is named under `preprocessing` in manifest/<table>.json, with what it was
then: it is not tried again until it changes, its limits or its password do, or somebody asks for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lading.config.archives import UNZIP
from lading.errors import ArchiveRefused
from lading.ingest.apart import in_spark, is_apart, look_at, unless_error
from lading.ingest.table_run import Refused, TableRun, now_text
from lading.ingest.verdict import FileVerdict
from lading.model import FoundFile
from lading.sources.archives.extractions import (
    Archive,
    Archives,
    Extracted,
    password_of,
    relative_path,
    unpack,
)
from lading.sources.archives.index import found_in
from lading.sources.archives.input import Input, Proof, one_file, proof_of
from lading.sources.archives.scratch import Apart
from lading.sources.fingerprint import time_ns
from lading.storage.folder import locked


@dataclass(frozen=True, slots=True)
class Expanded:
    """What a table is made of, after archives and scripts."""

    found: Sequence[FoundFile]
    waiting: tuple[FileVerdict, ...] = ()
    hidden: tuple[str, ...] = ()  # starts of keys that a waiting archive decides on
    preprocessing: dict[str, Any] = field(default_factory=dict)  # for manifest/<table>.json
    made: bool = False  # whether anything was extracted or run
    refused: tuple[Refused, ...] = ()
    apart: dict[str, Apart] = field(default_factory=dict)  # by the key of the input: what only tasks make


@dataclass(frozen=True, slots=True)
class RefusedBefore:
    """An archive that an earlier run set aside, as the manifest has it."""

    key: str
    reason: str
    at: str


def refused_before(section: Mapping[str, Any]) -> Iterator[RefusedBefore]:
    """`section` is `preprocessing` of manifest/<table>.json."""
    for key, entry in section.items():
        if isinstance(entry, dict) and "error" in entry:
            yield RefusedBefore(key, str(entry["error"]), str(entry.get("refused_at", "")))


def refused_keys(section: Mapping[str, Any]) -> list[str]:
    return [one.key for one in refused_before(section)]


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    proof: Proof
    at: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class Unpacker:
    run: TableRun

    def expand(
        self, plain: list[FoundFile], packed: Sequence[FoundFile], section: Mapping[str, Any]
    ) -> Expanded:
        run = self.run
        act = run.start_spark is not None
        archives = self._archives(apart=is_apart(run))
        wanted = [self._archive(file) for file in packed]
        ready = self._ready(archives, wanted)
        refused = self._still_refused([one for one in wanted if not ready[one.folder_name]], section)
        stale = [one for one in wanted if not ready[one.folder_name] and one.input.key not in refused]
        if stale and act:
            self._bring_up(archives, stale, ready, refused)
        current = [one for one in ready.values() if one is not None]
        if act:
            archives.use(run.cfg.name, current)
        members = [
            file
            for one in current
            for file in found_in(
                one.folder,
                one.index,
                one.archive.input.key,
                run.cfg.inside,
                one.archive.identity if one.apart else None,
            )
        ]
        return Expanded(
            sorted([*plain, *members], key=lambda file: file.key),
            waiting=() if act else tuple(waits(run, one.input, section) for one in stale),
            hidden=() if act else tuple(f"{one.folder_name}/" for one in stale),
            preprocessing={one.archive.input.key: _unzip_entry(one) for one in current}
            | {key: self._refusal_entry(one) for key, one in refused.items()},
            made=bool(stale) and act,
            refused=tuple(Refused(key, one.reason, one.fresh) for key, one in refused.items()),
            apart={one.archive.input.key: self._apart(archives, one.archive) for one in current if one.apart},
        )

    def _archives(self, *, apart: bool) -> Archives:
        config = self.run.config
        return Archives(config.project, config.cache, config.archives, apart=apart)

    def _ready(self, archives: Archives, wanted: Sequence[Archive]) -> dict[str, Extracted | None]:
        """By folder. To look at what there is, it doesn't matter where the last run had its tasks."""
        run, entries = self.run, archives.load()
        ready = {one.folder_name: archives.current(one, entries, full=run.full) for one in wanted}
        if run.start_spark is None and run.objects is not None:
            other = self._archives(apart=not is_apart(run))
            for one in wanted:
                ready[one.folder_name] = ready[one.folder_name] or other.current(one, entries, full=run.full)
        return ready

    def _bring_up(
        self,
        archives: Archives,
        stale: Sequence[Archive],
        ready: dict[str, Extracted | None],
        refused: dict[str, _Refusal],
    ) -> None:
        self.run.watch.phase(self.run.cfg.name, "extract")
        for archive, one in zip(stale, self._extract(archives, stale), strict=True):
            if isinstance(one, _Refusal):
                refused[archive.input.key] = one
            else:
                ready[archive.folder_name] = one

    @property
    def _sets_aside(self) -> bool:
        return self.run.cfg.on_bad == "quarantine"

    def _still_refused(self, archives: Sequence[Archive], section: Mapping[str, Any]) -> dict[str, _Refusal]:
        found = {}
        before = {one.key: one for one in refused_before(section)}
        for one in archives if self._sets_aside else ():
            key = one.input.key
            if key not in before or self._is_replayed(key):
                continue
            proof = proof_of(section[key])
            if proof is None or section[key].get("limits") != self._limits:
                continue
            if one.input.is_still(proof, full=self.run.full):
                told = before[key]
                found[key] = _Refusal(told.reason, one.input.renewed(proof), told.at, fresh=False)
        return found

    def _is_replayed(self, key: str) -> bool:
        replay = self.run.replay
        return replay is not None and (not replay or key in replay)

    def _refusal_entry(self, refusal: _Refusal) -> dict[str, Any]:
        proof: dict[str, Any] = msgspec.to_builtins(refusal.proof)
        return {
            "file_hash": proof.pop("hash"),
            "preprocessed_path": None,
            "action": UNZIP,
            "error": refusal.reason,
            "refused_at": refusal.at,
            "limits": self._limits,
            **proof,
        }

    @property
    def _limits(self) -> dict[str, int]:
        """What a refusal depends on besides the archive: another password may open it."""
        file = self.run.cfg.password_file
        changed = time_ns(file.stat()) if file is not None and file.exists() else 0
        return {**dataclasses.asdict(self.run.config.archives), "password_mtime_ns": changed}

    def _extract(self, archives: Archives, stale: Sequence[Archive]) -> list[Extracted | _Refusal]:
        run = self.run
        password = password_of(run.cfg.password_file)
        if is_apart(run):
            return self._in_tasks(archives, stale, lambda left: self._look_at(archives, left))
        for archive in stale:
            run.fetch(archive.input.files)
        if is_on_cluster(run):
            return self._in_tasks(
                archives, stale, lambda left: self._extract_on_cluster(archives, left, password)
            )
        done: list[Extracted | _Refusal] = []
        for number, archive in enumerate(stale):
            run.watch.progress(run.cfg.name, f"extracting {archive.input.key}", number, len(stale))
            try:
                done.append(archives.extract_here(archive, full=run.full, password=password))
            except ArchiveRefused as error:
                done.append(self._aside(archive, error))
        return done

    def _in_tasks(
        self,
        archives: Archives,
        stale: Sequence[Archive],
        work: Callable[[Sequence[Archive]], list[Extracted | _Refusal]],
    ) -> list[Extracted | _Refusal]:
        """All at once, those left out that somebody else has brought up meanwhile."""
        full = self.run.full
        done: dict[str, Extracted | _Refusal] = {}
        with ExitStack() as locks:
            for archive in sorted(stale, key=lambda one: one.folder_name):  # in one order: no deadlock
                locks.enter_context(locked(archives.lock_of(archive)))
            entries = archives.load()
            for archive in stale:
                if (there := archives.current(archive, entries, full=full)) is not None:
                    done[archive.folder_name] = there
            left = [one for one in stale if one.folder_name not in done]
            done |= {archive.folder_name: one for archive, one in zip(left, work(left), strict=True)}
        return [done[one.folder_name] for one in stale]

    def _extract_on_cluster(
        self, archives: Archives, stale: Sequence[Archive], password: bytes | None
    ) -> list[Extracted | _Refusal]:
        paths = in_spark(self.run, unpack, [archives.task(one, password) for one in stale])
        return [
            self._aside(archive, path)
            if isinstance(path, ArchiveRefused)
            else archives.finish(archive, unless_error(path), full=self.run.full)
            for archive, path in zip(stale, paths, strict=True)
        ]

    def _look_at(self, archives: Archives, stale: Sequence[Archive]) -> list[Extracted | _Refusal]:
        """Tasks go through the archives; only what they found comes back."""
        answers = look_at(self.run, [self._apart(archives, one) for one in stale])
        done: list[Extracted | _Refusal] = []
        for archive, looked in zip(stale, answers, strict=True):
            if looked.index is not None:
                done.append(archives.finish_apart(archive, looked.index, full=self.run.full))
                continue
            key = archive.input.key
            error = ArchiveRefused(looked.refused or "", hint=looked.hint, table=self.run.name, file=key)
            done.append(self._aside(archive, error, looked.sha256))
        return done

    def _apart(self, archives: Archives, archive: Archive) -> Apart:
        run = self.run
        assert run.objects is not None
        (found,) = archive.input.files
        file = run.objects.source_file(found, run.config.archives)
        return archives.apart(archive, file, run.cfg.password_file)

    def _aside(self, archive: Archive, error: ArchiveRefused, sha256: str | None = None) -> _Refusal:
        if not self._sets_aside:
            raise error
        proof = archive.input.proof(full=self.run.full, sha256=sha256)
        return _Refusal(error.message, proof, now_text(), fresh=True)

    def _archive(self, file: FoundFile) -> Archive:
        url, packed = self.run.cfg.url, one_file(file)
        identity = f"{url}/{file.key}" if url is not None else file.path
        return Archive(packed, identity, relative(self.run, packed))


def _unzip_entry(one: Extracted) -> dict[str, Any]:
    return {
        "file_hash": one.entry.archive_hash,
        "preprocessed_path": one.entry.extracted_dir,
        "action": UNZIP,
    }


def is_on_cluster(run: TableRun) -> bool:
    return run.cfg.preprocess is not None and run.cfg.preprocess.where == "cluster"


def relative(run: TableRun, one: Input) -> str:
    return relative_path(run.config.project, run.cfg.root, one.key, run.cfg.url)


def waits(run: TableRun, one: Input, section: Mapping[str, Any]) -> FileVerdict:
    """The line of a plan for what a run would do first."""
    unzips = run.cfg.preprocess is None or run.cfg.preprocess.action == UNZIP
    before = one.key in section
    done = "extracted" if unzips else "preprocessed"
    why = f"it changed since it was {done}, or the result is gone" if before else f"not {done} yet"
    reason = f"{why}: a run does that and compares the contents"
    return FileVerdict(one.key, "changed" if before else "new", reason)
