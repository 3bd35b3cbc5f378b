"""A place for one table's manifests on each kind of store, reached by URL as a project would."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lading.config.stores import PostgresNames
from lading.snapshots.stores.by_url import store_for
from lading.snapshots.stores.protocol import ManifestStore

if TYPE_CHECKING:
    import pytest

KINDS = ("local", "memory", "postgres", "s3", "azure")


@dataclass(frozen=True)
class Place:
    """`open` gives another handle to the same manifests and pointer."""

    kind: str
    url: str
    table: str = "voyages"
    s3: dict[str, str] = field(default_factory=dict)
    prefix: str = "lading"

    def open(self) -> ManifestStore:
        return store_for(self.url, self.table, s3=self.s3, postgres=PostgresNames(prefix=self.prefix))

    def argument(self) -> str:
        """For `opened` in another process."""
        return json.dumps([self.kind, self.url, self.table, self.s3, self.prefix])


def opened(argument: str) -> ManifestStore:
    return Place(*json.loads(argument)).open()


def poll(store: ManifestStore, last: int) -> int:
    """Read until `last` is current: every pointer names a whole manifest, and time never runs back."""
    sequences = [-1]
    while sequences[-1] < last:
        ref = store.load_current()
        assert ref is not None and store.load_manifest(ref.ref) == b"%d" % ref.sequence * 50, ref
        sequences.append(ref.sequence)
    assert sequences == sorted(sequences)
    return len(set(sequences)) - 1


def new_place(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    """A place that nobody has used. The server is only started for the kinds that need one."""
    own = uuid.uuid4().hex
    if kind == "s3":
        server = request.getfixturevalue("s3_server")
        return Place(kind, f"{server.bucket('places')}/{own}", s3=server.options())
    if kind == "azure":
        return Place(kind, f"{request.getfixturevalue('azure_server').container('places')}/{own}")
    if kind == "postgres":
        return Place(kind, request.getfixturevalue("postgres_server").url, prefix=f"t{own[:12]}")
    return Place(kind, f"memory://{own}" if kind == "memory" else str(folder / "store"))
