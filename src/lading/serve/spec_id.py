"""What two builds must agree on to share shards: one hash, kept in the snapshot. With another hash all shards
are built again. Every look at a served table asks for it, so it loads no Arrow unless `value:` names columns.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict
from typing import Any

import msgspec

from lading.config.serve import Serve
from lading.late import pa
from lading.layout.table import SHARD_TEMPLATE, SHARDS

VERSION = 1  # of how keys and values become bytes: a change here builds all shards again

# Where shards go is part of the spec: a changed place builds them there. What was always the default is not
# said, so that the spec of a table is what it was before this was asked.
_UNSAID = {"shard_prefix": SHARDS, "db_path_template": SHARD_TEMPLATE}
_SAID = object()


def spec_id(serve: Serve, schema: bytes, order_by: str | None, rows: int) -> str:
    """Names the spec, cheaply enough for a run with nothing to do. Of the table's columns it names those that
    shards hold: all of them, unless `value` says which."""
    said = {name: value for name, value in asdict(serve).items() if value != _UNSAID.get(name, _SAID)}
    del said["lines"]
    if serve.cel is not None:
        said["cel"].pop("line")
        if "matches" in serve.cel.expr:
            said["cel"]["patterns"] = "re2"  # shards from before may have been routed by other patterns
    said |= {"version": VERSION, "schema": _stored(serve, schema, order_by), "order_by": order_by}
    said["num_dbs"] = shard_count(serve, rows)
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


def _stored(serve: Serve, schema: bytes, order_by: str | None) -> Any:
    """What of the table's schema keys, values and their order depend on."""
    if serve.value is None or not schema:
        return schema.hex()
    routed = serve.cel.columns if serve.cel is not None else ()
    ranked = [order_by] if order_by is not None and serve.duplicates == "latest" else []
    types = {field.name: str(field.type) for field in pa.ipc.read_schema(pa.py_buffer(schema))}
    return {name: types.get(name) for name in (*serve.key, *serve.value, *routed, *ranked)}


def shard_count(serve: Serve, rows: int) -> int:
    """How many shards a table of so many rows has: a function of the table alone, never of its past.

    With `max_keys_per_shard` a power of two, so that a growing table is rebuilt now and then and not
    with every run; large enough that the fullest of the shards stays below the limit too (six standard
    deviations above the mean: once in a thousand million shards).
    """
    if serve.cel is not None and serve.cel.routing_values is not None:
        return len(serve.cel.routing_values)
    if serve.max_keys_per_shard is None:
        return serve.shards or 1
    if rows <= serve.max_keys_per_shard:
        return 1
    mean = (math.sqrt(serve.max_keys_per_shard + 9.0) - 3.0) ** 2  # mean + 6 * sqrt(mean) is the limit
    return 1 << math.ceil(math.log2(rows / mean))
