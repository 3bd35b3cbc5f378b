"""Avro: what the schema in the header says, exactly, or a bad row; damage is an error; pieces add up."""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import pieces_of, read, source, spec_of

from lading.config.archives import ArchiveLimits
from lading.errors import MissingExtra, SchemaDrift, SourceError
from lading.formats.avro.blocks import MAGIC
from lading.formats.avro.rows import AvroReader
from lading.formats.registry import may_be_cut, reader_of

SYNC = b"0123456789abcdef"


def long_bytes(number: int) -> bytes:
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def schema_of(**columns: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    return {"type": "record", "name": "Ship", "namespace": "sea", "fields": fields}


def write(tmp_path: Path, schema: dict[str, Any], rows: list[dict[str, Any]], **options: Any) -> Path:
    path = tmp_path / "a.avro"
    with open(path, "wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows, **options)
    return path


def by_hand(tmp_path: Path, schema: Any, *blocks: bytes, codec: bytes = b"null") -> Path:
    """A file whose blocks are what they are."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    entries = [(b"avro.schema", text), (b"avro.codec", codec)]
    head = b"".join(long_bytes(len(part)) + part for entry in entries for part in entry)
    path = tmp_path / "a.avro"
    path.write_bytes(MAGIC + long_bytes(2) + head + long_bytes(0) + SYNC + b"".join(blocks))
    return path


def block(count: int, data: bytes, length: int | None = None, sync: bytes = SYNC) -> bytes:
    return long_bytes(count) + long_bytes(len(data) if length is None else length) + data + sync


def logical(kind: str, means: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": means, **more}


PORT = {"type": "record", "name": "Port", "fields": [{"name": "name", "type": "string"}]}
WHEN = datetime(2024, 2, 29, 1, 2, 3, 456_789)
ID = uuid.UUID(int=2**100 + 7)


@pytest.mark.parametrize(
    ("avro", "values", "kind", "reads"),
    [
        ("boolean", [True, False], "boolean", None),
        ("int", [2**31 - 1, -1], "int", None),
        ("int", [5], "bigint", None),
        ("long", [-(2**63)], "bigint", None),
        ("float", [1.5], "float", None),
        ("double", [0.1, float("inf")], "double", None),
        ("string", ["ä\x00\u20ac", ""], "string", None),
        ("bytes", [b"\xff"], "binary", None),
        (["null", "long"], [1, None], "bigint", None),
        (["string", "null"], ["x", None], "string", None),
        (["string"], ["x"], "string", None),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["B", "A"], "string", None),
        ({"type": "fixed", "name": "F", "size": 2}, [b"ab"], "binary", None),
        ({"type": "array", "items": ["null", "string"]}, [["x", None], []], "array<string>", None),
        ({"type": "map", "values": "long"}, [{"k": 1}], "map<string,bigint>", [[("k", 1)]]),
        (
            {"type": "map", "values": {"type": "array", "items": logical("int", "date")}},
            [{"k": [date(2024, 2, 29)]}],
            "map<string,array<date>>",
            [[("k", [date(2024, 2, 29)])]],
        ),
        (["null", PORT], [{"name": "Bremen"}, None], "struct<name:string>", None),
        ({"type": "array", "items": PORT}, [[{"name": "x"}]], "array<struct<name:string>>", None),
        (logical("int", "date"), [date(9999, 12, 31), date(1, 1, 1)], "date", None),
        (logical("int", "date"), [date(2024, 2, 29)], "timestamp_ntz", [datetime(2024, 2, 29)]),
        (logical("long", "timestamp-micros"), [WHEN.replace(tzinfo=UTC)], "timestamp", None),
        (
            logical("long", "timestamp-millis"),
            [WHEN.replace(microsecond=456_000, tzinfo=UTC)],
            "timestamp",
            None,
        ),
        (logical("long", "local-timestamp-micros"), [WHEN], "timestamp_ntz", None),
        (logical("long", "local-timestamp-millis"), [WHEN.replace(microsecond=1_000)], "timestamp_ntz", None),
        (logical("bytes", "decimal", precision=5, scale=2), [Decimal("-1.50")], "decimal(5,2)", None),
        (
            logical("bytes", "decimal", precision=38, scale=10),
            [Decimal("1234567890123456789012345678.0123456789")],
            "decimal(38,10)",
            None,
        ),
        (
            logical("fixed", "decimal", name="D", size=16, precision=4, scale=0),
            [Decimal(-9999)],
            "decimal(6,2)",
            None,
        ),
        (logical("string", "uuid"), [ID], "string", [str(ID)]),
        (logical("fixed", "uuid", name="U", size=16), [ID.bytes], "string", [str(ID)]),
        (logical("long", "unheard-of"), [7], "bigint", None),
        ({"type": "string", "avro.java.string": "String"}, ["x"], "string", None),
    ],
)
def test_what_a_file_holds_is_read_exactly(
    tmp_path: Path, avro: Any, values: list[Any], kind: str, reads: list[Any] | None
) -> None:
    rows = [{"a": value} for value in values]
    if reads == [str(ID)] and isinstance(values[0], bytes):
        path = by_hand(tmp_path, schema_of(a=avro), block(1, values[0]))
    else:
        path = write(tmp_path, schema_of(a=avro), rows)
    seen = read(spec_of("avro", f"a {kind}"), path)
    assert seen.table["a"].to_pylist() == (values if reads is None else reads) and not seen.bad
    assert seen.records == list(range(1, len(values) + 1)) and seen.lines == []


def test_a_type_with_a_name_is_used_again(tmp_path: Path) -> None:
    schema = schema_of(a=PORT, b=["null", "Port"], c={"type": "array", "items": "sea.Port"})
    row = {"a": {"name": "x"}, "b": {"name": "y"}, "c": [{"name": "z"}]}
    path = write(tmp_path, schema, [row])
    columns = "a struct<name:string>; b struct<name:string>; c array<struct<name:string>>"
    assert read(spec_of("avro", columns), path).rows == [row]


@pytest.mark.parametrize(
    ("schema", "kind", "data", "reads"),
    [
        (logical("int", "time-millis"), "string", long_bytes(1_500), "00:00:01.5"),
        (logical("long", "time-micros"), "string", long_bytes(1), "00:00:00.000001"),
        (logical("long", "time-micros"), "bigint", long_bytes(1), 1),
        (logical("long", "timestamp-nanos"), "timestamp", long_bytes(2_000),
         datetime(1970, 1, 1, 0, 0, 0, 2, tzinfo=UTC)),
        (logical("long", "local-timestamp-nanos"), "string", long_bytes(2_001),
         "1970-01-01 00:00:00.000002001"),
        (logical("long", "timestamp-nanos"), "bigint", long_bytes(2_001), 2_001),
        (logical("bytes", "decimal", precision=40, scale=1), "string", long_bytes(1) + b"\x0f", "1.5"),
        ("null", "string", b"", None),
        (["null"], "bigint", long_bytes(0), None),
        (["null", {"type": "array", "items": "null"}], "array<date>", long_bytes(0), None),
    ],
)  # fmt: skip
def test_what_spark_has_no_type_for_is_read_exactly(
    tmp_path: Path, schema: Any, kind: str, data: bytes, reads: Any
) -> None:
    path = by_hand(tmp_path, schema_of(a=schema, n="int"), block(1, data + long_bytes(7)))
    seen = read(spec_of("avro", f"a {kind}; n int"), path)
    assert seen.rows == [{"a": reads, "n": 7}] and not seen.bad


def test_a_time_finer_than_a_microsecond_is_a_bad_row(tmp_path: Path) -> None:
    schema = schema_of(a=logical("long", "timestamp-nanos"))
    path = by_hand(tmp_path, schema, block(2, long_bytes(1_001) + long_bytes(1_000)))
    seen = read(spec_of("avro", "a timestamp", inferred=True), path)
    assert seen.records == [2]
    assert seen.bad[0].reason == "'1970-01-01 00:00:00.000001001' is finer than a microsecond"


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (schema_of(a=["null", "int", "string"]), r"column 'a' may hold values of several types \(\"int\" or"),
        (
            schema_of(a={"type": "record", "name": "T", "fields": [{"name": "x", "type": "int"}] * 2}),
            "column 'a' is a record 'sea.T' with two fields of one name",
        ),
        (
            schema_of(
                a={
                    "type": "record",
                    "name": "T",
                    "fields": [{"name": n, "type": "int"} for n in ("id", "ID")],
                }
            ),
            "column 'a' can't be read: Spark can't tell apart its fields 'id' and 'ID'",
        ),
        (
            schema_of(a=logical("fixed", "duration", name="D", size=12)),
            "there is no type for month_day_nano_interval",
        ),
        (schema_of(a=["null", "sea.Ship"]), "column 'a' is of type 'sea.Ship', which contains itself"),
        (schema_of(a="Elsewhere"), "column 'a' is of type 'Elsewhere', which the schema doesn't explain"),
        (schema_of(a={"type": "record", "name": "E", "fields": []}), "is a record 'sea.E' without fields"),
        (schema_of(a={"type": "fixed", "name": "F", "size": 0}), "fixed without a size"),
        (schema_of(a=7), "has a type that is no Avro type"),
        (schema_of(), "its schema is not a record with fields"),
        ("string", "its schema is not a record with fields"),
        (b"{", "its schema is not JSON"),
        (b"", "its schema is not JSON"),
        (b"[" * 200_000, "its schema"),
        ({"type": "record", "name": "R", "fields": [{"type": "int"}]}, "have no names or types"),
    ],
)
def test_a_schema_that_a_table_can_not_hold_is_refused_in_a_sentence(
    tmp_path: Path, schema: Any, says: str
) -> None:
    path = by_hand(tmp_path, schema)
    spec = spec_of("avro", "a int")
    for look in (lambda: reader_of(spec).head(source(path)), lambda: read(spec, path)):
        with pytest.raises(SourceError, match=says) as caught:
            look()
        assert caught.value.message.startswith("a.avro") and caught.value.hint


def test_a_schema_that_multiplies_is_refused(tmp_path: Path) -> None:
    names = [f"R{level}" for level in range(8)]
    kind: Any = "int"
    fields = []
    for name in names:
        inner = [{"name": f"f{n}", "type": kind} for n in range(10)]
        fields.append({"name": name.lower(), "type": {"type": "record", "name": name, "fields": inner}})
        kind = name
    path = by_hand(tmp_path, {"type": "record", "name": "T", "fields": fields})
    with pytest.raises(SourceError, match="leads to more than 10,000 types"):
        read(spec_of("avro", "a int"), path)


def test_columns_come_in_any_order_and_drift_says_which(tmp_path: Path) -> None:
    path = write(tmp_path, schema_of(b="string", a="int", c="double"), [{"b": "x", "a": 1, "c": 1.5}])
    with pytest.raises(SchemaDrift, match="column 'c' is new"):
        read(spec_of("avro", "a bigint; b string"), path)
    lenient = spec_of("avro", "a bigint; b string", drift="ignore_new")
    head = reader_of(lenient).head(source(path))
    assert head is not None and head.ignored == ("c",)
    assert read(lenient, path).rows == [{"a": 1, "b": "x"}]
    more = spec_of("avro", "a string; b string; c double; d date", drift="evolve")
    assert read(more, path).rows == [{"a": "1", "b": "x", "c": 1.5, "d": None}]


def test_bytes_that_are_no_text_make_a_bad_row_and_cost_no_other(tmp_path: Path) -> None:
    columns = {"n": "long", "s": "string", "m": {"type": "map", "values": "string"}}
    text = schema_of(**columns)
    rows = [b"\x02" + b"\x02x" + b"\x00", b"\x04" + b"\x04\xffy" + b"\x00"]
    rows += [b"\x06" + b"\x02z" + b"\x02\x02\xfe\x02v\x00", b"\x08" + b"\x06\xef\xbf\xbd" + b"\x00"]
    path = by_hand(tmp_path, text, block(4, b"".join(rows)))
    seen = read(spec_of("avro", "n bigint; s string; m map<string,string>"), path)
    assert [(row["n"], row["s"]) for row in seen.rows] == [(1, "x"), (4, "\ufffd")]
    assert [(one.record, one.column, one.reason) for one in seen.bad] == [
        (2, "s", "bytes that are not UTF-8"),
        (3, "m", "bytes that are not UTF-8"),
    ]
    assert json.loads(seen.bad[0].text) == {"n": 2, "s": "\ufffdy", "m": {}}


def test_what_a_type_can_not_hold_is_a_bad_row(tmp_path: Path) -> None:
    schema = schema_of(d=logical("bytes", "decimal", precision=3), t=logical("long", "timestamp-millis"))
    one, many, far = b"\x02\x05", b"\x04\x7f\xff", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    path = by_hand(tmp_path, schema, block(3, one + b"\x00" + many + b"\x00" + one + far))
    seen = read(spec_of("avro", "d decimal(3,0); t timestamp"), path)
    assert seen.records == [1]
    assert [(bad.record, bad.column) for bad in seen.bad] == [(2, "d"), (3, "t")]
    assert seen.bad[0].reason == "'32767' is not a decimal(3,0)"
    assert seen.bad[1].reason.endswith("is not a timestamp")


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_compressed_blocks_are_read(tmp_path: Path, codec: str) -> None:
    rows = [{"a": f"ship {number}"} for number in range(500)]
    path = write(tmp_path, schema_of(a="string"), rows, codec=codec, sync_interval=1_000)
    assert read(spec_of("avro", "a string"), path).rows == rows


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_compressed_blocks_need_no_other_package(tmp_path: Path, codec: str) -> None:
    import pyarrow as pa

    data = b"".join(long_bytes(len(f"ship {n}")) + f"ship {n}".encode() for n in range(500))
    packed = pa.compress(data, codec={"zstandard": "zstd"}.get(codec, codec), asbytes=True)
    if codec == "snappy":
        packed += zlib.crc32(data).to_bytes(4, "big")
    path = by_hand(tmp_path, schema_of(a="string"), block(500, packed), codec=codec.encode())
    assert read(spec_of("avro", "a string"), path).rows == [{"a": f"ship {n}"} for n in range(500)]
    by_hand(tmp_path, schema_of(a="string"), block(500, packed[:-9] + bytes(9)), codec=codec.encode())
    with pytest.raises(SourceError, match=r"^a\.avro can't be read as Avro: the block at byte"):
        read(spec_of("avro", "a string"), path)


@pytest.mark.parametrize(
    ("blocks", "codec", "says"),
    [
        ([block(1, b"\x02", sync=b"x" * 16)], b"null", "the block at byte .* is damaged"),
        ([block(1, b"\x02", length=500)], b"null", "the file ends in the block"),
        ([block(1, b"\x02")[:-3]], b"null", "the file ends too early"),
        ([block(1, b"\x02")[:1]], b"null", "the file ends too early"),
        ([block(2, b"\x02\x02\x02")], b"null", "a block has 3 bytes, its 2 records 2"),
        ([block(3, b"\x02\x82")], b"null", "can't hold 3 records"),
        ([block(10**12, b"\x02")], b"null", "can't hold 1,000,000,000,000 records"),
        ([block(1, b"\x80")], b"null", ""),
        ([b"\xff" * 30], b"null", "there is no number"),
        ([long_bytes(1) + b"\x01" + SYNC], b"null", "there is no length"),
        ([block(1, b"nonsense")], b"deflate", "the block at byte .* is damaged"),
        ([block(1, b"\x02")], b"lz77", "compressed with 'lz77'; known are bzip2, deflate, null"),
    ],
)
def test_damage_is_an_error_not_rows(tmp_path: Path, blocks: list[bytes], codec: bytes, says: str) -> None:
    path = by_hand(tmp_path, schema_of(a="long"), *blocks, codec=codec)
    with pytest.raises(SourceError, match=rf"^a\.avro can't be read as Avro: .*{says}") as caught:
        read(spec_of("avro", "a bigint"), path)
    assert caught.value.file == "a.avro"


@pytest.mark.parametrize(
    "content", [b"", b"id,name\n", MAGIC, MAGIC + b"\xff" * 20, MAGIC + b"\x02\x7f", None]
)
def test_what_is_no_avro_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.avro"
    if content is not None:
        path.write_bytes(content)
    says = "can't be read" if content is not None else "vanished"
    spec = spec_of("avro", "a int")
    for look in (lambda: reader_of(spec).head(source(path)), lambda: read(spec, path)):
        with pytest.raises(SourceError, match=rf"^a\.avro {says}"):
            look()


@pytest.mark.parametrize("codec", [b"null", b"deflate"])
def test_a_block_that_unpacks_to_more_than_allowed_is_refused(tmp_path: Path, codec: bytes) -> None:
    data = long_bytes(3_000_000) + bytes(3_000_000)
    packed = data
    if codec == b"deflate":
        stream = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = stream.compress(data) + stream.flush()
    path = by_hand(tmp_path, schema_of(a="bytes"), block(1, packed), codec=codec)
    file = source(path)
    file.limits = ArchiveLimits(max_line=1_000_000)
    with pytest.raises(SourceError, match="a block of more than 1,000,000 bytes") as caught:
        list(reader_of(spec_of("avro", "a binary")).rows(file))
    assert "raise max_line under `archives:`" in caught.value.hint
    assert len(read(spec_of("avro", "a binary"), path).rows[0]["a"]) == 3_000_000


def test_without_fastavro_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, schema_of(a="int"), [{"a": 1}])
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingExtra) as caught:
        read(spec_of("avro", "a int"), path)
    assert caught.value.hint == "pip install 'lading[formats]'"


VALUES = {
    "n": ["null", "long"],
    "s": ["null", "string"],
    "l": {"type": "array", "items": ["null", "double"]},
    "t": logical("long", "timestamp-micros"),
}
ROW = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | st.text(max_size=8),
        "l": st.lists(st.none() | st.floats(allow_nan=False), max_size=3),
        "t": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    }
)


@given(
    st.lists(ROW, max_size=30),
    st.lists(st.integers(0, 10_000), max_size=5),
    st.integers(1, 60),
    st.sampled_from([1, 100, 1 << 20]),
)
@settings(max_examples=150, deadline=None)
def test_pieces_and_blocks_give_what_the_file_holds(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    cuts: list[int],
    interval: int,
    size: int,
) -> None:
    path = write(tmp_path_factory.mktemp("a"), schema_of(**VALUES), rows, sync_interval=interval)
    spec = spec_of("avro", "n bigint; s string; l array<double>; t timestamp")
    assert may_be_cut(spec, str(path))
    with open(path, "rb") as file:
        assert list(fastavro.reader(file)) == rows
    whole = read(spec, path, reader=AvroReader(spec, size))
    assert whole.rows == rows and whole.records == list(range(1, len(rows) + 1))
    found, taken = [], 0
    for piece in pieces_of(path.stat().st_size, cuts):
        seen = read(spec, path, piece, reader=AvroReader(spec, size))
        found += seen.rows
        assert seen.records == list(range(1, len(seen.rows) + 1))
        taken += seen.taken
    assert found == rows and taken == len(rows)


def test_reading_a_whole_file_digests_it(tmp_path: Path) -> None:
    path = write(tmp_path, schema_of(a="int"), [{"a": 1}])
    file = source(path)
    list(reader_of(spec_of("avro", "a int")).rows(file))
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
