"""The Python door to a published table: the same words as the command line.

Nothing heavy is imported until it is used: `import lading` has to be quick.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from lading.errors import LadingError

if TYPE_CHECKING:
    import pyarrow as pa

    from lading.config.project import Config
    from lading.model import SnapshotRef, Source
    from lading.read.layout import Layout, Part
    from lading.read.lookup import Hit
    from lading.read.scan import Scan
    from lading.read.view import Opener, View
    from lading.serve.keys import Key
    from lading.snapshots.history import Wanted
    from lading.snapshots.manifest import ShardMeta
    from lading.snapshots.stores.protocol import ManifestStore

_T = TypeVar("_T")


class Reader:
    """Reads one snapshot of a table, until `refresh`. Needs neither Spark nor a server; thread-safe."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        store: ManifestStore | str | None = None,
        *,
        ref: str | None = None,
        offset: int | None = None,
        as_of: datetime | str | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
        ranges_above: int | None = None,
        fallbacks: int | None = None,
        s3: Mapping[str, str] | None = None,
    ) -> None:
        from lading.read.opener import opener

        self._opener: Opener = opener(
            os.fspath(root), store, _wanted(ref, offset, as_of),
            cache=cache, cache_bytes=cache_bytes, ranges_above=ranges_above, fallbacks=fallbacks, s3=s3,
        )  # fmt: skip
        self._refreshing = threading.Lock()
        self._closed = False
        self._view: View = self._opener.open_latest()

    @property
    def snapshot(self) -> SnapshotRef:
        """The snapshot that this reader sees."""
        return self._view.ref

    @property
    def rows(self) -> int:
        return self._using(lambda view: view.rows)

    def get(self, key: Key, *, context: Mapping[str, Any] | None = None, decode: bool = False) -> Any:
        """The stored value of `key`, or None; `decode` decodes JSON and MessagePack.

        `context` has the columns that routing needs besides the key, if any."""
        while True:
            view = self._view
            try:
                value = view.get(key, context)
            except LadingError:
                if self._view is view:
                    raise
                continue  # of a snapshot that is no longer this reader's, and may have been cleaned away
            except view.superseded:
                self._moved_on_from(view)
                continue
            return view.decoded(value) if decode and value is not None else value

    def multi_get(
        self, keys: Iterable[Key], *, context: Mapping[str, Any] | None = None, decode: bool = False
    ) -> dict[Key, Any]:
        """Every key with its value or None, all from one snapshot, whatever is published meanwhile."""
        wanted = list(keys)

        def ask(view: View) -> dict[Key, Any]:
            found = view.keys.multi_get(wanted, context)
            if not decode:
                return found
            return {key: None if value is None else view.decoded(value) for key, value in found.items()}

        return self._using(ask)

    def is_at_hand(self, key: Key, *, context: Mapping[str, Any] | None = None) -> bool:
        """Whether `get` would answer from an open shard on disk, in microseconds and without the network."""
        keys = self._view.keys
        return keys.is_at_hand(keys.route(key, context))

    def route(self, key: Key, *, context: Mapping[str, Any] | None = None) -> int:
        """The number of the shard that `key` belongs to."""
        return self._using(lambda view: view.keys.route(key, context))

    def parse_key(self, text: str) -> Key:
        """A key as a person types it: 42, abc, hex for bytes, a JSON list for a composite key."""
        return self._using(lambda view: view.keys.parse_key(text))

    def encoding(self) -> str | None:
        """How values are stored: json, msgpack or raw; None if the manifest doesn't say."""
        return self._using(lambda view: view.encoding)

    def parse_context(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """What routing needs besides the key, converted from text to the declared types."""
        return self._using(lambda view: view.keys.router.parsed_context(texts))

    def shards(self) -> list[ShardMeta]:
        """The shards that have rows, by number."""
        return self._using(lambda view: list(view.keys.shards.values()))

    def health(self, *, max_age: float | None = None, deep: bool = False) -> dict[str, Any]:
        """Whether readers get answers, and how old they are: `status` is ok, degraded or failing.

        A snapshot older than `max_age` seconds is degraded; `deep` hashes every shard."""
        from lading.read.health import health

        return self._using(lambda view: health(self._opener, view, max_age=max_age, deep=deep))

    def scan(
        self, where: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Scan:
        """The matching rows as Arrow record batches; skips files and row groups that can't match."""
        from lading.read.scan import scan

        self._opener.need_parts(self._view)
        return self._using(lambda view: scan(view.members, where=where, columns=columns, limit=limit))

    def lookup(self, key: Any) -> Hit:
        """The rows whose order value is `key`."""
        from lading.read.lookup import lookup

        self._opener.need_parts(self._view)
        return self._using(lambda view: lookup(view.members, key))

    def layout(
        self, where: str | None = None, *, first: int = 0, limit: int | None = None
    ) -> tuple[Layout, list[Part]]:
        """How the table lies on disk, and which parts a scan with `where` would open; `limit` parts in key
        order from the `first` on. No part is opened."""
        from lading.read.layout import layout

        return self._using(lambda view: layout(view.members, where, first=first, limit=limit))

    def sources(self) -> list[Source]:
        """The files that the rows came from; `id` matches `_source` in the rows."""
        return self._using(lambda view: [source for source, _ in view.members.sources()])

    def source(self, number: int) -> Source | None:
        """The file that rows with this `_source` came from."""
        found = self._using(lambda view: view.members.source(number))
        return found[0] if found is not None else None

    def to_arrow(
        self, where: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """The matching rows as an Arrow stream, read as it is consumed."""
        from lading.read.frames import to_arrow

        return to_arrow(self.scan(where, columns, limit))

    def to_pandas(
        self, where: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Any:
        """The matching rows as a pandas DataFrame."""
        from lading.read.frames import to_pandas

        return to_pandas(self.scan(where, columns, limit))

    def to_polars(self, where: str | None = None, columns: Sequence[str] | None = None) -> Any:
        """The matching rows as a polars LazyFrame: nothing is read until `collect`, and then only the
        columns and rows that the query needs."""
        from lading.read.frames import to_polars

        return to_polars(self.scan(where, columns))

    def to_duckdb(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        connection: Any = None,
    ) -> Any:
        """The matching rows as a DuckDB relation, read each time it is evaluated."""
        from lading.read.frames import to_duckdb

        return to_duckdb(self.scan(where, columns, limit), connection)

    def to_spark(self, spark: Any, where: str | None = None, columns: Sequence[str] | None = None) -> Any:
        """The matching rows of this snapshot as a Spark DataFrame, read by its tasks."""
        from lading.read.spark_source import frame_of

        self._opener.need_parts(self._view)
        return frame_of(spark, self._opener, self.snapshot.ref, where, columns)

    def info(self) -> dict[str, Any]:
        from lading.read.health import info

        return self._using(info)

    def refresh(self) -> bool:
        """Switch to the current snapshot; True if it changed. Scans in progress keep theirs.

        A reader opened with `offset` counts again, from what is current now."""
        with self._refreshing:
            self._refuse_closed()
            old = self._view
            new = self._opener.open_latest(old)
            if new is old:
                return False
            self._view = new
        old.retire(new)
        return new.ref.ref != old.ref.ref

    def close(self) -> None:
        """Close the reader for good, once answers in progress are done."""
        with self._refreshing:
            self._closed = True
        self._view.retire()

    def _using(self, ask: Callable[[View], _T]) -> _T:
        """What `ask` says of the snapshot at hand, which stays open meanwhile."""
        while True:
            view = self._view
            try:
                with view.in_use():
                    return ask(view)
            except view.superseded:
                self._moved_on_from(view)
            except LadingError:
                if self._view is view:
                    raise

    def _moved_on_from(self, view: View) -> None:
        """`view` was given up: by a refresh, then there is another, or by `close`."""
        if self._view is view:
            self._refuse_closed()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise LadingError("this reader is closed", hint="open the table again with lading.open")

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    path: str | os.PathLike[str],
    store: ManifestStore | str | None = None,
    *,
    ref: str | None = None,
    offset: int | None = None,
    as_of: datetime | str | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes: int | None = None,
    ranges_above: int | None = None,
    fallbacks: int | None = None,
    s3: Mapping[str, str] | None = None,
) -> Reader:
    """Open the published snapshot of the table in `path` (`<warehouse>/<table>`, or its URL on S3).

    For an older snapshot, give `ref` (a reference or a run), `offset` (1 is the previous one) or `as_of`.

    `store` says where the manifests are, if not with the table: a store, or a URL as for `store:` in
    lading.yaml. `s3` takes the same settings as `s3:` in lading.yaml; without it, credentials come from the
    environment or the AWS files.

    Shards on S3 are fetched into the folder `cache` (`$LADING_CACHE`, else `~/.cache/lading`), up to
    `cache_bytes`; shards larger than `ranges_above` bytes are read in place. If the current manifest is
    malformed, up to `fallbacks` earlier ones are tried, with a warning.
    """
    return Reader(
        path, store, ref=ref, offset=offset, as_of=as_of,
        cache=cache, cache_bytes=cache_bytes, ranges_above=ranges_above, fallbacks=fallbacks, s3=s3,
    )  # fmt: skip


def open_in(
    config: Config,
    name: str,
    store: ManifestStore | None = None,
    *,
    ref: str | None = None,
    offset: int | None = None,
    as_of: datetime | str | None = None,
) -> Reader:
    """Open a table of a project, whose config says where everything is."""
    from lading.layout.project import SHARD_COPIES
    from lading.snapshots.stores.by_url import store_of

    return Reader(
        str(config.place(name)), store or store_of(config, name), ref=ref, offset=offset, as_of=as_of,
        cache=config.cache / SHARD_COPIES, s3=config.s3 or None,
    )  # fmt: skip


def open_all(
    warehouse: str | os.PathLike[str],
    tables: Sequence[str],
    store: str | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    s3: Mapping[str, str] | None = None,
) -> dict[str, Reader]:
    """Open several tables of a warehouse at snapshots that belong together: where one is made of another, it
    was made from the very snapshot that is opened. They are what readers see now, or the latest before that
    which belong together and are kept. `NotReady` says that there are none."""
    from lading.read.together import Warehouse, belonging

    there = Warehouse(os.fspath(warehouse), store, s3)
    refs = belonging(list(tables), there)
    return {name: Reader(there.path(name), store, ref=ref, cache=cache, s3=s3) for name, ref in refs.items()}


def _wanted(ref: str | None, offset: int | None, as_of: datetime | str | None) -> Wanted:
    from lading.snapshots.history import Wanted, parse_time

    if isinstance(as_of, str):
        as_of = parse_time(as_of)
    if as_of is not None and as_of.tzinfo is None:
        as_of = as_of.replace(tzinfo=UTC)
    return Wanted(ref, offset, as_of=as_of)
