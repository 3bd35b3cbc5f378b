"""A manifest of any store as something to read from: in place on the local store, in memory otherwise.

What a manifest holds may be a stranger's: every table that is read has to be an ordinary table, so that
no view or computed column of somebody else's is ever run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from lading.errors import ManifestParseError, NotFound
from lading.layout.table import is_run_step
from lading.model import Place
from lading.snapshots.manifest import BuildMeta, is_foreign, load_build_meta, read_snapshot
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.members import MemberStore
from lading.state.roots import require_state_tables
from lading.state.sqlite import open_snapshot, open_snapshot_file


def open_manifest(store: ManifestStore, ref: str, *, check: bool = False) -> sqlite3.Connection:
    """A read-only connection to the manifest `ref`. What comes from elsewhere, where others may have had
    their hands on it, is checked whole before it is used; what lies in place only with `check`."""
    with _named(ref):
        path = store.manifest_path(ref)
        if path is not None:
            connection = open_snapshot_file(path, check=check)
        else:
            check = True
            connection = open_snapshot(store.load_manifest(ref), check=True)
        try:
            if check:
                read_snapshot(connection)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _named(ref: str) -> Iterator[None]:
    """What is malformed says which manifest it is in."""
    try:
        yield
    except ManifestParseError as error:
        if ref in error.message:
            raise
        message, file = f"{ref}: {error.message}", error.file or ref
        raise ManifestParseError(message, hint=error.hint, table=error.table, file=file) from error


def open_members(store: ManifestStore, ref: str, root: Place, *, check: bool = False) -> MemberStore:
    """The members that the manifest `ref` lists; relative paths start from `root`."""
    connection = open_manifest(store, ref, check=check)
    try:
        members = members_in(connection, root)
    except BaseException:
        connection.close()
        raise
    if members is None:
        connection.close()
        raise no_parts(ref)
    return members


def members_in(connection: sqlite3.Connection, root: Place) -> MemberStore | None:
    """The members of an open manifest, which belong to the connection; None for one that another writer made:
    that has no parts."""
    if is_foreign(connection):
        return None
    require_state_tables(connection)
    return MemberStore(connection, root)


def no_parts(ref: str) -> NotFound:
    return NotFound(
        f"the snapshot {ref} has no parts: lading did not write it",
        hint="it has shards: use get, multi_get or route",
    )


def build_meta(store: ManifestStore, ref: str) -> BuildMeta:
    """What the manifest `ref` says of its build; neither members nor shards are read."""
    with closing(open_manifest(store, ref)) as connection, _named(ref):
        return load_build_meta(connection)


def build_meta_and_schema(store: ManifestStore, ref: str) -> tuple[BuildMeta, bytes | None]:
    """The same, and the schema of its rows; None if it has none that can be read."""
    with closing(open_manifest(store, ref)) as connection, _named(ref):
        meta = load_build_meta(connection)
        try:
            members = members_in(connection, Place(""))
            return meta, None if members is None else members.schema
        except ManifestParseError:
            return meta, None


@dataclass(frozen=True, slots=True)
class References:
    """Every file that a manifest refers to, only ever used to leave them alone, and what it is itself."""

    pages: frozenset[str]  # of its state, wherever they lie; what each refers to in turn: `Mentioned`
    shards: frozenset[str]  # folders
    custom: dict[str, Any]  # what else the build says of itself
    bytes: int  # of the manifest


@dataclass(frozen=True, slots=True)
class Mentioned:
    """The files that the entries of one page name: parts, and what was set aside of source files."""

    members: frozenset[str] = frozenset()
    aside: frozenset[str] = frozenset()


def references(store: ManifestStore, ref: str, root: Place, mentioned: dict[str, Mentioned]) -> References:
    """What the manifest `ref` of the table at `root` refers to; ManifestParseError if that can't be told for
    certain. What its pages mention is added to `mentioned`: manifests share pages, and each is read once."""
    with closing(open_manifest(store, ref, check=True)) as connection, _named(ref):
        parsed = read_snapshot(connection)
        members = members_in(connection, root)
        pages = mention(members, mentioned) if members is not None else frozenset()
        return References(
            pages=pages,
            shards=frozenset(url for shard in parsed.shards for url in _folders(shard.db_url or "")),
            custom=parsed.meta.custom,
            bytes=_size(connection),
        )


def mention(members: MemberStore, mentioned: dict[str, Mentioned]) -> frozenset[str]:
    """The names of a state's pages, once `mentioned` has what they refer to."""
    for ref in members.pages("members"):
        if ref.name not in mentioned:
            rows = members.member_page(ref).rows()
            mentioned[ref.name] = Mentioned(members=frozenset(row[1] for row in rows))
    for ref in members.pages("sources"):
        if ref.name not in mentioned:
            sources = members.sources_in(ref)
            aside = frozenset(source.quarantine for source, _ in sources if source.quarantine)
            mentioned[ref.name] = Mentioned(aside=aside)
    names = {ref.name for kind in ("members", "sources") for ref in members.pages(kind)}
    return frozenset({*names, *members.page_names()})


def _size(connection: sqlite3.Connection) -> int:
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    [page] = connection.execute("PRAGMA page_size").fetchone()
    return int(pages * page)


def _folders(url: str) -> Iterator[str]:
    """A shard's folder as seen from the root, and of a URL as seen from every folder on the way to it: where
    the bucket was copied from another one, its manifests name that one."""
    yield url
    steps = url.split("/")
    run = next((at for at, step in enumerate(steps) if is_run_step(step)), 0)
    yield from ("/".join(steps[at:]) for at in range(1, run))
