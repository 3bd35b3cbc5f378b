import pyarrow as pa
import pytest

from lading.formats.arrow_types import arrow_schema, arrow_type
from lading.model import Column


@pytest.mark.parametrize(
    ("ddl", "wanted"),
    [
        ("boolean", pa.bool_()),
        ("tinyint", pa.int8()),
        ("float", pa.float32()),
        ("decimal(38,2)", pa.decimal128(38, 2)),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("array<int>", pa.list_(pa.field("element", pa.int32()))),
        ("map<string,date>", pa.map_(pa.string(), pa.date32())),
        (
            "struct<`a b`:array<struct<c:binary>>,d:smallint>",
            pa.struct(
                [
                    ("a b", pa.list_(pa.field("element", pa.struct([("c", pa.binary())])))),
                    ("d", pa.int16()),
                ]
            ),
        ),
    ],
)
def test_every_type_of_a_schema_file_is_one_of_arrow(ddl: str, wanted: pa.DataType) -> None:
    assert arrow_type(ddl) == wanted
    assert arrow_schema([Column("x", ddl)]) == pa.schema([pa.field("x", wanted)])
