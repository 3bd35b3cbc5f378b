"""Which snapshots of a table others were made from: cleaning leaves them alone, since only beside them can be
told which rows came and went since."""

from __future__ import annotations

from lading.config.project import Config
from lading.errors import ManifestParseError, ManifestStoreError
from lading.ingest.derived.inputs import pins_in, pins_of
from lading.log.table import Table
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.by_url import store_of


def pinned_refs(config: Config, name: str) -> frozenset[str]:
    """The manifests of `name` that tables of the project name, in their logs and in what readers see."""
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
        try:
            current = store.load_current()
            custom = build_meta(store, current.ref).custom if current is not None else {}
        except (ManifestParseError, ManifestStoreError):
            continue  # whatever it names can't be read there either
        found |= {pin.ref for pin in pins_in(custom).values() if pin.name == name}
    return frozenset(found)
