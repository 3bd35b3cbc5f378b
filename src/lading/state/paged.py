"""A state as a root and its pages: which there are, how they are read and checked, and how a root is written.

Pages are read where they lie, and only those that a question needs. What is read is checked (page.py,
sealed.py), so that damage is an error that names the page, and never a wrong answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self, TypeVar

from lading.errors import Conflict, LadingError, ManifestParseError, StorageError
from lading.layout.table import PageKind, page_path
from lading.model import Place
from lading.state.edit import PageRef
from lading.state.loaded import LoadedPage, MemberPage
from lading.state.page import Page
from lading.state.roots import KINDS, MadeRoot, Root, StoredRoot
from lading.state.shelf import PageShelf, read_bytes
from lading.state.source_columns import decode_looked, decode_source
from lading.state.tables import PageList, StateMeta, lies_in_root, write_tables
from lading.words import count_words
from lading.zones.vector import ZoneVector

if TYPE_CHECKING:
    from lading.state.root_copy import RootCopy

_MEND = "`lading repair` puts the page back if the log or another snapshot still says what it held"

P = TypeVar("P", bound=LoadedPage)


def _damaged_snapshot(what: str) -> LadingError:
    return ManifestParseError(
        f"the snapshot is damaged: {what}",
        hint="roll back to an earlier snapshot (lading rollback TABLE --offset 1), or: lading repair",
    )


class PagedState:
    """What is asked of a state whatever its pages hold."""

    def __init__(
        self,
        con: sqlite3.Connection | Root,
        root: Place,
        damaged: Callable[[str], LadingError] = _damaged_snapshot,
        *,
        like: PagedState | None = None,
    ) -> None:
        """`damaged` makes the error for content that fails its checks; the database belongs to `self`. Pages
        that it has in common with the state `like` aren't read again."""
        self.root = root
        self._root: Root = StoredRoot(con, damaged) if isinstance(con, sqlite3.Connection) else con
        self.damaged = damaged
        self.shelf: PageShelf = PageShelf(root) if like is None else like.shelf
        self._loaded: dict[str, LoadedPage] = {}
        self.mark: object = None  # of the file that it lies in, if that is a checkpoint
        self.copy: RootCopy | None = None  # of its root, if there is one
        if like is not None:
            names = {
                ref.name for kind in KINDS for ref in self._root.refs(kind) if not lies_in_root(ref.bytes)
            }
            unsaved = like.unsaved()  # those hold all of their content in memory
            known = like._loaded.items()
            self._loaded = {name: one for name, one in known if name in names and name not in unsaved}

    @property
    def meta(self) -> StateMeta:
        return self._root.meta

    @property
    def schema(self) -> bytes:
        return self.meta.schema

    @property
    def order_by(self) -> str | None:
        return self.meta.order_by

    def count(self) -> int:
        return self.meta.members

    def row_count(self) -> int:
        """Rows that count, of all members."""
        return sum(ref.live_rows for ref in self.pages())

    def pages(self, kind: PageKind = "members") -> tuple[PageRef, ...]:
        """The pages, in the order of what they hold."""
        return self._root.refs(kind)

    def page_list(self, kind: PageKind) -> PageList:
        return self._root.page_list(kind)

    def summary(self, name: str) -> ZoneVector | None:
        """A vector over the pages of members; None if there is none."""
        return self._root.summary(name)

    def check(self) -> None:
        """Read all that there is, against names and checksums."""
        problem = next(self.problems(), None)
        if problem is not None:
            raise problem

    def problems(self) -> Iterator[LadingError]:
        """What is wrong, page by page."""
        try:
            refs = [(kind, ref) for kind in KINDS for ref in self.pages(kind)]
            _ = self.page_list("members")
        except LadingError as error:
            yield error
            return
        for kind, ref in refs:
            try:
                _decode_all(kind, self._checked(ref))
            except LadingError as error:
                yield error

    def is_whole(self, ref: PageRef) -> bool:
        """Whether a page is what the root says. A store that gives no answer says nothing of that."""
        try:
            self._checked(ref)
        except StorageError:
            raise
        except LadingError:
            return False
        return True

    def _checked(self, ref: PageRef) -> Page:
        """A page that was read whole, from where it lies and not from a copy."""
        page = self._page(ref, original=True)
        content = page.check()
        return Page(ref.name, ref.kind, ref.entries, read_bytes(content), page.damaged)

    def write_root(self, con: sqlite3.Connection, meta: StateMeta, *, evidence: bool = False) -> None:
        """Fill a database that has no state yet (tables.py). Its pages have to be on the shelf."""
        unsaved = self.unsaved()
        assert not unsaved, f"{len(unsaved)} pages were never written"
        kinds = [kind for kind in KINDS if evidence or kind != "evidence"]
        lists = {kind: self.page_list(kind) if kind in kinds else PageList() for kind in KINDS}
        names = {ref.name for one in lists.values() for ref in one.refs}
        contents = {name: content for name, content in self.contents().items() if name in names}
        write_tables(con, meta, lists, contents)

    def unsaved(self) -> Mapping[str, bytes]:
        """Pages that have no place in the root and aren't known to lie on the shelf."""
        return self._root.unsaved()

    def contents(self) -> dict[str, bytes]:
        """The pages that lie in the root, and those that nobody wrote yet."""
        small = [ref for kind in KINDS for ref in self.pages(kind) if lies_in_root(ref.bytes)]
        return {**self.unsaved(), **{ref.name: self._content(ref) for ref in small}}

    def save(self, meta: StateMeta | None = None) -> Self:
        """Write the pages that nobody wrote yet; the same state then, under another description of itself if
        there is one."""
        assert isinstance(self._root, MadeRoot)
        named = self.shelf.keep(self.unsaved())
        return type(self)(self._root.saved(meta or self.meta, named), self.root, self.damaged, like=self)

    def page_names(self) -> set[str]:
        """Of the pages that lie outside of the root."""
        return {ref.name for kind in KINDS for ref in self.pages(kind) if not lies_in_root(ref.bytes)}

    def is_one_file(self) -> bool:
        """Whether all of its pages lie in the root."""
        return all(lies_in_root(ref.bytes) for kind in KINDS for ref in self.pages(kind))

    def close(self) -> None:
        """Also of the files of its pages: a page knows the state that it is of, so they would stay open until
        somebody looks for cycles."""
        self._loaded.clear()
        self._root.close()

    def load(self, kind: PageKind, number: int) -> Page:
        """For who edits it."""
        return self._page(self.pages(kind)[number])

    def loaded(self, ref: PageRef, kind: type[P]) -> P:
        """One that questions are asked of, kept for the next."""
        page = self._loaded.get(ref.name)
        if page is None:
            page = self._loaded[ref.name] = kind(self._page(ref))
        assert isinstance(page, kind)
        return page

    def fetch(self, refs: Iterable[PageRef]) -> None:
        """Have pages at hand that are about to be read."""
        self.shelf.fetch(ref for ref in refs if ref.name not in self._loaded and not lies_in_root(ref.bytes))

    def _content(self, ref: PageRef) -> bytes:
        content = self._root.content(ref.name)
        if content is None:
            raise self._damaged_page(ref, "it is missing")
        return content

    def _page(self, ref: PageRef, *, original: bool = False) -> Page:
        content = self._content(ref) if lies_in_root(ref.bytes) else self.unsaved().get(ref.name)
        if content is not None:
            read = read_bytes(content)
        else:
            read = self.shelf.original(ref) if original else self.shelf.reader(ref)
        return Page(ref.name, ref.kind, ref.entries, read, lambda what: self._damaged_page(ref, what))

    def _damaged_page(self, ref: PageRef, what: str) -> LadingError:
        error = self.damaged(f"page {page_path(ref.name)}, with {_held(ref)}: {what}")
        if not lies_in_root(ref.bytes):
            self.shelf.forget(ref)
            error.file = self.shelf.path(ref.name)
            if not isinstance(error, Conflict):
                error.hint = f"{_MEND}; else {error.hint}"
        return error


def _held(ref: PageRef) -> str:
    """What is lost with a page, for people."""
    first, last = (one[1] if ref.kind == "members" and one[0] else one[-1] for one in (ref.first, ref.last))
    if ref.kind == "members":
        return f"{count_words(ref.entries, 'member')} from {first!r} to {last!r}"
    if ref.kind == "sources":
        return f"{count_words(ref.entries, 'source')} from {first!r} to {last!r}"
    return f"what is known of the columns of {count_words(ref.entries, 'source file')}"


def _decode_all(kind: PageKind, page: Page) -> None:
    if kind == "members":
        found = MemberPage(page)
        found.members()
        for column in found.columns:
            found.zones(column)
        _ = found.keys, found.by_hash
        return
    entries = LoadedPage(page).entries()
    decode = decode_source if kind == "sources" else decode_looked
    with page.sound("an entry"):
        for entry in entries:
            decode(entry)
