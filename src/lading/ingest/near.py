"""A look at a few files of a table: what a full look would say of them, for the cost of those few.

Somebody (`lading watch`) was told that these files changed. Their verdicts follow from what the log has of
them; no other file is listed or compared, and the people's copies are left as they are: the next full look
rolls them forward. A hint may be wrong, doubled or late without harm: the file itself is asked.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

import msgspec

from lading.config.project import TableConfig
from lading.ingest.ledger import Ledger
from lading.ingest.noop import are_plain_files
from lading.ingest.plan import Known, TablePlan, is_same, make_plan
from lading.ingest.recipe import recipe_of
from lading.ingest.schema import follows, is_as_configured, pinned_columns
from lading.ingest.table_run import TableRun
from lading.log.table import Table
from lading.model import Digest, FoundFile, Member
from lading.sources.fingerprint import digest_all, source_id
from lading.sources.named import named_files

MOST = 1_000  # files; for more a listing is no more work


def look_near(run: TableRun, keys: Collection[str]) -> TableRun | None:
    """The run with a plan for these files alone; None when only a full look can tell."""
    config, cfg = run.config, run.cfg
    if len(keys) > MOST or not can_be_near(cfg):
        return None
    run.watch.phase(cfg.name, "discover")
    found = named_files(cfg.root, cfg.path, keys, now_ns=time.time_ns())
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
    plan = _plan(cfg, table, found, known)
    if len(plan.vanished) * 2 > table.state.source_count():
        return None  # the guard over a table's files has to see all of them
    run = replace(run, found=found, opened=table, ledger=Ledger(known), near=True)
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


def _plan(cfg: TableConfig, table: Table, found: list[FoundFile], known: dict[str, Known]) -> TablePlan:
    """A file that looks as before is compared by its content: something happened to it."""
    digests = digest_all([file for file in found if file.key in known])
    for file in found:
        one = known.get(file.key)
        if one is not None and one.source is not None and _lies(file, one, digests):
            known[file.key] = replace(one, source=msgspec.structs.replace(one.source, racy=True))

    def live(sources: frozenset[int] | None) -> list[Member]:
        return table.state.candidates(None) if sources is None else table.state.members_of(sources)

    return make_plan(cfg.name, found, known, digests, full=False, again=None, live=live, replace=cfg.replace)


def _lies(file: FoundFile, known: Known, digests: dict[str, Digest]) -> bool:
    """Whether size and time say that nothing changed, and the content says otherwise."""
    source = known.source
    return source is not None and is_same(file, source) and digests[file.key].sha256 != source.sha256
