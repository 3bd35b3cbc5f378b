"""The recipe of a table made of tables: everything besides its inputs' rows that decides on its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lading.checks.relaxed import rules_of
from lading.config.project import Config, TableConfig
from lading.model import Pin
from lading.sources.recipe import transform_source

_EVALUATING = 1  # raised when lading itself starts to evaluate the same query differently
_WORDS = {
    "evaluating": "how lading evaluates queries",
    "sql": "the query",
    "transform": "the transform's code",
    "transform_name": "the transform",
    "slots": "slots",
    "by": "how the inputs are cut",
    "schemas": "the columns of an input",
    "widths": "the buckets of an input",
    "rules": "the checks",
}


def derived_facts(
    config: Config, cfg: TableConfig, pins: Sequence[Pin], widths: Mapping[str, int | None]
) -> bytes:
    """All of it as canonical JSON. `widths` are those of the inputs that are cut by bucket."""
    assert cfg.derived is not None
    derived = cfg.derived
    facts: dict[str, Any] = {
        "evaluating": _EVALUATING,
        "by": {one.name: "bucket" if one.by_bucket else list(one.by) for one in derived.inputs},
        "slots": derived.slots,
        "schemas": {pin.name: pin.schema for pin in pins},
        "order_by": cfg.order_by,
        "bucket_size": cfg.bucket_size,
    }
    if widths:
        facts["widths"] = dict(widths)
    if derived.sql is not None:
        facts["sql"] = derived.sql
    if cfg.transform is not None:
        _, name, code = transform_source(config.project, cfg.transform)
        facts |= {"transform": hashlib.sha256(code).hexdigest(), "transform_name": name}
    rules = rules_of(cfg.checks)
    if rules is not None:
        facts["rules"] = rules
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def what_changed(old: bytes, new: bytes) -> str:
    """In words, for people."""
    before, after = (json.loads(facts or b"{}") for facts in (old, new))
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return f"{', '.join(_WORDS.get(name, name) for name in names) or 'the recipe'} changed"


def widths_in(facts: bytes) -> dict[str, int | None]:
    """Those that a log's facts tell."""
    told = json.loads(facts or b"{}").get("widths")
    return told if isinstance(told, dict) else {}
