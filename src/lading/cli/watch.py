"""lading watch: a run whenever files arrive, change or vanish."""

from __future__ import annotations

import dataclasses
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.run import AllowVanish, MetricsFile, SparkMaster
from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import Tables, config_of
from lading.errors import ConfigError, LadingError
from lading.words import count_words, verdict_words

if TYPE_CHECKING:
    from lading.config.project import Config
    from lading.run import RunReport, TableReport
    from lading.signals.after import Signals
    from lading.watcher.events import Event
    from lading.watcher.loop import Watcher

_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Every = Annotated[
    str, Option("--every", metavar="SPAN", help="List all files this often, whatever was heard: 30s, 5m.")
]
Settle = Annotated[
    str,
    Option(
        "--settle", metavar="SPAN", help="Leave a file until it was quiet this long; a rename counts at once."
    ),
]
Idle = Annotated[
    str | None,
    Option("--idle", metavar="SPAN", help="Let go of Spark when there was no run for this long: 30m."),
]
MetricsPort = Annotated[
    int | None,
    Option("--metrics-port", metavar="PORT", min=0, help="Serve metrics at http://127.0.0.1:PORT/metrics."),
]
EventsAsJson = Annotated[bool, Option("--json", help="Print one JSON object per event, for scripts.")]


def watch(
    ctx: Context,
    tables: Tables = None,
    every: Every = "60s",
    settle: Settle = "200ms",
    idle: Idle = None,
    allow_vanish: AllowVanish = False,
    json: EventsAsJson = False,
    spark_master: SparkMaster = None,
    metrics_file: MetricsFile = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Keep tables up to date with their files.

    Runs once, then whenever files arrive, change or vanish. Spark stays warm in between. A table that fails
    is tried again after a pause, and does not stop the others. Ctrl-C ends it after the commit under way, a
    second Ctrl-C at once. A warehouse has one watcher; `lading run` works beside it.

    \b
    Example:
      lading watch
      lading watch voyages --every 5m --idle 30m
      lading watch --json >> events.jsonl
    """
    from lading.cli.terminal.screen import note
    from lading.signals.after import Signals
    from lading.signals.server import serving
    from lading.watcher.loop import Options, Watcher

    config = config_of(ctx, tables)
    if spark_master is not None:
        config = dataclasses.replace(config, spark=dataclasses.replace(config.spark, master=spark_master))
    options = Options(
        every=span(every, "--every"),
        settle=span(settle, "--settle"),
        idle=span(idle, "--idle") if idle is not None else None,
        allow_vanish=allow_vanish,
    )
    shows = _Lines() if json else _Words(sys.stderr.isatty())
    watcher = Watcher(config, tuple(tables or ()), options, counts=not json and sys.stderr.isatty())
    watcher.tell.listen(shows)
    watcher.tell.listen(_Logged(config))
    signals = Signals(config, lambda text: note(f"warning: {text}"), metrics_file)
    watcher.tell.listen(_signalling(watcher, signals))
    with _signals(watcher, shows), ExitStack() as stack:
        if metrics_port is not None:
            stack.enter_context(serving(signals.metrics.text, metrics_port))
        watcher.watch()


def _signalling(watcher: Watcher, signals: Signals) -> Callable[[Event], None]:
    """Metrics and lineage events follow what the watcher tells."""

    def heard(event: Event) -> None:
        if event.kind == "phase" and event.table is not None:
            signals.phases.phase(event.table, event.fields["phase"])
        report = event.fields.get("report")
        if report is not None:
            signals.finished(watcher.config, report)

    return heard


def span(text: str, option: str) -> float:
    """`200ms` as seconds."""
    match = _SPAN.fullmatch(text.strip())
    if match is None or len(match[1]) > 12:
        raise ConfigError(f"{option} {text!r} is not a time span", hint="write it as 200ms, 30s, 5m or 2h")
    return float(match[1]) * _SECONDS[match[2]]


@contextmanager
def _signals(watcher: Watcher, shows: Callable[[Event], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks the watcher to end, the second one ends it."""
    from lading.watcher.events import Event

    def stop(number: int, _frame: Any) -> None:
        if watcher.is_stopping:
            raise KeyboardInterrupt
        watcher.stop()
        shows(Event("stopping", None, {"signal": signal.Signals(number).name}))

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def event_object(event: Event) -> dict[str, Any]:
    """An event as JSON has it."""
    told = event.as_object()
    report, error = told.pop("report", None), told.get("error")
    if report is not None:
        told |= {"run_id": report.run_id, **report.tables[0].as_json()}
    if isinstance(error, LadingError):
        told["error"] = error.as_json()
    return told


class _Lines:
    """One JSON object a line, at once."""

    def __call__(self, event: Event) -> None:
        from lading.cli.terminal.screen import print_json

        print_json(event_object(event))
        sys.stdout.flush()


class _Logged:
    """The project's log hears of runs that did something."""

    def __init__(self, config: Config) -> None:
        from lading.signals.log import JsonLog
        from lading.signals.phases import Phases

        self._log = JsonLog(config.project)
        self._phases = Phases()

    def __call__(self, event: Event) -> None:
        if event.kind == "phase" and event.table is not None:
            self._phases.phase(event.table, event.fields["phase"])
        if event.kind in ("phase", "progress", "run started"):
            return
        took = self._phases.take(event.table) if event.table is not None else {}
        report: RunReport | None = event.fields.get("report")
        if event.kind == "run finished" and report is not None and _is_quiet(report.tables[0]):
            return
        told = event_object(event)
        del told["at"]
        if took:
            told["phases"] = {name: round(seconds, 6) for name, seconds in took.items()}
        level = {"run failed": "error", "warning": "warning"}.get(event.kind, "info")
        self._log.write(f"watch: {told.pop('event')}", level=level, **told)


class _Words:
    """For people: a line for everything that changed, and on a terminal one that says what is being done."""

    def __init__(self, live: bool) -> None:
        self._live = live
        self._lock = threading.Lock()
        self._phase = ""

    def __call__(self, event: Event) -> None:
        with self._lock:
            if event.kind in ("phase", "progress", "run started"):
                self._now(event)
                return
            self._erase()
            for line in _words(event):
                print(f"{event.at.astimezone():%H:%M:%S}  {line}", flush=True)

    def _now(self, event: Event) -> None:
        from lading.cli.terminal.screen import plain

        if not self._live:
            return
        if event.kind == "phase":
            self._phase = str(event.fields["phase"])
            text = f"{event.table}: {self._phase}"
        elif event.kind == "progress":
            text = f"{event.table}: {self._phase} · {event.fields['text']}"
        else:
            text = f"{event.table}: looking"
        print(f"\r\x1b[K{plain(text)[:100]}", end="", file=sys.stderr, flush=True)

    def _erase(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _is_quiet(table: TableReport) -> bool:
    at_rest = ("unchanged", "quarantined")
    return not table.published and not any(
        n for verdict, n in table.verdicts.items() if verdict not in at_rest
    )


def _words(event: Event) -> list[str]:
    from lading.cli.terminal.screen import plain

    fields = event.fields
    if event.kind == "started":
        words = [f"watching {', '.join(fields['tables'])}; Ctrl-C ends it"]
        listed = fields.get("only_listed")
        return words + ([f"{', '.join(listed)}: listed every {fields['every']:g} s"] if listed else [])
    if event.kind == "run finished":
        return _run_words(fields["report"].tables[0])
    if event.kind == "run failed":
        error: LadingError = fields["error"]
        pause = fields.get("again_in")
        again = f"; tried again in {pause:g} s" if pause else ""
        return [
            plain(f"{event.table}: {error.message}{again}"),
            *([plain(f"  {error.hint}")] if error.hint else []),
        ]
    if event.kind == "config":
        error_of_config = fields.get("error")
        if error_of_config is not None:
            return [
                plain(f"lading.yaml can't be used, the one before still counts: {error_of_config.message}")
            ]
        return ["lading.yaml was read again"]
    if event.kind == "spark":
        return [str(fields["said"])]
    if event.kind == "warning":
        return [plain(f"warning: {fields['said']}")]
    if event.kind == "stopping":
        return ["ending after the commit under way; once more ends it now"]
    return ["ended"] if event.kind == "stopped" else []


def _run_words(table: TableReport) -> list[str]:

    if _is_quiet(table):
        return []
    rows = [f"{count_words(table.rows_added, 'row')} added"] if table.rows_added else []
    rows += [f"{count_words(table.rows_removed, 'row')} removed"] if table.rows_removed else []
    seen = f"readers see sequence {table.sequence}" if table.published else "nothing published"
    return [
        f"{table.table}: {verdict_words(table.verdicts)}; {', '.join([*rows, seen])} ({table.seconds:.2f} s)"
    ]
