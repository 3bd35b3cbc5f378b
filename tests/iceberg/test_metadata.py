"""What Iceberg's metadata says, and that damage to any of our files is seen before it is believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.iceberg import metadata_of
from support.shown import Shown, lines

from lading.iceberg.metadata import twins_in
from lading.iceberg.snapshot import whole
from lading.layout.table import SOURCE
from lading.model import Place
from lading.snapshots.stores.by_url import store_of


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Two snapshots, the second with a `minus`."""
    made = Shown(tmp_path_factory.mktemp("project") / "p")
    made.put("a", lines(range(25)))
    made.put("b", lines(range(25)))
    made.run()
    made.put("b", lines(range(5, 20)))
    made.run()
    return made


def test_it_says_what_others_need_to_know_and_to_leave_alone(shown: Shown) -> None:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(metadata_of(shown.table))
    current = store_of(shown.config, "t").load_current()
    assert current is not None and table.format_version == 2
    assert table.properties["gc.enabled"] == "false", "nobody else's expiry deletes our parts"
    now = table.current_snapshot()
    assert now is not None and now.summary is not None
    assert (now.summary["lading.run"], now.summary["lading.sequence"]) == (
        current.run_id,
        str(current.sequence),
    )
    [order] = table.sort_order().fields
    assert table.schema().find_column_name(order.source_id) == "id"
    assert SOURCE not in table.schema().column_names
    mapping = json.loads(table.properties["schema.name-mapping.default"])
    assert [SOURCE] in [one["names"] for one in mapping]
    assert {name: one.snapshot_ref_type.value for name, one in table.refs().items()} == {
        "main": "branch",
        **{one.run_id: "tag" for one in store_of(shown.config, "t").list_manifests()},
    }


def test_a_changed_byte_of_the_metadata_is_never_another_answer(shown: Shown) -> None:
    data = Path(metadata_of(shown.table)).read_bytes()
    told = twins_in(data, None)
    assert told is not None
    for at in range(len(data)):
        for mask in (0x01, 0x10, 0x20):
            damaged = data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
            assert twins_in(damaged, None) in (None, told), at
    assert twins_in(data[:-1], None) is None and twins_in(data + b"}", None) is None


def test_a_changed_byte_of_any_other_file_is_seen(shown: Shown) -> None:
    place = Place(str(shown.table))
    names = [
        f"metadata/{path.name}" for path in shown.metadata.iterdir() if path.suffix in (".avro", ".parquet")
    ]
    assert {name.rpartition("-")[2] for name in names} >= {"data.avro", "deletes.avro", "positions.parquet"}
    for name in names:
        path = shown.table / name
        data = path.read_bytes()
        assert whole(place, name) == data
        for at in range(0, len(data), 7):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x04]) + data[at + 1 :])
            assert whole(place, name) is None, (name, at)
        path.write_bytes(data[:-1])
        assert whole(place, name) is None
        path.write_bytes(data)
