"""The Python door to a collection: a directory of Parquet files described by one log.

The same words as `lading collection`. What changes the collection is one commit each, planned anew when
somebody else committed in between. Files are described, never changed and never deleted.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lading.errors import ConfigError, Conflict, NotFound

if TYPE_CHECKING:
    from lading.catalog.check import Problem
    from lading.catalog.intake import Footer
    from lading.catalog.restore import Restored
    from lading.catalog.table import Table
    from lading.model import Commit
    from lading.pipeline.merge import FoldSpec
    from lading.readers.lookup import Hit
    from lading.readers.scan import Scan

_ATTEMPTS = 100  # each lost race means that somebody else's commit got through


@dataclass(frozen=True, slots=True)
class Added:
    """What `add` did; a file that was a member already and has changed since is described anew."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A live member for people: bounds are values of their columns' types."""

    path: str
    rows: int
    bytes: int
    tier: int
    key_min: Any
    key_max: Any
    zones: dict[str, dict[str, Any]]  # column -> min, max, nulls


class Collection:
    """A collection as of the last open, refresh or change."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """`folder` may be new: the first `add` starts its log."""
        from lading.catalog.table import Table

        if "://" in os.fspath(folder):
            raise ConfigError(
                f"{os.fspath(folder)} is not a folder",
                hint="a collection lies in a folder; tables may lie in s3://",
            )
        self.folder = Path(folder)
        self._table = Table.open(self.folder) if Table.exists(self.folder) else None

    @property
    def key(self) -> str | None:
        """The column that `lookup` goes by, None if there is none."""
        return self._opened().state.order_by

    @property
    def sequence(self) -> int:
        return self._opened().state.sequence

    @property
    def rows(self) -> int:
        return self._opened().state.row_count()

    def __len__(self) -> int:
        return self._opened().state.count()

    def members(self) -> list[Listed]:
        """The live members in key order."""
        from lading.catalog.listing import listed

        return [Listed(**fields) for fields in listed(self._opened().state)]

    def add(self, *files: str | os.PathLike[str], key: str | None = None) -> Added:
        """Take up Parquet files from anywhere: footers are read, in parallel, and one commit is made.

        `key` is the column that the files are sorted by; left out, it is what the collection has or what
        the files themselves declare.
        """
        from lading.catalog.intake import in_parallel, read_footer
        from lading.catalog.names import place_of, recorded_path
        from lading.catalog.table import Table

        places = {recorded_path(self.folder, at): at for at in (place_of(self.folder, f) for f in files)}
        footers = in_parallel(lambda one: read_footer(one[1], one[0]), places.items())
        if self._table is None:
            self._table = Table.create(self.folder, os.path.basename(os.path.abspath(self.folder)))
        outcome: list[Added] = []

        def plan(table: Table) -> Commit | None:
            commit, done = _adding(table, footers, key)
            outcome.append(done)
            return commit

        sequence = self._commit(plan)
        last = outcome[-1]
        return Added(last.added, last.changed, last.unchanged, sequence)

    def remove(self, *names: str) -> tuple[str, ...]:
        """Members that no longer count; their files stay where they are."""
        gone: list[str] = []

        def plan(table: Table) -> Commit:
            gone[:] = self._named(table, names)
            return _commit(table, remove=tuple(gone))

        self._commit(plan)
        return tuple(gone)

    def tier(self, name: str, tier: int) -> str:
        """Set a member's tier, a number that lading keeps and doesn't interpret."""
        path = ""

        def plan(table: Table) -> Commit:
            nonlocal path
            [path] = self._named(table, [name])
            return _commit(table, tier=((path, tier),))

        self._commit(plan, of_tables_too=True)
        return path

    def scan(
        self, where: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Scan:
        """The rows that match, as Arrow record batches; files and row groups that can't match aren't read."""
        from lading.readers.scan import scan

        return scan(self._opened().state, where=where, columns=columns, limit=limit)

    def lookup(self, key: Any) -> Hit:
        """The rows whose key is `key`."""
        from lading.readers.lookup import lookup

        state = self._opened().state
        if state.order_by is None:
            raise ConfigError(
                f"the collection {self.folder} has no key",
                hint="add its files again with the column they are sorted by: --key COLUMN; or scan",
            )
        return lookup(state, key)

    def merge(self, *names: str, into: str | None = None) -> str:
        """Several members as one new file, sorted by the key, swapped in one commit; gives its name.

        The merged files stay where they are: they are yours.
        """
        from lading.pipeline.merge import merge_files

        path = self._new_name(into)

        def plan(table: Table) -> Commit:
            paths = self._named(table, names)
            if len(paths) < 2:
                raise ConfigError(
                    "a merge needs two members or more", hint="name several, as they are listed"
                )
            members = [member for member, _ in filter(None, map(table.state.find, paths))]
            merged = merge_files(members, _fold_spec(table), path)
            return _commit(table, add=(merged,), remove=tuple(paths))

        try:
            self._commit(plan, attempts=1)  # again would mean reading all of it again: the caller decides
        except Conflict:
            (self.folder / path).unlink(missing_ok=True)
            raise
        return path

    def compact(self) -> None:
        """Write the live members anew and drop the history of the log."""
        self._opened().compact()

    def check(self) -> tuple[int, list[Problem]]:
        """The number of members, and what is wrong with the log or a file; no rows are read."""
        return check_collection(self.folder)

    @staticmethod
    def rebuild(folder: str | os.PathLike[str], *, key: str | None = None) -> Restored:
        """Restore the log of a collection or table from whatever is left of it; see the guide."""
        from lading.catalog.restore import restore

        return restore(Path(folder), key=key)

    def refresh(self) -> None:
        """Take in what others committed since."""
        self._opened().refresh()

    def close(self) -> None:
        if self._table is not None:
            self._table.close()

    def __enter__(self) -> Collection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> Table:
        from lading.catalog.table import Table

        if self._table is None:
            if not Table.exists(self.folder):
                raise NotFound(
                    f"{self.folder} is not a collection: it has no manifest.log",
                    hint=f"start one: lading collection add {self.folder} FILE…",
                    file=str(self.folder),
                )
            self._table = Table.open(self.folder)
        return self._table

    def _new_name(self, into: str | None) -> str:
        from lading.catalog.names import recorded_path

        name = into or f"merged-{uuid.uuid4().hex[:16]}.parquet"
        path = recorded_path(self.folder, self.folder / name)
        if os.path.isabs(path) or "/" in path:
            raise ConfigError(f"--into {name} is not a file name", hint="the file goes into the collection")
        if (self.folder / path).exists():
            raise ConfigError(
                f"{self.folder / path} is there already",
                hint="choose another name with --into, or remove the file if nothing needs it",
                file=path,
            )
        return path

    def _named(self, table: Table, names: Sequence[str]) -> list[str]:
        from lading.catalog.names import one_member

        paths = [member.path for member in table.state.candidates(None)]
        return list(dict.fromkeys(one_member(self.folder, paths, name) for name in names))

    def _commit(
        self,
        plan: Callable[[Table], Commit | None],
        *,
        attempts: int = _ATTEMPTS,
        of_tables_too: bool = False,
    ) -> int:
        """Plan and commit, again from the new state when somebody was quicker; the sequence."""
        table = self._opened()
        for attempt in range(attempts):
            if table.state.meta.recipe and not of_tables_too:
                raise ConfigError(
                    f"{self.folder} is a table that `lading run` keeps true to its sources",
                    hint="change its source files or lading.yaml instead; `lading merge` folds its parts",
                    table=table.state.meta.table,
                )
            commit = plan(table)
            try:
                if commit is not None:
                    table.commit(commit)
                break
            except Conflict:
                if attempt == attempts - 1:
                    raise
                table.refresh()
        table.checkpoint_if_due()
        return table.state.sequence


def check_collection(folder: Path) -> tuple[int, list[Problem]]:
    """As `Collection.check`, also where the log can't be opened."""
    from lading.catalog.check import check_collection as check

    return check(folder)


def _commit(table: Table, **edits: Any) -> Commit:
    from lading.model import Commit

    now = datetime.now(UTC).isoformat()
    return Commit(uuid.uuid4().hex, uuid.uuid4().hex, now, table.state.meta.recipe, **edits)


def _fold_spec(table: Table) -> FoldSpec:
    from lading.pipeline.merge import FoldSpec
    from lading.pipeline.parts import Origin

    commit_id = uuid.uuid4().hex
    origin = Origin(table.table_id, commit_id, commit_id, table.state.order_by)
    return FoldSpec(str(table.folder), origin, table.state.schema)


def _adding(table: Table, footers: list[Footer], key: str | None) -> tuple[Commit | None, Added]:
    from lading.catalog.adding import adding

    plan = adding(table.state, footers, key)
    done = Added(plan.added, plan.changed, plan.unchanged, table.state.sequence)
    return (_commit(table, **plan.edits) if plan.edits else None), done
