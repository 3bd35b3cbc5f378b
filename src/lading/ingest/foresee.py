"""What a run would refuse, told by the names and the heads of the files that it would read."""

from __future__ import annotations

from lading.ingest.look import Look
from lading.sources.staging import name_refusals, refusals


def foreseen(seen: Look) -> tuple[str, ...]:
    """For people. What only the rows tell is not foreseen. Of files in a bucket, which a plan leaves there,
    and of a table that has no columns yet, only the names are looked at."""
    cfg, columns = seen.config, seen.columns
    if columns is None or seen.objects is not None:
        found = list(name_refusals(seen.plan.read, cfg.columns_from_name, columns or ()))
    else:
        found = list(
            refusals(
                seen.plan.read,
                format=cfg.format,
                read_options=cfg.read_options,
                columns=columns,
                columns_from_name=cfg.columns_from_name,
                drift=cfg.drift,
            )
        )
    if not found:
        return ()
    others = len(found) - 1
    more = f" (and {others:,} more {'file' if others == 1 else 'files'})" if others else ""
    what = "set aside" if cfg.on_bad == "quarantine" else "refuse"
    return (f"a run would {what}: {found[0].message}{more}; {found[0].hint}",)
