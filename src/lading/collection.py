"""The Python door to a collection: a directory, or a prefix in a bucket, of Parquet files described by one
log.

It has the same operations as `lading collection`. Each change is one commit, planned again if someone else
committed in between. Files are described, never changed and never deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lading import ids
from lading.errors import ConfigError, Conflict, NotFound

if TYPE_CHECKING:
    from lading.log.check import Damage
    from lading.log.table import Table
    from lading.model import Commit, Place
    from lading.parts.fold import FoldSpec
    from lading.parts.intake import Footer
    from lading.read.lookup import Hit
    from lading.read.scan import Scan
    from lading.snapshots.stores.protocol import ManifestStore
    from lading.upkeep.rebuild import Restored


@dataclass(frozen=True, slots=True)
class Added:
    """What `add` did. `changed` files were members already and have been updated."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A live member; bounds are values of their columns' types."""

    path: str
    rows: int
    bytes: int
    tier: int
    key_min: Any
    key_max: Any
    zones: dict[str, dict[str, Any]]  # column -> min, max, nulls


class Collection:
    """A collection as of the last open, refresh or change."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        s3: Mapping[str, str] | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        """`folder` (or `s3://bucket/prefix`) may be new: the first `add` starts its log.

        `s3` takes the same settings as `s3:` in lading.yaml; without it, credentials come from the
        environment or the AWS files. What is fetched from a bucket more than once is kept in `cache`, as
        with `lading.open`.
        """
        from lading.log.table import Table
        from lading.read.opener import where_of

        self.where: Place = where_of(folder, s3, cache)
        self._table = Table.open(self.where) if Table.exists(self.where) else None

    @property
    def key(self) -> str | None:
        """The column that `lookup` searches, or None."""
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
        from lading.log.listing import listed

        return [Listed(**fields) for fields in listed(self._opened().state)]

    def add(self, *files: str | os.PathLike[str], key: str | None = None) -> Added:
        """Add Parquet files from anywhere, in one commit. Reads only footers, in parallel.

        `key` is the column to look rows up by; by default the collection's key, or the column that the files
        declare they are sorted by. If a file declares nothing, its key column is read to check the order: a
        file that isn't sorted has no key range and is found by its zones.
        """
        from lading.log.changes import change, path_to_add
        from lading.log.table import Table
        from lading.parts.intake import footer_to_add, in_parallel, is_sorted
        from lading.storage.place import last_step

        paths = dict.fromkeys(path_to_add(self.where, file) for file in files)
        footers = in_parallel(lambda path: footer_to_add(self.where, path), paths)
        if self._table is None:
            self._table = Table.create(self.where, last_step(self.where))
        outcome: list[Added] = []
        ascends = cache(partial(is_sorted, self.where))

        def plan(table: Table) -> Commit | None:
            commit, done = _adding(table, footers, key, ascends)
            outcome.append(done)
            return commit

        sequence = change(self._table, plan, relies_on=lambda: outcome[-1].unchanged)
        last = outcome[-1]
        return Added(last.added, last.changed, last.unchanged, sequence)

    def remove(self, *names: str) -> tuple[str, ...]:
        """Remove members; their files stay where they are."""
        from lading.log.changes import change, new_commit

        paths: list[str] = []

        def plan(table: Table) -> Commit | None:
            # Planned anew, what somebody else removed (or this commit, its answer lost) is removed.
            paths[:] = paths or self._named(table, names)
            live = tuple(path for path in paths if table.state.contains(path))
            return new_commit(table, remove=live) if live else None

        change(self._opened(), plan)
        return tuple(paths)

    def tier(self, name: str, tier: int) -> str:
        """Set a member's tier, a number that lading stores but doesn't interpret."""
        from lading.log.changes import change, new_commit

        path = ""

        def plan(table: Table) -> Commit | None:
            nonlocal path
            [path] = self._named(table, [name])
            found = table.state.find(path)
            is_there = found is not None and found[0].tier == tier
            return None if is_there else new_commit(table, tier=((path, tier),))

        change(self._opened(), plan, of_tables_too=True)
        return path

    def scan(
        self, where: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Scan:
        """The matching rows as Arrow record batches; skips files and row groups that can't match."""
        from lading.read.scan import scan

        return scan(self._opened().state, where=where, columns=columns, limit=limit)

    def lookup(self, key: Any) -> Hit:
        """The rows whose key is `key`."""
        from lading.read.lookup import lookup

        state = self._opened().state
        if state.order_by is None:
            raise ConfigError(
                f"the collection {self.where} has no key",
                hint="add its files again with --key COLUMN, the column they are sorted by; or use scan",
            )
        return lookup(state, key)

    def merge(self, *names: str, into: str | None = None) -> str:
        """Merge members into one new file, sorted by the key, in one commit; returns its name.

        The merged files are yours and stay where they are.
        """
        from lading.log.changes import change, new_commit
        from lading.parts.fold import merge_files
        from lading.storage.place import storage_of

        path = self._new_name(into)

        def plan(table: Table) -> Commit:
            paths = self._named(table, names)
            if len(paths) < 2:
                raise ConfigError("a merge needs at least two members", hint="name two or more, as listed")
            members = [member for member, _ in filter(None, map(table.state.find, paths))]
            merged = merge_files(members, _fold_spec(table), path)
            return new_commit(table, add=(merged,), remove=tuple(paths))

        table = self._opened()
        try:
            change(table, plan, attempts=1)  # again would mean reading all of it again: the caller decides
        except FileExistsError as error:  # by a merge into the same name that was quicker
            raise self._taken(path) from error
        except Conflict:
            table.refresh()
            if not table.state.contains(
                path
            ):  # in a bucket a commit that was made may be taken for another's
                storage_of(self.where).delete(path)
                raise
        return path

    def log_bytes(self) -> int:
        """How large the log is."""
        from lading.log.table import log_bytes

        return log_bytes(self.where) if self._table is not None else 0

    def compact(self) -> None:
        """Drop the log's history and keep the live members."""
        self._opened().compact()

    def check(self) -> tuple[int, list[Damage]]:
        """The number of members, and any problems with the log or a file. Reads no rows."""
        from lading.log.check import check_collection

        return check_collection(self.where)

    @staticmethod
    def rebuild(
        folder: str | os.PathLike[str],
        *,
        key: str | None = None,
        store: ManifestStore | str | None = None,
        s3: Mapping[str, str] | None = None,
    ) -> Restored:
        """Restore the lost or damaged log of a collection or table; see the guide.

        `store` says where the table's manifests are, as for `lading.open`."""
        from lading.read.opener import where_of
        from lading.upkeep.rebuild import restore
        from lading.upkeep.salvage import published_at

        where = where_of(folder, s3)
        return restore(where, key=key, published=published_at(where, store, s3))

    def refresh(self) -> None:
        """Load what others have committed since."""
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
        from lading.log.table import Table

        if self._table is None:
            if not Table.exists(self.where):
                raise NotFound(
                    f"{self.where} is not a collection: it has no log",
                    hint=f"to start one: lading collection add {self.where} FILE…",
                    file=str(self.where),
                )
            self._table = Table.open(self.where)
        return self._table

    def _new_name(self, into: str | None) -> str:
        from lading.storage.place import storage_of
        from lading.storage.protocol import utf8_name

        name = utf8_name(into or f"merged-{ids.fresh()[:16]}.parquet")
        if "/" in name or os.sep in name or name in (".", ".."):
            raise ConfigError(
                f"--into {name} is not a plain file name",
                hint="give a name without folders; the file is written to the collection",
            )
        if storage_of(self.where).has(name):
            raise self._taken(name)
        return name

    def _taken(self, name: str) -> ConfigError:
        return ConfigError(
            f"{self.where}/{name} already exists",
            hint="choose another name with --into, or remove the file if nothing needs it",
            file=name,
        )

    def _named(self, table: Table, names: Sequence[str]) -> list[str]:
        from lading.log.changes import one_member

        def listed() -> list[str]:
            return [member.path for member in table.state.candidates(None)]

        found = (one_member(self.where, table.state.contains, listed, name) for name in names)
        return list(dict.fromkeys(found))


def check_collection(
    folder: str | os.PathLike[str], *, s3: Mapping[str, str] | None = None
) -> tuple[int, list[Damage]]:
    """As `Collection.check`, also where the log can't be opened."""
    from lading.log.check import check_collection as check
    from lading.read.opener import where_of

    return check(where_of(folder, s3))


def _fold_spec(table: Table) -> FoldSpec:
    from lading.parts.fold import FoldSpec
    from lading.parts.footer import Origin

    commit_id = ids.fresh()
    origin = Origin(table.table_id, commit_id, commit_id, table.state.order_by)
    return FoldSpec(table.place, origin, table.state.schema)


def _adding(
    table: Table, footers: list[Footer], key: str | None, ascends: Callable[[str, str], bool]
) -> tuple[Commit | None, Added]:
    from lading.log.changes import adding, new_commit

    plan = adding(table.state, footers, key, ascends)
    done = Added(plan.added, plan.changed, plan.unchanged, table.state.sequence)
    return (new_commit(table, **plan.edits) if plan.edits else None), done
