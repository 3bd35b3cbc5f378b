"""Which snapshots of a table others were made from: cleaning leaves them alone, since only beside them can be
told which rows came and went since, and what a snapshot holds be checked."""

from __future__ import annotations

from collections.abc import Container, Mapping

from lading.config.project import Config
from lading.errors import ManifestGone, ManifestParseError
from lading.ingest.derived.inputs import pins_in, pins_of
from lading.log.table import Table
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.by_url import store_of


def pinned_refs(config: Config, name: str, going: Mapping[str, Container[str]]) -> frozenset[str]:
    """The manifests of `name` that tables of the project name: in their logs, and in each snapshot that is
    there, for readers can be led back to it. Those of a table in `going` are about to go."""
    found: set[str] = set()
    for other, table in config.tables.items():
        if table.derived is None or name not in table.derived.tables:
            continue
        place = config.place(other)
        if Table.exists(place):
            log = Table.open(place)
            found |= {pin.ref for pin in pins_of(log.state.meta.inputs).values() if pin.name == name}
            log.close()
        store = store_of(config, other)
        for snapshot in store.list_manifests():
            if snapshot.ref in going.get(other, ()):
                continue
            try:
                custom = build_meta(store, snapshot.ref).custom
            except (ManifestParseError, ManifestGone):
                continue  # whatever it names can't be read there either
            found |= {pin.ref for pin in pins_in(custom).values() if pin.name == name}
    return frozenset(found)
