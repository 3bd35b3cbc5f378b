"""A manifest of any store as something to read from: in place on the local store, in memory otherwise.

What a manifest holds may be a stranger's: every table that is read has to be an ordinary table, so that
no view or computed column of somebody else's is ever run.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from lading.format.members import MemberStore
from lading.format.snapshot import BuildMeta, load_build_meta, read_snapshot
from lading.format.snapshot_file import open_snapshot, open_snapshot_file, require_plain_tables
from lading.model import Root
from lading.snapshots.stores.local import LocalStore
from lading.snapshots.stores.protocol import ManifestStore

STATE_TABLES = ("lading", "members", "zones", "vectors", "sources")


def open_manifest(store: ManifestStore, ref: str, *, check: bool = False) -> sqlite3.Connection:
    """A read-only connection to the manifest `ref`. What comes from elsewhere, where others may have had
    their hands on it, is checked whole before it is used; what lies in place only with `check`."""
    if isinstance(store, LocalStore):
        connection = open_snapshot_file(store.manifest_path(ref), check=check)
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


def open_members(store: ManifestStore, ref: str, root: Root, *, check: bool = False) -> MemberStore:
    """The members that the manifest `ref` lists; relative paths start from `root`."""
    connection = open_manifest(store, ref, check=check)
    try:
        require_plain_tables(connection, STATE_TABLES)
    except BaseException:
        connection.close()
        raise
    return MemberStore(connection, root)


def build_meta(store: ManifestStore, ref: str) -> BuildMeta:
    """What the manifest `ref` says of its build; neither members nor shards are read."""
    connection = open_manifest(store, ref)
    try:
        return load_build_meta(connection)
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class References:
    """Every file that a manifest refers to; only ever used to leave them alone."""

    members: frozenset[str]
    shards: frozenset[str]  # folders
    aside: frozenset[str]  # quarantine files
    shard_prefix: str


def references(store: ManifestStore, ref: str) -> References:
    """What the manifest `ref` refers to; ManifestParseError if that can't be told for certain."""
    connection = open_manifest(store, ref, check=True)
    try:
        require_plain_tables(connection, STATE_TABLES)
        parsed = read_snapshot(connection)
        members = MemberStore(connection, "")
        sources = members.sources()
        return References(
            members=frozenset(row[1] for row in members.member_rows()),
            shards=frozenset(
                url
                for shard in parsed.shards
                if shard.db_url
                for url in _relative(shard.db_url, parsed.meta.shard_prefix)
            ),
            aside=frozenset(source.quarantine for source, _ in sources if source.quarantine),
            shard_prefix=parsed.meta.shard_prefix,
        )
    finally:
        connection.close()


def _relative(url: str, prefix: str) -> tuple[str, ...]:
    """A shard's folder as seen from the root; of a URL the part from the shards' own folder on."""
    at = url.find(f"{prefix}/run_id=")
    return (url,) if at <= 0 else (url, url[at:])
