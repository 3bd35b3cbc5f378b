"""What was set aside is read again: when the rules let more in, when nothing may be aside, or on demand.

A ledger in, a ledger out; `lading plan` shows the reasons like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from lading.config.project import TableConfig
from lading.errors import NotFound
from lading.ingest.ledger import Ledger
from lading.model import Source


def read_again(
    ledger: Ledger,
    cfg: TableConfig,
    *,
    relaxed: bool,
    replay: Collection[str] | None,
    archives: Sequence[str] = (),
) -> Ledger:
    """The ledger, asking for what was set aside to be read again where the rules are others now, or
    somebody says so. `replay` are keys, empty for all; None: nobody does. `archives` were set aside."""
    if replay is not None:
        _refuse_unknown(ledger, cfg.name, replay, archives)
    known = {}
    for key, one in ledger.known.items():
        why = None
        if one.source is not None and one.source.set_aside:
            why = _why_again(one.source, cfg, relaxed, replay)
        known[key] = replace(one, again=why) if why and one.again is None else one
    return replace(ledger, known=known)


def _why_again(source: Source, cfg: TableConfig, relaxed: bool, replay: Collection[str] | None) -> str | None:
    if replay is not None and (not replay or source.key in replay):
        return "replayed: some of it was set aside"
    if cfg.on_bad != "quarantine" and not cfg.policy.quarantines:
        return "some of it was set aside, which on_bad: fail doesn't allow"
    return "the checks accept more rows now, and some of it was set aside" if relaxed else None


def _refuse_unknown(ledger: Ledger, table: str, keys: Collection[str], archives: Sequence[str]) -> None:
    aside = [key for key, one in ledger.known.items() if one.source is not None and one.source.set_aside]
    aside += archives
    for key in keys:
        if key not in aside:
            raise nothing_of(key, table, aside)


def nothing_of(key: str, table: str, aside: Sequence[str]) -> NotFound:
    listed = ", ".join(aside[:5]) + (", …" if len(aside) > 5 else "")
    return NotFound(
        f"nothing of {key} is set aside in {table}",
        hint=f"files with something set aside: {listed}" if aside else "nothing is set aside in this table",
        table=table,
        file=key,
    )
