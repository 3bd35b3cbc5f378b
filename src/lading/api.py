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

    from lading.model import SnapshotRef, Source
    from lading.read.lookup import Hit
    from lading.read.scan import Scan
    from lading.read.view import Opener, View
    from lading.serve.keys import Key
    from lading.snapshots.history import Wanted
    from lading.snapshots.manifest import ShardMeta
    from lading.snapshots.stores.protocol import ManifestStore

_T = TypeVar("_T")


class Reader:
    """One snapshot of one table, until `refresh`. Needs no Spark and no server; safe for many threads."""

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
        """The value of `key` as it is stored, None when there is none; `decode` takes json and msgpack apart.

        `context` has the columns that routing needs beside the key, where it does."""
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
        """Every key with its value, or None: all of one snapshot, whatever is published meanwhile."""
        wanted = list(keys)

        def ask(view: View) -> dict[Key, Any]:
            found = view.keys.multi_get(wanted, context)
            if not decode:
                return found
            return {key: None if value is None else view.decoded(value) for key, value in found.items()}

        return self._using(ask)

    def is_at_hand(self, key: Key, *, context: Mapping[str, Any] | None = None) -> bool:
        """Whether `get` would answer from an open shard on disk: in microseconds, without the network."""
        keys = self._view.keys
        return keys.is_at_hand(keys.route(key, context))

    def route(self, key: Key, *, context: Mapping[str, Any] | None = None) -> int:
        """The number of the shard that holds `key`, if any does."""
        return self._using(lambda view: view.keys.route(key, context))

    def parse_key(self, text: str) -> Key:
        """A key as a person types it: 42, abc, hex for bytes, a JSON list for a composite key."""
        return self._using(lambda view: view.keys.parse_key(text))

    def parse_context(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """What routing needs beside the key, from text to values of the declared types."""
        return self._using(lambda view: view.keys.router.parsed_context(texts))

    def shards(self) -> list[ShardMeta]:
        """The shards that have rows, by number."""
        return self._using(lambda view: list(view.keys.shards.values()))

    def health(self, *, max_age: float | None = None, deep: bool = False) -> dict[str, Any]:
        """Whether answers are to be had and how old they are: `status` is ok, degraded or failing.

        `max_age` (seconds) makes an older snapshot degraded; `deep` hashes every shard."""
        from lading.read.health import health

        return self._using(lambda view: health(self._opener, view, max_age=max_age, deep=deep))

    def scan(
        self, where: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Scan:
        """The rows that match, as Arrow record batches; files and row groups that can't match aren't read."""
        from lading.read.scan import scan

        self._opener.need_parts(self._view)
        return self._using(lambda view: scan(view.members, where=where, columns=columns, limit=limit))

    def lookup(self, key: Any) -> Hit:
        """The rows whose order value is `key`."""
        from lading.read.lookup import lookup

        self._opener.need_parts(self._view)
        return self._using(lambda view: lookup(view.members, key))

    def sources(self) -> list[Source]:
        """The files that the rows came from; `id` is the `_source` of their rows."""
        return self._using(lambda view: [source for source, _ in view.members.sources()])

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
        """The matching rows as a polars LazyFrame: nothing is read before `collect`, and then only the
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
        """The matching rows as a DuckDB relation, read whenever it is evaluated."""
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
        """Move on to the current snapshot; True if it is another one. Scans under way keep theirs.

        A reader of an older snapshot looks for it again: `offset` counts from what is current now."""
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
        """Close it for good, as soon as answers under way are given."""
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
            raise LadingError("this reader is closed", hint="open the table again: lading.open")

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

    Or an older one, without moving anything: `ref` (or its run), `offset` (1 is the one before), `as_of`.

    `store` is where its manifests are, if not there: a store, or the URL that `store:` in lading.yaml has.
    `s3` is what `s3:` in lading.yaml has; left out, credentials come from the environment or the AWS files.

    Shards on S3 are fetched into the folder `cache` (`$LADING_CACHE`, else `~/.cache/lading`), of at most
    `cache_bytes`; those of more than `ranges_above` bytes are read where they lie. If the current manifest
    is malformed, up to `fallbacks` earlier ones are tried, with a warning.
    """
    return Reader(
        path, store, ref=ref, offset=offset, as_of=as_of,
        cache=cache, cache_bytes=cache_bytes, ranges_above=ranges_above, fallbacks=fallbacks, s3=s3,
    )  # fmt: skip


def _wanted(ref: str | None, offset: int | None, as_of: datetime | str | None) -> Wanted:
    from lading.snapshots.history import Wanted, parse_time

    if isinstance(as_of, str):
        as_of = parse_time(as_of)
    if as_of is not None and as_of.tzinfo is None:
        as_of = as_of.replace(tzinfo=UTC)
    return Wanted(ref, offset, as_of=as_of)
