"""Archives: extracted once for all tables, told apart by content, gone with their archive.

An extraction is current when `_global.json` says that it was made of this very archive and the folder
holds what its index says. Checking that opens neither the archive nor a member, so a run with nothing
to do costs a stat a member.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import msgspec

from lading import clock
from lading.config.archives import ArchiveLimits
from lading.errors import ArchiveRefused, ConfigError, SourceError
from lading.formats.source_file import SourceFile
from lading.layout.beside import lock_of
from lading.layout.project import ARCHIVES, GLOBAL_LOCK, GLOBAL_MANIFEST, INDEXES, made_folder
from lading.sources.archives.extract import archive_kind, extract
from lading.sources.archives.index import (
    Index,
    fill_fresh,
    is_whole,
    put_in_place,
    put_index,
    read_index,
    sweep,
)
from lading.sources.archives.input import Input, Proof
from lading.sources.archives.scratch import Apart, Making
from lading.sources.archives.zip_members import ZipMembers
from lading.sources.fingerprint import unmoved
from lading.sources.global_manifest import (
    ExtractionEntry,
    entry_key,
    load_extractions,
    merge_extractions,
)
from lading.storage.folder import locked


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive of one table."""

    input: Input
    identity: str  # the absolute path, or the URL: what `_global.json` knows it by
    relative: str  # to the project: what its folder is named after

    @property
    def folder_name(self) -> str:
        return made_folder(self.input.key, self.relative)


@dataclass(frozen=True, slots=True)
class Extracted:
    """An archive whose extraction is current."""

    archive: Archive
    index: Index
    entry: ExtractionEntry  # as `_global.json` has it or should have it
    folder: Path
    apart: bool  # whether only tasks have its members: the folder holds nothing but their index


@dataclass(frozen=True, slots=True)
class ExtractTask:
    """All that unpacking one archive takes; may travel to a Spark task."""

    path: str
    folder: str
    shown: str
    limits: ArchiveLimits
    password: bytes | None = field(repr=False)
    made_from: str
    made_by: str
    sha256: str


def relative_path(project: Path, root: Path, key: str, url: str | None) -> str:
    """Where a file lies, seen from the project: the same wherever the project lies. Objects go by URL."""
    if url is not None:
        return f"{url}/{key}"
    return os.path.relpath(os.path.join(root, key), project).replace(os.sep, "/")


def is_archive(key: str, *, gz: bool) -> bool:
    """Whether a file is to be unpacked; `gz` says whether a lone .gz is, or is a compressed text."""
    kind = archive_kind(key)
    return kind is not None and (kind != "gz" or gz)


def password_of(file: Path | None) -> bytes | None:
    """The first line of the file. It is never shown."""
    if file is None:
        return None
    try:
        return file.read_bytes().split(b"\n", 1)[0].rstrip(b"\r")
    except OSError as error:
        raise ConfigError(
            f"password_file {file} can't be read: {error.strerror}",
            hint="check `password_file` in lading.yaml",
            file=str(file),
        ) from error


def unpack(task: ExtractTask) -> str:
    """Unpack into a fresh folder; its path, for `Archives.finish`."""
    kind = archive_kind(task.shown)
    if kind is None:
        raise ArchiveRefused(f"{task.shown} is not an archive", hint="narrow `path`", file=task.shown)
    return str(
        fill_fresh(
            Path(task.folder),
            lambda fresh: extract(
                Path(task.path), kind, fresh, shown=task.shown, limits=task.limits, password=task.password
            ),
            made_from=task.made_from,
            made_by=task.made_by,
            sha256=task.sha256,
        )
    )


def _unpack_copy(task: ExtractTask, copies: Sequence[str], folder: str, sha256: str) -> str:
    (path,) = copies
    return unpack(replace(task, path=path, folder=folder, sha256=sha256))


def _zip_members(task: ExtractTask, file: SourceFile) -> ZipMembers:
    return ZipMembers(file, task.password)


class Archives:
    """The extractions of one project. Those `apart` are made by tasks, each for itself on its own machine:
    then only their indexes are kept."""

    def __init__(self, project: Path, cache: Path, limits: ArchiveLimits, *, apart: bool = False) -> None:
        self.folder = cache / INDEXES / ARCHIVES if apart else cache / ARCHIVES
        self._apart = apart
        self.manifest = project / GLOBAL_MANIFEST
        self._project = project
        self._lock = cache / GLOBAL_LOCK
        self._limits = limits
        nesting = "" if limits.max_nesting == 1 else f", nesting {limits.max_nesting}"
        # A zip that lading 0.1 extracted may have lost members: it did not ask what its directory left out.
        self._made_by = f"unzip{nesting}"
        self._zip_made_by = f"{self._made_by}, {'self-extracting' if limits.self_extracting else 'whole'}"

    def load(self) -> dict[str, ExtractionEntry]:
        return load_extractions(self.manifest)

    def _how(self, archive: Archive) -> str:
        """What the extraction depends on besides the archive."""
        zips = archive_kind(archive.input.key) == "zip" or self._limits.max_nesting > 1
        return self._zip_made_by if zips else self._made_by

    def folder_of(self, archive: Archive) -> Path:
        return self.folder / archive.folder_name

    def lock_of(self, archive: Archive) -> Path:
        return self.folder / lock_of(archive.folder_name)

    def current(
        self, archive: Archive, entries: Mapping[str, ExtractionEntry], *, full: bool
    ) -> Extracted | None:
        """The extraction, if it still is what extracting now would give. Writes nothing."""
        entry = entries.get(entry_key(archive.identity))
        folder = self.folder_of(archive)
        proof = entry.proof if entry is not None else None
        if entry is None or proof is None or self._project / entry.extracted_dir != folder:
            return None
        index = read_index(folder)
        if index is None or (index.sha256, index.made_by) != (proof.sha256, self._how(archive)):
            return None
        if not (self._apart or is_whole(folder, index)) or not archive.input.is_still(proof, full=full):
            return None
        return Extracted(archive, index, entry.proven(archive.input.renewed(proof)), folder, self._apart)

    def task(self, archive: Archive, password: bytes | None) -> ExtractTask:
        """The caller holds the archive's lock, from here to `finish`."""
        folder = self.folder_of(archive)
        sweep(folder)
        (found,) = archive.input.files
        sha256 = archive.input.sha256
        return replace(self._task(archive, password), path=found.path, folder=str(folder), sha256=sha256)

    def _task(self, archive: Archive, password: bytes | None) -> ExtractTask:
        """Without what only the machine knows that does it."""
        return ExtractTask(
            path="",
            folder="",
            shown=archive.input.key,
            limits=self._limits,
            password=password,
            made_from=archive.relative,
            made_by=self._how(archive),
            sha256="",
        )

    def apart(self, archive: Archive, file: SourceFile, password_file: Path | None) -> Apart:
        """How tasks make the members of an archive in a bucket. The members of a zip can be had one by one,
        unless archives inside it are unpacked too."""
        (found,) = archive.input.files
        zipped = archive_kind(archive.input.key) == "zip"

        @cache
        def making() -> Making:
            task = self._task(archive, password_of(password_file))
            members = partial(_zip_members, task) if zipped else None
            return Making((file,), (os.path.basename(found.path),), partial(_unpack_copy, task), members)

        single = zipped and self._limits.max_nesting == 1
        return Apart(making, None if single else archive.input.key)

    def finish(self, archive: Archive, fresh: str, *, full: bool) -> Extracted:
        """Put a fresh extraction in place and say so in `_global.json`."""
        (found,) = archive.input.files
        folder = self.folder_of(archive)
        if not archive.input.remote and not unmoved(found):
            sweep(folder)
            raise SourceError(
                f"{found.key} changed while it was being extracted",
                hint="run again when the archive is complete; nothing was committed",
                file=found.key,
            )
        return self._finished(archive, put_in_place(Path(fresh), folder), archive.input.proof(full=full))

    def finish_apart(self, archive: Archive, index: Index, *, full: bool) -> Extracted:
        """Note what tasks would make of it, here and in `_global.json`."""
        put_index(self.folder_of(archive), index)
        return self._finished(archive, index, archive.input.proof(full=full, sha256=index.sha256))

    def _finished(self, archive: Archive, index: Index, proof: Proof) -> Extracted:
        entry = ExtractionEntry(
            extracted_dir=os.path.relpath(self.folder_of(archive), self._project).replace(os.sep, "/"),
            archive_hash="",
            extracted_at=clock.now().isoformat(),
        ).proven(proof)
        self._record(entry_key(archive.identity), entry)
        return Extracted(archive, index, entry, self.folder_of(archive), self._apart)

    def use(self, table: str, used: Sequence[Extracted]) -> None:
        """Note in `_global.json` who uses what; nothing is written when it is all there already."""
        mine = {entry_key(one.archive.identity): one.entry for one in used}

        def change(entries: dict[str, ExtractionEntry]) -> dict[str, ExtractionEntry | None]:
            wanted: dict[str, ExtractionEntry | None] = {}
            for key, entry in entries.items():
                after = entry
                if (
                    key in mine
                    and entry.sha256 == mine[key].sha256
                    and (proof := mine[key].proof) is not None
                ):
                    after = entry.proven(proof)
                users = {table} if key in mine else set()
                names = tuple(sorted(set(entry.used_by_tables) - {table} | users))
                after = msgspec.structs.replace(after, used_by_tables=names)
                if after != entry:
                    wanted[key] = after
            return wanted

        if change(self.load()):
            merge_extractions(self.manifest, self._lock, change)

    def forget(self, keys: set[str]) -> None:
        """Drop entries: what they speak of is gone."""
        merge_extractions(self.manifest, self._lock, lambda entries: dict.fromkeys(keys & entries.keys()))

    def extract_here(self, archive: Archive, *, full: bool, password: bytes | None) -> Extracted:
        """Make the extraction current; tables and processes that ask at once share one."""
        with locked(self.lock_of(archive)):
            already = self.current(archive, self.load(), full=full)
            if already is not None:
                return already
            return self.finish(archive, unpack(self.task(archive, password)), full=full)

    def _record(self, key: str, entry: ExtractionEntry) -> None:
        def change(entries: dict[str, ExtractionEntry]) -> dict[str, ExtractionEntry | None]:
            old = entries.get(key)
            users = old.used_by_tables if old is not None else ()
            # The project may have been moved: the folder is this archive's now.
            moved = [k for k, one in entries.items() if k != key and one.extracted_dir == entry.extracted_dir]
            return {**dict.fromkeys(moved), key: msgspec.structs.replace(entry, used_by_tables=users)}

        merge_extractions(self.manifest, self._lock, change)
