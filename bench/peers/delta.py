"""Delta Lake through delta-rs: files enter a table as add actions, statistics included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.fixtures import ROWS, MadeUp, kept, made_up, version_of

_STEP = 50_000  # add actions a transaction


def table(data: Path, size: int) -> Path:
    """A table of `size` files with a fresh checkpoint, which is the best that can be done for it."""
    made_by = version_of("deltalake") + f"{size} 1"
    return kept(data, f"delta-{size}", made_by, lambda at: _fill(at, size))


def plan(folder: Path, where: str) -> int:
    """Open the table and say how many files a scan has to read."""
    from deltalake import DeltaTable

    return len(DeltaTable(folder).file_uris(file_pruning_predicate=where))


def schema() -> Any:
    from deltalake import Field, Schema
    from deltalake.schema import PrimitiveType

    types = {"key": "long", "status": "integer", "host": "string", "ms": "double"}
    return Schema([Field(name, PrimitiveType(type)) for name, type in types.items()])


def action(one: MadeUp) -> Any:
    from deltalake.transaction import AddAction

    zones = one.zones
    statistics = {
        "numRecords": ROWS,
        "minValues": {name: low for name, (low, _) in zones.items()},
        "maxValues": {name: high for name, (_, high) in zones.items()},
        "nullCount": dict.fromkeys(zones, 0),
    }
    return AddAction(one.path, 100_000, {}, 1_700_000_000_000, True, json.dumps(statistics))


def append(opened: Any, ones: list[MadeUp]) -> None:
    """One transaction; the table object knows of it afterwards, as lading's does."""
    opened.create_write_transaction([action(one) for one in ones], "append", schema())


def empty(folder: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable.create(folder, schema())


def _fill(at: Path, size: int) -> None:
    opened = empty(at)
    for start in range(0, size, _STEP):
        append(opened, list(made_up(start, min(size, start + _STEP))))
        opened.update_incremental()
    opened.create_checkpoint()
