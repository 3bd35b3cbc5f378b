"""What a state's root says of its pages: read from a database piece by piece, or just made."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Protocol, get_args

import msgspec

from lading.errors import LadingError
from lading.layout.table import PageKind, is_page_name
from lading.state import before_pages
from lading.state.edit import PageRef
from lading.state.sealed import Sealed
from lading.state.sqlite import bounded, require_plain_tables
from lading.state.tables import STATE_VERSION, TABLES, PageList, StateMeta, lies_in_root, row_crc, vector_crc
from lading.zones.vector import ZoneVector

KINDS: tuple[PageKind, ...] = get_args(PageKind)
ANY_TABLES = (*TABLES, *before_pages.TABLES)  # of any version

_PAGE = "kind, number, name, entries, first, last, rows, live_rows, bytes, crc"
_Size = Annotated[int, msgspec.Meta(ge=0)]
_PageRow = tuple[PageKind, int, str, Annotated[int, msgspec.Meta(ge=1)], bytes, bytes, _Size, _Size, _Size]
_decode_order = msgspec.msgpack.Decoder(tuple[Any, Any, Any]).decode
_decode_id = msgspec.msgpack.Decoder(tuple[Any]).decode


def require_state_tables(con: sqlite3.Connection) -> None:
    """Refuse a database in which a table of its version's is absent or anything but an ordinary table."""
    require_plain_tables(con, ("lading",))
    with bounded(con):
        version = con.execute("SELECT value FROM lading WHERE name = 'version'").fetchone()
    require_plain_tables(con, before_pages.TABLES if version == (before_pages.VERSION,) else TABLES)


class Root(Protocol):
    @property
    def meta(self) -> StateMeta: ...

    def refs(self, kind: PageKind) -> tuple[PageRef, ...]:
        """The pages of a kind, in their order."""
        ...

    def page_list(self, kind: PageKind) -> PageList:
        """The same with what is known of each."""
        ...

    def summary(self, name: str) -> ZoneVector | None:
        """A vector over the pages of members; None if there is none."""
        ...

    def content(self, name: str) -> bytes | None:
        """A page that lies in the root."""
        ...

    def unsaved(self) -> Mapping[str, bytes]:
        """Pages that are too large for the root and that nobody wrote yet."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class MadeRoot:
    """One that isn't written, or not yet."""

    meta: StateMeta
    lists: Mapping[PageKind, PageList]
    contents: Mapping[str, bytes] = field(default_factory=dict)

    def refs(self, kind: PageKind) -> tuple[PageRef, ...]:
        return self.lists[kind].refs

    def page_list(self, kind: PageKind) -> PageList:
        return self.lists[kind]

    def summary(self, name: str) -> ZoneVector | None:
        return self.lists["members"].vectors.get(name)

    def content(self, name: str) -> bytes | None:
        return self.contents.get(name)

    def unsaved(self) -> Mapping[str, bytes]:
        if not self.contents:  # asked for each page that is read
            return {}
        return {name: content for name, content in self.contents.items() if not lies_in_root(len(content))}

    def saved(self, meta: StateMeta, named: Mapping[str, str]) -> MadeRoot:
        """The same once its pages are written; `named`: by which names."""
        small = {name: content for name, content in self.contents.items() if lies_in_root(len(content))}
        meta = msgspec.structs.replace(meta, members=self.lists["members"].entries)
        lists = {kind: one.named(named) for kind, one in self.lists.items()} if named else self.lists
        return MadeRoot(meta, lists, small)

    def close(self) -> None:
        pass


class StoredRoot:
    """One in a database, which belongs to it. A state of version 3 is turned into pages when it is asked for
    them."""

    def __init__(self, con: sqlite3.Connection, damaged: Callable[[str], LadingError]) -> None:
        self._sealed = Sealed(con, damaged)
        self._vectors: dict[str, ZoneVector | None] = {}

    @cached_property
    def _told(self) -> tuple[StateMeta, int]:
        """What the state says of itself, and the version that it was written in."""
        fields = dict(self._sealed.query("SELECT name, value FROM lading"))
        crc = fields.pop("crc", None)
        version = fields.get("version")
        if version not in (before_pages.VERSION, STATE_VERSION):
            raise self._sealed.damaged(
                f"its version is {version}, this lading reads {before_pages.VERSION} and {STATE_VERSION}"
            )
        with self._sealed.sound("its description of itself"):
            if {*map(type, fields)} != {str} or crc != row_crc(sorted(fields.items())):
                raise self._sealed.damaged("its description of itself fails its checksum")
            meta = msgspec.convert(fields | {"version": STATE_VERSION}, StateMeta)
            if meta.members < 0:
                raise ValueError(f"{meta.members} members")
            return meta, version

    @property
    def meta(self) -> StateMeta:
        return self._told[0]

    @cached_property
    def _older(self) -> MadeRoot | None:
        """The same as pages, if it is of version 3."""
        meta, version = self._told
        if version == STATE_VERSION:
            return None
        pages = before_pages.read_as_pages(self._sealed, meta.members)
        contents = {page.ref.name: page.content for some in pages.values() for page in some}
        return MadeRoot(meta, {kind: PageList().after(some) for kind, some in pages.items()}, contents)

    @cached_property
    def _refs(self) -> dict[PageKind, tuple[PageRef, ...]]:
        rows = self._sealed.rows(self._sealed.query(f"SELECT {_PAGE} FROM pages ORDER BY kind, number"))
        found: dict[PageKind, list[PageRef]] = {kind: [] for kind in KINDS}
        with self._sealed.sound("the list of pages"):
            for kind, number, name, entries, first, last, *sums in msgspec.convert(rows, list[_PageRow]):
                if number != len(found[kind]) or not is_page_name(name, kind):
                    raise ValueError(f"row {number} of {kind} is out of place")
                decode = _decode_order if kind == "members" else _decode_id
                found[kind].append(PageRef(kind, name, entries, decode(first), decode(last), *sums))
        if sum(ref.entries for ref in found["members"]) != self.meta.members:
            raise self._sealed.damaged("members are missing")
        return {kind: tuple(refs) for kind, refs in found.items()}

    def refs(self, kind: PageKind) -> tuple[PageRef, ...]:
        return self._refs[kind] if self._older is None else self._older.refs(kind)

    def summary(self, name: str) -> ZoneVector | None:
        if self._older is not None:
            return self._older.summary(name)
        if name not in self._vectors:
            rows = self._sealed.query("SELECT name, vector, crc FROM summaries WHERE name = ?", (name,))
            self._vectors[name] = self._vector(*rows[0]) if rows else None
        return self._vectors[name]

    def page_list(self, kind: PageKind) -> PageList:
        return self._lists[kind] if self._older is None else self._older.page_list(kind)

    @cached_property
    def _lists(self) -> dict[PageKind, PageList]:
        rows = self._sealed.query("SELECT name, vector, crc FROM summaries")
        vectors = {name: self._vector(name, vector, crc) for name, vector, crc in rows}
        return {
            kind: PageList(refs, vectors if kind == "members" else {}) for kind, refs in self._refs.items()
        }

    def _vector(self, name: object, vector: object, crc: object) -> ZoneVector:
        if type(name) is not str or type(vector) is not bytes or vector_crc(name, vector) != crc:
            raise self._sealed.damaged(f"the summary {name} fails its checksum")
        with self._sealed.sound(f"the summary {name}"):
            found = ZoneVector.from_blob(vector)
            if len(found) != len(self.refs("members")):
                raise ValueError("it doesn't fit the pages")
            return found

    def content(self, name: str) -> bytes | None:
        if self._older is not None:
            return self._older.content(name)
        rows = self._sealed.query("SELECT content FROM contents WHERE name = ?", (name,))
        return rows[0][0] if rows and type(rows[0][0]) is bytes else None

    def unsaved(self) -> Mapping[str, bytes]:
        return self._older.unsaved() if self._older is not None else {}

    def close(self) -> None:
        self._sealed.close()
