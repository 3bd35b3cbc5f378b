"""A table's members from nothing but the files that lie there.

Footers say which table, run and commit a part is of and which parts it replaced; not whether that commit
was ever made. So what can be decided is decided, and everything else is left out and said: a part that
may have been replaced is never brought back silently.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lading.errors import PartError, SchemaDrift
from lading.layout.table import BUCKET, NOT_DATA, PART_SUFFIX, SOURCE, kind_of
from lading.model import Member
from lading.parts.intake import Footer, footer_to_add, in_parallel, is_sorted, joint_schema, member_of
from lading.parts.open import open_parquet, row_batches, shown_path
from lading.storage.place import Where, storage_of
from lading.zones.bounds import bound_kind

_BATCH = 1 << 16  # rows


@dataclass(frozen=True, slots=True)
class Walked:
    members: tuple[Member, ...]
    schema: pa.Schema
    key: str | None
    undecided: tuple[str, ...]  # in words, with the paths
    table_id: str | None = None  # that the table's own parts name, if they agree


def walk_files(where: Where, key: str | None) -> Walked:
    """Every Parquet file below `where` that can be taken for a live member."""
    read = in_parallel(lambda path: _footer(where, path), parquet_files(where))
    undecided = [str(one) for one in read if isinstance(one, str)]
    footers = [one for one in read if isinstance(one, Footer)]
    footers, replaced = _without_replaced(footers)
    undecided += [f"{path} is left out: another part says that it replaced it" for path in replaced]
    footers, overlapping = _without_overlaps(where, footers)
    undecided += [
        f"{path} is left out: a later commit's part holds rows of the same source file, and whether it was "
        "replaced is not recorded anywhere"
        for path in overlapping
    ]
    commits = {footer.said("commit_id") for footer in footers} - {None}
    if commits:
        several = f"{len(commits)} commits" if len(commits) > 1 else "one commit"
        undecided.append(f"the parts are of {several}; there is no telling whether a commit was completed")
    schema, older = _schema(footers)
    undecided += [
        f"{path} has other types than the newest part, which may not be able to hold its values"
        for path in older
    ]
    return Walked(*_members(where, footers, schema, key), tuple(undecided), _table_id(footers))


def _schema(footers: Sequence[Footer]) -> tuple[pa.Schema, list[str]]:
    """The columns of all files, and the paths of those whose types are others. A table's types follow its
    source files, and its parts stay as they are: the newest says most likely what they were last."""
    schema: pa.Schema | None = None
    older = []
    for footer in sorted(footers, key=_age, reverse=True):
        try:
            schema = joint_schema(schema, [footer])
        except SchemaDrift:
            if footer.said("commit_id") is None or schema is None:
                raise
            older.append(footer.path)
            fresh = [field for field in footer.schema if field.name not in schema.names]
            schema = pa.schema([*schema, *fresh])
    return (schema if schema is not None else pa.schema([])), sorted(older)


def _table_id(footers: Sequence[Footer]) -> str | None:
    """Files that were added from elsewhere may name another table: they lie in no bucket."""
    named = {footer.said("table_id") for footer in footers if footer.path.startswith(BUCKET)} - {None}
    return named.pop() if len(named) == 1 else None


def _members(
    where: Where, footers: Sequence[Footer], schema: pa.Schema, key: str | None
) -> tuple[tuple[Member, ...], pa.Schema, str | None]:
    if key is None:
        declared = {footer.sort_column() for footer in footers} - {None}
        key = declared.pop() if len(declared) == 1 else None
    if key is not None and (key not in schema.names or bound_kind(schema.field(key).type) is None):
        key = None

    def member(footer: Footer) -> Member:
        ascends = key is not None and (footer.sort_column() == key or is_sorted(where, footer.path, key))
        return member_of(footer, schema, key, ascends=ascends)

    return tuple(in_parallel(member, footers)), schema, key


def parquet_files(where: Where) -> list[str]:
    """The paths of all Parquet files of a table or collection, sorted."""
    return [found.name for found in storage_of(where).list(wanted=_is_data, links=True)]


def _is_data(path: str) -> bool:
    *folders, name = path.split("/")
    hidden = any(step.startswith(".") for step in (*folders, name))
    if not name.endswith(PART_SUFFIX) or hidden or kind_of(path, in_bucket=False) == ("iceberg", None):
        return False
    return not folders or folders[0] not in NOT_DATA


def _footer(where: Where, path: str) -> Footer | str:
    try:
        return footer_to_add(where, path)
    except PartError as error:
        return f"{path} is left out: {error.message}"


def _without_replaced(footers: list[Footer]) -> tuple[list[Footer], list[str]]:
    """A part names what it replaced: it holds those rows, so either it or they are live."""
    replaced = {path for footer in footers for path in _replaced(footer)}
    return [f for f in footers if f.path not in replaced], sorted(replaced & {f.path for f in footers})


def _replaced(footer: Footer) -> list[str]:
    try:
        return [str(path) for path in json.loads(footer.said("replaces") or "[]")]
    except (ValueError, TypeError, RecursionError) as error:
        raise PartError(
            f"{footer.path}: its footer can't be read: {error}",
            hint="restore the part, or move it out of the table's folder",
        ) from error


def _without_overlaps(where: Where, footers: list[Footer]) -> tuple[list[Footer], list[str]]:
    """Rows of one source file are written by one commit: of two, the later one is kept."""
    written = [footer for footer in footers if footer.said("commit_id") and SOURCE in footer.schema.names]
    if len({footer.said("commit_id") for footer in written}) < 2:
        return footers, []
    sources = dict(
        zip(
            [footer.path for footer in written],
            in_parallel(lambda footer: _sources(where, footer.path), written),
            strict=True,
        )
    )
    latest: dict[int, tuple[str, str]] = {}
    for footer in written:
        for source in sources[footer.path]:
            latest[source] = max(latest.get(source, ("", "")), _age(footer))
    old = {f.path for f in written if any(latest[source] > _age(f) for source in sources[f.path])}
    return [footer for footer in footers if footer.path not in old], sorted(old)


def _age(footer: Footer) -> tuple[str, str]:
    """Run ids sort by time."""
    return footer.said("run_id") or "", footer.said("commit_id") or ""


def _sources(where: Where, path: str) -> set[int]:
    try:
        with open_parquet(where, path) as file:
            found: set[int] = set()
            for batch in row_batches(where, file, _BATCH, columns=[SOURCE]):
                found.update(pc.unique(batch.column(0)).to_pylist())
            return found
    except (OSError, pa.ArrowException) as error:
        raise PartError(
            f"{shown_path(where, path)} can't be read: {error}",
            hint="move it out of the table, then rebuild",
            file=path,
        ) from error
