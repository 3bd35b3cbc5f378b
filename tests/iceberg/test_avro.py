"""What we write is Avro: another library reads it, record for record."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from support.shown import Shown, lines

from lading.iceberg.avro import keys_of, long, read_blocks
from lading.iceberg.bounds import encoder
from lading.iceberg.manifests import Entries, Files, Former, manifest, manifest_list, paths_in, read_list
from lading.model import Member, Zone
from lading.parts.field_ids import numbered
from lading.zones.bounds import to_bound

SCHEMA = numbered(pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64())]))


def member(number: int, **more: Any) -> Member:
    zones = {"id": Zone(number, number + 9, 0), "name": Zone("ä", None, 2), "x": Zone(0.5, 1.5, 1)}
    return Member(f"p{number}.parquet", 10, 500, 0, 0, 0, number, number + 9, "", zones, **more)


def made(numbers: list[int], former: Former | None = None, asked: list[int] | None = None) -> bytes:
    entries = Entries(SCHEMA, None)

    def record(at: int) -> bytes:
        if asked is not None:
            asked.append(numbers[at])
        return entries.part(f"/t/p{numbers[at]}.parquet", member(numbers[at]))

    return manifest(SCHEMA, Files(keys_of(f"p{one}" for one in numbers), 10, record), former or Former())


def records(data: bytes) -> list[dict[str, Any]]:
    return list(fastavro.reader(BytesIO(data)))


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, -65, 2**31, -(2**63), 2**63 - 1])
def test_numbers_are_avros(number: int) -> None:
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    assert long(number) == out.getvalue()


def test_an_entry_says_what_is_known_and_no_more() -> None:
    [entry] = records(made([7]))
    file = entry["data_file"]
    assert (entry["status"], entry["snapshot_id"], entry["sequence_number"]) == (1, 1, 1)
    assert (file["file_path"], file["record_count"], file["file_size_in_bytes"]) == ("/t/p7.parquet", 10, 500)
    assert file["value_counts"] == [{"key": key, "value": 10} for key in (2, 3, 4)]
    assert file["null_value_counts"] == [
        {"key": key, "value": value} for key, value in ((2, 0), (3, 2), (4, 1))
    ]
    assert file["lower_bounds"] == [{"key": 2, "value": (7).to_bytes(8, "little")}], "no half, no float"
    assert file["upper_bounds"] == [{"key": 2, "value": (16).to_bytes(8, "little")}]


def test_entries_that_stand_in_former_manifests_are_copied_and_no_others_made() -> None:
    former, asked = Former(), []
    former.add(made(list(range(0, 50))))
    former.add(made(list(range(60, 100))))
    wanted = [*range(5, 20), 55, *range(30, 50), 56, 57, *range(70, 80), 3]
    data = made(wanted, former, asked)
    assert asked == [55, 56, 57]
    assert data == made(wanted) and paths_in(data) == [f"/t/p{one}.parquet" for one in wanted]
    assert [one["data_file"]["file_path"] for one in records(data)] == paths_in(data)


def test_an_empty_manifest_and_an_empty_list_are_whole() -> None:
    assert records(made([])) == [] == records(manifest_list([], 5, 1))
    assert read_list(manifest_list([], 5, 1)) == []


def test_what_is_not_ours_is_not_believed() -> None:
    data = made([1, 2, 3])
    for other in (b"", b"nonsense", data[:-1], data + b"x", data[:30]):
        assert read_blocks(other) is None
    out = BytesIO()
    fastavro.writer(out, "long", [1, 2])
    assert read_blocks(out.getvalue()) is None


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (pa.bool_(), True, b"\x01"),
        (pa.int8(), -1, b"\xff\xff\xff\xff"),
        (pa.int64(), -2, b"\xfe" + b"\xff" * 7),
        (pa.date32(), 1, b"\x01\x00\x00\x00"),
        (pa.timestamp("us", "UTC"), 1, b"\x01" + b"\x00" * 7),
        (pa.string(), "ä", b"\xc3\xa4"),
        (pa.binary(), b"\x00\xff", b"\x00\xff"),
    ],
)
def test_bounds_are_icebergs_single_values(kind: pa.DataType, value: Any, wanted: bytes) -> None:
    encode = encoder(kind)
    assert encode is not None and encode(to_bound(pa.scalar(value, kind), kind)) == wanted


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 10**37, -(10**37)])
def test_decimals_take_as_few_bytes_as_hold_them(number: int) -> None:
    from decimal import Context, Decimal

    kind = pa.decimal128(38, 0)
    encode = encoder(kind)
    assert encode is not None
    told = encode(to_bound(pa.scalar(Decimal(number).normalize(Context(prec=60)), kind), kind))
    assert int.from_bytes(told, "big", signed=True) == number
    assert len(told) == max(1, ((number if number >= 0 else ~number).bit_length() + 8) // 8)


def test_every_avro_file_of_a_table_is_read_by_another_library(tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    shown.put("a", lines(range(25)))
    shown.put("b", lines(range(25)))
    shown.run()
    shown.drop("b")
    shown.run()
    files = list(shown.metadata.glob("*.avro"))
    assert len(files) == 5 and all(records(path.read_bytes()) for path in files)
    [deletes] = [path for path in files if path.name.endswith("deletes.avro")]
    bounds = [one["data_file"]["lower_bounds"][0]["value"].decode() for one in records(deletes.read_bytes())]
    assert all(path.startswith(f"file://{shown.table}/") for path in bounds) and len(bounds) == 3
