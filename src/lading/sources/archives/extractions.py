"""Archives: extracted once for all tables, told apart by content, gone with their archive.

An extraction is current when `_global.json` says that it was made of this very archive and the folder
holds what its index says. Checking that opens neither the archive nor a member, so a run with nothing
to do costs a stat a member.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lading.config.archives import ArchiveLimits
from lading.errors import ArchiveRefused, ConfigError, SourceError
from lading.layout.beside import lock_of
from lading.layout.project import ARCHIVES, GLOBAL_LOCK, GLOBAL_MANIFEST, made_folder
from lading.sources.archives.extract import archive_kind, extract
from lading.sources.archives.index import Index, fill_fresh, is_whole, put_in_place, read_index, sweep
from lading.sources.archives.input import Input
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


@dataclass(frozen=True, slots=True)
class ExtractTask:
    """All that unpacking one archive takes; may travel to a Spark task."""

    path: str
    folder: str
    shown: str
    limits: ArchiveLimits
    password: bytes | None
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


class Archives:
    """The extractions of one project."""

    def __init__(self, project: Path, cache: Path, limits: ArchiveLimits) -> None:
        self.folder = cache / ARCHIVES
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
        if not is_whole(folder, index) or not archive.input.is_still(proof, full=full):
            return None
        return Extracted(archive, index, entry.proven(archive.input.renewed(proof)))

    def task(self, archive: Archive, password: bytes | None) -> ExtractTask:
        """The caller holds the archive's lock, from here to `finish`."""
        folder = self.folder_of(archive)
        sweep(folder)
        (found,) = archive.input.files
        return ExtractTask(
            path=found.path,
            folder=str(folder),
            shown=archive.input.key,
            limits=self._limits,
            password=password,
            made_from=archive.relative,
            made_by=self._how(archive),
            sha256=archive.input.sha256,
        )

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
        index = put_in_place(Path(fresh), folder)
        entry = ExtractionEntry(
            extracted_dir=os.path.relpath(folder, self._project).replace(os.sep, "/"),
            archive_hash="",
            extracted_at=datetime.now(UTC).isoformat(),
        ).proven(archive.input.proof(full=full))
        self._record(entry_key(archive.identity), entry)
        return Extracted(archive, index, entry)

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
