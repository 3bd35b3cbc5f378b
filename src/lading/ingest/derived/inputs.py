"""The tables that a table is made of: their published snapshots, which is what readers see of them."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from lading.config.derived import Derived, Input
from lading.config.project import Config, TableConfig
from lading.config.stores import scheme_of
from lading.errors import ConfigError, NotReady
from lading.formats.file_types import from_arrow
from lading.ingest.derived.slots import Cut, can_cut
from lading.layout.project import CONFIG, SHARD_COPIES
from lading.layout.table import SOURCE
from lading.log.table import Table
from lading.model import Pin, Place, SnapshotRef
from lading.parts.buckets import bucket_width
from lading.read.opener import store_at, where_of
from lading.read.scan import table_schema
from lading.snapshots.opening import open_members
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.members import MemberStore

_pins = msgspec.json.Decoder(list[Pin])


@dataclass(frozen=True, slots=True)
class Shown:
    """What readers see of an input now."""

    input: Input
    place: Place
    store: ManifestStore
    ref: SnapshotRef

    def open(self, ref: str | None = None) -> OpenInput:
        """Its snapshot, or another one of the same table."""
        ref = ref or self.ref.ref
        return OpenInput(self.input, self.place, ref, open_members(self.store, ref, self.place))


@dataclass(frozen=True, slots=True)
class OpenInput:
    """One snapshot of an input."""

    input: Input
    place: Place
    ref: str
    members: MemberStore

    @property
    def name(self) -> str:
        return self.input.name

    @property
    def schema(self) -> pa.Schema:
        """The columns that the query sees: where a row came from is lading's own business."""
        whole = self.whole_schema
        return pa.schema([field for field in whole if field.name != SOURCE])

    @property
    def whole_schema(self) -> pa.Schema:
        return table_schema(self.members)

    def pin(self, run_id: str) -> Pin:
        meta = self.members.meta
        told = hashlib.sha256(meta.schema).hexdigest()[:16]
        by_path = self.input.path is not None
        return Pin(self.name, meta.table_id, meta.sequence, self.ref, run_id, told, by_path)

    def width(self) -> int | None:
        """Of its buckets, in ticks; None when all rows are in one."""
        told = json.loads(self.members.meta.facts or b"{}")
        size = told.get("bucket_size")
        return bucket_width(self.schema, self.members.order_by, size, table=self.name)

    def cut(self, derived: Derived) -> Cut | None:
        """None for an input that is given whole."""
        if self.input.by_bucket:
            return Cut((self.members.order_by or "",), width=self.width())
        return Cut(self.input.by, derived.slots) if self.input.by else None


def shown_inputs(config: Config, cfg: TableConfig) -> list[Shown]:
    """What readers see of each input now; NotReady if there is nothing yet."""
    assert cfg.derived is not None
    return [_shown(config, cfg, one) for one in cfg.derived.inputs]


def _shown(config: Config, cfg: TableConfig, one: Input) -> Shown:
    place, store = place_and_store(config, one)
    current = store.load_current()
    if current is None:
        remedy = f"lading run {one.name}" if one.path is None else f"check the path in {CONFIG}:{one.line}"
        raise NotReady(
            f"{cfg.name} is made of {one.name}, which has nothing published", hint=remedy, table=cfg.name
        )
    return Shown(one, place, store, current)


def place_and_store(config: Config, one: Input) -> tuple[Place, ManifestStore]:
    if one.path is None:
        return config.place(one.name), store_of(config, one.name)
    where = one.path if scheme_of(one.path) else str(config.project / one.path)
    return where_of(where, config.s3 or None, config.cache / SHARD_COPIES), store_at(
        where, None, config.s3 or None
    )


@contextmanager
def opened(shown: Sequence[Shown], refs: Mapping[str, str] | None = None) -> Iterator[list[OpenInput]]:
    """Their snapshots; `refs` are others than readers see now, by name."""
    with ExitStack() as stack:
        found = []
        for one in shown:
            snapshot = one.open((refs or {}).get(one.input.name))
            stack.callback(snapshot.members.close)
            found.append(snapshot)
        yield found


def pins_of(inputs: bytes) -> dict[str, Pin]:
    """What a log or a snapshot says its rows were made from, by name."""
    return {one.name: one for one in _pins.decode(inputs)} if inputs else {}


def pins_in(custom: Mapping[str, Any]) -> dict[str, Pin]:
    """The same of a snapshot's manifest."""
    told = custom.get("inputs")
    return {one.name: one for one in msgspec.convert(told, list[Pin])} if isinstance(told, list) else {}


def told(pins: Sequence[Pin]) -> bytes:
    return msgspec.json.encode(sorted(pins, key=lambda one: one.name))


def table_of(config: Config, one: Input) -> Table | None:
    """The log of an input; None if there is none that can be asked."""
    place, _ = place_and_store(config, one)
    return Table.open(place) if Table.exists(place) else None


def check_columns(cfg: TableConfig, schemas: Mapping[str, pa.Schema]) -> None:
    """ConfigError, with line and key, for `by` columns that the inputs don't have or can't be cut by, or that
    differ in type from one to the other. Inputs whose columns nobody knows yet are left out."""
    assert cfg.derived is not None
    first: tuple[Input, list[pa.DataType]] | None = None
    for one in cfg.derived.inputs:
        if one.name not in schemas or not one.by:
            continue
        schema = schemas[one.name]
        for name in one.by:
            if name not in schema.names:
                near = difflib.get_close_matches(name, schema.names, n=1)
                more = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(schema.names)}"
                raise _wrong(cfg, one, f"{one.name} has no column {name!r}; {more}")
            if not can_cut(schema.field(name).type):
                raise _wrong(
                    cfg, one, f"{name!r} is {from_arrow(schema.field(name).type)}: choose a plain one"
                )
        types = [schema.field(name).type for name in one.by]
        if first is not None and types != first[1]:
            mine = ", ".join(map(from_arrow, types))
            theirs = ", ".join(map(from_arrow, first[1]))
            raise _wrong(cfg, one, f"{mine} here, but {theirs} in {first[0].name}: cast one of them")
        first = first or (one, types)


def check_buckets(cfg: TableConfig, inputs: Sequence[OpenInput]) -> None:
    """The same for `by: bucket`."""
    first: tuple[OpenInput, tuple[pa.DataType, int]] | None = None
    for one in inputs:
        if not one.input.by_bucket:
            continue
        width = one.width()
        if width is None:
            raise without_buckets(cfg, one.input)
        kind = (one.schema.field(one.members.order_by or "").type, width)
        if first is not None and kind != first[1]:
            raise _wrong(cfg, one.input, f"its buckets are not those of {first[0].name}; give both one size")
        first = first or (one, kind)


def without_buckets(cfg: TableConfig, one: Input) -> ConfigError:
    return _wrong(cfg, one, f"{one.name} has no buckets; give it order_by and bucket_size")


def _wrong(cfg: TableConfig, one: Input, text: str) -> ConfigError:
    return ConfigError(
        f"{CONFIG}:{one.line}: tables.{cfg.name}.from.{one.name}.by: {text}",
        hint=f"fix the line in {CONFIG}; {cfg.name} was not run",
        table=cfg.name,
    )
