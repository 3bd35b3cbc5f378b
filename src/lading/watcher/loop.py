"""The loop: wait for hints or the clock, run what is due, tell about it, until somebody says stop.

Tables are run one by one: one that fails does not stop the others, and a stop never waits for more than one.
Everything that decides is in schedule.py; a run decides by the files themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from lading import clock
from lading.config.derived import in_order
from lading.config.file import load
from lading.config.project import Config
from lading.errors import ConfigError, LadingError, PipelineError
from lading.ingest.look import look
from lading.layout.project import CONFIG
from lading.plan import selected
from lading.run import RunReport, run
from lading.watch import SILENT
from lading.watcher.events import Broadcast, Event, Telling
from lading.watcher.hints import Hint, Silence, is_possible, listening, seen_at, watched_tables
from lading.watcher.lease import held
from lading.watcher.schedule import FIRST_PAUSE, Due, Schedule

_FOREVER = 3_600.0  # seconds; a wait that nothing ends is begun again


@dataclass(frozen=True, slots=True)
class Options:
    """How to watch; times are in seconds."""

    every: float = 60.0  # a listing of all files
    settle: float = 0.2  # how long a file has to be quiet, unless it was put in place whole
    idle: float | None = None  # without a run, Spark is let go; None: it stays
    allow_vanish: bool = False


class Runs(Protocol):
    """`lading.run.run`, or something that stands in for it."""

    def __call__(
        self, config: Config, names: Sequence[str], *, watch: Telling, allow_vanish: bool, only: bool,
        near: Mapping[str, frozenset[str]] | None,
    ) -> RunReport: ...  # fmt: skip


@dataclass(slots=True)
class Watcher:
    """One process that keeps a project's tables true to their files. `tell` gets every event; others may
    listen to it too. `stop` may be called from a signal handler or another thread."""

    config: Config
    names: tuple[str, ...] = ()  # all tables if empty
    options: Options = Options()
    tell: Broadcast = field(default_factory=Broadcast)
    counts: bool = True  # whether progress inside phases is told
    clock: Callable[[], float] = lambda: clock.monotonic()
    runs: Runs = run
    heard: Silence = field(default_factory=Silence)
    _stopping: bool = False
    _schedule: Schedule | None = None
    _last_run: float = 0.0
    _warm: bool = False  # whether Spark was started ahead, or need not be
    _stamp: tuple[int, int] | None = None  # of lading.yaml
    _told_of: frozenset[str] = frozenset()  # tables that hints come for

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def stop(self) -> None:
        """End after the run under way."""
        if not self._stopping:
            self._stopping = True
            self.heard.wake()

    @property
    def tables(self) -> tuple[str, ...]:
        """Inputs before what is made of them."""
        return tuple(in_order(self.config.graph, selected(self.config, self.names)))

    def watch(self) -> None:
        """Until `stop`. Conflict if the warehouse is being watched already."""
        with ExitStack() as stack:
            stack.enter_context(held(self.config.warehouse, self.stop))
            self._stamp = _stamp_of(self.config)
            while not self._stopping:
                self._watch_config()
            self.tell(Event("stopped"))

    def _watch_config(self) -> None:
        """As long as lading.yaml is what it is."""
        watched = watched_tables(self.config, self.tables) if is_possible() else ()
        self._told_of = frozenset(one.table for one in watched)
        with listening(watched, self.heard):
            if self._schedule is None:
                self._tell_start()
            while not self._stopping and not self._config_changed():
                self.step()
                self._warm_up()

    def _tell_start(self) -> None:
        own = [name for name in self.tables if self.config.table(name).derived is None]
        listed = [name for name in own if name not in self._told_of]
        fields: dict[str, Any] = {"tables": list(self.tables), "every": self.options.every}
        if listed:
            fields["only_listed"] = listed
            if not is_possible():
                fields["note"] = "pip install 'lading[watch]' to hear of new files at once"
        self.tell(Event("started", None, fields))

    def step(self) -> None:
        """Take in what was heard, run what is due, or wait until one of both."""
        schedule = self.schedule
        for table, key in schedule.to_ask(self.clock()):
            schedule.heard(table, key, seen_at(self.config.table(table).root, key), self.clock())
        due = schedule.due(self.clock())
        for one in due:
            if self._stopping:
                return
            self._run(one)
        if due:
            self._take(self.heard.wait(0))
        else:
            self._wait()

    @property
    def schedule(self) -> Schedule:
        if self._schedule is None:
            options = self.options
            self._schedule = Schedule(
                self.tables, every=options.every, settle=options.settle, at=self.clock()
            )
        return self._schedule

    def _wait(self) -> None:
        seconds = min(self.schedule.wake_at() - self.clock(), _FOREVER)
        if self.options.idle is not None:
            seconds = min(seconds, max(0.0, self._last_run + self.options.idle - self.clock()) + 0.01)
        self._take(self.heard.wait(max(0.0, seconds)))
        self._let_go_if_idle()

    def _take(self, hints: list[Hint]) -> None:
        """Hints, with those that came meanwhile."""
        while hints:
            for hint in hints:
                if hint.table not in self.schedule.tables:
                    continue
                if hint.key is None:
                    self.schedule.heard_of_all(hint.table, self.clock() + self.options.settle)
                else:
                    seen = seen_at(self.config.table(hint.table).root, hint.key, fresh=hint.fresh)
                    self.schedule.heard(hint.table, hint.key, seen, self.clock())
            hints = self.heard.wait(0)

    def _is_written_to(self, due: Due) -> bool:
        """Whether a listing would read a file that somebody may still be writing, where nobody tells of that.
        Such files are waited for, and then listed again."""
        cfg = self.config.table(due.table)
        if due.keys is not None or cfg.url is not None or cfg.derived is not None:
            return False
        if due.table in self._told_of:
            return False
        try:
            wanted = look(self.config, due.table, watch=SILENT).plan.read
        except LadingError:
            return False  # the run says so
        young = clock.wall_ns() - int(self.options.settle * 1e9)
        keys = [file.key for file in wanted if file.archive is None and file.mtime_ns > young]
        for key in keys:
            self.schedule.heard(due.table, key, seen_at(cfg.root, key), self.clock())
        waits = self.schedule.is_waiting(due.table)
        if waits:
            self.schedule.heard_of_all(due.table, self.clock())
        return waits

    def _run(self, due: Due) -> None:
        if self._is_written_to(due):
            return
        self._last_run = self.clock()
        files = None if due.keys is None else len(due.keys)
        self.tell(Event("run started", due.table, {"files": files}))
        try:
            report = self._ran(due)
            error = report.error
        except LadingError as failure:
            report, error = None, failure
        pause = self.schedule.finished(due, failed=error is not None, at=self.clock())
        self._last_run = self.clock()
        if error is None:
            self.tell(Event("run finished", due.table, {"report": report}))
            self._go_on_to_derived(due.table, report)
            return
        if _spark_died():
            self.tell(Event("spark", None, {"said": "Spark ended by itself: it is started anew"}))
            error = _ended_with_spark(due.table, error)
            if pause == FIRST_PAUSE:  # once at once; if it dies again, after a pause
                self.schedule.heard_of_all(due.table, self.clock())
                pause = 0.0
        self.tell(Event("run failed", due.table, {"error": error, "again_in": pause, "report": report}))

    def _go_on_to_derived(self, table: str, report: RunReport | None) -> None:
        """What readers see of a table is what others are made of."""
        if report is None or not any(one.published for one in report.tables):
            return
        for name, derived in self.config.graph.items():
            if derived is not None and table in derived.tables:
                self.schedule.heard_of_all(name, self.clock())

    def _ran(self, due: Due) -> RunReport:
        near = None if due.keys is None else {due.table: due.keys}
        watch = Telling(self.tell, counts=self.counts)
        return self.runs(
            self.config,
            [due.table],
            watch=watch,
            allow_vanish=self.options.allow_vanish,
            only=True,
            near=near,
        )

    def _warm_up(self) -> None:
        """After the first runs, start Spark unless they did: the first file to come should not wait for it.
        Those who read small files without Spark may never need it."""
        if self._warm or not self._needs_spark():
            return
        self._warm = True
        from lading.spark.session import is_started

        if is_started():
            return
        try:
            from lading.spark.tasks import warm_up

            spark = self.config.spark
            warm_up(spark.master, spark.conf, self.config.cache)
        except (ImportError, LadingError):
            return  # a run that needs it says what is missing
        self._last_run = self.clock()
        self.tell(Event("spark", None, {"said": "Spark is ready"}))

    def _needs_spark(self) -> bool:
        """Whether even a small file needs it: queries, transforms and shards are Spark's work."""
        if not self.config.spark.in_process_below:
            return True
        tables = [self.config.table(name) for name in self.tables]
        return any(one.derived or one.serve or one.transform for one in tables)

    def _let_go_if_idle(self) -> None:
        idle = self.options.idle
        if idle is None or self.clock() < self._last_run + idle:
            return
        from lading.spark.session import is_started, let_go

        if is_started():
            let_go()
            self.tell(Event("spark", None, {"said": "nothing to do for a while: Spark was let go"}))

    def _config_changed(self) -> bool:
        """Whether lading.yaml is another one, and could be read: if it can't, the one before counts on."""
        stamp = _stamp_of(self.config)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            config = load(self.config.project)
            for name in self.names:
                config.table(name)
            if config.warehouse != self.config.warehouse:
                raise ConfigError(
                    "the warehouse is another one now", hint="end `lading watch` and start it again"
                )
        except LadingError as error:
            self.tell(Event("config", None, {"error": error}))
            return False
        self.config = config
        self.schedule.keep(self.tables, self.clock())
        for name in self.tables:
            self.schedule.heard_of_all(name, self.clock())
        self.tell(Event("config", None, {"tables": list(self.tables)}))
        return True


def _stamp_of(config: Config) -> tuple[int, int] | None:
    try:
        stat = os.stat(config.project / CONFIG)
    except OSError:
        return None  # being replaced: asked again soon
    return stat.st_mtime_ns, stat.st_size


def _ended_with_spark(table: str, error: LadingError) -> PipelineError:
    """What a run ran into when Spark ended beneath it depends on where it was; the cause does not."""
    told = PipelineError(
        f"Spark ended by itself while {table} was run",
        hint="it is started anew, and the run tried again; if that happens often, see spark/spark.log in the "
        "cache folder: mostly memory was short",
        table=table,
    )
    told.__cause__ = error
    return told


def _spark_died() -> bool:
    from lading.spark.session import is_dead, let_go

    if not is_dead():
        return False
    let_go()
    return True
