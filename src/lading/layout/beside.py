"""Names that lie beside another one for a while: locks, and what is written until it is whole."""

from __future__ import annotations

from lading import ids

BESIDE = r"\.[^/]+\.[0-9a-f]{32}\.tmp"  # what `fresh_temporary` gives, as a pattern

_TMP = ".tmp"
_OLD = ".old"


def lock_of(name: str) -> str:
    return f"{name}.lock"


def temporary_of(name: str) -> str:
    """Where `name` is written until it is whole, by the only one that may write it."""
    return f".{name}{_TMP}"


def fresh_temporary(name: str) -> str:
    """The same, fresh, for any number of writers."""
    return f".{name}.{ids.fresh()}{_TMP}"


def is_temporary(name: str) -> bool:
    return name.endswith(_TMP)


def replaced_name(name: str) -> str:
    """Where a folder goes that another one takes the place of."""
    return f".{name}.{ids.fresh()}{_OLD}"


def inputs_beside(fresh: str) -> str:
    """For what the folder `fresh`, which `fresh_temporary` named, is made from."""
    return f"{fresh.removesuffix(_TMP)}in{_TMP}"


def leftover_of(name: str) -> str | None:
    """The folder that one with such a name was to become, or had been; None for another name."""
    if not name.startswith(".") or not name.endswith((_TMP, _OLD)):
        return None
    return name[1:].rpartition(".")[0].rpartition(".")[0]
