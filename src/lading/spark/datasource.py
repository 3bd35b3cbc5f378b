"""A published table as a Spark data source: Spark's side of it.

Spark asks for a schema, may offer its filters, asks for partitions on the driver, and reads each of them
in a task. What a table is and how its parts are read is told by a `Door`, which the subclass in
read/spark_source.py opens: this folder knows Spark and nothing of readers. Spark hands over no list of
columns to a Python source, so columns are chosen by a schema or by the option `columns`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lading.errors import ConfigError, PipelineError
from lading.where.tree import Compare, In, IsNull, Like, Not, Op, Predicate

FORMAT = "lading"

_OPS: Mapping[str, Op] = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_LIKE = str.maketrans({"%": r"\%", "_": r"\_", "\\": r"\\"})


class Door(Protocol):
    """A table at one snapshot, as far as a data source has to know it. Can be pickled."""

    def schema(self) -> pa.Schema:
        """The columns that are to be read."""

    def accepts(self, kept: Predicate) -> bool:
        """Whether `filter` means the same to lading as to Spark, so that files may be left out by it."""

    def tasks(self, filters: Sequence[Predicate]) -> list[bytes]:
        """What to read, in portions for tasks."""

    def read(
        self, task: bytes, columns: Sequence[str], filters: Sequence[Predicate]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one portion; more of them than the filters let pass may come."""


class TableSource(DataSource):
    """`spark.read.format("lading")`. A subclass says how a door is opened."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        given = {name.lower(): value for name, value in options.items()}
        self.takes_filters = _is_true(given.pop("pushdown", "false"))
        self.door = self.open_door(given)

    @staticmethod
    @abstractmethod
    def open_door(options: Mapping[str, str]) -> Door:
        """What `options`, by their names in lower case, mean."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> st.StructType:
        return spark_schema(self.door.schema())

    def reader(self, schema: st.StructType) -> DataSourceReader:
        return (_FilteringReader if self.takes_filters else _TableReader)(self.door, schema)


class _TableReader(DataSourceReader):
    """Takes no filters from Spark, see docs/decisions/0042: Spark would mix up those of two queries."""

    def __init__(self, door: Door, schema: st.StructType) -> None:
        self._door = door
        self._columns = _checked(schema, door.schema())
        self._filters: list[Predicate] = []

    def partitions(self) -> Sequence[InputPartition]:
        found = [InputPartition(task) for task in self._door.tasks(self._filters)]
        return found or [InputPartition(None)]  # Spark wants one, to read nothing from

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is not None:
            yield from self._door.read(partition.value, self._columns, self._filters)


class _FilteringReader(_TableReader):
    """For a DataFrame that is used for one query."""

    def pushFilters(self, filters: list[ds.Filter]) -> Iterable[ds.Filter]:  # noqa: N802 (Spark's name)
        """Files are left out by what lading understands; Spark applies every filter once more, since it
        costs little and then no difference between the two can ever show."""
        for kept in filters:
            predicate = _predicate(kept)
            if predicate is not None and self._door.accepts(predicate):
                self._filters.append(predicate)
        return filters


def spark_schema(schema: pa.Schema) -> st.StructType:
    """A part's Arrow types as Spark's: the other direction of arrow_types.py."""
    return st.StructType(
        [st.StructField(field.name, _spark_type(field.type, field.name)) for field in schema]
    )


def _is_true(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"the option pushdown is {text!r}", hint="write true or false")
    return text.lower() == "true"


def _checked(schema: st.StructType, table: pa.Schema) -> list[str]:
    """A schema that the caller gave chooses columns; it doesn't cast them."""
    own = {field.name: _spark_type(field.type, field.name) for field in table}
    for field in schema:
        if field.name not in own:
            raise ConfigError(f"the table has no column {field.name!r}", hint=f"it has {', '.join(own)}")
        if field.dataType != own[field.name]:
            raise ConfigError(
                f"{field.name} is {own[field.name].simpleString()}, not {field.dataType.simpleString()}",
                hint="use the table's own types in the schema, and cast afterwards",
            )
    return [field.name for field in schema]


def _predicate(kept: ds.Filter) -> Predicate | None:
    """What lading has a word for; None for the rest, and for fields inside of structs."""
    if isinstance(kept, ds.Not):
        inner = _predicate(kept.child)
        return None if inner is None else Not(inner)
    path: tuple[str, ...] = getattr(kept, "attribute", ())
    if len(path) != 1:
        return None
    column, value = path[0], getattr(kept, "value", None)
    op = _OPS.get(type(kept).__name__)
    if op is not None:
        return Compare(column, op, value)
    if isinstance(kept, ds.In):
        return In(column, tuple(value or ()))
    if isinstance(kept, ds.IsNull):
        return IsNull(column)
    if isinstance(kept, ds.IsNotNull):
        return Not(IsNull(column))
    if isinstance(kept, ds.StringStartsWith):
        return Like(column, f"{str(value).translate(_LIKE)}%")
    return None


_PLAIN: Mapping[pa.DataType, st.DataType] = {
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
    pa.timestamp("us", "UTC"): st.TimestampType(),
    pa.timestamp("us"): st.TimestampNTZType(),
}


def _spark_type(dtype: pa.DataType, column: str) -> st.DataType:
    if pa.types.is_decimal128(dtype):
        return st.DecimalType(dtype.precision, dtype.scale)
    if pa.types.is_list(dtype):
        return st.ArrayType(_spark_type(dtype.value_type, column))
    if pa.types.is_map(dtype):
        return st.MapType(_spark_type(dtype.key_type, column), _spark_type(dtype.item_type, column))
    if pa.types.is_struct(dtype):
        return st.StructType([st.StructField(field.name, _spark_type(field.type, column)) for field in dtype])
    plain = _PLAIN.get(dtype)
    if plain is None:
        raise PipelineError(
            f"column {column!r} is {dtype} in the parts, which Spark has no type for",
            hint="leave it out with the option columns",
        )
    return plain
