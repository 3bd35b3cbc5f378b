"""Where a run record lies: `runs/<folder>/run.yaml` below a table, on disk or in a bucket."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from lading.errors import ManifestStoreError
from lading.model import Place
from lading.storage.local import write_atomic
from lading.storage.place import Where, folder_of, storage_of

RUNS = "runs"
_NAME = "run.yaml"


@dataclass(frozen=True, slots=True)
class RecordFile:
    """One record's file."""

    where: Where
    folder: str  # its name

    @property
    def path(self) -> Path:
        """Of a record on disk."""
        return folder_of(self.where) / RUNS / self.folder / _NAME

    def __str__(self) -> str:
        return f"{self.where}/{self._name}"

    def write(self, data: bytes) -> None:
        if isinstance(self.where, Place):
            storage_of(self.where).put(self._name, data, content_type="application/x-yaml")
        else:
            write_atomic(self.path, data)

    def read(self) -> bytes | None:
        """None for the folder of a run that was killed before its first write, or that isn't a run's."""
        try:
            if isinstance(self.where, Place):
                return storage_of(self.where).get(self._name)
            return self.path.read_bytes() if stat.S_ISREG(self.path.lstat().st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ManifestStoreError(
                f"{self} can't be read: {error.strerror}", hint="check its permissions", file=str(self)
            ) from error

    @property
    def _name(self) -> str:
        return f"{RUNS}/{self.folder}/{_NAME}"


def record_files(where: Where) -> list[RecordFile]:
    """The records below a table, newest first."""
    if isinstance(where, Place):
        names = {one.name.split("/")[1] for one in storage_of(where).list(RUNS) if one.name.count("/") == 2}
        return [RecordFile(where, folder) for folder in sorted(names, reverse=True)]
    try:
        folders = sorted(os.listdir(where / RUNS), reverse=True)
    except FileNotFoundError:
        return []
    return [RecordFile(where, folder) for folder in folders]
