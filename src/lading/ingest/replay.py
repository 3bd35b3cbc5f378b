"""What was set aside is read again: when the rules let more in, when nothing may be aside, or on demand.

What is known in, what is known out; `lading plan` shows the reasons like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from lading.config.project import TableConfig
from lading.errors import NotFound
from lading.ingest.verdict import Known
from lading.model import Source


def read_again(
    known: Mapping[str, Known],
    cfg: TableConfig,
    *,
    relaxed: bool,
    replay: Collection[str] | None,
    archives: Sequence[str] = (),
) -> dict[str, Known]:
    """What is known of files that are not simply as they were, asking for what was set aside to be read again
    where the rules are others now, or somebody says so. `replay` are keys, empty for all; None: nobody does.
    `archives` were set aside."""
    if replay is not None:
        _refuse_unknown(known, cfg.name, replay, archives)
    found = dict(known)
    for key, one in known.items():
        if one.source is None or not one.source.set_aside or one.again is not None:
            continue
        why = _why_again(one.source, cfg, relaxed, replay)
        if why:
            found[key] = msgspec.structs.replace(one, again=why)
    return found


def _why_again(source: Source, cfg: TableConfig, relaxed: bool, replay: Collection[str] | None) -> str | None:
    if replay is not None and (not replay or source.key in replay):
        return "replayed: some of it was set aside"
    if cfg.on_bad != "quarantine" and not cfg.policy.quarantines:
        return "some of it was set aside, which on_bad: fail doesn't allow"
    return "the checks accept more rows now, and some of it was set aside" if relaxed else None


def _refuse_unknown(
    known: Mapping[str, Known], table: str, keys: Collection[str], archives: Sequence[str]
) -> None:
    aside = [key for key, one in known.items() if one.source is not None and one.source.set_aside]
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
