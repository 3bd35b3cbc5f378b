"""`spark.read.format("lading")`: the table's side of it, and the names that users import.

    from lading import spark as lading_spark
    lading_spark.register(spark)
    spark.read.format("lading").option("where", "tonnes > 900").load("warehouse/voyages")

The snapshot is settled when the source is opened, on the driver; tasks are told which parts to read and
open them where they lie, so the table's folder has to be the same place for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from lading.errors import ConfigError, MissingExtra, PredicateError
from lading.model import Member, Place
from lading.parts.rows import WantedRows, read_part
from lading.read.opener import opener
from lading.read.scan import Scan, table_schema
from lading.read.view import Opener, View
from lading.secrets import holds_secret
from lading.snapshots.history import Wanted, parse_time
from lading.snapshots.stores.files import LocalStore
from lading.storage.place import storage_of
from lading.where.bind import And, Compare, In, Not, Predicate, bind, columns_of, parse

try:
    from lading.spark.datasource import FORMAT, Door, TableSource
    from lading.spark.session import check_workers
except ImportError as missing:
    raise MissingExtra(
        "lading.spark needs pyspark, which is not installed", hint="pip install 'lading[spark]'"
    ) from missing

OPTIONS = ("path", "store", "ref", "offset", "asOf", "where", "columns", "pushdown")
_TASK_BYTES = 64 << 20  # of parts, compressed


class LadingSource(TableSource):
    """The data source itself: `spark.dataSource.register(LadingSource)`."""

    @staticmethod
    def open_door(options: Mapping[str, str]) -> Door:
        return TableDoor.open(options)


def register(spark: Any) -> None:
    """Teach a session the format `lading`. Once is enough, more often does no harm."""
    check_workers(spark)
    spark.dataSource.register(LadingSource)


def frame_of(spark: Any, opener: Opener, ref: str, where: str | None, columns: Sequence[str] | None) -> Any:
    """The snapshot `ref` of an open reader as a DataFrame of `spark`."""
    register(spark)
    reader = spark.read.format(FORMAT).option("ref", ref)
    if opener.store_url is not None:
        if holds_secret(opener.store_url):
            raise ConfigError(
                "the store's URL contains a password, which Spark would show in plans and logs",
                hint="remove it from the URL and use PGPASSWORD or ~/.pgpass, on the driver and the workers",
            )
        reader = reader.option("store", opener.store_url)
    elif not isinstance(opener.store, LocalStore) and storage_of(opener.root).folder is not None:
        raise ConfigError(
            "an open store can't be passed to Spark's tasks",
            hint="open the table with the store's URL instead",
        )
    if opener.root.options:
        raise ConfigError(
            "credentials given to the reader are not passed on to Spark's tasks",
            hint="set AWS_… in the environment, or ~/.aws, on the driver and the workers",
        )
    if where is not None:
        reader = reader.option("where", where)
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    return reader.load(str(opener.root))


@dataclass(frozen=True)
class TableDoor:
    """One snapshot of one table, in what can be sent from process to process."""

    root: Place
    store: str | None
    ref: str
    table: bytes  # Arrow IPC schema of the table
    columns: tuple[str, ...]
    where: Predicate | None  # bound

    @classmethod
    def open(cls, options: Mapping[str, str]) -> TableDoor:
        """`options` by their names in lower case. The snapshot is settled here, once."""
        given = _known(options)
        wanted = Wanted(
            ref=given.get("ref"),
            offset=_offset(given.get("offset")),
            as_of=parse_time(given["asof"]) if "asof" in given else None,
        )
        with _opened(given["path"], given.get("store"), wanted) as view:
            table = table_schema(view.members)
            scan = Scan(view.members, where=given.get("where"), columns=_columns(given), limit=None)
            where = bind(parse(given["where"]), table) if "where" in given else None
            names = tuple(scan.schema.names)
            root, schema = view.members.root, view.members.schema
            return cls(root, given.get("store"), view.ref.ref, schema, names, where)

    def schema(self) -> pa.Schema:
        table = self._table()
        return pa.schema([table.field(name) for name in self.columns])

    def accepts(self, kept: Predicate) -> bool:
        """Not on floats: to Spark NaN is a value, greater than all others."""
        table = self._table()
        for name in columns_of(kept):
            if name not in table.names or pa.types.is_floating(table.field(name).type):
                return False
        try:
            bind(kept, table)
        except PredicateError:
            return False
        return None not in _values(kept)

    def tasks(self, filters: Sequence[Predicate]) -> list[bytes]:
        with _opened(str(self.root), self.store, Wanted(ref=self.ref)) as view:
            members = view.members.candidates(self._bound(filters))
        return [msgspec.msgpack.encode(portion) for portion in _portions(members)]

    def read(
        self, task: bytes, columns: Sequence[str], filters: Sequence[Predicate]
    ) -> Iterator[pa.RecordBatch]:
        wanted = WantedRows(self._table(), columns, self._bound(filters))
        for member in msgspec.msgpack.decode(task, type=list[Member]):
            yield from read_part(self.root, member, wanted)

    def _bound(self, filters: Sequence[Predicate]) -> Predicate | None:
        table = self._table()
        parts = [bind(kept, table) for kept in filters]
        if self.where is not None:
            parts.append(self.where)
        return And(tuple(parts)) if parts else None

    def _table(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self.table)) if self.table else pa.schema([])


@contextmanager
def _opened(root: str, store: str | None, wanted: Wanted) -> Iterator[View]:
    found = opener(root, store, wanted)
    view = found.open_latest()
    try:
        found.need_parts(view)
        yield view
    finally:
        view.retire()


def _known(options: Mapping[str, str]) -> dict[str, str]:
    known = {name.lower(): name for name in OPTIONS}
    for name in options:
        if name not in known:
            raise ConfigError(
                f"the format {FORMAT} has no option {name!r}", hint=f"one of: {', '.join(OPTIONS)}"
            )
    if "path" not in options:
        raise ConfigError("which table?", hint=f'spark.read.format("{FORMAT}").load("warehouse/TABLE")')
    return dict(options)


def _columns(given: Mapping[str, str]) -> list[str] | None:
    return [name.strip() for name in given["columns"].split(",")] if "columns" in given else None


def _offset(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"the offset {text!r} is not a number", hint="1 is the previous snapshot") from None


def _values(kept: Predicate) -> tuple[Any, ...]:
    match kept:
        case Compare(value=value):
            return (value,)
        case In(values=values):
            return values
        case Not(part):
            return _values(part)
        case _:
            return ()


def _portions(members: Sequence[Member]) -> Iterator[list[Member]]:
    """Whole parts, as many as make a task worth its while."""
    portion: list[Member] = []
    size = 0
    for member in members:
        if portion and size + member.bytes > _TASK_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(member)
        size += member.bytes
    if portion:
        yield portion
