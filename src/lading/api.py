"""The Python door to a published table: the same words as the command line.

Nothing heavy is imported until it is used: `import lading` has to be quick.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lading.errors import NotFound

if TYPE_CHECKING:
    from lading.format.members import MemberStore
    from lading.model import SnapshotRef, Source
    from lading.readers.lookup import Hit
    from lading.readers.scan import Scan


class Reader:
    """One snapshot of one table, until `refresh`. Needs no Spark and no server."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root)
        self._ref, self._members = _open_current(self._root)

    @property
    def snapshot(self) -> SnapshotRef:
        """The snapshot that this reader sees."""
        return self._ref

    @property
    def rows(self) -> int:
        return int(self._members.live_rows.sum())

    def scan(
        self, where: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Scan:
        """The rows that match, as Arrow record batches; files and row groups that can't match aren't read."""
        from lading.readers.scan import scan

        return scan(self._members, where=where, columns=columns, limit=limit)

    def lookup(self, key: Any) -> Hit:
        """The rows whose order value is `key`."""
        from lading.readers.lookup import lookup

        return lookup(self._members, key)

    def sources(self) -> list[Source]:
        """The files that the rows came from; `id` is the `_source` of their rows."""
        return [source for source, _ in self._members.sources()]

    def info(self) -> dict[str, Any]:
        meta = self._members.meta
        return {
            "table": meta.table,
            "run_id": self._ref.run_id,
            "published_at": self._ref.published_at.isoformat(),
            "sequence": meta.sequence,
            "rows": self.rows,
            "parts": self._members.count(),
            "buckets": self._members.bucket_count(),
            "sources": self._members.source_count(),
            "order_by": meta.order_by,
        }

    def refresh(self) -> bool:
        """Move on to the current snapshot; True if it is another one. Scans under way keep theirs."""
        ref, members = _open_current(self._root)
        moved = ref.ref != self._ref.ref
        self._ref, self._members = ref, members
        return moved

    def close(self) -> None:
        self._members.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(path: str | os.PathLike[str]) -> Reader:
    """Open the published snapshot of the table in `path` (`<warehouse>/<table>`)."""
    return Reader(path)


def _open_current(root: Path) -> tuple[SnapshotRef, MemberStore]:
    from lading.format.members import MemberStore
    from lading.format.snapshot_file import open_snapshot_file
    from lading.snapshots.stores.local import LocalStore

    store = LocalStore(root)
    ref = store.load_current()
    if ref is None:
        raise NotFound(
            f"nothing is published in {root}",
            hint="is the path right? `lading status` lists the tables, `lading run` publishes them",
        )
    return ref, MemberStore(open_snapshot_file(store.manifest_path(ref.ref)), str(root))
