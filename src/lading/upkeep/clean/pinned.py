"""Which snapshots of a table others were made from: cleaning leaves them alone, since only beside them can be
told which rows came and went since, and what a snapshot holds be checked."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

from lading.config.project import Config
from lading.errors import LadingError, ManifestGone, ManifestParseError
from lading.ingest.derived.inputs import pins_in, pins_of
from lading.log.table import Table
from lading.model import Pin
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore
from lading.upkeep.status import dropped_tables


@dataclass
class Pinned:
    """What tables of a project were made from. For all tables that are cleaned together: manifests never
    change, so each is read once; what is there is asked anew each time."""

    config: Config
    _told: dict[tuple[str, str], tuple[Pin, ...]] = field(default_factory=dict)  # by table and manifest
    _made: dict[str, bool] = field(default_factory=dict)  # by table

    def refs(self, name: str, table_id: str, going: Mapping[str, Container[str]]) -> frozenset[str]:
        """The manifests of a table that others name: in each snapshot that is there, for readers can be led
        back to it, and in the logs of those that are made of it. Those in `going` are about to go."""
        others = [one for one in self._tables if one != name and self._is_made(one)]
        pins = [pin for other in others for pin in self._pins_shown(other, going.get(other, ()))]
        for other, table in self.config.tables.items():
            if table.derived is not None and name in table.derived.tables:
                pins += pins_of(_inputs_in_log(self.config, other)).values()
        return frozenset(pin.ref for pin in pins if pin.table_id == table_id)

    @cached_property
    def _tables(self) -> list[str]:
        return [*self.config.tables, *dropped_tables(self.config)]

    def _is_made(self, name: str) -> bool:
        """Whether it is made of tables or once was, whether lading.yaml still has it or not."""
        if name not in self._made:
            now = self.config.tables[name].derived if name in self.config.tables else None
            self._made[name] = now is not None or self._was_made(name)
        return self._made[name]

    def _was_made(self, name: str) -> bool:
        """A log that ever named inputs says so for good; where it was made anew, what readers see does."""
        try:
            if _inputs_in_log(self.config, name):
                return True
            store = store_of(self.config, name)
            current = store.load_current()
            return current is not None and bool(self._pins_at(name, store, current.ref))
        except LadingError:
            return True  # nobody can tell: its snapshots are asked

    def _pins_shown(self, name: str, going: Container[str]) -> Iterator[Pin]:
        store = store_of(self.config, name)
        for snapshot in store.list_manifests():
            if snapshot.ref not in going:
                yield from self._pins_at(name, store, snapshot.ref)

    def _pins_at(self, name: str, store: ManifestStore, ref: str) -> tuple[Pin, ...]:
        if (name, ref) not in self._told:
            try:
                self._told[name, ref] = tuple(pins_in(build_meta(store, ref).custom).values())
            except (ManifestParseError, ManifestGone):
                self._told[name, ref] = ()  # whatever it names can't be read there either
        return self._told[name, ref]


def _inputs_in_log(config: Config, name: str) -> bytes:
    place = config.place(name)
    if not Table.exists(place):
        return b""
    with closing(Table.open(place)) as log:
        return log.state.meta.inputs
