"""A look at a few files of a table: what a full look would say of them, for the cost of those few.

Somebody (`lading watch`) was told that these files changed. Their verdicts follow from what the log has of
them; no other file is listed or compared, and the people's copies are left as they are: the next full look
rolls them forward. A hint may be wrong, doubled or late without harm: the file itself is asked.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec

from lading import clock
from lading.config.project import TableConfig
from lading.ingest.compare import Compared, compare
from lading.ingest.noop import are_plain_files
from lading.ingest.plan import TablePlan, make_plan
from lading.ingest.recipe import recipe_of
from lading.ingest.schema import follows, is_as_configured, pinned_columns
from lading.ingest.table_run import TableRun
from lading.ingest.verdict import Known, is_same
from lading.log.table import Table
from lading.model import FoundFile, Member
from lading.sources.fingerprint import digest_all, source_id
from lading.sources.named import named_files

MOST = 1_000  # files; for more a listing is no more work


def look_near(run: TableRun, keys: Collection[str]) -> TableRun | None:
    """The run with a plan for these files alone; None when only a full look can tell."""
    config, cfg = run.config, run.cfg
    if len(keys) > MOST or not can_be_near(cfg):
        return None
    run.watch.phase(cfg.name, "discover")
    found = named_files(cfg.root, cfg.path, keys, now_ns=clock.wall_ns())
    folder = config.place(cfg.name)
    own = (f"{config.warehouse}/", f"{config.cache}/")
    if found is None or any(file.path.startswith(own) for file in found):
        return None  # a listing says what is wrong
    if not Table.exists(folder) or not config.source_manifest(cfg.name).is_file():
        return None
    table = Table.open(folder)
    columns = pinned_columns(config, cfg)
    if table.state.sequence == 0 or columns is None or not is_as_configured(config, cfg):
        return None
    recipe = recipe_of(config, cfg, columns)
    known = _known(table, keys)
    if recipe != table.state.meta.recipe or known is None:
        return None
    run.watch.phase(cfg.name, "plan")
    compared = _compared(found, known)
    if len(compared.vanished) * 2 > table.state.source_count():
        return None  # the guard over a table's files has to see all of them
    plan = _plan(cfg, table, compared)
    run = replace(run, found=found, opened=table, known=compared.known, compared=compared, near=True)
    return replace(run, columns=columns, recipe=recipe, plan=plan)


def can_be_near(cfg: TableConfig) -> bool:
    """Whether what a file means for the table depends on that file alone, and on its time and size."""
    alone = cfg.per != "table" or cfg.transform is None
    strict = cfg.on_bad == "fail" and not cfg.policy.quarantines and not follows(cfg)
    return are_plain_files(cfg) and alone and strict


def _known(table: Table, keys: Collection[str]) -> dict[str, Known] | None:
    known = {}
    for key in keys:
        source = table.state.source(source_id(key))
        if source is None:
            continue
        if source.key != key or source.archive is not None or source.set_aside:
            return None
        known[key] = Known(source)
    return known


def _compared(found: list[FoundFile], known: dict[str, Known]) -> Compared:
    """A file that looks as before is compared by its content: something happened to it."""
    alike = [file for file in found if (one := known.get(file.key)) is not None and _looks_alike(file, one)]
    for key, digest in digest_all(alike).items() if alike else ():
        source = known[key].source
        if source is not None and digest.sha256 != source.sha256:
            known[key] = Known(msgspec.structs.replace(source, racy=True))
    return compare(found, sorted(known.items()), full=False)


def _looks_alike(file: FoundFile, known: Known) -> bool:
    return known.source is not None and is_same(file, known.source)


def _plan(cfg: TableConfig, table: Table, compared: Compared) -> TablePlan:
    def live(sources: frozenset[int] | None) -> list[Member]:
        return table.state.candidates(None) if sources is None else table.state.members_of(sources)

    return make_plan(cfg.name, compared, compared.known, again=None, live=live, replace=cfg.replace)
