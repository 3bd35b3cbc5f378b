"""Sources by key, and what is known of their columns by source, as pages hold them: entries and their ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from lading.late import np
from lading.layout.table import page_name
from lading.model import Looked, Source
from lading.state.edit import MadePage, Order, PageRef
from lading.state.encoded import Encoded
from lading.state.page import Page, encode_page, numbers_blob
from lading.zones.numbers import Numbers

IDS = "ids"
_BYTES_OF_ONE = 512  # so many more bytes weigh as much as another entry

_encode = msgspec.msgpack.Encoder().encode
_decode_source = msgspec.msgpack.Decoder(tuple[Source, int]).decode
_decode_looked = msgspec.msgpack.Decoder(Looked).decode

S = TypeVar("S", bound="_Identified")


def decode_source(entry: bytes) -> tuple[Source, int]:
    """A source and the sequence that recorded it."""
    return _decode_source(entry)


def decode_looked(entry: bytes) -> Looked:
    return _decode_looked(entry)


def ids_of(page: Page) -> tuple[Numbers, Numbers]:
    """The ids of the entries, sorted, and whose they are."""
    ids, places = page.arrays(IDS, page.entries, page.entries)
    if len(places) and not (int(places.min()) >= 0 and int(places.max()) < page.entries):
        raise page.damaged("its ids don't fit the entries")
    return ids, places


@dataclass(frozen=True, slots=True)
class _Identified:
    encoded: Encoded
    ids: Numbers  # of each entry

    @classmethod
    def read(cls: type[S], page: Page) -> S:
        ids = np.empty(page.entries, np.int64)
        ordered, places = ids_of(page)
        ids[places] = ordered
        return cls(Encoded.read(page), ids)

    def __len__(self) -> int:
        return len(self.ids)

    def weights(self) -> Numbers:
        return 1 + self.encoded.sizes() // _BYTES_OF_ONE

    def take(self: S, order: Numbers) -> S:
        return type(self)(self.encoded.take(order), self.ids[order])

    def followed_by(self: S, other: S) -> S:
        return type(self)(self.encoded.followed_by(other.encoded), np.concatenate([self.ids, other.ids]))

    def sections(self) -> dict[str, bytes]:
        order = np.argsort(self.ids, kind="stable")
        return {IDS: numbers_blob(self.ids[order], order), **self.encoded.sections()}


class SourceColumns(_Identified):
    """Sources with the sequence that recorded each, by key."""

    __slots__ = ()

    @staticmethod
    def of(sources: Iterable[tuple[Source, int]]) -> SourceColumns:
        told = sorted(sources, key=lambda pair: pair[0].key)
        ids = np.fromiter((source.id for source, _ in told), np.int64, len(told))
        return SourceColumns(Encoded.of([_encode(pair) for pair in told]), ids)

    def order(self, at: int) -> Order:
        return (decode_source(self.encoded.one(at))[0].key,)

    def made(self) -> MadePage:
        content = encode_page("sources", len(self), self.sections())
        name = page_name("sources", content)
        first, last = self.order(0), self.order(len(self) - 1)
        return MadePage(PageRef("sources", name, len(self), first, last, 0, 0, len(content)), content)


class EvidenceColumns(_Identified):
    """What looks at source files found, by source."""

    __slots__ = ()

    @staticmethod
    def of(looked: Iterable[Looked]) -> EvidenceColumns:
        told = sorted(looked, key=lambda one: one.source)
        ids = np.fromiter((one.source for one in told), np.int64, len(told))
        return EvidenceColumns(Encoded.of([_encode(one) for one in told]), ids)

    def order(self, at: int) -> Order:
        return (int(self.ids[at]),)

    def made(self) -> MadePage:
        content = encode_page("evidence", len(self), self.sections())
        name = page_name("evidence", content)
        first, last = self.order(0), self.order(len(self) - 1)
        return MadePage(PageRef("evidence", name, len(self), first, last, 0, 0, len(content)), content)
