"""The sizes at which lading begins to do things otherwise, made small for a story: what a large table meets
after months, a small one meets within a few steps.
"""

from __future__ import annotations

from typing import Any

from lading.ingest import changes
from lading.log import table as log_table
from lading.state import edit, tables

SIZES: tuple[tuple[Any, str], ...] = (
    (log_table, "CHECKPOINT_EVERY"),
    (log_table, "OVERLAY_EVERY"),
    (changes, "LARGE"),
    (edit, "PAGE"),
    (tables, "INLINE"),
)
_REAL = [(module, name, getattr(module, name)) for module, name in SIZES]


def set_sizes(setting: dict[str, Any]) -> None:
    """Those of a case; what it doesn't speak of is as it really is."""
    for module, name, real in _REAL:
        setattr(module, name, real)
    log_table.CHECKPOINT_EVERY = setting.get("checkpoint", log_table.CHECKPOINT_EVERY)
    log_table.OVERLAY_EVERY = setting.get("overlay", log_table.OVERLAY_EVERY)
    if setting.get("since"):
        changes.LARGE = 0
    if setting.get("pages"):  # few entries a page, and none in the root
        edit.PAGE, tables.INLINE = 2, 0
