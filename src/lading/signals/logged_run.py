"""One run, told to the project's log, to metrics and to lineage: what `lading run` and the page do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lading.config.project import Config
from lading.errors import LadingError, Unexpected
from lading.run import RunReport, run
from lading.signals.after import Signals
from lading.signals.log import JsonLog, LogWatch
from lading.watch import Watch, Watches


def logged_run(
    config: Config,
    tables: Sequence[str],
    options: Mapping[str, Any],  # of `run`
    signals: Signals,
    watch: Watch,
    say_where: Callable[[Unexpected, Path], object],  # told of a bug: where is its traceback?
) -> RunReport:
    log = JsonLog(config.project)
    log.write("run started", tables=list(tables) or list(config.tables), **options)
    try:
        report = run(config, tables, watch=Watches(watch, LogWatch(log), signals.phases), **options)
    except LadingError as error:
        log.write("run failed", level="error", kind=error.kind, message=error.message, table=error.table)
        raise
    except KeyboardInterrupt:
        log.write("run interrupted", level="warning")
        raise
    for table in report.tables:
        if isinstance(table.error, Unexpected):
            say_where(table.error, config.project)
    log.write("run finished", **report.as_json())
    signals.finished(config, report)
    return report
