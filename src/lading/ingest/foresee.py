"""What a run would say beside its verdicts: what it would refuse, told by the names and the heads of the
files that it would read, and why it would publish although no row changes, or would not."""

from __future__ import annotations

from dataclasses import replace

from lading.errors import ManifestParseError, ManifestStoreError, SourceError
from lading.ingest.behind import left_where_it_was_put
from lading.ingest.plan import TablePlan
from lading.ingest.table_run import TableRun
from lading.serve.changed import serve_spec, what_changed
from lading.snapshots.stores.by_url import store_of
from lading.sources.names import columns_from_name
from lading.words import count_words

_BEHIND = "readers don't see the last commit yet: a run publishes it if its gate allows"


def foreseen(run: TableRun) -> TablePlan:
    """The run's plan with all of that. Touches nothing."""
    plan = _with_publish_note(run)
    return replace(plan, notes=(*plan.notes, *_refusals(run)))


def _refusals(run: TableRun) -> tuple[str, ...]:
    """For people. What only the rows tell is not foreseen. Of files in a bucket, which a plan leaves there,
    and of a table that has no columns yet, only the names are looked at."""
    if not run.plan.read:
        return ()
    from lading.formats.registry import reader_of  # late, as is the next: most plans read nothing
    from lading.ingest.prepare import read_spec

    cfg, columns = run.cfg, run.columns
    reader = None
    if columns is not None and run.objects is None:
        reader = reader_of(read_spec(run, columns))
    found = []
    for file in run.plan.read:
        try:
            if cfg.columns_from_name is not None:
                columns_from_name(cfg.columns_from_name, [file], columns or ())
            if reader is not None and file.size:
                reader.head(run.source_file(file))
        except SourceError as error:
            found.append(error)
    if not found:
        return ()
    others = len(found) - 1
    more = f" (and {count_words(others, 'more file')})" if others else ""
    what = "set aside" if cfg.on_bad == "quarantine" else "refuse"
    return (f"a run would {what}: {found[0].message}{more}; {found[0].hint}",)


def _with_publish_note(run: TableRun) -> TablePlan:
    plan, table = run.plan, run.opened
    if table is None or table.state.meta.data_sequence == 0:
        return plan
    store = store_of(run.config, run.name)
    try:
        current = store.load_current()
        if current is not None and current.held:
            return plan
        spec = serve_spec(run.cfg.serve, table.state)
        if current is not None and not plan.changes_rows:
            left = left_where_it_was_put(store, table, spec, current)
            if left is not None:
                return replace(plan, notes=(*plan.notes, left))
        if current is None or current.sequence < table.state.meta.data_sequence:
            return replace(plan, publish=_BEHIND)
        return replace(plan, publish=what_changed(run.config, run.name, store, current, spec))
    except (ManifestParseError, ManifestStoreError):
        return plan  # a run says what is wrong with it
