"""The sources of a state, and what is known of their columns, read page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lading.late import np
from lading.layout.table import PageKind
from lading.model import Looked, Source
from lading.state.edit import PageRef
from lading.state.loaded import LoadedPage
from lading.state.paged import PagedState
from lading.state.source_columns import decode_looked, decode_source
from lading.zones.numbers import Numbers


class SourcePages(PagedState):
    """What is asked of a state's sources."""

    def sources(self) -> list[tuple[Source, int]]:
        """Every source with the sequence that recorded it, by key."""
        return list(self.sources_by_key())

    def sources_by_key(self) -> Iterator[tuple[Source, int]]:
        """The same, one after the other: they are never all in memory."""
        for ref in self.pages("sources"):
            yield from self.sources_in(ref)

    def sources_in(self, ref: PageRef) -> list[tuple[Source, int]]:
        """Those of one page, by key."""
        page = self.loaded(ref, LoadedPage)
        entries = page.entries()
        with page.page.sound("a source"):
            return [decode_source(entry) for entry in entries]

    def source(self, number: int) -> tuple[Source, int] | None:
        for ref in self.pages("sources"):
            page = self.loaded(ref, LoadedPage)
            for at in page.maybe_at(number):
                [entry] = page.entries([at])
                with page.page.sound("a source"):
                    return decode_source(entry)
        return None

    def source_count(self) -> int:
        return sum(ref.entries for ref in self.pages("sources"))

    def identified(self, kind: PageKind, ids: Iterable[int]) -> dict[int, Numbers]:
        """Where the sources, or the evidence, with these ids are, if they are here: by page, rising."""
        wanted = np.fromiter(ids, np.int64)
        found = {}
        for number, ref in enumerate(self.pages(kind)):
            known, places = self.loaded(ref, LoadedPage).by_hash
            at = np.minimum(known.searchsorted(wanted), len(known) - 1)
            some = places[at[known[at] == wanted]]
            if len(some):
                found[number] = np.sort(some)
        return found

    def evidence(self) -> list[Looked]:
        """What is known of the sources' columns; nothing where nobody has looked."""
        found = []
        for ref in self.pages("evidence"):
            page = self.loaded(ref, LoadedPage)
            entries = page.entries()
            with page.page.sound("evidence"):
                found += [decode_looked(entry) for entry in entries]
        return found
