"""From the files that discovery found to the files that are read: archives and scripts in between.

Only a run extracts archives and runs scripts. A plan opens none of them: one whose extraction isn't
current is a single line of the plan, and what the table holds of it is left out of the question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lading.config.archives import UNZIP
from lading.config.project import Config, TableConfig
from lading.errors import ArchiveRefused, LadingError, SourceError
from lading.model import FoundFile
from lading.plan import FileVerdict, Known
from lading.sources.archives import (
    Archive,
    Archives,
    Extracted,
    is_archive,
    password_of,
    relative_path,
    unpack,
)
from lading.sources.extract_index import found_in
from lading.sources.extract_input import Input, Proof, all_files, one_file, proof_of
from lading.sources.objects import Objects
from lading.sources.preprocess import Made, Preprocessed, Script, load_script, run_script
from lading.storage.local import locked
from lading.watch import Watch

Session = Callable[[], Any]  # starts Spark, or gives the session that is there


@dataclass(frozen=True, slots=True)
class Expanded:
    """What a table is made of, after archives and scripts."""

    found: list[FoundFile]
    waiting: tuple[FileVerdict, ...] = ()
    hidden: tuple[str, ...] = ()  # starts of keys that a waiting archive decides on
    preprocessing: dict[str, Any] = field(default_factory=dict)  # for manifest/<table>.json
    made: bool = False  # whether anything was extracted or run
    refused: tuple[ArchiveRefused, ...] = ()  # archives that were set aside, each named by `file`


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: ArchiveRefused
    proof: Proof


@dataclass(frozen=True, slots=True)
class Expander:
    """One table's way from files to source files. Without `act` it looks and does nothing."""

    config: Config
    table: TableConfig
    watch: Watch
    objects: Objects | None
    act: Session | None
    set_aside: bool = False  # whether a refused archive is set aside instead of ending the run

    def expand(self, found: list[FoundFile], section: Mapping[str, Any]) -> Expanded:
        """`section` is `preprocessing` as manifest/<table>.json has it."""
        spec = self.table.preprocess
        if spec is not None and spec.action != UNZIP:
            return self._scripted(found, section, load_script(self.config.project, spec))
        gz = self.table.inside is not None or spec is not None
        packed = [file for file in found if is_archive(file.key, gz=gz)]
        if gz and len(packed) < len(found):
            plain = next(file for file in found if not is_archive(file.key, gz=gz))
            raise SourceError(
                f"{plain.key} is not an archive (zip, tar, tar.gz, tgz, gz)",
                hint="narrow `path` to the archives, or take out `inside` and `preprocess`",
                file=plain.key,
            )
        if not packed and not section:
            return Expanded(found)
        plain_files = [file for file in found if not is_archive(file.key, gz=gz)]
        return self._unpacked(plain_files, packed, section)

    def _unpacked(
        self, plain: list[FoundFile], packed: Sequence[FoundFile], section: Mapping[str, Any]
    ) -> Expanded:
        archives = Archives(self.config.project, self.config.cache, self.config.archives)
        full = self.table.fingerprint == "full"
        entries = archives.load()
        wanted = [self._archive(file) for file in packed]
        ready = {one.folder_name: archives.current(one, entries, full=full) for one in wanted}
        refused = self._still_refused([one for one in wanted if not ready[one.folder_name]], section, full)
        stale = [one for one in wanted if not ready[one.folder_name] and one.input.key not in refused]
        if stale and self.act is not None:
            self.watch.phase(self.table.name, "extract")
            for archive, one in zip(stale, self._extract(archives, stale, full=full), strict=True):
                if isinstance(one, ArchiveRefused):
                    refused[archive.input.key] = _Refusal(one, archive.input.proof(full=full))
                else:
                    ready[archive.folder_name] = one
        current = [one for one in ready.values() if one is not None]
        if self.act is not None:
            archives.use(self.table.name, current)
        members = [
            file
            for one in current
            for file in found_in(
                archives.folder_of(one.archive), one.index, one.archive.input.key, self.table.inside
            )
        ]
        return Expanded(
            sorted([*plain, *members], key=lambda file: file.key),
            waiting=tuple(self._waits(one.input, section) for one in stale) if self.act is None else (),
            hidden=tuple(f"{one.folder_name}/" for one in stale) if self.act is None else (),
            preprocessing={one.archive.input.key: _unzip_entry(one) for one in current}
            | {key: self._refusal_entry(one) for key, one in refused.items()},
            made=bool(stale) and self.act is not None,
            refused=tuple(one.error for one in refused.values()),
        )

    def _still_refused(
        self, archives: Sequence[Archive], section: Mapping[str, Any], full: bool
    ) -> dict[str, _Refusal]:
        """Archives that were set aside and have not changed since are not tried again, under the same
        limits."""
        found = {}
        for one in archives if self.set_aside else ():
            entry = section.get(one.input.key) or {}
            proof = proof_of(entry) if "error" in entry else None
            if proof is None or entry.get("limits") != self._limits:
                continue
            if one.input.is_still(proof, full=full):
                hint = "ask for a good copy; `lading manifest reset` lets it be tried again"
                error = ArchiveRefused(str(entry["error"]), hint=hint, file=one.input.key)
                found[one.input.key] = _Refusal(error, one.input.renewed(proof))
        return found

    def _refusal_entry(self, refusal: _Refusal) -> dict[str, Any]:
        proof: dict[str, Any] = msgspec.to_builtins(refusal.proof)
        return {
            "file_hash": proof.pop("hash"),
            "preprocessed_path": None,
            "action": UNZIP,
            "error": refusal.error.message,
            "limits": self._limits,
            **proof,
        }

    @property
    def _limits(self) -> dict[str, int]:
        """What a refusal depends on besides the archive: another password may open it."""
        file = self.table.password_file
        changed = file.stat().st_mtime_ns if file is not None and file.exists() else 0
        return {**dataclasses.asdict(self.config.archives), "password_mtime_ns": changed}

    def _extract(
        self, archives: Archives, stale: Sequence[Archive], *, full: bool
    ) -> list[Extracted | ArchiveRefused]:
        password = password_of(self.table.password_file)
        for archive in stale:
            self._fetch(archive.input)
        if self._on_cluster:
            return self._extract_on_cluster(archives, stale, password, full)
        done: list[Extracted | ArchiveRefused] = []
        for number, archive in enumerate(stale):
            self.watch.progress(self.table.name, f"extracting {archive.input.key}", number, len(stale))
            try:
                done.append(archives.extract_here(archive, full=full, password=password))
            except ArchiveRefused as error:
                done.append(self._aside(error))
        return done

    def _extract_on_cluster(
        self, archives: Archives, stale: Sequence[Archive], password: bytes | None, full: bool
    ) -> list[Extracted | ArchiveRefused]:
        done: dict[str, Extracted | ArchiveRefused] = {}
        with ExitStack() as locks:
            for archive in sorted(stale, key=lambda one: one.folder_name):  # in one order: no deadlock
                locks.enter_context(locked(archives.lock_of(archive)))
            entries = archives.load()
            for archive in stale:
                if (there := archives.current(archive, entries, full=full)) is not None:
                    done[archive.folder_name] = there
            left = [one for one in stale if one.folder_name not in done]
            fresh = self._in_spark(unpack, [archives.task(one, password) for one in left])
            for archive, path in zip(left, fresh, strict=True):
                if isinstance(path, ArchiveRefused):
                    done[archive.folder_name] = self._aside(path)
                else:
                    done[archive.folder_name] = archives.finish(archive, _unless_error(path), full=full)
        return [done[one.folder_name] for one in stale]

    def _aside(self, error: ArchiveRefused) -> ArchiveRefused:
        if not self.set_aside:
            raise error
        return error

    def _scripted(self, found: list[FoundFile], section: Mapping[str, Any], script: Script) -> Expanded:
        outputs = Preprocessed(self.config.project, self.config.cache, self.table.name, script)
        full = self.table.fingerprint == "full"
        inputs = self._inputs(found, script)
        ready = [outputs.current(one, self._relative(one), section, full=full) for one in inputs]
        stale = [one for one, made in zip(inputs, ready, strict=True) if made is None]
        made = [one for one in ready if one is not None]
        if stale and self.act is not None:
            self.watch.phase(self.table.name, "preprocess")
            made += self._run_script(outputs, stale, full=full)
        names = [outputs.folder_of(one, self._relative(one)).name for one in stale]
        files = [
            file for one in made for file in found_in(one.folder, one.index, one.input.key, self.table.inside)
        ]
        return Expanded(
            sorted(files, key=lambda file: file.key),
            waiting=tuple(self._waits(one, section) for one in stale) if self.act is None else (),
            hidden=tuple(f"{name}/" for name in names) if self.act is None else (),
            preprocessing={one.input.key: outputs.entry(one) for one in made},
            made=bool(stale) and self.act is not None,
        )

    def _inputs(self, found: list[FoundFile], script: Script) -> list[Input]:
        if not script.together:
            return [one_file(file) for file in found]
        return [all_files(self.table.path, found)] if found else []

    def _run_script(self, outputs: Preprocessed, stale: Sequence[Input], *, full: bool) -> list[Made]:
        made = []
        with ExitStack() as locks:
            folders = sorted(outputs.folder_of(one, self._relative(one)) for one in stale)
            for folder in folders:  # in one order: no deadlock
                locks.enter_context(locked(outputs.lock_of(folder)))
            for one in stale:
                self._fetch(one)
            tasks = [outputs.task(one, self._relative(one)) for one in stale]
            paths = self._in_spark(run_script, tasks) if self._on_cluster else None
            for number, one in enumerate(stale):
                if paths is None:
                    self.watch.progress(self.table.name, f"preprocessing {one.key}", number, len(stale))
                path = _unless_error(paths[number]) if paths is not None else run_script(tasks[number])
                made.append(outputs.finish(one, self._relative(one), path, full=full))
        return made

    @property
    def _on_cluster(self) -> bool:
        return self.table.preprocess is not None and self.table.preprocess.where == "cluster"

    def _in_spark(self, work: Callable[[Any], str], tasks: Sequence[Any]) -> list[str | LadingError]:
        if not tasks:
            return []
        assert self.act is not None
        spark = self.act()
        from lading.pipeline.preprocess import on_cluster  # here: driver-side work needs no pyspark

        return on_cluster(spark, work, tasks)

    def _fetch(self, input: Input) -> None:
        if self.objects is not None:
            self.objects.fetch(input.files)

    def _archive(self, file: FoundFile) -> Archive:
        identity = f"{self.table.url}/{file.key}" if self.table.url is not None else file.path
        return Archive(one_file(file), identity, self._relative(one_file(file)))

    def _relative(self, input: Input) -> str:
        return relative_path(self.config.project, self.table.root, input.key, self.table.url)

    def _waits(self, input: Input, section: Mapping[str, Any]) -> FileVerdict:
        before = input.key in section
        done = "extracted" if self._unzips else "preprocessed"
        why = f"it changed since it was {done}, or that is gone" if before else f"not {done} yet"
        reason = f"{why}: a run does that and compares what is inside"
        return FileVerdict(input.key, "changed" if before else "new", reason)

    @property
    def _unzips(self) -> bool:
        return self.table.preprocess is None or self.table.preprocess.action == UNZIP


def without_hidden(known: Mapping[str, Known], hidden: tuple[str, ...]) -> dict[str, Known]:
    """What is known, less what waiting archives decide on."""
    return {key: one for key, one in known.items() if not key.startswith(hidden)} if hidden else dict(known)


def _unless_error(answer: str | LadingError) -> str:
    if isinstance(answer, LadingError):
        raise answer
    return answer


def _unzip_entry(one: Extracted) -> dict[str, Any]:
    return {
        "file_hash": one.entry.archive_hash,
        "preprocessed_path": one.entry.extracted_dir,
        "action": UNZIP,
    }
